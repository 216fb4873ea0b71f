"""The Store protocol, which every backend implements, and the records that cross it.

A store gets items that are checked and encoded. It decides nothing about retries or limits by itself. Times and
durations are microseconds, text is UTF-8 without NUL, payloads and results are JSON.

A store has two clocks, which may be the same one. Durations run on its own clock, which should not change when somebody
sets the clock of the machine; `now` and `next_ready_at` in replies are times of it. All other times that come in or go
out are times of the wall clock: the store translates its own by what the two clocks differ at the moment.

Every method is atomic. `swath.conformance` tests an implementation.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from enum import IntEnum
from typing import Any, NamedTuple, Protocol

from swath.core.counters import NO_COUNTERS, NO_LANE_COUNTERS
from swath.core.item import Item
from swath.core.lane import LaneLimits

MAX_CLAIM = 10_000  # items in one claim
ADD_CHUNK = 1_000  # items added under one lock
DELAYED_DRAIN = 1_000  # delayed items that one claim makes ready in each partition
INBOX_DRAIN = 2_000  # discovered items that one claim takes from the inbox of each partition
PARTITIONS_PER_CLAIM = 4
AUDIT_KEPT = 1_000  # changes of the audit
MAX_EXAMINED = 10_000  # rows that one call of `items` reads

# The reason of an item that is dead because its workers were lost.
LOST_WORKER = "its worker was lost without settling it (losses: {losses})"

# Why a repair is refused.
NOT_DEAD = (
    "{dead} of the {named} items to repair are dead: the others were re-opened or repaired meanwhile, or one is named "
    "twice; nothing was changed"
)


class Settings(NamedTuple):
    """The settings of a frontier. `concurrency` 0 means no limit."""

    partitions: int
    min_interval: int = 0
    concurrency: int = 0
    max_attempts: int = 5


class EncodedItem(NamedTuple):
    """An item that is checked and encoded for a store. `Frontier.encode` returns it."""

    partition: int
    hash: bytes  # 16 bytes of the hash of the key, 4 of the lane's
    lane: str
    priority: int
    key: str
    payload: str | None
    not_before: int | None  # a time of the wall clock
    span: int


class ClaimRequest(NamedTuple):
    """A request for ready items."""

    limit: int
    lease: int
    worker: str
    token: int  # random, up to 63 bits: distinguishes this claim from another with the same fence
    order: Sequence[int]  # all partitions; the store looks for work in this order
    wait_for: int | None = None  # a partition that was skipped before: wait for its lock instead


class ClaimReply(NamedTuple):
    """The items of a claim, and the state of the partitions that it read."""

    now: int
    fence: int  # 0 if nothing was claimed
    items: Sequence[Item]  # with payloads as JSON text
    expires_at: int
    # When the next item of these partitions is ready; None if nothing waits. After a full claim it may be too early.
    next_ready_at: int | None
    skipped: Sequence[int]  # partitions that another transaction had locked; they may have ready items
    recovered: int  # items taken back from claims whose lease had expired
    died: int  # how many of the recovered items are dead now
    starts_count: bool  # whether the interval of a lane runs from this claim, so that its items must start at once
    signal: "Signal"


class ClaimRef(NamedTuple):
    """The identity of a claim. Every write for the claim must present it (INV-2)."""

    fence: int
    token: int


class MoveKind(IntEnum):
    """The kind of an outcome."""

    DONE = 0
    RETRY = 1
    DEAD = 2
    RELEASE = 3
    SPLIT = 4


class Move(NamedTuple):
    """The outcome of one claimed item."""

    position: int
    kind: MoveKind
    delay: int | None = None  # RETRY, RELEASE: until it is ready. DONE: until the next visit; None: no visit
    result: str | None = None  # DONE, SPLIT
    reason: str | None = None  # RETRY, DEAD
    error: str | None = None  # RETRY, DEAD
    started: bool = True  # DONE, DEAD, RELEASE: whether it counts for the interval of its lane
    # SPLIT: the payload of the first part. DONE with a delay: the payload of the next visit; None keeps the old one.
    payload: str | None = None
    rest: EncodedItem | None = None  # SPLIT: the upper half of the span; with span 1, it replaces the item


class OutputMove(NamedTuple):
    """An output file grew from one committed length to the next."""

    name: str
    old: int  # the committed length before; 0 for a new file
    new: int


class Fact(NamedTuple):
    """A value under a key, which all processes of a frontier share. The last write wins."""

    key: str
    value: str


class Settlement(NamedTuple):
    """Outcomes of one claim in one partition, with everything that commits together with them (INV-5)."""

    partition: int
    number: int  # rises with every settlement of the claim, so that a repeated one is recognised; 0: never repeated
    moves: Sequence[Move]
    discovered: Sequence[EncodedItem] = ()  # may belong to any partition
    outputs: Sequence[OutputMove] = ()
    facts: Sequence[Fact] = ()
    counters: Mapping[str, int] = NO_COUNTERS  # to be added to the frontier's counters
    lane_counters: Mapping[str, Mapping[str, int]] = NO_LANE_COUNTERS  # the same for lanes of items in `moves`


class SettleReply(NamedTuple):
    """The result of a settlement."""

    now: int
    discovered: int  # discovered items that were new in this partition; those of other partitions are counted later
    checkpoint: int


class Signal(NamedTuple):
    """The pause of the frontier. Processes poll it every second; `version` rises with every pause."""

    paused: bool
    version: int


class ClockReading(NamedTuple):
    """The clocks of a store at one moment."""

    now: int  # the store's clock, by which durations run
    wall: int  # the wall clock, by which absolute times are meant


class PartitionStatus(NamedTuple):
    """The counts of one partition, which every method keeps up to date."""

    partition: int
    ready: int
    delayed: int
    claimed: int
    done: int
    visits: int  # how often an item was started and done
    dead: int
    lanes: int
    inbox: int
    checkpoint: int  # everything at or below this position is settled
    checkpoint_dead: int  # how many of these items are dead
    end: int  # the last position
    next_ready_at: int | None
    time: int


class StoreStatus(NamedTuple):
    """The settings and counts of a frontier at one moment."""

    settings: Settings
    signal: Signal
    now: int
    partitions: Sequence[PartitionStatus]


class LaneRow(NamedTuple):
    """A lane as a store keeps it."""

    lane: str
    partition: int
    limits: LaneLimits
    waiting: int
    in_flight: int
    visits: int  # how often an item was started and done
    ready_at: int | None  # None: empty, busy or paused
    last_at: int
    counters: Mapping[str, int] = NO_COUNTERS


class Found(NamedTuple):
    """An item and its state. Fields that do not apply to the state are None."""

    state: str  # inbox, ready, delayed, claimed, done, dead
    partition: int
    position: int | None
    lane: LaneRow | None
    key: str
    priority: int
    payload: str | None
    attempts: int
    ahead: int | None = None  # ready: how many items of its lane come first, counted up to AHEAD_LIMIT
    due_at: int | None = None  # delayed
    fence: int | None = None  # claimed
    worker: str | None = None  # claimed
    expires_at: int | None = None  # claimed
    settled_at: int | None = None  # done, dead; delayed: the last visit of an item that will be revisited
    result: str | None = None  # done; delayed: the result of the last visit
    reason: str | None = None
    error: str | None = None


class ItemRow(NamedTuple):
    """An item of a listing, as a store keeps it. Fields that do not apply to its state are None."""

    partition: int
    position: int
    state: str
    lane: str
    priority: int
    key: str
    payload: str | None
    attempts: int
    due_at: int | None = None  # delayed
    revisit: bool = False  # delayed: it is done, and waits for its next visit
    fence: int | None = None  # claimed
    settled_at: int | None = None  # done, dead; delayed: the last visit of an item that will be revisited
    result: str | None = None  # done; delayed: the result of the last visit
    reason: str | None = None
    error: str | None = None


ITEM_STATES = ("ready", "delayed", "claimed", "done", "dead")  # an item in an inbox has no position yet
PENDING_STATES = ITEM_STATES[:3]

Cursor = tuple[int, int, int]  # a place in a listing; only the store knows its meaning
LISTING_START: Cursor = (-1, -1, -1)


class RowPage(NamedTuple):
    """Some of the items in a state."""

    rows: Sequence[ItemRow]
    after: Cursor | None  # continues the listing; None: there are no more

    @classmethod
    def build(cls, entries: Iterable[Sequence[Any]], limit: int, examined: int) -> "RowPage":
        """Build a page from rows of a database, in order, of which those that are not wanted may be missing.

        A row has four more columns: the two that its cursor has behind the partition, whether it is wanted, and how
        many rows were read up to it. Stop after `limit` wanted rows, or after `examined` rows.
        """
        rows: list[ItemRow] = []
        for *fields, first, second, wanted, read in entries:
            if wanted:
                rows.append(ItemRow._make(fields))
            if len(rows) == limit or read == examined:
                return cls(rows, (fields[0], first, second))
        return cls(rows, None)


class KnownPlace(NamedTuple):
    """A known hash, the position that it stands for, and the states that have an item there: exactly one (INV-4)."""

    partition: int
    hash: bytes
    position: int
    states: tuple[str, ...]

    @classmethod
    def build(cls, row: Sequence[Any]) -> "KnownPlace":
        """Build one from a row of a database that has a flag for each state behind the position."""
        partition, known, position, *flags = row
        return cls(
            partition, known, position, tuple(state for state, found in zip(ITEM_STATES, flags, strict=True) if found)
        )


class ClaimRow(NamedTuple):
    """A claim that holds items."""

    fence: int
    worker: str
    claimed_at: int  # 0: not known, because an earlier version of swath made it
    expires_at: int
    items: int  # that it still holds


class AuditChange(NamedTuple):
    """A change that somebody made to the frontier."""

    actor: str
    action: str  # the name of the method of Frontier
    lane: str | None
    items: int | None  # how many it changed
    detail: str | None  # JSON


class AuditRow(NamedTuple):
    """A change of the audit. The fields from `actor` on are those of AuditChange."""

    number: int  # rises with every change
    time: int
    actor: str
    action: str
    lane: str | None
    items: int | None
    detail: str | None


class LaneChange(NamedTuple):
    """A change of a lane. None leaves a field as it is, DEFAULT goes back to the default of the frontier."""

    min_interval: int | None = None
    concurrency: int | None = None
    paused: bool | None = None
    blocked_until: int | None = None  # a time of the wall clock
    at_least: bool = False  # keep a block that lasts longer
    blocked_for: int | None = None  # instead of `blocked_until`: a duration; 0 ends the block


DEFAULT = -1
AHEAD_LIMIT = 1_000


class Store(Protocol):
    """The storage of one frontier. Safe to call from many tasks at once."""

    settings: Settings

    @property
    def generation(self) -> int:
        """A number that rises if the store may have lost confirmed writes: after a reconnect, fail-over or restore."""
        ...

    async def add(self, items: Sequence[EncodedItem]) -> int:
        """Add at most ADD_CHUNK items and return how many were new (INV-4, INV-7)."""
        ...

    async def claim(self, request: ClaimRequest) -> ClaimReply:
        """Lease up to `limit` ready items of at most PARTITIONS_PER_CLAIM partitions (INV-1, INV-3, INV-8)."""
        ...

    async def renew(self, claim: ClaimRef, lease: int) -> int:
        """Make the lease end `lease` from now and return that time; LeaseLost if it has expired (INV-2)."""
        ...

    async def settle(self, claim: ClaimRef, settlement: Settlement, *, connection: Any = None) -> SettleReply:
        """Commit a settlement, or send it in the caller's transaction, `connection` (INV-2, INV-5, INV-6).

        Settlements of one claim are sent one after the other: a number below one that was applied counts as applied.
        """
        ...

    async def change_lane(self, partition: int, lane: str, change: LaneChange) -> None:
        """Change the limits of a lane, and create the lane if it does not exist.

        If its concurrency was 1 and is not any more, the items in flight count as started now (INV-3).
        """
        ...

    async def change_settings(
        self,
        *,
        min_interval: int | None = None,
        concurrency: int | None = None,
        max_attempts: int | None = None,
        paused: bool | None = None,
    ) -> None:
        """Change the settings of the frontier; None leaves a value as it is.

        Items in flight in lanes that use the default are treated as in `change_lane`.
        """
        ...

    async def requeue_lanes(self, partition: int, numbers: Sequence[int]) -> None:
        """Compute when at most ADD_CHUNK lanes may start next, with the present settings.

        Without this call, a waiting lane keeps the time that was computed with the earlier settings.
        """
        ...

    async def reopen(self, places: Sequence[tuple[int, int]]) -> int:
        """Make the done or dead items at these (partition, position) ready again at new positions; return how many."""
        ...

    async def repair(self, settlement: Settlement) -> SettleReply:
        """Settle dead items of one partition without a claim: DONE without a delay, or DEAD with another reason.

        Everything in the settlement commits with it (INV-5), and the items keep their positions (INV-6). InvalidOutcome
        if one of the items is not dead, or is named twice: nothing was changed. The number and `started` of moves are
        ignored: nothing was started, so neither visits nor the interval of a lane change. A store must not send a
        repair twice by itself: the second time, its items would not be dead.
        """
        ...

    async def drop(self, places: Sequence[tuple[int, int]], result: str | None) -> int:
        """Make the ready and delayed items at these (partition, position) done with a result; return how many.

        At most ADD_CHUNK. Nothing was started, so neither visits nor the interval of a lane change. An item that waits
        for a revisit stays done, and the result replaces that of its last visit. Claimed items are not changed.
        """
        ...

    async def empty_inbox(self, partition: int) -> None:
        """Take in the items that are in the inbox of a partition, as claims do."""
        ...

    async def signal(self) -> Signal:
        """Return whether the frontier is paused."""
        ...

    async def read_clock(self) -> ClockReading:
        """Return what the clocks of the store show now."""
        ...

    async def status(self) -> StoreStatus:
        """Return the settings and the counts of all partitions."""
        ...

    async def find(self, key_hash: bytes, lane_hash: bytes | None) -> Sequence[Found]:
        """Return the items with a key, of one lane or of all, by (partition, position); those in an inbox come last."""
        ...

    async def lane(self, partition: int, lane: str) -> LaneRow | None:
        """Return a lane, or None if it does not exist."""
        ...

    async def lanes(self, *, after: tuple[int, int] | None = None, limit: int = 100) -> Sequence[tuple[int, LaneRow]]:
        """Return lanes with their numbers, by (partition, number); `after` continues a listing."""
        ...

    async def items(
        self,
        state: str,
        *,
        lane: tuple[int, str] | None = None,
        result_text: str | None = None,
        after: Cursor | None = None,
        limit: int = 100,
    ) -> RowPage:
        """Read items in a state and return at most `limit` that are wanted; read at most MAX_EXAMINED rows.

        `lane` is a partition and the name of a lane in it. `result_text` is a text that the result of a done item
        contains. Items are ordered by (partition, position), claimed ones by claim. Ready items of a lane are ordered
        as they will be claimed, and no others are read. There is no other index by lane, so a page may be empty before
        the listing ends.
        """
        ...

    async def claims(self, *, after: int = 0, limit: int = 100) -> Sequence[ClaimRow]:
        """Return the claims that hold items, by fence; `after` is the last fence of the page before."""
        ...

    async def pending(
        self, *, after: tuple[int, int] | None = None, limit: int = 100, revisits: bool = False
    ) -> Sequence[ItemRow]:
        """Return the items that hold the checkpoint back, by (partition, position), without those in an inbox.

        With `revisits`, also those that are done and wait for their next visit.
        """
        ...

    async def date_positions(self, places: Sequence[tuple[int, int]]) -> Sequence[int]:
        """Return for each (partition, position) a time before which it was allotted.

        While a partition grows, the time is exact to a minute; after an hour to an hour, after a week to a day.
        Positions at or below the checkpoint have no exact time.
        """
        ...

    async def audit_change(self, change: AuditChange) -> None:
        """Record a change. The store keeps at least the last AUDIT_KEPT."""
        ...

    async def audit(self, *, limit: int = 100) -> Sequence[AuditRow]:
        """Return the last changes, the latest first."""
        ...

    async def learn(self, facts: Sequence[Fact]) -> None:
        """Store at most ADD_CHUNK facts."""
        ...

    async def facts(self, keys: Sequence[str]) -> dict[str, str]:
        """Return the facts with these keys, at most ADD_CHUNK."""
        ...

    async def outputs(self) -> dict[str, int]:
        """Return the committed length of every output file."""
        ...

    async def counters(self) -> dict[str, int]:
        """Return the frontier's counters, summed over the partitions."""
        ...

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        """Open a transaction on the frontier's own database and return its connection, to use with `settle`.

        It commits when the block ends and rolls back when the block raises. Raise StoreUnavailable for errors that
        waiting can cure, StoreFull if the disk is full, and UsageError if the store has no database.
        """
        ...

    def explain_refusal(self, error: BaseException) -> str | None:
        """Return the database's message if `error` means that it refused the data of a row, otherwise None."""
        ...

    async def known_places(self, *, after: tuple[int, bytes] = (-1, b""), limit: int = 100) -> Sequence[KnownPlace]:
        """Return known hashes with the states that have an item at their position, by (partition, hash)."""
        ...

    async def find_positions(self, partition: int, hashes: Sequence[bytes]) -> Sequence[int | None]:
        """Return the present position of each hash, or None if it is not known."""
        ...

    async def recount(self) -> Sequence[PartitionStatus]:
        """Count the rows of every partition; `status` must agree with the result. The cost grows with the frontier."""
        ...

    async def wait(self, seconds: float) -> None:
        """Wait for `seconds`, or until an item may have become ready."""
        ...

    async def close(self) -> None:
        """Close connections and files."""
        ...
