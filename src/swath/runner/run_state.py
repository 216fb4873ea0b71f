"""RunState: why a run does nothing, or less than it could. `list_states` derives the states from plain facts."""

import math
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

StateName = Literal["stopping", "store away", "disk full", "paused", "throttled", "leased", "pacing", "delayed"]

SLOW_SECONDS = 3.0  # a store that has not answered a call for this long counts as away
NO_ANSWER = "the store does not answer"


class RunState(NamedTuple):
    """A reason why a run does nothing, or less than it could, and for how many seconds it has held."""

    name: StateName
    detail: str
    seconds: float

    def __str__(self) -> str:
        return f"{self.name}: {self.detail}"


class StopProgress(NamedTuple):
    """A stop that was requested. Times are on `lease_clock`."""

    reason: str
    since: float
    ends_at: float  # the latest


class Outage(NamedTuple):
    """The store does not work. `since` is on `lease_clock`."""

    error: str
    since: float
    full: bool


class Holder(NamedTuple):
    """Another worker that has items in flight."""

    worker: str
    ended: bool  # known for processes of this machine
    expires_at: datetime


class IdleCounts(NamedTuple):
    """What the store holds while this run has nothing to do."""

    ready: int
    delayed: int
    claimed: int
    now: datetime  # by the store's clock
    next_ready_at: datetime | None
    holder: Holder | None


class RunFacts(NamedTuple):
    """What a run knows about itself. Times are on `lease_clock`; None means that it does not apply."""

    now: float
    in_flight: int = 0
    expired: int = 0  # items in flight whose lease ended without renewal
    stop: StopProgress | None = None
    outage: Outage | None = None
    unanswered_since: float | None = None  # the oldest call without an answer
    paused_since: float | None = None
    idle_since: float | None = None
    waiting: IdleCounts | None = None


def list_states(facts: RunFacts, *, noun: str = "item") -> tuple[RunState, ...]:
    """Return all states that hold, the most important first. An empty tuple means that the run works normally."""
    return tuple(_yield_states(facts, noun))


def _yield_states(facts: RunFacts, noun: str) -> Iterator[RunState]:
    now = facts.now
    if facts.stop is not None:
        detail = f"{format_count(facts.in_flight, noun)} in flight, at most {format_left(facts.stop.ends_at - now)}"
        yield RunState("stopping", detail, now - facts.stop.since)
    if (outage := _find_outage(facts)) is not None:
        ended = ""
        if facts.expired:
            ended = (
                f"; the leases of {format_count(facts.expired, noun)} ended, so other processes may take them. Results "
                "are kept until the store answers"
            )
        yield RunState("disk full" if outage.full else "store away", f"{outage.error}{ended}", now - outage.since)
    if facts.stop is not None:
        return
    if facts.paused_since is not None:
        yield RunState("paused", "the frontier is paused until `swath resume`", now - facts.paused_since)
    elif facts.waiting is not None and facts.idle_since is not None and outage is None:
        for name, detail in _explain_waiting(facts.waiting, noun):
            yield RunState(name, detail, now - facts.idle_since)


def _find_outage(facts: RunFacts) -> Outage | None:
    if facts.outage is not None:
        return facts.outage
    since = facts.unanswered_since
    if since is None or facts.now - since < SLOW_SECONDS:
        return None
    return Outage(NO_ANSWER, since, full=False)


def _explain_waiting(waiting: IdleCounts, noun: str) -> Iterator[tuple[StateName, str]]:
    until = waiting.next_ready_at
    soon = "" if until is None else f"; the next one may start in {format_left((until - waiting.now).total_seconds())}"
    if waiting.claimed:
        soon = ""  # the next known moment may be the end of a lease
        yield "leased", _explain_leases(waiting, noun)
    if waiting.ready and until is None:
        items = format_count(waiting.ready, noun)
        yield "paused", f"{items} in lanes that are paused until `swath resume LANE`: see `swath lanes`"
    elif waiting.ready:
        yield "pacing", f"{format_count(waiting.ready, noun)} in lanes that are not ready: see `swath lanes`{soon}"
    if waiting.delayed:
        yield "delayed", f"{format_count(waiting.delayed, noun)} to be tried again or started later{soon}"


def _explain_leases(waiting: IdleCounts, noun: str) -> str:
    items, holder = format_count(waiting.claimed, noun), waiting.holder
    if holder is None:
        return f"{items} of other workers"
    left = max(timedelta(0), holder.expires_at - waiting.now)
    until = f"{holder.expires_at:%H:%M:%S} UTC (at most {format_left(left.total_seconds())})"
    if holder.ended:
        return f"{items} of a process that ended ({holder.worker}), until {until}"
    return f"{items} of another worker ({holder.worker}), whose lease ends at {until} unless it renews it"


def format_count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def format_left(seconds: float) -> str:
    """Return whole seconds, rounded up, so that a limit is never said to be shorter than it is."""
    return f"{max(0, math.ceil(seconds)):,} s"
