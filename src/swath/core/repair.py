"""Settle dead items without a claim: their work was done another way, such as from what the first attempt had kept."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from time import perf_counter

from swath.core import events
from swath.core.encoding import encode_facts, encode_item, encode_outcome
from swath.core.errors import InvalidOutcome
from swath.core.item import NOTHING, Dead, Done
from swath.core.leased_items import EncodedOutcome, build_settlement
from swath.core.session import Session
from swath.core.store import MoveKind, OutputMove
from swath.core.validation import check_counters, check_outputs


async def repair(session: Session, outcomes: Iterable[object], outputs: Sequence[OutputMove]) -> None:
    """Settle dead items, one partition after the other."""
    check_outputs(outputs)
    grouped: defaultdict[int, list[EncodedOutcome]] = defaultdict(list)
    for outcome in outcomes:
        encoded = _encode(session, outcome)
        grouped[encoded.item.partition].append(encoded)
    if outputs and len(grouped) != 1:
        raise InvalidOutcome(
            f"outputs were given with outcomes of {len(grouped)} partitions: one settlement has one partition, so "
            "repair each partition separately"
        )
    for partition in sorted(grouped):
        encoded_outcomes = grouped[partition]
        discovered = [item for outcome in encoded_outcomes for item in outcome.discovered]
        settlement = build_settlement(partition, 0, encoded_outcomes, discovered=discovered, outputs=outputs)
        began = perf_counter()
        reply = await session.store.repair(settlement)
        seconds = perf_counter() - began
        session.watch_clock(reply.now, seconds)
        session.remember(settlement.discovered)
        done = sum(move.kind is MoveKind.DONE for move in settlement.moves)
        died = len(settlement.moves) - done
        session.emit(events.Repaired(partition, done, died, len(settlement.discovered), seconds))


def _encode(session: Session, outcome: object) -> EncodedOutcome:
    if not isinstance(outcome, Done | Dead):
        raise InvalidOutcome(f"{outcome!r} cannot settle a dead item: use item.done() or item.dead() of a dead item")
    item = outcome.item
    if item.position < 0:
        raise InvalidOutcome(f"{item.key!r} has no position: use the item of one that `frontier.dead()` returned")
    if outcome.output is not None or (isinstance(outcome, Done) and outcome.rows is not NOTHING):
        raise InvalidOutcome(
            f"the outcome of {item.key!r} has an output or rows, but nothing writes them: write the file yourself and "
            "repair with `outputs=`"
        )
    if isinstance(outcome, Done) and outcome.revisit_after is not None:
        raise InvalidOutcome(f"{item.key!r} cannot be repaired with revisit_after=: a repair is not a visit")
    settings = session.store.settings
    move = encode_outcome(outcome, max_attempts=settings.max_attempts, partitions=settings.partitions)
    counters = check_counters("counters", item.key, outcome.counters)
    lane_counters = check_counters("lane_counters", item.key, outcome.lane_counters)
    if isinstance(outcome, Dead):
        return EncodedOutcome(item, move, (), (), None, counters=counters, lane_counters=lane_counters)
    discovered = [encode_item(new, settings.partitions) for new in outcome.discovered]
    facts = encode_facts(outcome.facts) if outcome.facts else ()
    return EncodedOutcome(item, move, discovered, facts, None, counters=counters, lane_counters=lane_counters)
