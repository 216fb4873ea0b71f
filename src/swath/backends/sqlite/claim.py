"""Claim items: take the first items of the ready lanes, ordered by priority and then by time (INV-1, INV-3, INV-8)."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from swath.backends.sqlite.state import BLOCKED, NEVER, Lane, Lanes, Partition, Session
from swath.core.clock import SECOND, round_to_seconds
from swath.core.errors import LeaseLost
from swath.core.item import LEVELS, Item
from swath.core.lane import FRESH, RETURNED, compute_low_share, count_startable, rank_of, starts_count
from swath.core.store import (
    DELAYED_DRAIN,
    LOST_WORKER,
    PARTITIONS_PER_CLAIM,
    ClaimRef,
    ClaimReply,
    ClaimRequest,
)

CLAIMS_KEPT = 100_000  # rows of ended claims that are kept; a settlement of an older claim cannot be repeated safely
PRUNE_EVERY = 100  # claims between two deletions of old rows
MAX_CHORES = 5_000  # one claim makes at most this many items ready, and skips at most this many lanes

# The fields of a Lane before `head`. For a lane in the queue, `head` equals `level`.
QueuedLane = tuple[int, str, int | None, int | None, int, int, int, int, int, int, str | None, int | None]


def claim(session: Session, request: ClaimRequest) -> ClaimReply:
    now = clock = session.clock.now()
    ahead = session.clock.wall_ahead()
    fence = _next_fence(session)
    taken: list[Item] = []
    holds: list[tuple[int, int]] = []
    visited: dict[int, int | None] = {}  # by partition: since when something was ready there
    moments: list[int | None] = []
    recovered = died = chores = 0
    starts = False
    for number in () if session.signal.paused else request.order:
        if len(taken) >= request.limit or len(holds) >= PARTITIONS_PER_CLAIM:
            break
        if chores >= MAX_CHORES:
            moments.append(now)  # the next claim continues, and may be sent at once
            break
        look = _read_ready_times(session, number, ahead)
        partition = Partition.load(session, number)
        if look.next_ready_at is None or look.next_ready_at > max(clock, partition.time + 1):
            moments.append(look.next_ready_at)
            continue
        work = _PartitionClaim(session, partition, partition.tick(clock), ahead)
        now = max(now, partition.time)  # partition time may be ahead of the clock, and the lease must end after both
        back, gone = work.take_back(look)
        recovered, died = recovered + back, died + gone
        drained = work.drain_delayed(look) + work.unblock_lanes(look)
        if back or drained:
            look = _read_ready_times(session, number, ahead)
        items = work.take(look, request.limit - len(taken), fence)
        chores += back + drained + work.passed
        partition.save(session)
        visited[number] = look.next_ready_at
        if items:
            holds.append((number, len(items)))
            taken += items
            starts = starts or work.starts_count
    expires_at = now + request.lease
    if taken:
        _write_claim(session, request, fence, expires_at, holds)
    if len(taken) < request.limit:
        moments += [_read_ready_times(session, number, ahead).next_ready_at for number in visited]
    else:  # a full claim: the caller claims again soon, so the times read before are exact enough
        moments += visited.values()
    return ClaimReply(
        now=now,
        fence=fence if taken else 0,
        items=taken,
        expires_at=expires_at + round_to_seconds(ahead),
        next_ready_at=min((moment for moment in moments if moment is not None), default=None),
        skipped=(),
        recovered=recovered,
        died=died,
        starts_count=starts,
        signal=session.signal,
    )


def _next_fence(session: Session) -> int:
    if session.last_fence is None:
        (session.last_fence,) = session.connection.execute(session.sql["last_fence"]).fetchone()
    return session.last_fence + 1


def _write_claim(
    session: Session, request: ClaimRequest, fence: int, expires_at: int, holds: list[tuple[int, int]]
) -> None:
    session.connection.execute(
        session.sql["insert_claim"],
        {
            "fence": fence,
            "token": request.token,
            "worker": request.worker,
            "expires_at": expires_at,
            "claimed_at": expires_at - request.lease,
        },
    )
    session.last_fence = fence
    rows = [(fence, number, expires_at, held) for number, held in holds]
    session.connection.executemany(session.sql["insert_hold"], rows)
    if fence % PRUNE_EVERY == 0:
        bounds = {"below": fence - CLAIMS_KEPT, "limit": 2 * PRUNE_EVERY}
        session.connection.execute(session.sql["prune_claims"], bounds)


class _ReadyTimes(NamedTuple):
    """When the next claim has something to do in a partition: lanes, delayed items and leases that end."""

    levels: tuple[int | None, ...]  # when the first lane of each level is ready
    due_at: int | None
    due_wall: int | None  # when the first item is due by the wall clock, and when the first block by it ends, both as
    free_wall: int | None  # times of the store, as long as nobody sets the wall clock
    expires_at: int | None

    @property
    def next_ready_at(self) -> int | None:
        moments = (*self.levels, self.due_at, self.due_wall, self.free_wall, self.expires_at)
        first = min([moment for moment in moments if moment is not None], default=BLOCKED)
        return None if first == BLOCKED else first

    def ready_levels(self, now: int) -> set[int]:
        return {level for level, moment in enumerate(self.levels) if moment is not None and moment <= now}


def _read_ready_times(session: Session, number: int, ahead: int) -> _ReadyTimes:
    """Read when something is ready. The wall clock is `ahead` of the store's."""
    row = session.connection.execute(session.sql["next_ready"], {"partition": number}).fetchone()
    *levels, due_at, due_wall, free_wall, expires_at = row
    return _ReadyTimes(
        tuple(levels),
        due_at,
        None if due_wall is None else due_wall - ahead,
        None if free_wall is None else free_wall - ahead,
        expires_at,
    )


def read_next_ready_at(session: Session, number: int) -> int | None:
    """Return when a claim will find something to do in this partition, by the wall clock."""
    ahead = session.clock.round_wall_ahead()
    moment = _read_ready_times(session, number, ahead).next_ready_at
    return None if moment is None else moment + ahead


class _PartitionClaim:
    """One partition inside a claim."""

    def __init__(self, session: Session, partition: Partition, now: int, ahead: int) -> None:
        self._session = session
        self._connection = session.connection
        self._sql = session.sql
        self._pacing = session.pacing
        self._partition = partition
        self._now = now
        self._ahead = ahead  # of the wall clock
        self._lanes = Lanes(session, partition)
        self.starts_count = False  # whether the interval of a lane runs from this claim
        self.passed = 0  # queued lanes that may start nothing under their present limits
        self._held: dict[int, int] = {}  # lane numbers of the taken items, by position

    def take_back(self, look: _ReadyTimes) -> tuple[int, int]:
        """Make the items of expired claims ready again, or dead if their workers were lost too often."""
        if look.expires_at is None or look.expires_at > self._now:
            return 0, 0
        self._session.need_durable()  # a dead item moves the checkpoint, which must not move back (INV-6)
        number, now = self._partition.number, self._now
        rows = self._mark_lost(number)
        lanes = self._lanes.take(lane for _, lane, *_ in rows)
        ready, dead = [], []
        for position, lane_number, priority, losses, fence in rows:
            lane = lanes[lane_number]
            lane.end()
            lane.pace(now)
            if losses + 1 >= self._session.settings.max_attempts:
                dead.append((now, LOST_WORKER.format(losses=losses + 1), number, fence, position))
            else:
                ready.append((*self._lanes.make_ready(lane, priority, RETURNED), number, fence, position))
        self._connection.executemany(self._sql["take_back_item"], ready)
        self._connection.executemany(self._sql["take_back_dead"], dead)
        for fence in {row[4] for row in rows}:
            self._session.held.pop((fence, number), None)
            where = {"partition": number, "fence": fence}
            self._connection.execute(self._sql["delete_claimed_all"], where)
            self._connection.execute(self._sql["delete_hold"], where)
        self._lanes.requeue(now)
        self._partition.claimed -= len(rows)
        self._partition.dead += len(dead)
        self._partition.advance(self._session, {row[4] for row in dead})
        return len(rows), len(dead)

    def _mark_lost(self, number: int) -> list[tuple[int, int, int, int, int]]:
        """Mark expired claims as lost, in all partitions, and return the items that they held in this one.

        The number is bounded; the next claim continues.
        """
        where = {"partition": number, "now": self._now, "limit": MAX_CHORES}
        fences = self._connection.execute(self._sql["lost_holds"], where).fetchall()
        rows: list[tuple[int, int, int, int, int]] = []
        for (fence,) in fences:
            if len(rows) >= MAX_CHORES:
                break
            self._connection.execute(self._sql["lose_claim"], {"fence": fence})
            rows += self._connection.execute(self._sql["lost_items"], {"partition": number, "fence": fence})
        return sorted(rows)

    def drain_delayed(self, look: _ReadyTimes) -> int:
        """Make due items ready. A revisit gets a new position, because the checkpoint has passed the old one."""
        if (look.due_at is None or look.due_at > self._now) and (look.due_wall is None or look.due_wall > self._now):
            return 0
        number = self._partition.number
        rows: list[tuple[Any, ...]] = []
        for wall, due_at, ahead in ((0, look.due_at, 0), (1, look.due_wall, self._ahead)):
            if due_at is not None and due_at <= self._now:
                where = {"partition": number, "wall": wall, "now": self._now, "ahead": ahead}
                limit = DELAYED_DRAIN - len(rows)
                rows += self._connection.execute(self._sql["due_items"], {**where, "limit": limit}).fetchall()
        rows.sort(key=lambda row: (row[-1], row[0]))
        lanes = self._lanes.take(lane for _, lane, *_ in rows)
        moved, renumbered = [], []
        for position, lane_number, priority, attempts, revisit, span, item_hash, _ in rows:
            new_position = self._partition.allot(span) if revisit else position
            if revisit:
                renumbered.append((new_position, number, item_hash))
            rank, place = self._lanes.make_ready(lanes[lane_number], priority, RETURNED if attempts else FRESH)
            moved.append((rank, place, new_position, number, position))
        self._connection.executemany(self._sql["drain_item"], moved)
        self._connection.executemany(self._sql["renumber_seen"], renumbered)
        self._connection.executemany(self._sql["delete_delayed"], [(number, row[0]) for row in rows])
        self._lanes.requeue(self._now)
        self._partition.delayed -= len(rows)
        return len(rows)

    def unblock_lanes(self, look: _ReadyTimes) -> int:
        """Queue the lanes whose block by the wall clock has ended."""
        if look.free_wall is None or look.free_wall > self._now:
            return 0
        number = self._partition.number
        where = {"partition": number, "now": self._now + self._ahead, "limit": MAX_CHORES}
        numbers = [found for (found,) in self._connection.execute(self._sql["unblocked_lanes"], where)]
        self._lanes.take(numbers)
        self._lanes.requeue(self._now)
        return len(numbers)

    def take(self, look: _ReadyTimes, limit: int, fence: int) -> list[Item]:
        """Take most items from the highest level down, and a small share from the lowest level up."""
        levels = look.ready_levels(self._now)
        low = compute_low_share(limit, self._partition.claims_made) if len(levels) > 1 else 0
        taken: list[Item] = []
        for level in range(LEVELS - 1, -1, -1):
            if level in levels and len(taken) < limit - low:
                taken += self._take_level(level, limit - low - len(taken), fence, levels)
        for level in range(LEVELS):
            if level in levels and len(taken) < limit:
                taken += self._take_level(level, limit - len(taken), fence, levels)
        if taken:
            self._session.held[fence, self._partition.number] = self._held
        self._partition.claims_made += bool(taken)
        self._partition.ready -= len(taken)
        self._partition.claimed += len(taken)
        return taken

    def _take_level(self, level: int, limit: int, fence: int, levels: set[int]) -> list[Item]:
        """Take items from each ready lane of a level once. Add to `levels` the levels of lanes that are still ready."""
        taken: list[Item] = []
        met: set[int] = set()
        after = (NEVER, NEVER)
        while len(taken) < limit and self.passed < MAX_CHORES:
            wanted = limit - len(taken)
            found = [Lane(*row, level, level) for row in self._list_ready_lanes(level, after, wanted)]
            lanes = [lane for lane in found if lane.number not in met] if met else found
            if found:
                after = (found[-1].ready_at, found[-1].number)
            taken += self._take_lanes(lanes, level, wanted, fence)
            for lane in lanes:
                met.add(lane.number)
                if lane.level is not None and lane.ready_at <= self._now:
                    levels.add(lane.level)
            if len(found) < wanted:
                break
        return taken

    def _list_ready_lanes(self, level: int, after: tuple[int, int], limit: int) -> list[QueuedLane]:
        where = {
            "partition": self._partition.number,
            "level": level,
            "now": self._now,
            "ready_at": after[0],
            "number": after[1],
            "limit": limit,
        }
        return self._connection.execute(self._sql["ready_lanes"], where).fetchall()

    def _take_lanes(self, lanes: Sequence[Lane], level: int, limit: int, fence: int) -> list[Item]:
        """Take up to `limit` items from the heads of these lanes, and place the lanes in the queue again."""
        given: dict[int, list[Item]] = {}  # taken items by lane, in the order of the queue
        firsts: dict[int, Lane] = {}  # lanes from which only the first item is taken
        used: list[Lane] = []
        for lane in lanes:
            if limit == 0:
                break
            count = self._count_startable(lane, limit)
            given[lane.number] = items = self._read_first_items(lane, level, count) if count > 1 else []
            if count == 1:
                firsts[lane.number] = lane
            else:
                count = len(items)
            lane.start(count)
            limit -= count
            used.append(lane)
        self._move_to_claimed(given, firsts, level, fence)
        self._lanes.find_heads(used)
        for lane in used:
            self._lanes.remember(lane)
            self._lanes.touch(lane)
            pacing, clock = lane.pacing(self._pacing), self._session.clock
            lane.requeue(pacing, self._now, clock, new_turn=True)  # behind the other lanes, if items remain
        self._lanes.write()
        return list(chain.from_iterable(given.values()))

    def _count_startable(self, lane: Lane, limit: int) -> int:
        """Return how many items a lane may start, up to `limit`: maybe 0, if limits changed since it was placed."""
        pacing = lane.pacing(self._pacing)
        ready = lane.earliest_start(pacing) <= self._now
        count = count_startable(pacing, lane.in_flight, limit) if ready else 0
        if count == 0:
            self.passed += 1
            return 0
        if pacing.min_interval:
            self._session.need_durable()  # a power cut must not undo the start that the interval runs from (INV-3)
        if starts_count(pacing):
            lane.pace(self._now)
            self.starts_count = self.starts_count or pacing.min_interval > 0
        return count

    def _read_first_items(self, lane: Lane, level: int, count: int) -> list[Item]:
        """Read up to `count` items from the head of one lane, without moving them."""
        where = (self._partition.number, lane.number, rank_of(level, FRESH), count)
        rows = self._connection.execute(self._sql["lane_items"], where).fetchall()
        return [
            self._build_item(lane, level, lane_in_flight, row)
            for lane_in_flight, row in enumerate(rows, lane.in_flight)
        ]

    def _build_item(self, lane: Lane, level: int, in_flight: int, row: tuple[Any, ...]) -> Item:
        position, key, payload, attempts, span, losses = row[:6]
        self._held[position] = lane.number
        number, visits, counters = self._partition.number, lane.visits, lane.counters
        fields = (key, lane.name, level, payload, None, span, attempts, losses, visits, in_flight, number, position)
        return tuple.__new__(Item, (*fields, counters))  # half the time of Item(…), which binds arguments by name

    def _move_to_claimed(
        self, given: dict[int, list[Item]], firsts: Mapping[int, Lane], level: int, fence: int
    ) -> None:
        """Move the items in `given`, and the first item of each lane in `firsts`, to the table `claimed`.

        Add the latter to `given`.
        """
        where = {"partition": self._partition.number, "fence": fence}
        if several := _list_positions(given):
            self._connection.execute(self._sql["claim_items"], {**where, "positions": str(several)})
        if firsts:
            self._connection.execute(self._sql["claim_firsts"], {**where, "lanes": str(list(firsts))})
            for row in self._connection.execute(self._sql["claimed_items"], where).fetchall():
                if row[0] not in self._held:
                    lane = firsts[row[6]]
                    given[lane.number].append(self._build_item(lane, level, lane.in_flight - 1, row))
        if moved := _list_positions(given):
            self._connection.execute(self._sql["delete_items"], {**where, "positions": str(moved)})


def _list_positions(given: Mapping[int, Sequence[Item]]) -> list[int]:
    return [item.position for items in given.values() for item in items]


class ClaimRow(NamedTuple):
    """One row of the table `claim`."""

    token: int
    worker: str
    expires_at: int
    lost: int
    number: int  # the number of its last settlement


def find_claim(session: Session, ref: ClaimRef) -> ClaimRow | None:
    """Return the claim with this fence and token, even if it is lost; None if there is none."""
    row = session.connection.execute(session.sql["claim"], {"fence": ref.fence}).fetchone()
    return ClaimRow(*row) if row is not None and row[0] == ref.token else None


def require_held(session: Session, ref: ClaimRef, claim: ClaimRow | None) -> ClaimRow:
    """Return the claim; raise LeaseLost if its items were taken back (INV-2)."""
    if claim is None:
        raise LeaseLost(
            f"claim {ref.fence} is not known under its token. Other workers may hold its items: discard the results."
        )
    if claim.lost:
        ago = (session.clock.now() - claim.expires_at) / SECOND
        raise LeaseLost(
            f"claim {ref.fence} of worker {claim.worker!r} was replaced after its lease ended {ago:.1f} s ago. "
            "Other workers hold these items; discard the results. If the work takes longer, pass a longer `lease=`."
        )
    return claim


def find_unanswered(session: Session, request: ClaimRequest, reply: ClaimReply) -> ClaimReply | None:
    """Return a claim whose reply did not reach the caller, with a new lease; None if it is empty or lost."""
    try:
        expires_at = renew(session, ClaimRef(reply.fence, request.token), request.lease)
    except LeaseLost:
        return None
    return reply._replace(now=session.clock.now(), expires_at=expires_at, signal=session.signal)


def renew(session: Session, ref: ClaimRef, lease: int) -> int:
    """Make the lease end `lease` from now and return that time; raise LeaseLost if it has ended (INV-2)."""
    now = session.clock.now()
    ends = require_held(session, ref, find_claim(session, ref)).expires_at
    if ends <= now:
        raise LeaseLost(f"claim {ref.fence}: its lease ended {(now - ends) / SECOND:.1f} s ago. Discard the results.")
    ends = max(ends, now + lease)  # a clock that stepped back must not shorten a lease
    where = {"fence": ref.fence, "expires_at": ends}
    session.connection.execute(session.sql["renew_claim"], where)
    session.connection.execute(session.sql["renew_holds"], where)
    return session.clock.to_wall(ends)
