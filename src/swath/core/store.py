"""The seam between the frontier and what keeps it: records that cross it, and the Store protocol.

A Store holds items that are already checked and encoded; it decides nothing about policy. Times are microseconds of
the store's clock, texts are UTF-8 without NUL, payloads and results are JSON texts.

Every move below is atomic. Whoever implements it can prove itself with `swath.conformance`.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from enum import IntEnum
from typing import Any, NamedTuple, Protocol

from swath.core.counters import NO_COUNTERS, NO_LANE_COUNTERS
from swath.core.item import Item
from swath.core.lane import LaneLimits

MAX_CLAIM = 10_000  # items in one claim
ADD_CHUNK = 1_000  # items added under one lock
DELAYED_DRAIN = 1_000  # delayed items made ready by one claim, in each partition
INBOX_DRAIN = 2_000  # discovered items taken in by one claim, in each partition
PARTITIONS_PER_CLAIM = 4

LOST_WORKER = "its worker was lost without settling it (losses: {losses})"  # why an item that kills its worker is dead


class Settings(NamedTuple):
    """What the whole frontier shares. `concurrency` 0 means no limit."""

    partitions: int
    min_interval: int = 0
    concurrency: int = 0
    max_attempts: int = 5


class EncodedItem(NamedTuple):
    """An item on its way in."""

    partition: int
    hash: bytes  # swath.core.lane: 16 bytes of the key's, 4 of the lane's
    lane: str
    priority: int
    key: str
    payload: str | None
    not_before: int | None
    span: int


class ClaimRequest(NamedTuple):
    limit: int
    lease: int
    worker: str
    token: int  # random, up to 63 bits: tells this claim from any other of the same number
    order: Sequence[int]  # partitions, in the order in which to look for work
    wait_for: int | None = None  # a partition skipped before: wait for its lock rather than skip it again


class ClaimReply(NamedTuple):
    now: int
    fence: int  # 0 when nothing was claimed
    items: Sequence[Item]  # whose payloads are JSON texts still
    expires_at: int
    # The earliest over the partitions that were seen; None: nothing waits. That of a full claim may be too early.
    next_ready_at: int | None
    skipped: Sequence[int]  # partitions that somebody else held: skipped is not empty
    recovered: int  # items taken back from claims whose lease had ended
    died: int  # of those, how many ended up dead
    starts_count: bool  # the interval of one of these lanes runs from this claim on: its items must start at once
    signal: "Signal"


class ClaimRef(NamedTuple):
    """What every write on behalf of a claim presents (INV-2)."""

    fence: int
    token: int


class MoveKind(IntEnum):
    DONE = 0
    RETRY = 1
    DEAD = 2
    RELEASE = 3
    SPLIT = 4


class Move(NamedTuple):
    """What becomes of one claimed item."""

    position: int
    kind: MoveKind
    delay: int | None = None  # RETRY, RELEASE: until it is due. DONE: until it is visited again; None: never
    result: str | None = None  # DONE, SPLIT
    reason: str | None = None  # RETRY, DEAD
    error: str | None = None  # RETRY, DEAD
    started: bool = True  # DONE, RELEASE: whether it counts for the pace of its lane
    # SPLIT: what the first part keeps. DONE with a delay: the payload of the next visit; None keeps the present one.
    payload: str | None = None
    rest: EncodedItem | None = None  # SPLIT: the upper half of the span; with span 1, it replaces the item


class OutputMove(NamedTuple):
    """An output file grew from one committed length to the next."""

    name: str
    old: int  # what it must be now; 0 for a new file
    new: int


class Fact(NamedTuple):
    """Something that a job knows, shared by everybody who works on the frontier. The last to say it is right."""

    key: str
    value: str


class Settlement(NamedTuple):
    """What one worker says about its items of one partition, committed as a whole (INV-5)."""

    partition: int
    number: int  # rises with every settlement of the claim, so that a lost reply can be looked up; 0 is never repeated
    moves: Sequence[Move]
    discovered: Sequence[EncodedItem] = ()  # of any partition
    outputs: Sequence[OutputMove] = ()
    facts: Sequence[Fact] = ()
    counters: Mapping[str, int] = NO_COUNTERS  # what to add to the frontier's counters
    lane_counters: Mapping[str, Mapping[str, int]] = NO_LANE_COUNTERS  # the same by lane: lanes of items in `moves`


class SettleReply(NamedTuple):
    now: int
    discovered: int  # how many were new, as far as this partition can tell; those for others are counted when taken in
    checkpoint: int


class Signal(NamedTuple):
    """What a process must hear of within two seconds; `version` rises with every pause."""

    paused: bool
    version: int


class PartitionStatus(NamedTuple):
    """Counters of one partition, kept with every move and never counted."""

    partition: int
    ready: int
    delayed: int
    claimed: int
    done: int
    visits: int  # how often an item was started and done
    dead: int
    lanes: int
    inbox: int
    checkpoint: int  # everything at or below is settled
    checkpoint_dead: int  # of those, how many are dead
    end: int  # the last position allotted
    next_ready_at: int | None
    time: int


class StoreStatus(NamedTuple):
    settings: Settings
    signal: Signal
    now: int
    partitions: Sequence[PartitionStatus]


class LaneRow(NamedTuple):
    lane: str
    partition: int
    limits: LaneLimits
    waiting: int
    in_flight: int
    visits: int  # how often an item of it was started and done
    ready_at: int | None  # None: empty, busy or paused
    last_at: int
    counters: Mapping[str, int] = NO_COUNTERS


class Found(NamedTuple):
    """Where an item is. Fields that its place does not have are None."""

    state: str  # inbox, ready, delayed, claimed, done, dead
    partition: int
    position: int | None
    lane: LaneRow | None
    key: str
    priority: int
    payload: str | None
    attempts: int
    ahead: int | None = None  # ready: how many stand before it in its lane, counted up to 1,000
    due_at: int | None = None  # delayed
    fence: int | None = None  # claimed
    worker: str | None = None  # claimed
    expires_at: int | None = None  # claimed
    settled_at: int | None = None  # done, dead; delayed: when a revisit was last done
    result: str | None = None  # done; delayed: of the last visit
    reason: str | None = None
    error: str | None = None


class DeadRow(NamedTuple):
    partition: int
    position: int
    lane: str
    priority: int
    key: str
    payload: str | None
    attempts: int
    settled_at: int
    reason: str
    error: str | None


class PendingRow(NamedTuple):
    """An item that is ready, delayed or claimed, and was not done before."""

    partition: int
    position: int
    state: str
    lane: str
    priority: int
    key: str
    payload: str | None
    attempts: int


class LaneChange(NamedTuple):
    """What to change about a lane; None leaves a field as it is, DEFAULT goes back to the frontier's default."""

    min_interval: int | None = None
    concurrency: int | None = None
    paused: bool | None = None
    blocked_until: int | None = None
    at_least: bool = False  # a block that lasts longer stands


DEFAULT = -1
AHEAD_LIMIT = 1_000


class Store(Protocol):
    """One frontier, kept. Safe to call from many tasks at once."""

    settings: Settings

    @property
    def generation(self) -> int:
        """Rises when the store may have forgotten what it confirmed before: a reconnection, a fail-over, a restore."""
        ...

    async def add(self, items: Sequence[EncodedItem]) -> int:
        """Take in what is not known yet, at most ADD_CHUNK items, and return how many that were (INV-4, INV-7)."""
        ...

    async def claim(self, request: ClaimRequest) -> ClaimReply:
        """Lease up to `limit` ready items, of at most PARTITIONS_PER_CLAIM partitions (INV-1, INV-3, INV-8)."""
        ...

    async def renew(self, claim: ClaimRef, lease: int) -> int:
        """Make the lease end `lease` from now and return when that is; LeaseLost when it is over already (INV-2)."""
        ...

    async def settle(self, claim: ClaimRef, settlement: Settlement, *, connection: Any = None) -> SettleReply:
        """Commit a settlement, in the caller's transaction where `connection` is given (INV-2, INV-5, INV-6)."""
        ...

    async def change_lane(self, partition: int, lane: str, change: LaneChange) -> None:
        """Change a lane's limits, which exists from then on. Where its concurrency was 1 and no longer is, what is
        in flight counts as started now (INV-3)."""
        ...

    async def change_settings(
        self,
        *,
        min_interval: int | None = None,
        concurrency: int | None = None,
        max_attempts: int | None = None,
        paused: bool | None = None,
    ) -> None:
        """Change what the whole frontier shares; None leaves a value as it is. For what is in flight in lanes under the
        default, the same holds as for `change_lane`."""
        ...

    async def place_lanes(self, partition: int, numbers: Sequence[int]) -> None:
        """Give lanes, at most ADD_CHUNK of them, the place in the queue that is theirs by the settings of now: as long
        as they wait, they keep the one they got by those of then."""
        ...

    async def reopen(self, places: Sequence[tuple[int, int]]) -> int:
        """Make done or dead items, named by (partition, position), ready again under new positions; return how many."""
        ...

    async def signal(self) -> Signal: ...

    async def status(self) -> StoreStatus: ...

    async def find(self, key_hash: bytes, lane_hash: bytes | None) -> Sequence[Found]:
        """Everything under a key, in whichever lanes it is, in order of (partition, position); an inbox comes last."""
        ...

    async def lane(self, partition: int, lane: str) -> LaneRow | None: ...

    async def lanes(self, *, after: tuple[int, int] | None = None, limit: int = 100) -> Sequence[tuple[int, LaneRow]]:
        """Lanes with their numbers, in order of (partition, number); `after` continues a listing."""
        ...

    async def dead(self, *, after: tuple[int, int] | None = None, limit: int = 100) -> Sequence[DeadRow]:
        """Dead items in order of (partition, position)."""
        ...

    async def pending(self, *, after: tuple[int, int] | None = None, limit: int = 100) -> Sequence[PendingRow]:
        """What holds the checkpoint back, in order of (partition, position). What is in an inbox has no position."""
        ...

    async def learn(self, facts: Sequence[Fact]) -> None:
        """Keep facts, at most ADD_CHUNK of them."""
        ...

    async def facts(self, keys: Sequence[str]) -> dict[str, str]:
        """What is known of these keys, at most ADD_CHUNK of them."""
        ...

    async def outputs(self) -> dict[str, int]:
        """The committed length of every output file."""
        ...

    async def counters(self) -> dict[str, int]:
        """Return the frontier's counters, summed over the partitions."""
        ...

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        """Open a transaction on the frontier's own database and return its connection, to use with `settle`.

        It commits when the block ends and rolls back when the block raises. An error that waiting or more room can
        cure leaves as StoreUnavailable or StoreFull. UsageError if the store has no database.
        """
        ...

    def explain_refusal(self, error: BaseException) -> str | None:
        """Return the database's message if `error` says that it refused the data of a row, otherwise None."""
        ...

    async def recount(self) -> Sequence[PartitionStatus]:
        """The counters, counted from the rows: what `status` must equal. As slow as the frontier is large."""
        ...

    async def wait(self, seconds: float) -> None:
        """Return after `seconds`, or sooner when somebody may have made work ready."""
        ...

    async def close(self) -> None: ...
