"""Change lanes and settings, store facts, reopen settled items, and drop waiting ones."""

from collections import Counter
from collections.abc import Sequence

from swath.backends.sqlite.state import Lanes, Partition, Session
from swath.core.lane import FRESH, starts_begin_to_count
from swath.core.store import AUDIT_KEPT, DEFAULT, AuditChange, Fact, LaneChange, Signal


def change_lane(session: Session, number: int, name: str, change: LaneChange) -> None:
    """Change a lane's limits, and create the lane if it does not exist."""
    partition = Partition.load(session, number)
    now = partition.tick(session.clock.now())
    lanes = Lanes(session, partition)
    lanes.load_by_name([name])
    lane = lanes.get_or_create(name)
    before = lane.pacing(session.pacing)
    lane.min_interval = _apply_change(lane.min_interval, change.min_interval)
    lane.concurrency = _apply_change(lane.concurrency, change.concurrency)
    if change.paused is not None:
        lane.paused = int(change.paused)
    if change.blocked_for is not None:
        lane.block(now + change.blocked_for if change.blocked_for else 0, None, at_least=change.at_least)
    if change.blocked_until is not None:
        until = change.blocked_until - session.clock.wall_ahead()
        if until > now:
            lane.block(0, change.blocked_until, at_least=change.at_least)
        else:
            lane.block(until, None, at_least=change.at_least)
    pacing = lane.pacing(session.pacing)
    if lane.in_flight and starts_begin_to_count(before, pacing):
        lane.pace(now)
    lane.requeue(pacing, now, session.clock, new_turn=True)
    lanes.touch(lane)
    lanes.write()
    limits = (lane.min_interval, lane.concurrency, lane.paused, lane.blocked_until, lane.blocked_wall)
    session.connection.execute(session.sql["save_lane_limits"], (*limits, number, lane.number))
    partition.save(session)
    if change.paused:
        session.signal = session.signal._replace(version=session.signal.version + 1)
        _save_settings(session)


def _apply_change(value: int | None, change: int | None) -> int | None:
    if change is None:
        return value
    return None if change == DEFAULT else change


def change_settings(
    session: Session,
    *,
    min_interval: int | None,
    concurrency: int | None,
    max_attempts: int | None,
    paused: bool | None,
) -> None:
    before = session.pacing
    given = {"min_interval": min_interval, "concurrency": concurrency, "max_attempts": max_attempts}
    session.settings = session.settings._replace(**{name: value for name, value in given.items() if value is not None})
    if starts_begin_to_count(before, session.pacing):
        for number in range(session.settings.partitions):
            _count_starts(session, Partition.load(session, number))
    if paused is not None:
        session.signal = Signal(paused, session.signal.version + 1)
    _save_settings(session)


def _count_starts(session: Session, partition: Partition) -> None:
    """Count the items in flight as started now, in lanes that use the frontier's default concurrency (INV-3)."""
    where = {"partition": partition.number}
    flying = session.connection.execute(session.sql["default_lanes_in_flight"], where).fetchall()
    if not flying:
        return
    now = partition.tick(session.clock.now())
    lanes = Lanes(session, partition)
    for lane in lanes.take(number for (number,) in flying).values():
        lane.pace(now)
    lanes.requeue(now)
    partition.save(session)


def requeue_lanes(session: Session, number: int, lane_numbers: Sequence[int]) -> None:
    partition = Partition.load(session, number)
    now = partition.tick(session.clock.now())
    lanes = Lanes(session, partition)
    for lane in lanes.take(lane_numbers).values():
        lane.requeue(lane.pacing(session.pacing), now, session.clock, new_turn=True)
    lanes.write()
    partition.save(session)


def _save_settings(session: Session) -> None:
    settings, signal = session.settings, session.signal
    session.connection.execute(
        session.sql["change_settings"],
        {
            "min_interval": settings.min_interval,
            "concurrency": settings.concurrency,
            "max_attempts": settings.max_attempts,
            "paused": int(signal.paused),
            "signal": signal.version,
        },
    )


def learn(session: Session, facts: Sequence[Fact]) -> None:
    if facts:
        session.connection.executemany(session.sql["learn"], facts)


def audit_change(session: Session, change: AuditChange) -> None:
    cursor = session.connection.execute(session.sql["audit_change"], (session.clock.now(), *change))
    session.connection.execute(session.sql["prune_audit"], {"below": (cursor.lastrowid or 0) - AUDIT_KEPT})


def reopen(session: Session, places: Sequence[tuple[int, int]]) -> int:
    """Make done or dead items ready again, each at a new position, because the checkpoint has passed the old one."""
    reopened = 0
    for number in sorted({number for number, _ in places}):
        partition = Partition.load(session, number)
        now = partition.tick(session.clock.now())
        lanes = Lanes(session, partition)
        own = [position for where, position in dict.fromkeys(places) if where == number]
        reopened += sum(_reopen(lanes, position) for position in own)
        lanes.requeue(now)
        partition.save(session)
    return reopened


def _reopen(lanes: Lanes, position: int) -> bool:
    connection, sql, partition = lanes.session.connection, lanes.session.sql, lanes.partition
    where = {"partition": partition.number, "position": position}
    for state in ("done", "dead"):
        row = connection.execute(sql[f"reopened_{state}"], where).fetchone()
        if row is not None:
            break
    else:
        return False
    lane_number, priority, span, item_hash = row
    turn = lanes.make_ready(lanes.take([lane_number])[lane_number], priority, FRESH)
    new_position = partition.allot(span)
    connection.execute(sql[f"reopen_{state}"], (*turn, new_position, partition.number, position))
    connection.execute(sql[f"delete_{state}"], where)
    connection.execute(sql["renumber_seen"], (new_position, partition.number, item_hash))
    if state == "done":
        partition.done -= 1
    else:
        partition.dead -= 1
        partition.checkpoint_dead -= position <= partition.checkpoint
    return True


def drop(session: Session, places: Sequence[tuple[int, int]], result: str | None) -> int:
    """Make ready and delayed items done, without a claim and without a visit."""
    dropped = 0
    for number in sorted({number for number, _ in places}):
        partition = Partition.load(session, number)
        now = partition.tick(session.clock.now())
        dropped += _drop(session, partition, {position for where, position in places if where == number}, result, now)
        partition.save(session)
    return dropped


def _drop(session: Session, partition: Partition, wanted: set[int], result: str | None, now: int) -> int:
    connection, sql, where = session.connection, session.sql, {"partition": partition.number}
    rows = connection.execute(sql["waiting_items"], {**where, "positions": str(sorted(wanted))}).fetchall()
    ready = {position: lane for state, position, lane in rows if state == "ready"}
    delayed = [position for state, position, _ in rows if state == "delayed"]
    done = {**where, "now": now, "result": result}
    connection.execute(sql["drop_ready"], {**done, "positions": str(list(ready))})
    connection.execute(sql["drop_delayed"], {**done, "positions": str(delayed)})
    connection.execute(sql["delete_items"], {**where, "positions": str(list(ready))})
    connection.executemany(sql["delete_delayed"], [(partition.number, position) for position in delayed])
    partition.ready -= len(ready)
    partition.delayed -= len(delayed)
    partition.done += len(rows)
    lanes = Lanes(session, partition)
    counts = Counter(ready.values())
    touched = lanes.take(counts)
    for lane in touched.values():
        lane.leave(counts[lane.number])
    lanes.find_heads(touched.values())
    lanes.requeue(now)
    partition.advance(session, wanted.intersection(position for _, position, _ in rows))
    return len(rows)
