"""What happens, as values, and the Observer that is told of it."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened."""


@dataclass(frozen=True, slots=True)
class Added(Event):
    """Items were offered to the store; `added` of them were new. A long addition is several of these."""

    offered: int
    added: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Claimed(Event):
    """A claim was made."""

    fence: int
    items: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Recovered(Event):
    """Items were taken back from claims whose lease had ended; `died` of them had failed too often."""

    items: int
    died: int


@dataclass(frozen=True, slots=True)
class Renewed(Event):
    """A lease was renewed."""

    fence: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Settled(Event):
    """One settlement was committed; in a caller's own transaction, it is about to be. `discovered` counts what was sent
    to the store: all but what this process knows to be there."""

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
class Lost(Event):
    """A claim was not this worker's any more; its results were dropped (INV-2)."""

    fence: int
    items: int
    reason: str


@dataclass(frozen=True, slots=True)
class HandlerFailed(Event):
    """A handler raised, ran out of time or returned something that is not an outcome; the item is retried."""

    key: str
    reason: str
    error: str | None


@dataclass(frozen=True, slots=True)
class LaneChanged(Event):
    """A lane was paused, resumed, blocked or given limits."""

    lane: str


@dataclass(frozen=True, slots=True)
class SettingsChanged(Event):
    """Defaults of the frontier were changed, or all of it was paused or resumed; `paused` is None where it was not."""

    paused: bool | None


@dataclass(frozen=True, slots=True)
class Reopened(Event):
    """Done or dead items were made ready again."""

    items: int


@dataclass(frozen=True, slots=True)
class ClockStepped(Event):
    """The store's clock moved by `seconds` more than this process's: leases may have ended early (INV-3)."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Waiting(Event):
    """The store cannot be reached; the runner tries again after `seconds`."""

    reason: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Reached(Event):
    """The store can be reached again, after `seconds`."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Stopping(Event):
    """The runner takes no more work; it finishes or releases what is in hand."""

    reason: str
    in_hand: int


class Observer(Protocol):
    """Is told of every event, in order, on the event loop. It must return quickly; what it raises is logged."""

    def __call__(self, event: Event, /) -> None: ...
