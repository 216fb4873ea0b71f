"""Reads, each from one snapshot on the reader's connection."""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

from swath.backends.sqlite.claim import read_next_ready_at
from swath.backends.sqlite.state import NEVER, Lane, Partition, Session
from swath.core.lane import HASH_BYTES, KEY_HASH_BYTES, LaneLimits
from swath.core.store import (
    AHEAD_LIMIT,
    LISTING_START,
    MAX_EXAMINED,
    AuditRow,
    ClaimRow,
    Cursor,
    Found,
    ItemRow,
    KnownPlace,
    LaneRow,
    PartitionStatus,
    RowPage,
    StoreStatus,
)


def status(session: Session) -> StoreStatus:
    """Return the counters that the writes maintain. The cost depends only on the number of partitions."""
    partitions = [_build_status(session, partition) for partition in _load_partitions(session)]
    now = session.clock.to_wall(session.clock.now())
    return StoreStatus(session.settings, session.signal, now, partitions)


def _load_partitions(session: Session) -> list[Partition]:
    return [Partition(*row) for row in session.connection.execute(session.sql["partition_states"])]


def _build_status(session: Session, partition: Partition) -> PartitionStatus:
    return PartitionStatus(
        partition=partition.number,
        ready=partition.ready,
        delayed=partition.delayed,
        claimed=partition.claimed,
        done=partition.done,
        visits=partition.visits,
        dead=partition.dead,
        lanes=partition.lanes,
        inbox=0,
        checkpoint=partition.checkpoint,
        checkpoint_dead=partition.checkpoint_dead,
        end=partition.next_position - 1,
        next_ready_at=read_next_ready_at(session, partition.number),
        time=session.clock.to_wall(partition.time),
    )


def recount(session: Session) -> list[PartitionStatus]:
    """Return the same as `status`, counted from the rows, without using a counter or a stored checkpoint."""
    return [_recount_partition(session, partition) for partition in _load_partitions(session)]


def _recount_partition(session: Session, partition: Partition) -> PartitionStatus:
    execute, sql = session.connection.execute, session.sql
    where = {"partition": partition.number, "checkpoint": 0}
    ready, delayed, claimed, done, dead, lanes, visits = execute(sql["count_rows"], where).fetchone()
    (lowest,) = execute(sql["lowest_unsettled"], where).fetchone()
    checkpoint = (partition.next_position if lowest is None else lowest) - 1
    (below,) = execute(sql["count_dead_between"], {**where, "reached": checkpoint}).fetchone()
    return _build_status(session, partition)._replace(
        ready=ready,
        delayed=delayed,
        claimed=claimed,
        done=done,
        visits=visits,
        dead=dead,
        lanes=lanes,
        checkpoint=checkpoint,
        checkpoint_dead=below,
    )


def find(session: Session, key_hash: bytes, lane_hash: bytes | None) -> list[Found]:
    """Return the items with a key, in order of (partition, position)."""
    rest = HASH_BYTES - KEY_HASH_BYTES
    lowest, highest = (key_hash + (lane_hash or fill * rest) for fill in (b"\x00", b"\xff"))
    found = []
    for number in range(session.settings.partitions):
        where = {"partition": number, "lowest": lowest, "highest": highest}
        positions = sorted(position for (position,) in session.connection.execute(session.sql["find_seen"], where))
        found += [_find(session, number, position) for position in positions]
    return found


def _find(session: Session, number: int, position: int) -> Found:
    """Return the item at a position, which is in exactly one table (INV-4)."""
    where = {"partition": number, "position": position}

    to_wall = session.clock.to_wall

    def row(state: str) -> sqlite3.Row | None:
        row: sqlite3.Row | None = session.connection.execute(session.sql[f"find_{state}"], where).fetchone()
        return row

    if ready := row("ready"):
        lane, key, priority, payload, attempts, reason, error, rank, place = ready
        before = {"partition": number, "lane": lane, "rank": rank, "place": place, "limit": AHEAD_LIMIT}
        (ahead,) = session.connection.execute(session.sql["count_ahead"], before).fetchone()
        found = Found("ready", number, position, None, key, priority, payload, attempts, ahead=ahead)
        found = found._replace(reason=reason, error=error)
    elif claimed := row("claimed"):
        lane, key, priority, payload, attempts, reason, error, fence, worker, expires_at = claimed
        found = Found("claimed", number, position, None, key, priority, payload, attempts)
        found = found._replace(reason=reason, error=error, fence=fence, worker=worker, expires_at=to_wall(expires_at))
    elif delayed := row("delayed"):
        lane, key, priority, payload, attempts, reason, error, due_at, settled_at, result, wall = delayed
        due_at = due_at if wall else to_wall(due_at)
        settled_at = None if settled_at is None else to_wall(settled_at)
        found = Found("delayed", number, position, None, key, priority, payload, attempts, due_at=due_at)
        found = found._replace(reason=reason, error=error, settled_at=settled_at, result=result)
    elif done := row("done"):
        lane, key, priority, payload, settled_at, result = done
        found = Found("done", number, position, None, key, priority, payload, 0)
        found = found._replace(settled_at=to_wall(settled_at), result=result)
    else:
        dead = row("dead")
        assert dead is not None, f"INV-4: position {position} of partition {number} is nowhere"
        lane, key, priority, payload, attempts, reason, error, settled_at = dead
        found = Found("dead", number, position, None, key, priority, payload, attempts)
        found = found._replace(reason=reason, error=error, settled_at=to_wall(settled_at))
    numbers = {"partition": number, "numbers": f"[{lane}]"}
    lane_row = session.connection.execute(session.sql["lanes_by_number"], numbers).fetchone()
    return found._replace(lane=_build_lane_row(session, number, Lane(*lane_row)))


def _build_lane_row(session: Session, number: int, lane: Lane) -> LaneRow:
    to_wall = session.clock.to_wall
    blocked_until = to_wall(lane.blocked_until) if lane.blocked_until else 0
    ready_at = lane.ready_at
    if lane.blocked_wall is not None:
        blocked_until = max(blocked_until, lane.blocked_wall)
        ready_at = lane.earliest_start(lane.pacing(session.pacing))
    return LaneRow(
        lane=lane.name,
        partition=number,
        limits=LaneLimits(lane.min_interval, lane.concurrency, bool(lane.paused), blocked_until),
        waiting=lane.waiting,
        in_flight=lane.in_flight,
        visits=lane.visits,
        ready_at=None if lane.level is None else max(to_wall(ready_at), lane.blocked_wall or 0),
        last_at=to_wall(lane.last_at) if lane.last_at else 0,
        counters=lane.counters,
    )


def lane(session: Session, number: int, name: str) -> LaneRow | None:
    where = {"partition": number, "names": json.dumps([name], ensure_ascii=False)}
    row = session.connection.execute(session.sql["lanes_by_name"], where).fetchone()
    return None if row is None else _build_lane_row(session, number, Lane(*row))


def lanes(session: Session, *, after: tuple[int, int] | None, limit: int) -> Sequence[tuple[int, LaneRow]]:
    """List lanes with their numbers, in order of (partition, number)."""
    start = (NEVER, NEVER) if after is None else after
    where = {"after_partition": start[0], "after_number": start[1], "limit": limit}
    rows = session.connection.execute(session.sql["list_lanes"], where)
    return [(row[1], _build_lane_row(session, row[0], Lane(*row[1:]))) for row in rows]


def items(
    session: Session,
    state: str,
    *,
    lane: tuple[int, str] | None,
    result_text: str | None,
    after: Cursor | None,
    limit: int,
) -> RowPage:
    """Read items in a state, and return those that are wanted."""
    partition, first, second = after or LISTING_START
    statement = f"list_{state}"
    where: dict[str, Any] = {"last_partition": session.settings.partitions, "lane": None, "result_text": result_text}
    if lane is not None:
        where["last_partition"], where["lane"] = lane
        partition, first, second = max((partition, first, second), (lane[0], NEVER, NEVER))
        statement = "list_ready_of_lane" if state == "ready" else statement
    where |= {"partition": partition, "first": first, "second": second, "examined": MAX_EXAMINED}
    # A statement reads a row when the page asks for it, and no more after the page is full.
    return RowPage.build(_read_items(session, statement, where), limit, MAX_EXAMINED)


def _read_items(session: Session, statement: str, where: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    difference = session.clock.round_wall_ahead()
    rows = session.connection.execute(session.sql[statement], where)
    for read, row in enumerate(rows, 1):
        *before, due_at, revisit, fence, settled_at, result, reason, error, wall, first, second, wanted = row
        due_at = due_at if wall or due_at is None else due_at + difference
        settled_at = None if settled_at is None else settled_at + difference
        last = (result, reason, error, first, second, wanted, read)
        yield (*before, due_at, bool(revisit), fence, settled_at, *last)


def claims(session: Session, *, after: int, limit: int) -> list[ClaimRow]:
    rows = session.connection.execute(session.sql["list_claims"], {"after": after, "limit": limit})
    difference = session.clock.round_wall_ahead()
    return [
        ClaimRow(fence, worker, claimed_at + difference if claimed_at else 0, expires_at + difference, items)
        for fence, worker, claimed_at, expires_at, items in rows
    ]


def pending(session: Session, *, after: tuple[int, int] | None, limit: int, revisits: bool) -> list[ItemRow]:
    """List the items that hold the checkpoint back, in order of (partition, position), and perhaps revisits."""
    start = (NEVER, NEVER) if after is None else after
    where = {"after_partition": start[0], "after_position": start[1], "limit": limit, "revisits": revisits}
    rows = session.connection.execute(session.sql["list_pending"], where)
    return [ItemRow(*row)._replace(revisit=bool(row[-1])) for row in rows]


def known_places(session: Session, *, after: tuple[int, bytes], limit: int) -> list[KnownPlace]:
    where = {"partition": after[0], "hash": after[1], "limit": limit}
    rows = session.connection.execute(session.sql["known_places"], where)
    return [KnownPlace.build(row) for row in rows]


def find_positions(session: Session, number: int, hashes: Sequence[bytes]) -> list[int | None]:
    find = session.sql["find_position"]
    rows = [session.connection.execute(find, (number, known)).fetchone() for known in hashes]
    return [None if row is None else row[0] for row in rows]


def date_positions(session: Session, places: Sequence[tuple[int, int]]) -> list[int]:
    """Return a time before which each position was allotted. After the last milestone, that is the last change."""
    times = []
    for partition, position in places:
        where = {"partition": partition, "position": position}
        row = session.connection.execute(session.sql["date_position"], where).fetchone()
        times.append(session.clock.to_wall(Partition.load(session, partition).time if row is None else row[0]))
    return times


def audit(session: Session, *, limit: int) -> list[AuditRow]:
    rows = session.connection.execute(session.sql["list_audit"], {"limit": limit})
    return [AuditRow(number, session.clock.to_wall(time), *change) for number, time, *change in rows]


def facts(session: Session, keys: Sequence[str]) -> dict[str, str]:
    where = {"keys": json.dumps(keys, ensure_ascii=False)}
    return dict(session.connection.execute(session.sql["facts"], where))


def counters(session: Session) -> dict[str, int]:
    return dict(session.connection.execute(session.sql["counters"]))


def outputs(session: Session) -> dict[str, int]:
    return dict(session.connection.execute(session.sql["outputs"]))
