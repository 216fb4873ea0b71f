"""Item, the unit of work, and the outcomes a worker can give it."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from swath.core.counters import NO_COUNTERS

if TYPE_CHECKING:
    from swath.core.store import EncodedItem  # which is built on this module

DEFAULT_LANE = "default"
DEFAULT_PRIORITY = 3
NOTHING: tuple[()] = ()
LEVELS = 8  # priorities are levels 0 to 7, higher first


class Item(NamedTuple):
    """One unit of work. `key` and `lane` name it; it enters its lane once (INV-7).

    The fields from `attempts` on are set on items that a claim hands out. A named tuple, because a page has many links:
    it is made in a quarter of the time of a frozen dataclass.
    """

    key: str
    lane: str = DEFAULT_LANE
    priority: int = DEFAULT_PRIORITY
    payload: Any = None
    not_before: datetime | None = None
    span: int = 1
    attempts: int = 0
    losses: int = 0  # of the attempts: how often its worker was lost
    lane_visits: int = 0  # how often an item of its lane was started and done before
    lane_in_flight: int = 0  # items of its lane that were in flight when it was claimed
    partition: int = -1
    position: int = -1
    lane_counters: Mapping[str, int] = NO_COUNTERS  # of its lane, when it was claimed

    def done(
        self,
        *,
        result: Any = None,
        discovered: "Item | str | Iterable[Item | EncodedItem | str]" = NOTHING,
        revisit_after: float | None = None,
        facts: Mapping[str, Any] | None = None,
        output: Any = None,
        started: bool = True,
    ) -> "Done":
        """Covered. `discovered`, `facts` and `output` are committed with it (INV-5); `revisit_after` seconds opens it
        again. What needed no work, `started=False`, is no visit of its lane. Where that has a concurrency of 1, the
        next may start at once; elsewhere the interval runs from the claim all the same.
        """
        if discovered is not NOTHING:
            # A text is one key, as in `add`, and not so many of one letter. An item is a tuple, but one item.
            discovered = (discovered,) if isinstance(discovered, str | Item) else tuple(discovered)
        fields = (self, result, discovered, revisit_after, facts, output, started)
        return tuple.__new__(Done, fields)  # one for each item: Done(…) names its arguments first, at twice the cost

    def retry(self, *, after: float | None = None, reason: str = "retry", error: str | None = None) -> "Retry":
        """Failed for now: again `after` seconds, or after a growing, jittered pause; dead after too many attempts."""
        return Retry(self, after=after, reason=reason, error=error)

    def dead(self, *, reason: str, error: str | None = None, output: Any = None) -> "Dead":
        """Given up, with the reason; listed by `dead()` and re-openable."""
        return Dead(self, reason=reason, error=error, output=output)

    def release(self, *, started: bool = True, after: float | None = None, output: Any = None) -> "Release":
        """Given back, for `after` seconds from now if that is given; no attempt is counted. Work that never started,
        `started=False`, leaves a lane with a concurrency of 1 ready at once, as with `done`."""
        return Release(self, started=started, after=after, output=output)

    def split(self, *, at: Any, result: Any = None) -> "Split":
        """Covered below `at`; the rest of the range becomes an item of its own, free to be claimed.

        The payload of a range is a mapping with `lo` and `hi`; the rest has `at` as its `lo`.
        """
        return Split(self, at=at, result=result)


class Done(NamedTuple):
    """Covered, with what came of it and what it discovered."""

    item: Item
    result: Any = None
    discovered: "tuple[Item | EncodedItem | str, ...]" = ()
    revisit_after: float | None = None
    facts: Mapping[str, Any] | None = None
    output: Any = None
    started: bool = True


class Retry(NamedTuple):
    """Failed for now."""

    item: Item
    after: float | None = None
    reason: str = "retry"
    error: str | None = None


class Dead(NamedTuple):
    """Given up."""

    item: Item
    reason: str
    error: str | None = None
    output: Any = None


class Release(NamedTuple):
    """Given back as it was."""

    item: Item
    started: bool = True
    after: float | None = None
    output: Any = None


class Split(NamedTuple):
    """A range covered below `at`."""

    item: Item
    at: Any
    result: Any = None


Outcome = Done | Retry | Dead | Release | Split
