"""The simplest Store: tests use it as the model for the durable stores.

It keeps every promise except durability (INV-4) and flat cost (INV-8): a claim reads every lane.
"""

import asyncio
import heapq
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any

from swath.core.checkpoint import halve_span
from swath.core.clock import SECOND, Clock, MachineClock, SingleClock, StoreClock, SystemClock, choose_offset
from swath.core.counters import NO_COUNTERS, Counters
from swath.core.errors import InvalidOutcome, LeaseLost, OutputConflict, UsageError, WrongTransaction
from swath.core.item import LEVELS, Item
from swath.core.lane import (
    FRESH,
    KEY_HASH_BYTES,
    NO_LIMITS,
    RETURNED,
    LaneLimits,
    Pacing,
    compute_low_share,
    count_startable,
    earliest_start,
    level_of,
    rank_of,
    starts_begin_to_count,
    starts_count,
)
from swath.core.milestones import HOUR, MINUTE, thin_milestones
from swath.core.store import (
    AHEAD_LIMIT,
    AUDIT_KEPT,
    DEFAULT,
    DELAYED_DRAIN,
    LOST_WORKER,
    MAX_EXAMINED,
    NOT_DEAD,
    PARTITIONS_PER_CLAIM,
    AuditChange,
    AuditRow,
    ClaimRef,
    ClaimReply,
    ClaimRequest,
    ClaimRow,
    ClockReading,
    Cursor,
    EncodedItem,
    Fact,
    Found,
    ItemRow,
    KnownPlace,
    LaneChange,
    LaneRow,
    Move,
    MoveKind,
    OutputMove,
    PartitionStatus,
    RowPage,
    Settings,
    Settlement,
    SettleReply,
    Signal,
    StoreStatus,
)

NO_TRANSACTION = "a frontier in memory has no database to open a transaction on: open it with a database URL"


@dataclass(slots=True)
class _Row:
    """An item in any state."""

    position: int
    lane: "_Lane"
    priority: int
    key: str
    hash: bytes
    payload: str | None
    span: int
    state: str = ""
    rank: int = 0
    place: int = 0
    attempts: int = 0
    losses: int = 0
    lane_in_flight: int = 0  # items of its lane that were in flight when it was claimed
    due_at: int = 0
    wall: bool = False  # whether `due_at` is a time of the wall clock
    revisit: bool = False
    fence: int = 0
    settled_at: int | None = None
    result: str | None = None
    reason: str | None = None
    error: str | None = None

    @property
    def unsettled(self) -> bool:
        return self.state in {"ready", "claimed"} or (self.state == "delayed" and not self.revisit)

    def due_at_if(self, ahead: int) -> int:
        """Return when it is due by the store's clock, if the wall clock is `ahead` of it."""
        return self.due_at - ahead if self.wall else self.due_at


@dataclass(slots=True)
class _Lane:
    partition: int
    number: int
    name: str
    limits: LaneLimits = NO_LIMITS
    blocked_wall: int = 0  # a block until a time of the wall clock
    waiting: list[tuple[int, int, _Row]] = field(default_factory=list)  # a heap ordered by (rank, place)
    in_flight: int = 0
    last_at: int = 0
    visits: int = 0
    counters: Counters = NO_COUNTERS
    level: int | None = None  # the priority of its first item; None: not in the queue
    ready_at: int = 0  # without `blocked_wall`

    def ready_at_if(self, ahead: int) -> int:
        """Return when it is ready by the store's clock, if the wall clock is `ahead` of it."""
        return max(self.ready_at, self.blocked_wall - ahead)

    @property
    def head_level(self) -> int:
        return level_of(self.waiting[0][0])


@dataclass(slots=True)
class _Claim:
    fence: int
    token: int
    worker: str
    expires_at: int
    claimed_at: int
    lost: bool = False
    number: int = 0  # the number of its last settlement


@dataclass(slots=True)
class _Partition:
    number: int
    time: int = 0
    next_position: int = 1
    next_place: int = 1
    checkpoint: int = 0
    claims_made: int = 0
    lanes: dict[str, _Lane] = field(default_factory=dict)
    seen: dict[bytes, _Row] = field(default_factory=dict)
    rows: dict[int, _Row] = field(default_factory=dict)  # by position
    milestones: dict[int, int] = field(default_factory=dict)  # times by position

    def tick(self, clock: int) -> int:
        """Advance partition time. It is never behind the clock, and every call returns a later time."""
        before = self.time
        self.time = max(clock, before + 1)
        if self.time // MINUTE != before // MINUTE and self.next_position > 1:
            self.milestones.setdefault(self.next_position - 1, before)
            if self.time // HOUR != before // HOUR:
                self.milestones = thin_milestones(self.milestones, now=self.time, checkpoint=self.checkpoint)
        return self.time

    def get_or_create_lane(self, name: str) -> _Lane:
        return self.lanes.setdefault(name, _Lane(self.number, len(self.lanes) + 1, name))

    def allot(self, span: int) -> int:
        position = self.next_position
        self.next_position += span
        return position

    def list_rows(self, *states: str) -> list[_Row]:
        return [row for _, row in sorted(self.rows.items()) if row.state in states]


class MemoryStore:
    """A frontier in the memory of this process."""

    generation = 0

    def __init__(self, settings: Settings, *, clock: Clock | None = None, machine: MachineClock | None = None) -> None:
        """Tests replace the store's clock with `clock`, or the two clocks of this machine with `machine`."""
        self.settings = settings
        machine = machine or (SystemClock() if clock is None else SingleClock(clock))
        self._clock = StoreClock(machine, choose_offset(machine, latest=0))
        self._partitions = [_Partition(number) for number in range(settings.partitions)]
        self._claims: dict[int, _Claim] = {}
        self._outputs: dict[str, int] = {}
        self._facts: dict[str, str] = {}
        self._counters = NO_COUNTERS
        self._audit: deque[AuditRow] = deque(maxlen=AUDIT_KEPT)
        self._signal = Signal(paused=False, version=0)
        self._wake_event = asyncio.Event()

    # add

    async def add(self, items: Sequence[EncodedItem]) -> int:
        added = 0
        for number in sorted({item.partition for item in items}):
            partition = self._partitions[number]
            added += self._take_in(partition, items, partition.tick(self._clock.now()))
        self._wake()
        return added

    def _take_in(self, partition: _Partition, items: Iterable[EncodedItem], now: int) -> int:
        """Add the items that belong to this partition and are new; return how many were added."""
        entered = []
        for item in items:
            if item.partition == partition.number and item.hash not in partition.seen:
                lane = partition.get_or_create_lane(item.lane)
                self._enter(partition, lane, item, partition.allot(item.span), now)
                entered.append(lane)
        self._requeue(entered, now)
        return len(entered)

    def _enter(self, partition: _Partition, lane: _Lane, item: EncodedItem, position: int, now: int) -> None:
        row = _Row(position, lane, item.priority, item.key, item.hash, item.payload, item.span)
        partition.seen[item.hash] = partition.rows[position] = row
        if item.not_before is not None and item.not_before > now + self._clock.wall_ahead():
            row.state, row.due_at, row.wall = "delayed", item.not_before, True
        else:
            self._make_ready(partition, row, FRESH)

    def _make_ready(self, partition: _Partition, row: _Row, band: int) -> None:
        row.state, row.fence, row.revisit, row.wall = "ready", 0, False, False
        row.rank, row.place = rank_of(row.priority, band), partition.next_place
        partition.next_place += 1
        heapq.heappush(row.lane.waiting, (row.rank, row.place, row))

    # lanes

    def _pacing(self, lane: _Lane) -> Pacing:
        return lane.limits.pacing(Pacing(self.settings.min_interval, self.settings.concurrency))

    def _requeue(self, lanes: Iterable[_Lane], now: int, *, new_turn: bool = False) -> None:
        """Insert lanes into the queue, move them or remove them. No other code changes the queue."""
        for lane in {lane.number: lane for lane in lanes}.values():
            pacing = self._pacing(lane)
            busy = pacing.concurrency and lane.in_flight >= pacing.concurrency
            if not lane.waiting or lane.limits.paused or busy:
                lane.level = None
                continue
            keeps_turn = lane.level == lane.head_level and not new_turn
            earliest = earliest_start(pacing, blocked_until=lane.limits.blocked_until, last_at=lane.last_at)
            lane.ready_at = max(lane.ready_at if keeps_turn else now, earliest)
            lane.level = lane.head_level

    # claim

    async def claim(self, request: ClaimRequest) -> ClaimReply:
        clock, ahead = self._clock.now(), self._clock.wall_ahead()
        taken: list[_Row] = []
        recovered = died = visited = 0
        fence = max(self._claims, default=0) + 1
        seen: list[_Partition] = []
        now = clock
        if not self._signal.paused:
            for number in request.order:
                if len(taken) >= request.limit or visited >= PARTITIONS_PER_CLAIM:
                    break
                partition = self._partitions[number]
                seen.append(partition)
                ready = self._compute_next_ready_at(partition, ahead)
                if ready is None or ready > max(clock, partition.time + 1):
                    continue
                time = partition.tick(clock)
                now = max(now, time)  # partition time may be ahead of the clock, and the lease must end after both
                back, gone = self._take_back(partition, time)
                recovered, died = recovered + back, died + gone
                self._drain_delayed(partition, time)
                rows = self._take(partition, request.limit - len(taken), fence, time)
                taken += rows
                visited += bool(rows)
        pacings = {self._pacing(row.lane) for row in taken}
        expires_at = now + request.lease
        if taken:
            self._claims[fence] = _Claim(fence, request.token, request.worker, expires_at, now)
        moments = [self._compute_next_ready_at(partition, ahead) for partition in seen]
        return ClaimReply(
            now=now,
            fence=fence if taken else 0,
            items=[_build_item(row) for row in taken],
            expires_at=self._clock.to_wall(expires_at),
            next_ready_at=min((moment for moment in moments if moment is not None), default=None),
            skipped=(),
            recovered=recovered,
            died=died,
            starts_count=any(starts_count(pacing) and pacing.min_interval > 0 for pacing in pacings),
            signal=self._signal,
        )

    def _compute_next_ready_at(self, partition: _Partition, ahead: int) -> int | None:
        """Return when something is ready, if the wall clock is `ahead` of the store's."""
        moments = [lane.ready_at_if(ahead) for lane in partition.lanes.values() if lane.level is not None]
        moments += [row.due_at_if(ahead) for row in partition.list_rows("delayed")]
        moments += [self._claims[row.fence].expires_at for row in partition.list_rows("claimed")]
        return min(moments, default=None)

    def _take_back(self, partition: _Partition, now: int) -> tuple[int, int]:
        """Make the items of expired claims ready again, or dead if their workers were lost too often."""
        rows = [row for row in partition.list_rows("claimed") if self._claims[row.fence].expires_at <= now]
        died = 0
        for row in rows:
            self._claims[row.fence].lost = True  # in all partitions
            row.attempts, row.losses = row.attempts + 1, row.losses + 1
            row.lane.in_flight -= 1
            row.lane.last_at = now
            if row.losses >= self.settings.max_attempts:
                died += 1
                row.state, row.fence, row.settled_at = "dead", 0, now
                row.reason = LOST_WORKER.format(losses=row.losses)
            else:
                self._make_ready(partition, row, RETURNED)
        self._requeue((row.lane for row in rows), now)
        self._advance(partition)
        return len(rows), died

    def _drain_delayed(self, partition: _Partition, now: int) -> None:
        ahead = self._clock.wall_ahead()
        delayed = ((row.due_at_if(ahead), row.position, row) for row in partition.list_rows("delayed"))
        due = sorted(entry for entry in delayed if entry[0] <= now)
        for _, _, row in due[:DELAYED_DRAIN]:
            if row.revisit:
                self._renumber(partition, row)
            self._make_ready(partition, row, RETURNED if row.attempts else FRESH)
        self._requeue((row.lane for *_, row in due[:DELAYED_DRAIN]), now)

    def _renumber(self, partition: _Partition, row: _Row) -> None:
        """Give a revisit or a reopened item a new position, because the checkpoint has passed its old one."""
        del partition.rows[row.position]
        row.position = partition.allot(row.span)
        row.settled_at = row.result = row.reason = row.error = None
        partition.rows[row.position] = row

    def _take(self, partition: _Partition, limit: int, fence: int, now: int) -> list[_Row]:
        levels = {lane.level for lane in self._list_ready_lanes(partition, now)}
        low = compute_low_share(limit, partition.claims_made) if len(levels) > 1 else 0
        taken: list[_Row] = []
        for level in range(LEVELS - 1, -1, -1):
            taken += self._take_level(partition, level, limit - low - len(taken), fence, now)
        for level in range(LEVELS):
            taken += self._take_level(partition, level, limit - len(taken), fence, now)
        partition.claims_made += bool(taken)
        return taken

    def _list_ready_lanes(self, partition: _Partition, now: int) -> list[_Lane]:
        ahead = self._clock.wall_ahead()
        queued = [lane for lane in partition.lanes.values() if lane.level is not None]
        ready = [lane for lane in queued if lane.ready_at_if(ahead) <= now]
        return sorted(ready, key=lambda lane: (lane.ready_at_if(ahead), lane.number))

    def _take_level(self, partition: _Partition, level: int, limit: int, fence: int, now: int) -> list[_Row]:
        taken: list[_Row] = []
        for lane in self._list_ready_lanes(partition, now):
            if len(taken) >= limit:
                break
            if lane.level != level:
                continue
            pacing = self._pacing(lane)
            if earliest_start(pacing, blocked_until=lane.limits.blocked_until, last_at=lane.last_at) > now:
                self._requeue([lane], now, new_turn=True)  # limits changed since the lane was queued
                continue
            count = count_startable(pacing, in_flight=lane.in_flight, limit=limit - len(taken))
            rows: list[_Row] = []
            while lane.waiting and len(rows) < count and lane.head_level == level:
                rows.append(heapq.heappop(lane.waiting)[2])
            for row in rows:
                row.state, row.fence, row.lane_in_flight = "claimed", fence, lane.in_flight
                lane.in_flight += 1
            if rows and starts_count(pacing):
                lane.last_at = now
            self._requeue([lane], now, new_turn=True)  # behind the other lanes, if items remain
            taken += rows
        return taken

    async def renew(self, claim: ClaimRef, lease: int) -> int:
        now = self._clock.now()
        held = self._require_held(claim)
        if held.expires_at <= now:
            raise LeaseLost(f"claim {claim.fence}: its lease ended {(now - held.expires_at) / SECOND:.1f} s ago")
        held.expires_at = max(held.expires_at, now + lease)  # a clock that stepped back must not shorten a lease
        return self._clock.to_wall(held.expires_at)

    def _require_held(self, ref: ClaimRef) -> _Claim:
        claim = self._claims.get(ref.fence)
        if claim is None or claim.token != ref.token or claim.lost:
            raise LeaseLost(f"claim {ref.fence} was replaced after its lease ended")
        return claim

    # settle

    async def settle(self, claim: ClaimRef, settlement: Settlement, *, connection: Any = None) -> SettleReply:
        if connection is not None:
            raise WrongTransaction(NO_TRANSACTION)
        partition = self._partitions[settlement.partition]
        known = self._claims.get(claim.fence)
        if known and known.token == claim.token and 0 < settlement.number <= known.number:
            return SettleReply(partition.time, 0, partition.checkpoint)  # repeated because the first reply was lost
        held = self._require_held(claim)
        rows = self._find_claimed_rows(partition, claim.fence, settlement.moves)
        for output in settlement.outputs:
            self._check_output(output)
        # From here on nothing can fail, so the settlement is atomic.
        now = partition.tick(self._clock.now())
        held.number = max(held.number, settlement.number)
        for row, move in zip(rows, settlement.moves, strict=True):
            self._settle_row(partition, row, move, now)
        self._requeue((row.lane for row in rows), now)
        return self._commit_rest(partition, settlement, now)

    def _commit_rest(self, partition: _Partition, settlement: Settlement, now: int) -> SettleReply:
        """Commit what a settlement has besides its moves."""
        discovered = 0
        for number in sorted({item.partition for item in settlement.discovered}):
            other = self._partitions[number]
            time = now if other is partition else other.tick(self._clock.now())
            discovered += self._take_in(other, settlement.discovered, time)
        self._outputs |= {output.name: output.new for output in settlement.outputs}
        self._facts |= dict(settlement.facts)
        self._counters = _add(self._counters, settlement.counters)
        for name, counts in settlement.lane_counters.items():
            lane = partition.get_or_create_lane(name)
            lane.counters = _add(lane.counters, counts)
        self._advance(partition)
        self._wake()
        return SettleReply(now, discovered, partition.checkpoint)

    def _find_claimed_rows(self, partition: _Partition, fence: int, moves: Sequence[Move]) -> list[_Row]:
        rows = [partition.rows.get(move.position) for move in moves]
        found = [row for row in rows if row is not None and row.state == "claimed" and row.fence == fence]
        if len({row.position for row in found}) != len(moves):
            raise InvalidOutcome(f"claim {fence} does not hold all of these items, or one is named twice")
        rests = set[bytes]()
        for row, move in zip(found, moves, strict=True):
            if move.rest is not None and row.span > 1:
                if move.rest.hash in partition.seen or move.rest.hash in rests:
                    raise InvalidOutcome(f"the range {move.rest.key!r} exists already")
                rests.add(move.rest.hash)
        return found

    def _check_output(self, move: OutputMove) -> None:
        committed = self._outputs.get(move.name, 0)
        if committed != move.old:
            raise OutputConflict(
                f"output {move.name} is committed up to {committed} bytes, not {move.old}; nothing was settled. "
                "Truncate the file to the committed length and write it again"
            )

    def _settle_row(self, partition: _Partition, row: _Row, move: Move, now: int) -> None:
        lane, row.fence = row.lane, 0
        lane.in_flight -= 1
        if not starts_count(self._pacing(lane)) and move.started:
            lane.last_at = now
        lane.visits += move.kind is MoveKind.DONE and move.started
        row.settled_at = now
        match move.kind:
            case MoveKind.DONE:
                row.state, row.result, row.attempts, row.losses = "done", move.result, 0, 0
                row.reason = row.error = None
                if move.delay is not None:
                    row.payload = row.payload if move.payload is None else move.payload
                    row.state, row.revisit, row.due_at = "delayed", True, now + move.delay
            case MoveKind.RETRY:
                row.settled_at = None
                row.state, row.due_at, row.attempts = "delayed", now + (move.delay or 0), row.attempts + 1
                row.reason, row.error = move.reason, move.error
            case MoveKind.DEAD:
                row.state, row.attempts, row.reason, row.error = "dead", row.attempts + 1, move.reason, move.error
            case MoveKind.RELEASE:
                row.settled_at = None
                if move.delay is None:
                    self._make_ready(partition, row, RETURNED)
                else:
                    row.state, row.due_at = "delayed", now + move.delay
            case MoveKind.SPLIT:
                self._split(partition, row, move, now)

    def _split(self, partition: _Partition, row: _Row, move: Move, now: int) -> None:
        assert move.rest is not None
        if row.span == 1:
            row.settled_at, row.payload = None, move.rest.payload
            self._make_ready(partition, row, RETURNED)
            return
        keeps, left = halve_span(row.span)
        position = row.position + keeps
        rest = move.rest._replace(span=left)
        row.state, row.result, row.attempts, row.losses = "done", move.result, 0, 0
        row.payload, row.span = move.payload, keeps
        row.reason = row.error = None
        self._enter(partition, row.lane, rest, position, now)

    def _advance(self, partition: _Partition) -> None:
        """Move the checkpoint to just below the lowest unsettled position (INV-6)."""
        unsettled = (row.position for row in partition.rows.values() if row.unsettled)
        partition.checkpoint = min(unsettled, default=partition.next_position) - 1

    # change

    async def change_lane(self, partition: int, lane: str, change: LaneChange) -> None:
        part = self._partitions[partition]
        now = part.tick(self._clock.now())
        row = part.get_or_create_lane(lane)
        before = self._pacing(row)
        row.limits = LaneLimits(
            min_interval=_apply_change(row.limits.min_interval, change.min_interval),
            concurrency=_apply_change(row.limits.concurrency, change.concurrency),
            paused=row.limits.paused if change.paused is None else change.paused,
            blocked_until=row.limits.blocked_until,
        )
        self._block(row, change, now)
        if row.in_flight and starts_begin_to_count(before, self._pacing(row)):
            row.last_at = now
        self._requeue([row], now, new_turn=True)
        if change.paused:
            self._signal = self._signal._replace(version=self._signal.version + 1)
        self._wake()

    def _block(self, lane: _Lane, change: LaneChange, now: int) -> None:
        """Apply a block for a duration, or until a time of the wall clock."""
        if change.blocked_for is None and change.blocked_until is None:
            return
        until, wall = now + change.blocked_for if change.blocked_for else 0, change.blocked_until or 0
        if change.at_least:
            until, wall = max(until, lane.limits.blocked_until), max(wall, lane.blocked_wall)
        lane.limits, lane.blocked_wall = lane.limits._replace(blocked_until=until), wall

    async def change_settings(
        self,
        *,
        min_interval: int | None = None,
        concurrency: int | None = None,
        max_attempts: int | None = None,
        paused: bool | None = None,
    ) -> None:
        before = Pacing(self.settings.min_interval, self.settings.concurrency)
        given = {"min_interval": min_interval, "concurrency": concurrency, "max_attempts": max_attempts}
        self.settings = self.settings._replace(**{k: v for k, v in given.items() if v is not None})
        for partition in self._partitions:
            flying = [lane for lane in partition.lanes.values() if lane.in_flight]
            counted = [lane for lane in flying if starts_begin_to_count(lane.limits.pacing(before), self._pacing(lane))]
            now = partition.tick(self._clock.now()) if counted else 0
            for lane in counted:
                lane.last_at = now
            self._requeue(counted, now)
        if paused is not None:
            self._signal = Signal(paused, self._signal.version + 1)
        self._wake()

    async def requeue_lanes(self, partition: int, numbers: Sequence[int]) -> None:
        part = self._partitions[partition]
        wanted = set(numbers)
        lanes = [lane for lane in part.lanes.values() if lane.number in wanted]
        self._requeue(lanes, part.tick(self._clock.now()), new_turn=True)
        self._wake()

    async def reopen(self, places: Sequence[tuple[int, int]]) -> int:
        reopened = 0
        for number in sorted({number for number, _ in places}):
            partition = self._partitions[number]
            rows = [partition.rows.get(position) for where, position in dict.fromkeys(places) if where == number]
            closed = [row for row in rows if row is not None and row.state in {"done", "dead"}]
            now = partition.tick(self._clock.now())
            for row in closed:
                self._renumber(partition, row)
                row.attempts = row.losses = 0
                self._make_ready(partition, row, FRESH)
            self._requeue((row.lane for row in closed), now)
            reopened += len(closed)
        self._wake()
        return reopened

    async def repair(self, settlement: Settlement) -> SettleReply:
        partition = self._partitions[settlement.partition]
        named = {move.position: partition.rows.get(move.position) for move in settlement.moves}
        rows = {position: row for position, row in named.items() if row is not None and row.state == "dead"}
        if len(rows) != len(settlement.moves):
            raise InvalidOutcome(NOT_DEAD.format(dead=len(rows), named=len(settlement.moves)))
        for output in settlement.outputs:
            self._check_output(output)
        now = partition.tick(self._clock.now())
        for move in settlement.moves:
            row = rows[move.position]
            row.settled_at = now
            if move.kind is MoveKind.DONE:
                row.state, row.result, row.attempts, row.losses = "done", move.result, 0, 0
                row.reason = row.error = None
            else:
                row.attempts, row.reason, row.error = row.attempts + 1, move.reason, move.error
        return self._commit_rest(partition, settlement, now)

    async def drop(self, places: Sequence[tuple[int, int]], result: str | None) -> int:
        dropped = 0
        for number in sorted({number for number, _ in places}):
            partition = self._partitions[number]
            rows = [partition.rows.get(position) for where, position in dict.fromkeys(places) if where == number]
            waiting = [row for row in rows if row is not None and row.state in {"ready", "delayed"}]
            now = partition.tick(self._clock.now())
            for row in waiting:
                row.state, row.settled_at, row.result, row.revisit = "done", now, result, False
                row.attempts = row.losses = 0
                row.reason = row.error = None
            lanes = {row.lane.number: row.lane for row in waiting}.values()
            for lane in lanes:
                lane.waiting = [entry for entry in lane.waiting if entry[2].state == "ready"]
                heapq.heapify(lane.waiting)
            self._requeue(lanes, now)
            self._advance(partition)
            dropped += len(waiting)
        return dropped

    async def empty_inbox(self, partition: int) -> None:
        """Do nothing: there is no inbox."""

    # reads

    async def signal(self) -> Signal:
        return self._signal

    async def read_clock(self) -> ClockReading:
        now = self._clock.now()
        return ClockReading(now, now + self._clock.wall_ahead())

    async def status(self) -> StoreStatus:
        now = self._clock.to_wall(self._clock.now())
        return StoreStatus(self.settings, self._signal, now, await self.recount())

    async def recount(self) -> Sequence[PartitionStatus]:
        return [self._count(partition) for partition in self._partitions]

    def _count(self, partition: _Partition) -> PartitionStatus:
        ahead = self._clock.round_wall_ahead()
        ready_at = self._compute_next_ready_at(partition, ahead)
        count = {state: len(partition.list_rows(state)) for state in ("ready", "delayed", "claimed", "done", "dead")}
        return PartitionStatus(
            partition=partition.number,
            **count,
            visits=sum(lane.visits for lane in partition.lanes.values()),
            lanes=len(partition.lanes),
            inbox=0,
            checkpoint=partition.checkpoint,
            checkpoint_dead=sum(row.position <= partition.checkpoint for row in partition.list_rows("dead")),
            end=partition.next_position - 1,
            next_ready_at=None if ready_at is None else ready_at + ahead,
            time=self._clock.to_wall(partition.time),
        )

    async def find(self, key_hash: bytes, lane_hash: bytes | None) -> Sequence[Found]:
        found = []
        for partition in self._partitions:
            rows = [
                row
                for known, row in partition.seen.items()
                if known[:KEY_HASH_BYTES] == key_hash and lane_hash in (None, known[KEY_HASH_BYTES:])
            ]
            found += [self._build_found(partition, row) for row in sorted(rows, key=lambda row: row.position)]
        return found

    def _build_found(self, partition: _Partition, row: _Row) -> Found:
        claim, to_wall = self._claims.get(row.fence), self._clock.to_wall
        ahead = sum(1 for rank, place, _ in row.lane.waiting if (rank, place) < (row.rank, row.place))
        return Found(
            state=row.state,
            partition=partition.number,
            position=row.position,
            lane=self._build_lane_row(row.lane),
            key=row.key,
            priority=row.priority,
            payload=row.payload,
            attempts=row.attempts,
            ahead=min(ahead, AHEAD_LIMIT) if row.state == "ready" else None,
            due_at=None if row.state != "delayed" else row.due_at if row.wall else to_wall(row.due_at),
            fence=row.fence or None,
            worker=claim.worker if claim else None,
            expires_at=to_wall(claim.expires_at) if claim else None,
            settled_at=None if row.settled_at is None else to_wall(row.settled_at),
            result=row.result,
            reason=row.reason,
            error=row.error,
        )

    async def lane(self, partition: int, lane: str) -> LaneRow | None:
        row = self._partitions[partition].lanes.get(lane)
        return None if row is None else self._build_lane_row(row)

    async def lanes(self, *, after: tuple[int, int] | None = None, limit: int = 100) -> Sequence[tuple[int, LaneRow]]:
        rows = [
            (row.number, self._build_lane_row(row))
            for part in self._partitions
            for row in part.lanes.values()
            if after is None or (part.number, row.number) > after
        ]
        return rows[:limit]

    def _build_lane_row(self, lane: _Lane) -> LaneRow:
        to_wall = self._clock.to_wall
        blocked_until = to_wall(lane.limits.blocked_until) if lane.limits.blocked_until else 0
        return LaneRow(
            lane=lane.name,
            partition=lane.partition,
            limits=lane.limits._replace(blocked_until=max(blocked_until, lane.blocked_wall)),
            waiting=len(lane.waiting),
            in_flight=lane.in_flight,
            visits=lane.visits,
            ready_at=None if lane.level is None else max(to_wall(lane.ready_at), lane.blocked_wall),
            last_at=to_wall(lane.last_at) if lane.last_at else 0,
            counters=lane.counters,
        )

    async def items(
        self,
        state: str,
        *,
        lane: tuple[int, str] | None = None,
        result_text: str | None = None,
        after: Cursor | None = None,
        limit: int = 100,
    ) -> RowPage:
        key = self._listing_key(state, lane)
        parts = self._partitions if lane is None else [self._partitions[lane[0]]]
        rows = [(key(row), row) for part in parts for row in part.list_rows(state)]
        if state == "ready" and lane is not None:  # the only state with an index by lane
            rows = [(place, row) for place, row in rows if row.lane.name == lane[1]]
        left = sorted(entry for entry in rows if after is None or entry[0] > after)
        return RowPage.build(
            (
                (
                    *self._build_item_row(row),
                    *place[1:],
                    (lane is None or row.lane.name == lane[1])
                    and (result_text is None or result_text in (row.result or "")),
                    read,
                )
                for read, (place, row) in enumerate(left[:MAX_EXAMINED], 1)
            ),
            limit,
            MAX_EXAMINED,
        )

    def _listing_key(self, state: str, lane: tuple[int, str] | None) -> Callable[[_Row], Cursor]:
        """Return the function that gives the place of an item in a listing."""
        if state == "claimed":
            return lambda row: (row.lane.partition, row.fence, row.position)
        if state == "ready" and lane is not None:
            return lambda row: (row.lane.partition, row.rank, row.place)
        return lambda row: (row.lane.partition, row.position, 0)

    def _build_item_row(self, row: _Row) -> ItemRow:
        to_wall, state = self._clock.to_wall, row.state
        return ItemRow(
            partition=row.lane.partition,
            position=row.position,
            state=state,
            lane=row.lane.name,
            priority=row.priority,
            key=row.key,
            payload=row.payload,
            attempts=0 if state == "done" else row.attempts,
            due_at=None if state != "delayed" else row.due_at if row.wall else to_wall(row.due_at),
            revisit=state == "delayed" and row.revisit,
            fence=row.fence if state == "claimed" else None,
            settled_at=None if row.settled_at is None else to_wall(row.settled_at),
            result=row.result,
            reason=row.reason,
            error=row.error,
        )

    async def claims(self, *, after: int = 0, limit: int = 100) -> Sequence[ClaimRow]:
        held = Counter(row.fence for part in self._partitions for row in part.list_rows("claimed"))
        rows = [
            ClaimRow(
                fence,
                claim.worker,
                self._clock.to_wall(claim.claimed_at),
                self._clock.to_wall(claim.expires_at),
                held[fence],
            )
            for fence, claim in sorted(self._claims.items())
            if fence > after and held[fence]
        ]
        return rows[:limit]

    async def pending(
        self, *, after: tuple[int, int] | None = None, limit: int = 100, revisits: bool = False
    ) -> Sequence[ItemRow]:
        rows = [
            _build_pending_row(row)
            for part in self._partitions
            for row in part.list_rows("ready", "delayed", "claimed")
            if (revisits or row.unsettled) and (after is None or (part.number, row.position) > after)
        ]
        return rows[:limit]

    async def known_places(self, *, after: tuple[int, bytes] = (-1, b""), limit: int = 100) -> Sequence[KnownPlace]:
        places = [
            KnownPlace(part.number, known, row.position, (row.state,))
            for part in self._partitions
            for known, row in sorted(part.seen.items(), key=lambda entry: entry[0])
            if (part.number, known) > after
        ]
        return places[:limit]

    async def find_positions(self, partition: int, hashes: Sequence[bytes]) -> Sequence[int | None]:
        seen = self._partitions[partition].seen
        return [seen[known].position if known in seen else None for known in hashes]

    async def date_positions(self, places: Sequence[tuple[int, int]]) -> Sequence[int]:
        return [self._clock.to_wall(self._date(self._partitions[number], position)) for number, position in places]

    def _date(self, partition: _Partition, position: int) -> int:
        above = [reached for reached in partition.milestones if reached >= position]
        return partition.milestones[min(above)] if above else partition.time

    async def audit_change(self, change: AuditChange) -> None:
        number = self._audit[-1].number + 1 if self._audit else 1
        self._audit.append(AuditRow(number, self._clock.to_wall(self._clock.now()), *change))

    async def audit(self, *, limit: int = 100) -> Sequence[AuditRow]:
        return list(self._audit)[::-1][:limit]

    async def learn(self, facts: Sequence[Fact]) -> None:
        self._facts |= dict(facts)

    async def facts(self, keys: Sequence[str]) -> dict[str, str]:
        return {key: self._facts[key] for key in keys if key in self._facts}

    async def outputs(self) -> dict[str, int]:
        return dict(self._outputs)

    async def counters(self) -> dict[str, int]:
        return dict(self._counters)

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        raise UsageError(NO_TRANSACTION)

    def explain_refusal(self, error: BaseException) -> str | None:
        return None

    async def wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._wake_event.wait()
        except TimeoutError:
            return

    def _wake(self) -> None:
        self._wake_event.set()
        self._wake_event = asyncio.Event()

    async def close(self) -> None:
        return


def _apply_change(value: int | None, change: int | None) -> int | None:
    if change is None:
        return value
    return None if change == DEFAULT else change


def _build_item(row: _Row) -> Item:
    return Item(
        row.key,
        row.lane.name,
        row.priority,
        row.payload,
        span=row.span,
        attempts=row.attempts,
        losses=row.losses,
        lane_visits=row.lane.visits,
        lane_in_flight=row.lane_in_flight,
        partition=row.lane.partition,
        position=row.position,
        lane_counters=row.lane.counters,
    )


def _build_pending_row(row: _Row) -> ItemRow:
    return ItemRow(
        partition=row.lane.partition,
        position=row.position,
        state=row.state,
        lane=row.lane.name,
        priority=row.priority,
        key=row.key,
        payload=row.payload,
        attempts=row.attempts,
        revisit=row.state == "delayed" and row.revisit,
    )


def _add(counters: Counters, counts: Mapping[str, int]) -> Counters:
    return Counters({**counters, **{name: counters.get(name, 0) + count for name, count in counts.items()}})
