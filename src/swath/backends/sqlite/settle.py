"""Settle items: outcomes, discovered items, outputs, facts and counters commit together (INV-5)."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, assert_never

from swath.backends.sqlite.add import enter, group_by_partition, take_in
from swath.backends.sqlite.admin import learn
from swath.backends.sqlite.claim import find_claim, require_held
from swath.backends.sqlite.state import Lane, Lanes, Partition, Session
from swath.core.checkpoint import halve_span
from swath.core.errors import InvalidOutcome, OutputConflict
from swath.core.lane import RETURNED, starts_count
from swath.core.store import NOT_DEAD, ClaimRef, EncodedItem, Move, MoveKind, OutputMove, Settlement, SettleReply

_DONE = MoveKind.DONE  # looking up a member on its class costs as much as a function call
_GOES_BACK = frozenset({MoveKind.RELEASE, MoveKind.SPLIT})


def settle(session: Session, ref: ClaimRef, settlement: Settlement) -> SettleReply:
    partition = Partition.load(session, settlement.partition)
    claim = find_claim(session, ref)
    if claim is not None and 0 < settlement.number <= claim.number:
        return SettleReply(partition.time, 0, partition.checkpoint)  # repeated because the first reply was lost
    require_held(session, ref, claim)
    held = _load_lane_numbers(session, ref.fence, settlement)
    returned = _load_returned_items(session, ref.fence, settlement)
    for output in settlement.outputs:
        _check_output(session, output)
    # From here on nothing refuses the settlement.
    now = partition.tick(session.clock.now())
    session.connection.execute(session.sql["number_claim"], {"number": settlement.number, "fence": ref.fence})
    lanes = Lanes(session, partition)
    settled = _MoveWriter(lanes, ref.fence, now, returned).settle(held, settlement.moves)
    return _commit_rest(lanes, settlement, settled, now)


def repair(session: Session, settlement: Settlement) -> SettleReply:
    """Settle dead items without a claim. They keep their positions, which the checkpoint may have passed."""
    partition = Partition.load(session, settlement.partition)
    wanted = {"partition": partition.number, "positions": str([move.position for move in settlement.moves])}
    found = [position for (position,) in session.connection.execute(session.sql["dead_positions"], wanted)]
    if len(set(found)) != len(settlement.moves):
        raise InvalidOutcome(NOT_DEAD.format(dead=len(set(found)), named=len(settlement.moves)))
    for output in settlement.outputs:
        _check_output(session, output)
    now = partition.tick(session.clock.now())
    where = {"partition": partition.number, "now": now}
    done = [move for move in settlement.moves if move.kind is _DONE]
    dead = [move for move in settlement.moves if move.kind is not _DONE]
    session.connection.executemany(
        session.sql["repair_done"], [{**where, "position": move.position, "result": move.result} for move in done]
    )
    session.connection.executemany(session.sql["delete_dead"], [{**where, "position": move.position} for move in done])
    session.connection.executemany(
        session.sql["repair_dead"],
        [{**where, "position": move.position, "reason": move.reason, "error": move.error} for move in dead],
    )
    partition.done += len(done)
    partition.dead -= len(done)
    partition.checkpoint_dead -= sum(move.position <= partition.checkpoint for move in done)
    return _commit_rest(Lanes(session, partition), settlement, (), now)


def _commit_rest(lanes: Lanes, settlement: Settlement, settled: Iterable[int], now: int) -> SettleReply:
    """Commit what a settlement has besides its moves. `settled` has the positions that they settled."""
    session, partition = lanes.session, lanes.partition
    discovered = _take_in_discovered(lanes, settlement.discovered, now)
    counted = _count_in_lanes(lanes, settlement.lane_counters)
    lanes.requeue(now)
    if counted:
        session.connection.executemany(session.sql["save_lane_counters"], counted)
    if settlement.counters:
        counts = [(partition.number, name, value) for name, value in settlement.counters.items()]
        session.connection.executemany(session.sql["count"], counts)
    for output in settlement.outputs:
        session.connection.execute(session.sql["save_output"], (output.name, output.new))
    learn(session, settlement.facts)
    partition.advance(session, settled)
    partition.save(session)
    return SettleReply(now, discovered, partition.checkpoint)


class _ClaimedItem(NamedTuple):
    """The columns of a claimed item that a move needs."""

    position: int
    lane: int
    priority: int
    span: int


def _load_claimed_items(
    session: Session, fence: int, partition: int, positions: Sequence[int]
) -> dict[int, _ClaimedItem]:
    """Return the items at these positions that the claim holds."""
    where = {"partition": partition, "fence": fence, "positions": str(positions)}
    return {row[0]: _ClaimedItem(*row) for row in session.connection.execute(session.sql["held_items"], where)}


def _load_lane_numbers(session: Session, fence: int, settlement: Settlement) -> dict[int, int]:
    """Return lane numbers by position. Raise InvalidOutcome if an item is not held, or named twice."""
    positions = [move.position for move in settlement.moves]
    held = session.held.get((fence, settlement.partition))
    if held is None:
        items = _load_claimed_items(session, fence, settlement.partition, positions)
        held = {position: item.lane for position, item in items.items()}
    lanes = {position: held[position] for position in positions if position in held}
    if len(lanes) != len(settlement.moves):
        raise InvalidOutcome(
            f"claim {fence} holds {len(lanes)} of the {len(settlement.moves)} items to settle in partition "
            f"{settlement.partition}: one was settled before, is not this claim's, or is named twice"
        )
    return lanes


def _load_returned_items(session: Session, fence: int, settlement: Settlement) -> dict[int, _ClaimedItem]:
    """Return the items that are released or split, by position. Raise InvalidOutcome if a split is impossible."""
    positions = [move.position for move in settlement.moves if move.kind in _GOES_BACK]
    if not positions:
        return {}
    rows = _load_claimed_items(session, fence, settlement.partition, positions)
    rests = [move.rest for move in settlement.moves if move.rest is not None and rows[move.position].span > 1]
    for rest in rests:
        where = {"partition": settlement.partition, "hash": rest.hash}
        if session.connection.execute(session.sql["is_seen"], where).fetchone():
            raise InvalidOutcome(f"the range {rest.key!r} exists already")
    if len({rest.hash for rest in rests}) != len(rests):
        raise InvalidOutcome("two splits leave the same rest")
    return rows


def _check_output(session: Session, move: OutputMove) -> None:
    row = session.connection.execute(session.sql["output"], {"name": move.name}).fetchone()
    committed = row[0] if row else 0
    if committed != move.old:
        raise OutputConflict(
            f"output {move.name} is committed up to {committed} bytes, not {move.old}; nothing was settled. "
            "Truncate the file to the committed length and write it again"
        )


def _take_in_discovered(lanes: Lanes, items: Sequence[EncodedItem], now: int) -> int:
    """Add discovered items. Unlike PostgreSQL, SQLite needs no inbox for other partitions: there is a single writer."""
    discovered = 0
    session = lanes.session
    for number, own in group_by_partition(items):
        if number == lanes.partition.number:
            discovered += take_in(lanes, own, now)
            continue
        other = Partition.load(session, number)
        time = other.tick(session.clock.now())
        others = Lanes(session, other)
        discovered += take_in(others, own, time)
        others.requeue(time)
        other.save(session)
    return discovered


def _count_in_lanes(lanes: Lanes, counters: Mapping[str, Mapping[str, int]]) -> list[tuple[str | None, int, int]]:
    """Add to the counters of lanes and return the rows for `save_lane_counters`."""
    lanes.load_by_name(counters)
    counted = []
    for name, counts in counters.items():
        lane = lanes.get_or_create(name)
        lane.count(counts)
        counted.append((lane.counters_json, lanes.partition.number, lane.number))
    return counted


class _MoveWriter:
    """Collects the moves of one settlement by statement, and writes them."""

    def __init__(self, lanes: Lanes, fence: int, now: int, returned: dict[int, _ClaimedItem]) -> None:
        self._lanes = lanes
        self._returned = returned
        self._partition = lanes.partition
        self._fence = fence
        self._now = now
        self._results: dict[int, str | None] = {}  # results of done items, by position
        self._settled: set[int] = set()  # positions of items that are settled in another way
        self._rows: dict[str, list[tuple[object, ...]]] = {}  # rows of all other moves, by statement

    def settle(self, held: dict[int, int], moves: Sequence[Move]) -> set[int]:
        """Apply the moves and return the positions that are now settled. `held` has the lane numbers by position."""
        lanes = self._lanes.take(held.values())
        default = self._lanes.session.pacing
        visits = 0
        for move in moves:
            lane = lanes[held[move.position]]
            lane.end()
            if move.started:
                if not starts_count(lane.pacing(default)):
                    lane.pace(self._now)
                if move.kind is _DONE:
                    lane.visit()
                    visits += 1
            if move.kind is _DONE and move.delay is None:  # nearly all moves
                self._results[move.position] = move.result
            elif self._move(lane, move):
                self._settled.add(move.position)
        self._partition.visits += visits
        self._partition.done += len(self._results)
        self._write(held)
        return self._settled.union(self._results)

    def _move(self, lane: Lane, move: Move) -> bool:
        """Collect a move and return whether it settles the item."""
        now, partition = self._now, self._partition
        match move.kind:
            case MoveKind.DONE:
                assert move.delay is not None
                partition.delayed += 1
                self._collect("settle_revisit", move, move.payload, now + move.delay, now, move.result)
                return True
            case MoveKind.RETRY:
                partition.delayed += 1
                self._collect("settle_retry", move, now + (move.delay or 0), move.reason, move.error)
                return False
            case MoveKind.DEAD:
                partition.dead += 1
                self._collect("settle_dead", move, now, move.reason, move.error)
                return True
            case MoveKind.RELEASE:
                if move.delay is None:
                    priority = self._returned[move.position].priority
                    self._collect("settle_release", move, *self._lanes.make_ready(lane, priority, RETURNED))
                else:
                    partition.delayed += 1
                    self._collect("settle_later", move, now + move.delay)
                return False
            case MoveKind.SPLIT:
                return self._split(self._returned[move.position], lane, move)
            case _:
                assert_never(move.kind)

    def _split(self, row: _ClaimedItem, lane: Lane, move: Move) -> bool:
        assert move.rest is not None
        if row.span == 1:
            turn = self._lanes.make_ready(lane, row.priority, RETURNED)
            self._collect("settle_smaller", move, *turn, move.rest.payload)
            return False
        keeps, rest = halve_span(row.span)
        self._partition.done += 1
        self._collect("settle_split", move, move.payload, keeps, self._now, move.result)
        # In the order of the moves, because each ready item takes the next place.
        enter(self._lanes, [(move.rest._replace(span=rest), lane, row.position + keeps)], self._now)
        return True

    def _collect(self, statement: str, move: Move, *values: object) -> None:
        entry = (*values, self._partition.number, self._fence, move.position)
        self._rows.setdefault(statement, []).append(entry)

    def _write(self, held: dict[int, int]) -> None:
        if not held:
            return
        session = self._lanes.session
        connection, sql = session.connection, session.sql
        where = {"partition": self._partition.number, "fence": self._fence}
        known = session.held.get((self._fence, self._partition.number))
        before = connection.execute(sql["held"], where).fetchone()[0] if known is None else len(known)
        if len(self._results) == before and not any(self._results.values()):
            connection.execute(sql["settle_done_all"], {**where, "now": self._now})
        elif self._results:
            results = json.dumps(self._results)
            connection.execute(sql["settle_done"], {**where, "now": self._now, "results": results})
        for statement, entries in self._rows.items():
            connection.executemany(sql[statement], entries)
        self._partition.claimed -= len(held)
        left = before - len(held)
        if left == 0:
            session.held.pop((self._fence, self._partition.number), None)
            connection.execute(sql["delete_claimed_all"], where)
            connection.execute(sql["delete_hold"], where)
        else:
            if known is not None:
                for position in held:
                    del known[position]
            connection.execute(sql["delete_claimed"], {**where, "positions": str(list(held))})
            connection.execute(sql["save_hold"], {**where, "held": left})
