"""Settling: what a worker says of its items, what they led to and how far its outputs got, as a whole (INV-5)."""

import json
from collections.abc import Sequence
from typing import NamedTuple, assert_never

from swath.backends.sqlite.add import by_partition, enter, take_in
from swath.backends.sqlite.claim import held_claim, known_claim
from swath.backends.sqlite.state import SQL, Lane, Lanes, Partition, Session
from swath.core.checkpoint import halves
from swath.core.errors import InvalidOutcome, OutputConflict
from swath.core.lane import RETURNED, starts_count
from swath.core.store import ClaimRef, Move, MoveKind, NewItem, OutputMove, Settlement, SettleReply


class _Held(NamedTuple):
    """What settling needs to know of a claimed item."""

    position: int
    lane: int
    priority: int
    span: int


def settle(session: Session, ref: ClaimRef, settlement: Settlement) -> SettleReply:
    partition = Partition.load(session, settlement.partition)
    known = known_claim(session, ref)
    if known is not None and settlement.number <= known.number:
        return SettleReply(partition.time, 0, partition.checkpoint)  # its reply was lost (rule 5)
    held_claim(session, ref)
    rows = _held_rows(session, ref.fence, settlement)
    for output in settlement.outputs:
        _check_output(session, output)
    # Nothing below refuses: the settlement is whole.
    now = partition.tick(session.clock.now())
    session.connection.execute(SQL["number_claim"], {"number": settlement.number, "fence": ref.fence})
    lanes = Lanes(session, partition)
    settled = _Settling(lanes, ref.fence, now).settle(rows, settlement.moves)
    discovered = _take_in_discovered(lanes, settlement.discovered, now)
    lanes.place(now)
    session.connection.executemany(SQL["save_output"], [(move.name, move.new) for move in settlement.outputs])
    partition.advance(session, settled)
    partition.save(session)
    return SettleReply(now, discovered, partition.checkpoint)


def _held_rows(session: Session, fence: int, settlement: Settlement) -> dict[int, _Held]:
    """The items named, by position; InvalidOutcome unless this claim holds each and each is named once."""
    positions = json.dumps([move.position for move in settlement.moves])
    where = {"partition": settlement.partition, "fence": fence, "positions": positions}
    rows = {row[0]: _Held(*row) for row in session.connection.execute(SQL["held_items"], where)}
    if len(rows) != len(settlement.moves):
        raise InvalidOutcome(
            f"claim {fence} holds {len(rows)} of the {len(settlement.moves)} items to settle in partition "
            f"{settlement.partition}: one was settled before, is not this claim's, or is named twice"
        )
    rests = [move.rest for move in settlement.moves if move.rest is not None and rows[move.position].span > 1]
    for rest in rests:
        where = {"partition": settlement.partition, "hash": rest.hash}
        if session.connection.execute(SQL["is_seen"], where).fetchone():
            raise InvalidOutcome(f"the range {rest.key!r} is there already")
    if len({rest.hash for rest in rests}) != len(rests):
        raise InvalidOutcome("two ranges are split into the same rest")
    return rows


def _check_output(session: Session, move: OutputMove) -> None:
    row = session.connection.execute(SQL["output"], {"name": move.name}).fetchone()
    committed = row[0] if row else 0
    if committed != move.old:
        raise OutputConflict(f"output {move.name} is committed up to {committed}, not {move.old}")


def _take_in_discovered(lanes: Lanes, items: Sequence[NewItem], now: int) -> int:
    """Differs from PostgreSQL: other partitions are entered directly, there is no inbox with a single writer."""
    discovered = 0
    session = lanes.session
    for number, own in by_partition(items):
        if number == lanes.partition.number:
            discovered += take_in(lanes, own, now)
            continue
        other = Partition.load(session, number)
        time = other.tick(session.clock.now())
        others = Lanes(session, other)
        discovered += take_in(others, own, time)
        others.place(time)
        other.save(session)
    return discovered


class _Settling:
    """The moves of one settlement, collected by the table they go to."""

    def __init__(self, lanes: Lanes, fence: int, now: int) -> None:
        self._lanes = lanes
        self._partition = lanes.partition
        self._fence = fence
        self._now = now
        self._rows: dict[str, list[tuple[object, ...]]] = {}
        self._rests: list[tuple[NewItem, Lane, int]] = []

    def settle(self, rows: dict[int, _Held], moves: Sequence[Move]) -> set[int]:
        """Move the items, and return the positions that are settled by it."""
        self._lanes.load({row.lane for row in rows.values()})
        settled = set()
        default = self._lanes.session.pacing
        for move in moves:
            row = rows[move.position]
            lane = self._lanes.known[row.lane]
            lane.in_flight -= 1
            if (move.kind is not MoveKind.RELEASE or move.started) and not starts_count(lane.pacing(default)):
                lane.last_at = self._now
            self._lanes.touch(lane)
            if self._move(row, lane, move):
                settled.add(move.position)
        self._write(rows)
        return settled

    def _move(self, row: _Held, lane: Lane, move: Move) -> bool:
        """Whether the item is settled by it."""
        now, partition = self._now, self._partition
        match move.kind:
            case MoveKind.DONE:
                if move.delay is None:
                    partition.done += 1
                    self._collect("settle_done", row, now, move.result)
                else:
                    partition.delayed += 1
                    self._collect("settle_revisit", row, now + move.delay, now, move.result)
                return True
            case MoveKind.RETRY:
                partition.delayed += 1
                self._collect("settle_retry", row, now + (move.delay or 0), move.reason, move.error)
                return False
            case MoveKind.DEAD:
                partition.dead += 1
                self._collect("settle_dead", row, now, move.reason, move.error)
                return True
            case MoveKind.RELEASE:
                self._collect("settle_release", row, *self._lanes.make_ready(lane, row.priority, RETURNED))
                return False
            case MoveKind.SPLIT:
                return self._split(row, lane, move)
            case _:
                assert_never(move.kind)

    def _split(self, row: _Held, lane: Lane, move: Move) -> bool:
        assert move.rest is not None
        if row.span == 1:
            turn = self._lanes.make_ready(lane, row.priority, RETURNED)
            self._collect("settle_smaller", row, *turn, move.rest.payload)
            return False
        keeps, rest = halves(row.span)
        self._partition.done += 1
        self._collect("settle_split", row, move.payload, keeps, self._now, move.result)
        # In the order of the moves, since each that becomes ready takes the next place.
        enter(self._lanes, [(move.rest._replace(span=rest), lane, row.position + keeps)], self._now)
        return True

    def _collect(self, statement: str, row: _Held, *values: object) -> None:
        entry = (*values, self._partition.number, self._fence, row.position)
        self._rows.setdefault(statement, []).append(entry)

    def _write(self, rows: dict[int, _Held]) -> None:
        connection = self._lanes.session.connection
        for statement, entries in self._rows.items():
            connection.executemany(SQL[statement], entries)
        where = {"partition": self._partition.number, "fence": self._fence}
        row = connection.execute(SQL["held"], where).fetchone()
        if row is None:  # nothing was held here, and nothing was settled
            return
        self._partition.claimed -= len(rows)
        left = row[0] - len(rows)
        if left == 0:
            connection.execute(SQL["delete_claimed_all"], where)
            connection.execute(SQL["delete_hold"], where)
        else:
            connection.execute(SQL["delete_claimed"], {**where, "positions": json.dumps(list(rows))})
            connection.execute(SQL["save_hold"], {**where, "held": left})
