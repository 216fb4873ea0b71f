"""The arguments of the stored functions: items, moves, facts and counters as PostgreSQL array literals."""

from collections.abc import Mapping, Sequence
from typing import Any

from swath.backends.postgres.array_literals import boolean_array, bytes_array, number_array, text_array
from swath.core.item import DEFAULT_PRIORITY
from swath.core.store import EncodedItem, Fact, Move, MoveKind, Settlement


def write_items(items: Sequence[EncodedItem]) -> tuple[str, ...]:
    """Write items as the seven arrays that `add` and `settle` take."""
    if not items:
        return ("{}",) * 7
    _, hashes, lanes, priorities, keys, payloads, not_befores, spans = zip(*items, strict=True)
    return (
        bytes_array(hashes),
        text_array(lanes),
        number_array(priorities, default=DEFAULT_PRIORITY),
        text_array(keys),
        text_array(payloads),
        number_array(not_befores),
        number_array(spans, default=1),
    )


def write_settlement(settlement: Settlement) -> tuple[Any, ...]:
    """Write a settlement as the arguments of `settle`, from the settlement's number on."""
    done, moves, done_kind = list[Move](), list[Move](), MoveKind.DONE
    for move in settlement.moves:
        (done if move.kind is done_kind and move.delay is None and move.started else moves).append(move)
    mine = [item for item in settlement.discovered if item.partition == settlement.partition]
    others = [item for item in settlement.discovered if item.partition != settlement.partition]
    return (
        settlement.number,
        number_array([move.position for move in done]),
        text_array([move.result for move in done]),
        number_array([move.position for move in moves]),
        number_array([move.kind.value for move in moves]),
        number_array([move.delay for move in moves]),
        text_array([move.result for move in moves]),
        text_array([move.reason for move in moves]),
        text_array([move.error for move in moves]),
        boolean_array([move.started for move in moves]),
        text_array([move.payload for move in moves]),
        *_write_rests(moves),
        *write_items(mine),
        number_array([item.partition for item in others]),
        *write_items(others),
        text_array([output.name for output in settlement.outputs]),
        number_array([output.old for output in settlement.outputs]),
        number_array([output.new for output in settlement.outputs]),
        *write_facts(settlement.facts),
        *_write_counters(settlement.counters),
        *_write_lane_counters(settlement.lane_counters),
    )


def write_facts(facts: Sequence[Fact]) -> tuple[str, str]:
    """Write facts as an array of keys and one of values."""
    return text_array([fact.key for fact in facts]), text_array([fact.value for fact in facts])


def _write_counters(counters: Mapping[str, int]) -> tuple[str, str]:
    return text_array(list(counters)), number_array(list(counters.values()))


def _write_lane_counters(lane_counters: Mapping[str, Mapping[str, int]]) -> tuple[str, str, str]:
    if not lane_counters:
        return "{}", "{}", "{}"
    rows = [(lane, name, amount) for lane, counts in lane_counters.items() for name, amount in counts.items()]
    return (
        text_array([lane for lane, _, _ in rows]),
        text_array([name for _, name, _ in rows]),
        number_array([amount for _, _, amount in rows]),
    )


def _write_rests(moves: Sequence[Move]) -> tuple[str, str, str]:
    rests = [move.rest for move in moves]
    if not any(rests):
        return "{}", "{}", "{}"
    return (
        bytes_array([rest and rest.hash for rest in rests]),
        text_array([rest and rest.key for rest in rests]),
        text_array([rest and rest.payload for rest in rests]),
    )
