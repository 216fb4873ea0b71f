"""Events that swath passes to an observer. docs/reference/events.md is generated from the docstrings here."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

# `extra=` of a log record that says the same as an event, so that a log of both has it once.
AS_EVENT: Final[Mapping[str, Any]] = {"swath_event": True}


@dataclass(frozen=True, slots=True)
class Event:
    """The base class of all events."""


@dataclass(frozen=True, slots=True)
class Added(Event):
    """Items were sent to the store, and `added` of the `offered` ones were new. A long addition emits several."""

    offered: int
    added: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Claimed(Event):
    """A claim leased items to this worker."""

    fence: int
    items: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Recovered(Event):
    """A claim took items back from claims whose lease had expired. `died` of them are dead now, because they lost too
    many workers."""

    items: int
    died: int


@dataclass(frozen=True, slots=True)
class Renewed(Event):
    """A lease was renewed."""

    fence: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Settled(Event):
    """A settlement was committed, or was sent inside a caller's transaction that has yet to commit. `discovered` counts
    the discovered items that were sent to the store, without those that this process knows the store to hold."""

    fence: int
    partition: int
    done: int
    retried: int
    died: int
    released: int
    split: int
    discovered: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Died(Event):
    """A settlement made an item dead: its handler gave it up, or it has no attempts left. `attempt` is the number of
    the last one."""

    fence: int
    key: str
    lane: str
    attempt: int
    reason: str


@dataclass(frozen=True, slots=True)
class Repaired(Event):
    """Dead items were settled without a claim: they are done, or dead with another reason. `discovered` counts the
    discovered items that were sent to the store."""

    partition: int
    done: int
    died: int
    discovered: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Lost(Event):
    """The lease of a claim expired and another worker may have its items, so the results of this worker were discarded
    (INV-2)."""

    fence: int
    items: int
    reason: str


@dataclass(frozen=True, slots=True)
class HandlerFailed(Event):
    """A handler raised an exception, exceeded its timeout or returned an invalid outcome. The item is retried."""

    key: str
    reason: str
    error: str | None
    lane: str
    fence: int


@dataclass(frozen=True, slots=True)
class LaneChanged(Event):
    """A lane was paused, resumed or blocked, or its limits were changed."""

    lane: str


@dataclass(frozen=True, slots=True)
class SettingsChanged(Event):
    """The defaults of the frontier were changed, or the whole frontier was paused or resumed. `paused` is None if it
    was neither."""

    paused: bool | None


@dataclass(frozen=True, slots=True)
class Reopened(Event):
    """Done or dead items were made ready again."""

    items: int


@dataclass(frozen=True, slots=True)
class Dropped(Event):
    """Waiting items were dropped: they are done, although no worker handled them."""

    items: int


@dataclass(frozen=True, slots=True)
class ClockStepped(Event):
    """The store's clock moved forward by `seconds` more than this machine's clock, so leases may have expired early
    (INV-3)."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Waiting(Event):
    """The store is unavailable, or the output has no room. The runner retries after `seconds`."""

    reason: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Reached(Event):
    """The store is available again, or the output has room. The outage lasted `seconds`."""

    seconds: float


@dataclass(frozen=True, slots=True)
class StateBegan(Event):
    """A state of the run began, such as `paused` or `pacing`. Outages of the store and the stop of the run have events
    of their own."""

    state: str
    detail: str


@dataclass(frozen=True, slots=True)
class StateEnded(Event):
    """A state of the run ended after `seconds`."""

    state: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Stopping(Event):
    """The runner is stopping: it claims nothing more, and finishes or releases the `in_flight` items it holds."""

    reason: str
    in_flight: int


class Observer(Protocol):
    """A callable that receives every event in order, on the event loop's thread. It must return quickly; exceptions
    that it raises are logged."""

    def __call__(self, event: Event, /) -> None: ...
