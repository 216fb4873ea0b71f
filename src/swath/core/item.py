"""Item, the unit of work, and the outcomes that a worker can give it."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from swath.core.counters import NO_COUNTERS

if TYPE_CHECKING:
    from swath.core.store import EncodedItem  # that module imports this one

DEFAULT_LANE = "default"
DEFAULT_PRIORITY = 3
LEVELS = 8  # priorities are 0 to 7; higher is claimed first
NOTHING: tuple[()] = ()


class Unchanged(Enum):
    """The type of UNCHANGED, the default of arguments for which None is a value."""

    UNCHANGED = "unchanged"

    def __repr__(self) -> str:
        return "UNCHANGED"


UNCHANGED: Final = Unchanged.UNCHANGED


class Item(NamedTuple):
    """One unit of work. `key` and `lane` identify it; a key enters its lane once (INV-7).

    A claim sets the fields from `attempts` on. `payload` is any JSON value.
    """

    # A named tuple, because a page has many links: a frozen dataclass takes four times as long to create.

    key: str
    lane: str = DEFAULT_LANE
    priority: int = DEFAULT_PRIORITY
    payload: Any = None
    not_before: datetime | None = None
    span: int = 1
    attempts: int = 0  # earlier attempts
    losses: int = 0  # earlier attempts whose worker was lost
    lane_visits: int = 0  # items of its lane that were started and done before
    lane_in_flight: int = 0  # other items of its lane that were in flight
    partition: int = -1
    position: int = -1
    lane_counters: Mapping[str, int] = NO_COUNTERS  # the counters of its lane

    def done(
        self,
        *,
        result: Any = None,
        discovered: "Item | str | Iterable[Item | EncodedItem | str]" = NOTHING,
        revisit_after: float | None = None,
        payload: Any = UNCHANGED,
        facts: Mapping[str, Any] | None = None,
        output: Any = None,
        rows: Sequence[Any] = NOTHING,
        counters: Mapping[str, int] = NO_COUNTERS,
        lane_counters: Mapping[str, int] = NO_COUNTERS,
        started: bool = True,
    ) -> "Done":
        """The item is done. Everything that you pass commits together with it (INV-5).

        `result` is kept with the item. `discovered` items are added. `facts` are stored as by `frontier.learn`.
        `output` goes to the output of the run, `rows` to its sink. `counters` are added to the counters of the
        frontier, and `lane_counters` to those of the item's lane.

        With `revisit_after`, the item is ready again that many seconds later, and `payload` replaces its payload.

        Pass `started=False` if the item needed no work, so that it does not count as a visit of its lane. In a lane
        with a concurrency of 1, the next item may then start at once. In other lanes the interval runs from the claim.
        """
        if discovered is not NOTHING:
            # Do not iterate over a single key (str) or a single Item (a tuple).
            discovered = (discovered,) if isinstance(discovered, str | Item) else tuple(discovered)
        fields = (
            self, result, discovered, revisit_after, facts, output, started, payload, rows, counters, lane_counters,
        )  # fmt: skip
        return tuple.__new__(Done, fields)  # half the time of Done(…), which binds arguments by name

    def retry(self, *, after: float | None = None, reason: str = "retry", error: str | None = None) -> "Retry":
        """The attempt failed. Retry the item `after` seconds from now, or after a pause that doubles with each failure.

        After `max_attempts` failures the item is dead.
        """
        return Retry(self, after=after, reason=reason, error=error)

    def dead(
        self,
        *,
        reason: str,
        error: str | None = None,
        output: Any = None,
        counters: Mapping[str, int] = NO_COUNTERS,
        lane_counters: Mapping[str, int] = NO_COUNTERS,
        started: bool = True,
    ) -> "Dead":
        """Do not try the item again. `frontier.dead()` lists it with its reason; `reopen()` makes it ready again.

        Pass `started=False` if the work never began: a lane with a concurrency of 1 may then start at once.
        """
        return Dead(self, reason, error, output, counters, lane_counters, started)

    def release(
        self,
        *,
        started: bool = True,
        after: float | None = None,
        output: Any = None,
        counters: Mapping[str, int] = NO_COUNTERS,
        lane_counters: Mapping[str, int] = NO_COUNTERS,
    ) -> "Release":
        """Give the item back without counting an attempt. It is ready at once, or `after` seconds from now.

        Pass `started=False` if the work never began: a lane with a concurrency of 1 may then start at once.
        """
        return Release(self, started, after, output, counters, lane_counters)

    def split(
        self,
        *,
        at: Any,
        result: Any = None,
        counters: Mapping[str, int] = NO_COUNTERS,
        lane_counters: Mapping[str, int] = NO_COUNTERS,
    ) -> "Split":
        """The range is done below `at`; the rest becomes a new item, which any worker can claim.

        The payload of a range is a mapping with `lo` and `hi`. The rest has `at` as its `lo`.
        """
        return Split(self, at, result, counters, lane_counters)


class Done(NamedTuple):
    """The item is done. See `Item.done`."""

    item: Item
    result: Any = None
    discovered: "tuple[Item | EncodedItem | str, ...]" = ()
    revisit_after: float | None = None
    facts: Mapping[str, Any] | None = None
    output: Any = None
    started: bool = True
    payload: Any = UNCHANGED
    rows: Sequence[Any] = NOTHING
    counters: Mapping[str, int] = NO_COUNTERS
    lane_counters: Mapping[str, int] = NO_COUNTERS


class Retry(NamedTuple):
    """The attempt failed. See `Item.retry`."""

    item: Item
    after: float | None = None
    reason: str = "retry"
    error: str | None = None


class Dead(NamedTuple):
    """The item will not be tried again. See `Item.dead`."""

    item: Item
    reason: str
    error: str | None = None
    output: Any = None
    counters: Mapping[str, int] = NO_COUNTERS
    lane_counters: Mapping[str, int] = NO_COUNTERS
    started: bool = True


class Release(NamedTuple):
    """The item is given back. See `Item.release`."""

    item: Item
    started: bool = True
    after: float | None = None
    output: Any = None
    counters: Mapping[str, int] = NO_COUNTERS
    lane_counters: Mapping[str, int] = NO_COUNTERS


class Split(NamedTuple):
    """The range is done below `at`. See `Item.split`."""

    item: Item
    at: Any
    result: Any = None
    counters: Mapping[str, int] = NO_COUNTERS
    lane_counters: Mapping[str, int] = NO_COUNTERS


Outcome = Done | Retry | Dead | Release | Split
