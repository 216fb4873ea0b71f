"""How many workers the process has file descriptors for: known at the start, rather than found out at 500 workers."""

import os
import resource
from typing import NamedTuple

# Two for each worker: one for the connection in use, and one for the second address that is tried beside the first when
# a host is slow to accept, or for a connection that is kept open.
EACH_WORKER = 2
RESERVED = 128  # the store, output files, the resolver, pipes, whatever libraries open
FEWEST = 1


class Allowance(NamedTuple):
    """What the budget allows. `sentence` is for the user, when it is less than was wanted."""

    workers: int
    sentence: str | None


def workers_allowed(wanted: int, *, opened: int | None = None) -> Allowance:
    """Raise the soft limit as far as `wanted` needs and the hard limit lets, and say how many workers that makes.

    `opened` is the number of descriptors in use already; what goes beyond the reserve is taken off.
    """
    before = open_descriptors() if opened is None else opened
    reserved = max(RESERVED, before + RESERVED // 2)
    needed = wanted * EACH_WORKER + reserved
    limit = raise_limit(needed)
    if limit >= needed:
        return Allowance(wanted, None)
    allowed = max(FEWEST, (limit - reserved) // EACH_WORKER)
    return Allowance(
        allowed,
        f"{wanted} workers need {needed} open files and this process may have {limit}: going on with {allowed}. "
        f"`ulimit -n {needed}` before the start, or LimitNOFILE={needed} in a systemd unit, allows them all.",
    )


def raise_limit(needed: int) -> int:
    """Bring the soft limit on open files up to `needed`, or to the hard limit if that is lower; what it is now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return needed if soft == resource.RLIM_INFINITY else soft
    goal = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (goal, hard))
    except (OSError, ValueError):
        return soft  # a system may hold to less than the hard limit it states
    return goal


def open_descriptors() -> int:
    """How many descriptors are in use, as far as the system says."""
    try:
        return len(os.listdir("/dev/fd"))
    except OSError:
        return 0
