"""What a transaction keeps in memory: the frontier's row, and rows of partitions and lanes.

Lanes are read in bulk, changed in memory by the functions of `swath.core.lane`, and written back in bulk.
"""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from swath.backends.sql import Statements
from swath.backends.sqlite.format import check_format
from swath.backends.sqlite.location import SqliteLocation
from swath.core.clock import MachineClock, StoreClock, choose_offset
from swath.core.counters import NO_COUNTERS, Counters
from swath.core.errors import SwathError
from swath.core.lane import Pacing, earliest_start, level_of, rank_of
from swath.core.milestones import DAY, HOUR, MINUTE, WEEK
from swath.core.store import Settings, Signal

NEVER = -1  # before every time
BLOCKED = 2**62  # after every time: `ready_at` of a lane that is blocked until a time of the wall clock
MAX_POSITION = 2**63 - 1  # the largest that SQLite can store
LANES_KEPT = 10_000  # cached from one transaction to the next
HOLDS_KEPT = 64


class NotDurable(Exception):
    """A request must survive a power cut, but its commit would not be synced. Run it again with a sync."""


@dataclass(slots=True)
class Session:
    """A connection that holds the write lock, the frontier's row, and cached rows of partitions and lanes.

    The cache is valid until another connection commits or a transaction is rolled back; then its owner discards the
    session, as SQLite discards its page cache. The size is bounded (INV-9).
    """

    connection: sqlite3.Connection
    sql: Statements
    clock: StoreClock
    settings: Settings
    signal: Signal
    partitions: dict[int, "Partition"] = field(default_factory=dict)
    lanes: defaultdict[int, dict[int, "Lane"]] = field(default_factory=lambda: defaultdict(dict))  # by partition
    named: defaultdict[int, dict[str, "Lane"]] = field(default_factory=lambda: defaultdict(dict))  # by partition
    # For the latest claims, by (fence, partition): the lane number of each item, by position.
    held: dict[tuple[int, int], dict[int, int]] = field(default_factory=dict)
    last_fence: int | None = None
    durable: bool = True  # whether the commit of this transaction is synced

    @property
    def pacing(self) -> Pacing:
        return Pacing(self.settings.min_interval, self.settings.concurrency)

    def need_durable(self) -> None:
        if not self.durable:
            raise NotDurable

    def trim(self) -> None:
        """Shrink the cache. Call it between transactions: a transaction relies on the rows that it has loaded."""
        if sum(map(len, self.lanes.values())) > LANES_KEPT:
            self.lanes.clear()
            self.named.clear()
        while len(self.held) > HOLDS_KEPT:
            del self.held[next(iter(self.held))]


class FrontierRow(NamedTuple):
    """The frontier's own row."""

    settings: Settings
    signal: Signal
    boot: str  # the boot that the offset was chosen for
    boot_offset: int


def start_session(
    connection: sqlite3.Connection, machine: MachineClock, location: SqliteLocation, *, writes: bool
) -> Session:
    """Read the frontier's row; raise if another version of swath has changed the format.

    In the first transaction that `writes` after a boot, store the offset of this boot for all processes.
    """
    row = read_frontier(connection, location)
    offset = row.boot_offset
    if row.boot != machine.boot:
        (latest,) = connection.execute(location.sql["latest_time"]).fetchone()
        offset = choose_offset(machine, latest=latest)
        if writes:
            connection.execute(location.sql["save_boot"], {"boot": machine.boot, "offset": offset})
    return Session(connection, location.sql, StoreClock(machine, offset), row.settings, row.signal)


def read_frontier(connection: sqlite3.Connection, location: SqliteLocation) -> FrontierRow:
    row = connection.execute(location.sql["frontier"]).fetchone()
    if row is None:
        raise SwathError(f"{location} is damaged (the frontier's own row is missing): restore it from a backup")
    stored, *settings, paused, version, boot, boot_offset = row
    check_format(stored, location)
    return FrontierRow(Settings(*settings), Signal(bool(paused), version), boot, boot_offset)


@dataclass(slots=True)
class Partition:
    """One row of the table `partition_state`."""

    number: int
    time: int
    next_position: int
    next_place: int
    checkpoint: int
    checkpoint_dead: int
    claims_made: int
    ready: int
    delayed: int
    claimed: int
    done: int
    dead: int
    lanes: int
    visits: int
    milestone: tuple[int, int] | None = None  # not written yet: the last position and its time

    @classmethod
    def load(cls, session: Session, number: int) -> "Partition":
        partition = session.partitions.get(number)
        if partition is None:
            row = session.connection.execute(session.sql["partition_state"], (number,)).fetchone()
            partition = session.partitions[number] = cls(*row)
        return partition

    def save(self, session: Session) -> None:
        if self.milestone is not None:
            self._write_milestone(session, *self.milestone)
            self.milestone = None
        session.connection.execute(
            session.sql["save_partition"],
            (
                self.time,
                self.next_position,
                self.next_place,
                self.checkpoint,
                self.checkpoint_dead,
                self.claims_made,
                self.ready,
                self.delayed,
                self.claimed,
                self.done,
                self.dead,
                self.lanes,
                self.visits,
                self.number,
            ),
        )

    def tick(self, clock: int) -> int:
        """Advance partition time. It is never behind the clock, and every call returns a later time."""
        before = self.time
        self.time = max(clock, before + 1)
        if self.time // MINUTE != before // MINUTE and self.next_position > 1:
            self.milestone = (self.next_position - 1, before)
        return self.time

    def _write_milestone(self, session: Session, position: int, time: int) -> None:
        session.connection.execute(session.sql["insert_milestone"], (self.number, position, time))
        if self.time // HOUR != time // HOUR:
            bounds = {"hour_ago": self.time - HOUR, "hour": HOUR, "week_ago": self.time - WEEK, "day": DAY}
            where = {"partition": self.number, "checkpoint": self.checkpoint}
            session.connection.execute(session.sql["thin_milestones"], {**where, **bounds})

    def allot(self, span: int) -> int:
        position = self.next_position
        if position > MAX_POSITION - span:
            raise SwathError(
                f"partition {self.number} has no room for {span:,} more positions after {position - 1:,}; nothing was "
                "changed. Continue in a new frontier, with narrower ranges"
            )
        self.next_position += span
        return position

    def allot_place(self) -> int:
        self.next_place += 1
        return self.next_place - 1

    def advance(self, session: Session, settled: Iterable[int]) -> None:
        """Move the checkpoint to just below the lowest unsettled position (INV-6).

        The position above the checkpoint always belongs to an unsettled item or is not allotted yet, because only
        unsettled items get new positions. So the checkpoint moves only when that item is settled.
        """
        if self.checkpoint + 1 not in settled:
            return
        where = {"partition": self.number, "checkpoint": self.checkpoint}
        (lowest,) = session.connection.execute(session.sql["lowest_unsettled"], where).fetchone()
        reached = (self.next_position if lowest is None else lowest) - 1
        if self.dead:
            between = session.connection.execute(session.sql["count_dead_between"], {**where, "reached": reached})
            self.checkpoint_dead += between.fetchone()[0]
        self.checkpoint = reached


@lru_cache(maxsize=LANES_KEPT)
def _parse_counters(text: str) -> Counters:
    """Parse a lane's counters. Cached, because a claim asks for them once for each item of the lane."""
    return Counters(json.loads(text))


@dataclass(slots=True)
class Lane:
    """One row of the table `lane`.

    `head` is the highest priority of its waiting items, and none has a priority below `low`. Both are None if no item
    waits.
    """

    number: int
    name: str
    min_interval: int | None = None
    concurrency: int | None = None
    blocked_until: int = 0
    waiting: int = 0
    in_flight: int = 0
    last_at: int = 0
    ready_at: int = 0
    visits: int = 0
    counters_json: str | None = None  # None: the lane has no counters
    low: int | None = None
    head: int | None = None
    level: int | None = None
    paused: int = 0
    blocked_wall: int | None = None  # a block until a time of the wall clock
    # Changes since the row was read or written:
    waits: int = 0  # added to `waiting`
    flies: int = 0  # added to `in_flight`
    visited: int = 0  # added to `visits`
    timed: bool = False  # `last_at` was set
    moved: bool = False  # its place in the queue changed
    unblocked: bool = False  # a block by the wall clock has ended

    @property
    def counters(self) -> Counters:
        return NO_COUNTERS if self.counters_json is None else _parse_counters(self.counters_json)

    def count(self, counts: Mapping[str, int]) -> None:
        """Add to the lane's counters."""
        counters = dict(self.counters)
        for name, value in counts.items():
            counters[name] = counters.get(name, 0) + value
        self.counters_json = json.dumps(counters, ensure_ascii=False) if counters else None

    def pacing(self, default: Pacing) -> Pacing:
        if self.min_interval is None and self.concurrency is None:
            return default
        return Pacing(
            default.min_interval if self.min_interval is None else self.min_interval,
            default.concurrency if self.concurrency is None else self.concurrency,
        )

    def earliest_start(self, pacing: Pacing) -> int:
        return earliest_start(pacing, self.blocked_until, self.last_at)

    def wait(self, priority: int) -> None:
        """Count one more waiting item."""
        self.waiting += 1
        self.waits += 1
        if self.head is None or priority > self.head:
            self.head = priority
        if self.low is None or priority < self.low:
            self.low = priority

    def leave(self, count: int) -> None:
        """Count `count` waiting items less. If some remain, the caller finds the head again."""
        self.waiting -= count
        self.waits -= count
        if self.waiting == 0:
            self.head = self.low = None

    def start(self, count: int) -> None:
        """Move `count` items from waiting to in flight."""
        self.leave(count)
        self.in_flight += count
        self.flies += count

    def end(self) -> None:
        """Count one item in flight less."""
        self.in_flight -= 1
        self.flies -= 1

    def visit(self) -> None:
        """Count an item that was started and done."""
        self.visits += 1
        self.visited += 1

    def pace(self, now: int) -> None:
        """Restart the interval now."""
        self.last_at = now
        self.timed = True

    def block(self, until: int, wall: int | None, *, at_least: bool) -> None:
        """Block the lane until a time of the store, or of the wall clock; or `at_least` until then."""
        self.blocked_until = max(until, self.blocked_until if at_least else 0)
        if not at_least:
            self.blocked_wall = wall
        elif wall is not None:
            self.blocked_wall = max(wall, self.blocked_wall or wall)

    def _end_wall_block(self, now: int, clock: StoreClock) -> None:
        """Remove a block by the wall clock if it has ended. Its end was the lane's turn if the lane waited for it."""
        ahead = clock.wall_ahead()
        if self.blocked_wall is not None and self.blocked_wall <= now + ahead:
            self.blocked_until = max(self.blocked_until, self.blocked_wall - ahead)
            self.blocked_wall = None
            self.unblocked = True
            self.ready_at = NEVER

    def mark_written(self) -> None:
        self.waits = self.flies = self.visited = 0
        self.timed = self.moved = self.unblocked = False

    def requeue(self, pacing: Pacing, now: int, clock: StoreClock, *, new_turn: bool = False) -> None:
        """Insert the lane into the queue, move it or remove it. No other code changes the queue."""
        if self.blocked_wall is not None:
            self._end_wall_block(now, clock)
        if self.head is None or self.paused or (pacing.concurrency and self.in_flight >= pacing.concurrency):
            self.moved = self.moved or self.level is not None
            self.level = None
            return
        keeps_turn = self.level == self.head and not new_turn
        ready_at = self.ready_at if keeps_turn else now
        earliest = self.earliest_start(pacing) if self.blocked_wall is None else BLOCKED
        if ready_at < earliest:
            ready_at = earliest
        if not keeps_turn or ready_at != self.ready_at:
            self.level, self.ready_at, self.moved = self.head, ready_at, True


class Lanes:
    """The lanes that a transaction changes in one partition: loaded once, placed, and written back once."""

    def __init__(self, session: Session, partition: Partition) -> None:
        self.session = session
        self.partition = partition
        self._numbered = session.lanes[partition.number]
        self._named = session.named[partition.number]
        self._new: list[Lane] = []
        self._touched: dict[int, Lane] = {}

    def take(self, numbers: Iterable[int]) -> dict[int, Lane]:
        """Return the lanes with these numbers, and mark them as changed."""
        wanted = set(numbers)
        if missing := wanted.difference(self._numbered):
            where = {"partition": self.partition.number, "numbers": str(list(missing))}
            for row in self.session.connection.execute(self.session.sql["lanes_by_number"], where):
                self.remember(Lane(*row))
        lanes = {number: self._numbered[number] for number in wanted}
        self._touched.update(lanes)
        return lanes

    def load_by_name(self, names: Iterable[str]) -> None:
        if missing := {name for name in names if name not in self._named}:
            where = {"partition": self.partition.number, "names": json.dumps(list(missing), ensure_ascii=False)}
            for row in self.session.connection.execute(self.session.sql["lanes_by_name"], where):
                self.remember(Lane(*row))

    def remember(self, lane: Lane) -> None:
        self._numbered[lane.number] = self._named[lane.name] = lane

    def get_or_create(self, name: str) -> Lane:
        """Return the lane with this name, or create it. Call `load_by_name` first."""
        lane = self._named.get(name)
        if lane is None:
            self.partition.lanes += 1
            lane = Lane(self.partition.lanes, name)
            self.remember(lane)
            self._new.append(lane)
        return lane

    def touch(self, lane: Lane) -> None:
        """Mark a lane as changed, to be placed and written."""
        self._touched[lane.number] = lane

    def make_ready(self, lane: Lane, priority: int, band: int) -> tuple[int, int]:
        """Count one more waiting item and return its rank and place."""
        lane.wait(priority)
        self._touched[lane.number] = lane
        self.partition.ready += 1
        return rank_of(priority, band), self.partition.allot_place()

    def find_heads(self, lanes: Iterable[Lane]) -> None:
        """After items left, set the head of lanes that may hold items of several priorities."""
        mixed = {lane.number: lane for lane in lanes if lane.low != lane.head}
        if mixed:
            where = {"partition": self.partition.number, "lanes": str(list(mixed))}
            for number, rank in self.session.connection.execute(self.session.sql["lane_ranks"], where):
                mixed[number].head = level_of(rank)

    def requeue(self, now: int) -> None:
        """Requeue every changed lane and write it.

        Once per transaction is enough: within it a lane's head only rises, and each rise would queue the lane at the
        same time.
        """
        default = self.session.pacing
        for lane in self._touched.values():
            lane.requeue(lane.pacing(default), now, self.session.clock)
        self.write()

    def write(self) -> None:
        """Write the changed lanes."""
        if self._new:
            self.session.connection.executemany(
                self.session.sql["insert_lane"],
                [
                    (
                        lane.name,
                        lane.min_interval,
                        lane.concurrency,
                        lane.paused,
                        lane.blocked_until,
                        lane.waiting,
                        lane.in_flight,
                        lane.last_at,
                        lane.head,
                        lane.low,
                        lane.level,
                        lane.ready_at,
                        self.partition.number,
                        lane.number,
                    )
                    for lane in self._new
                ],
            )
            for lane in self._new:
                self._touched.pop(lane.number, None)
                lane.mark_written()
            self._new.clear()
        moved: defaultdict[tuple[int | None, ...], list[int]] = defaultdict(list)
        kept: defaultdict[tuple[int | None, ...], list[int]] = defaultdict(list)
        freed = []
        for number, lane in self._touched.items():
            if lane.unblocked:
                freed.append((lane.blocked_until, self.partition.number, number))
            last_at = lane.last_at if lane.timed else None
            if lane.moved:
                ready_at = None if lane.level is None else lane.ready_at
                change = (lane.waits, lane.flies, lane.visited, last_at, lane.head, lane.low, lane.level, ready_at)
                moved[change].append(number)
            else:
                kept[lane.waits, lane.flies, lane.visited, last_at, lane.head, lane.low].append(number)
            lane.mark_written()
        self._save("save_lanes", moved)
        self._save("save_lane_counts", kept)
        if freed:
            self.session.connection.executemany(self.session.sql["unblock_lane"], freed)
        self._touched.clear()

    def _save(self, statement: str, changes: Mapping[tuple[int | None, ...], list[int]]) -> None:
        """Run one statement for all lanes that change in the same way."""
        for change, numbers in changes.items():
            values = (*change, self.partition.number, str(numbers))
            self.session.connection.execute(self.session.sql[statement], values)
