"""File descriptor limit: how many workers this process can have, checked before the crawl starts."""

import os
import resource
from typing import NamedTuple

# One for the connection in use, and one for a kept-alive connection or for the second address that libcurl tries in
# parallel when a host is slow to accept.
DESCRIPTORS_PER_WORKER = 2
RESERVED = 128  # for the store, output files, the resolver, pipes and libraries
MIN_WORKERS = 1


class WorkerLimit(NamedTuple):
    """How many workers the descriptor limit allows, and a warning for the user if that is fewer than requested."""

    workers: int
    warning: str | None


def limit_workers(wanted: int, *, in_use: int | None = None) -> WorkerLimit:
    """Raise the soft limit as far as `wanted` workers need and the hard limit permits, and return what it allows.

    `in_use` is the number of open descriptors, counted if not given. Those beyond the reserve reduce the result.
    """
    before = count_open_descriptors() if in_use is None else in_use
    reserved = max(RESERVED, before + RESERVED // 2)
    needed = wanted * DESCRIPTORS_PER_WORKER + reserved
    limit = raise_soft_limit(needed)
    if limit >= needed:
        return WorkerLimit(wanted, None)
    allowed = max(MIN_WORKERS, (limit - reserved) // DESCRIPTORS_PER_WORKER)
    return WorkerLimit(
        allowed,
        f"{wanted} workers need {needed} open files, but this process may open only {limit}: continuing with {allowed} "
        f"workers. To allow all of them, run `ulimit -n {needed}` first, or set LimitNOFILE={needed} in a systemd unit",
    )


def raise_soft_limit(needed: int) -> int:
    """Raise the soft limit on open files to `needed`, or to the hard limit if that is lower. Return the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return needed if soft == resource.RLIM_INFINITY else soft
    goal = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (goal, hard))
    except (OSError, ValueError):
        return soft  # some systems enforce less than the hard limit they report
    return goal


def count_open_descriptors() -> int:
    """Return the number of open descriptors, or 0 if the system does not report it."""
    try:
        return len(os.listdir("/dev/fd"))
    except OSError:
        return 0
