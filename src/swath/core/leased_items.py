"""LeasedItems: the items of one claim, and the only way to settle them.

`Claim` wraps it for users, and the runner uses it directly.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import chain
from time import perf_counter
from typing import Any, NamedTuple

from swath.core import events
from swath.core.clock import as_datetime, lease_clock, to_microseconds
from swath.core.counters import NO_COUNTERS, NO_LANE_COUNTERS
from swath.core.encoding import decode_items, encode_done, encode_facts, encode_item, encode_outcome
from swath.core.errors import InvalidOutcome, LeaseLost, StoreFull, StoreUnavailable, SwathError
from swath.core.item import NOTHING, Dead, Done, Item, Outcome, Release, Retry
from swath.core.session import Session
from swath.core.store import ClaimRef, ClaimReply, EncodedItem, Fact, Move, MoveKind, OutputMove, Settlement
from swath.core.validation import check_counters

_COUNT_NAMES = {
    MoveKind.DONE: "done",
    MoveKind.RETRY: "retried",
    MoveKind.DEAD: "died",
    MoveKind.RELEASE: "released",
    MoveKind.SPLIT: "split",
}
_EMPTY: dict[int, str] = {}


class EncodedOutcome(NamedTuple):
    """An outcome that was checked and can be committed."""

    item: Item
    move: Move
    discovered: Sequence[EncodedItem]
    facts: Sequence[Fact]
    output: Any
    # Set if the commit of a transaction that settles the item got no reply. Call it if the item is settled.
    count_if_settled: Callable[[], None] | None = None
    rows: Sequence[Any] = NOTHING  # for the sink of the run
    counters: Mapping[str, int] = NO_COUNTERS
    lane_counters: Mapping[str, int] = NO_COUNTERS


class _Attempt(NamedTuple):
    """A settlement that is being sent."""

    settlement: Settlement
    outcomes: Sequence[EncodedOutcome]
    generation: int  # the store's, at the time when known items were left out of `discovered`
    seconds: float | None = None  # how long the store took; None until it has answered


class LeasedItems:
    """The items of one claim. Only the holder of the claim can settle or renew them (INV-2)."""

    def __init__(self, session: Session, reply: ClaimReply, *, token: int, lease: float, asked_at: float) -> None:
        self.items: Sequence[Item] = decode_items(reply.items)
        self.fence = reply.fence
        self.expires_at: datetime = as_datetime(reply.expires_at)
        # The end of the lease on `lease_clock`, counted from before the request: never later than the store's.
        self.ends_at = asked_at + lease
        self.counts = dict.fromkeys([*_COUNT_NAMES.values(), "discovered"], 0)  # settled items by outcome
        self.accepts_output = False  # whether a runner writes the `output` of outcomes
        self.accepts_rows = False  # whether a runner passes the `rows` of outcomes to a sink
        self._session = session
        self._ref = ClaimRef(reply.fence, token)
        self._lease = lease
        self._number = 0  # the number of the last settlement
        self._unsettled = _index_keys(self.items)
        self._lost = False
        self._unresolved: _Attempt | None = None  # sent again before any other, because the store may have committed it
        self._settle_lock = asyncio.Lock()

    @property
    def partitions(self) -> Sequence[int]:
        """The partitions that unsettled items belong to."""
        return sorted(self._unsettled)

    @property
    def remaining(self) -> int:
        """The number of items that are not settled yet."""
        return sum(map(len, self._unsettled.values()))

    def holds(self, item: Item) -> bool:
        """Return whether an item belongs to this claim and is not settled yet."""
        return self._unsettled.get(item.partition, _EMPTY).get(item.position) == item.key

    def holds_position(self, partition: int, position: int) -> bool:
        """Return whether the item at a position is not settled yet, without comparing its key."""
        return position in self._unsettled.get(partition, _EMPTY)

    async def renew(self, lease: float | None = None) -> None:
        """Make the lease end `lease` seconds from now. Without `lease`, use the duration of the last lease."""
        lease = self._lease if lease is None else lease
        asked_at = lease_clock()
        began = perf_counter()
        expires_at = await self._session.store.renew(self._ref, to_microseconds(lease))
        self.expires_at, self.ends_at, self._lease = as_datetime(expires_at), asked_at + lease, lease
        self._session.emit(events.Renewed(self.fence, perf_counter() - began))

    def report_lost(self, lost: LeaseLost) -> None:
        """Emit `Lost`, once, for the items that are not settled."""
        if not self._lost:
            self._lost = True
            self._session.emit(events.Lost(self.fence, self.remaining, str(lost)))

    # Encoding

    def encode(self, outcome: object) -> EncodedOutcome:
        """Check that the store can hold an outcome and that this claim still holds its item; return it encoded."""
        if not isinstance(outcome, Done):  # most outcomes are Done, and checking one class takes a tenth of the time
            return self._encode_other(outcome)
        item, result, discovered, revisit_after, facts, output, started, payload, rows, counters, lane_counters = (
            outcome
        )
        # Not with `holds()`: the call would cost as much as the check, for every item.
        if self._unsettled.get(item.partition, _EMPTY).get(item.position) != item.key:
            raise self._build_not_held_error(item)
        new_items: Sequence[EncodedItem] = ()
        if discovered:
            partitions = self._session.store.settings.partitions
            new_items = [encode_item(new, partitions) for new in discovered]
        encoded_facts = encode_facts(facts) if facts else ()
        if output is not None:
            self._check_output(item)
        if rows is not NOTHING:
            self._check_rows(item)
        if counters is not NO_COUNTERS:
            check_counters("counters", item.key, counters)
        if lane_counters is not NO_COUNTERS:
            check_counters("lane_counters", item.key, lane_counters)
        move = encode_done(item, result, revisit_after, started, payload)
        fields = (item, move, new_items, encoded_facts, output, None, rows, counters, lane_counters)
        return tuple.__new__(EncodedOutcome, fields)  # half the time of EncodedOutcome(…), which binds by name

    def _encode_other(self, outcome: object) -> EncodedOutcome:
        if not isinstance(outcome, Outcome):
            raise InvalidOutcome(f"{outcome!r} is not an outcome: use item.done(), .retry(), .dead(), .release() …")
        item = outcome.item
        if not self.holds(item):
            raise self._build_not_held_error(item)
        settings = self._session.store.settings
        move = encode_outcome(outcome, max_attempts=settings.max_attempts, partitions=settings.partitions)
        output = outcome.output if isinstance(outcome, Dead | Release) else None
        if output is not None:
            self._check_output(item)
        if isinstance(outcome, Retry):
            return EncodedOutcome(item, move, (), (), output)
        return EncodedOutcome(
            item,
            move,
            (),
            (),
            output,
            counters=check_counters("counters", item.key, outcome.counters),
            lane_counters=check_counters("lane_counters", item.key, outcome.lane_counters),
        )

    def _build_not_held_error(self, item: Item) -> InvalidOutcome:
        return InvalidOutcome(
            f"claim {self.fence} does not hold {item.key!r}: it was settled before, or belongs to another claim"
        )

    def _check_output(self, item: Item) -> None:
        if not self.accepts_output:
            raise InvalidOutcome(
                f"the outcome of {item.key!r} has an output, but nothing writes it: give `run()` an `output=`, "
                "or write the file yourself and settle with `outputs=`"
            )

    def _check_rows(self, item: Item) -> None:
        if not self.accepts_rows:
            raise InvalidOutcome(
                f"the outcome of {item.key!r} has rows, but nothing stores them: give `run()` a `sink=`, "
                "or write them yourself and settle with `connection=`"
            )

    # Committing

    async def commit(
        self, partition: int, outcomes: Sequence[EncodedOutcome], *, outputs: Sequence[OutputMove] = ()
    ) -> None:
        """Settle outcomes of one partition. May be called again with the same ones after StoreUnavailable."""
        async with self._settle_lock:
            if self._unresolved is not None:
                await self._send_until_resolved(self._unresolved)
            unsettled = self._unsettled[partition]
            left = [outcome for outcome in outcomes if outcome.move.position in unsettled]
            if left:
                self._number += 1
                settlement = self._build_settlement(partition, self._number, left, outputs)
                await self._send_until_resolved(_Attempt(settlement, left, self._session.store.generation))

    async def stage(
        self,
        partition: int,
        outcomes: Sequence[EncodedOutcome],
        connection: Any,
        *,
        outputs: Sequence[OutputMove] = (),
    ) -> Callable[[], None]:
        """Settle outcomes of one partition inside an open transaction. Call the returned function after its commit."""
        settlement = self._build_settlement(partition, 0, outcomes, outputs)
        seconds = await self._send(settlement, connection)

        def mark_committed() -> None:
            self._forget(settlement)
            self._count(settlement, outcomes, seconds)

        return mark_committed

    async def commit_with(
        self,
        partition: int,
        outcomes: Sequence[EncodedOutcome],
        connection: Any,
        *,
        outputs: Sequence[OutputMove] = (),
    ) -> None:
        """Settle outcomes of one partition inside a caller's transaction, which the caller may still roll back.

        The claim keeps the items, because it does not see the commit. The store refuses to settle an item twice.
        """
        settlement = self._build_settlement(partition, 0, outcomes, outputs)
        self._count(settlement, outcomes, await self._send(settlement, connection))

    def _build_settlement(
        self, partition: int, number: int, outcomes: Sequence[EncodedOutcome], outputs: Sequence[OutputMove]
    ) -> Settlement:
        discovered = chain.from_iterable([outcome.discovered for outcome in outcomes])
        # In a caller's transaction, send known items too. If the store had lost some of them, they could not be added
        # after the transaction has ended (INV-4).
        sent = self._session.drop_known(discovered) if number else list(discovered)
        return build_settlement(partition, number, outcomes, discovered=sent, outputs=outputs)

    async def _send_until_resolved(self, attempt: _Attempt) -> None:
        """Send a settlement, and keep it as unresolved until it is known whether the store committed it.

        If the reply is lost, send the settlement again under the same number before any other. The store recognises
        the number and does not apply the settlement twice.
        """
        before, self._unresolved = self._unresolved, attempt
        try:
            seconds = await self._send(attempt.settlement, None) if attempt.seconds is None else attempt.seconds
        except StoreUnavailable:
            raise
        except SwathError as error:
            # Nothing was changed. StoreFull says so only about this attempt: an earlier one may have been committed.
            if not isinstance(error, StoreFull) or before is not attempt:
                self._unresolved = None
            raise
        if attempt.generation != self._session.store.generation:  # the store may have lost items it was known to hold
            self._unresolved = attempt._replace(seconds=seconds)
            await self._session.add(chain.from_iterable([outcome.discovered for outcome in attempt.outcomes]))
        self._unresolved = None
        self._forget(attempt.settlement)
        self._count(attempt.settlement, attempt.outcomes, seconds)

    async def _send(self, settlement: Settlement, connection: Any) -> float:
        """Settle, and return the seconds that it took."""
        began = perf_counter()
        try:
            reply = await self._session.store.settle(self._ref, settlement, connection=connection)
        except LeaseLost as lost:
            self.report_lost(lost)
            raise
        seconds = perf_counter() - began
        self._session.watch_clock(reply.now, seconds)
        return seconds

    def _forget(self, settlement: Settlement) -> None:
        unsettled = self._unsettled[settlement.partition]
        for move in settlement.moves:
            unsettled.pop(move.position, None)
        self._session.remember(settlement.discovered)

    def _count(self, settlement: Settlement, outcomes: Sequence[EncodedOutcome], seconds: float) -> None:
        event = _build_settled_event(self.fence, settlement, seconds)
        for name in self.counts:
            self.counts[name] += getattr(event, name)
        self._session.emit(event)
        if event.died and self._session.is_observed:
            for item, move, *_ in outcomes:
                if move.kind is MoveKind.DEAD:
                    self._session.emit(
                        events.Died(self.fence, item.key, item.lane, item.attempts + 1, move.reason or "")
                    )


def build_settlement(
    partition: int,
    number: int,
    outcomes: Sequence[EncodedOutcome],
    *,
    discovered: Sequence[EncodedItem],
    outputs: Sequence[OutputMove],
) -> Settlement:
    """Build the settlement of some outcomes of one partition."""
    return Settlement(
        partition,
        number,
        moves=[outcome.move for outcome in outcomes],
        discovered=discovered,
        outputs=outputs,
        facts=list({fact.key: fact for outcome in outcomes if outcome.facts for fact in outcome.facts}.values()),
        counters=_sum_counters(outcomes),
        lane_counters=_sum_lane_counters(outcomes),
    )


def _index_keys(items: Iterable[Item]) -> dict[int, dict[int, str]]:
    """Return the keys by partition and position. Keys reveal an item of another frontier at the same position."""
    keys: defaultdict[int, dict[int, str]] = defaultdict(dict)
    for item in items:
        keys[item.partition][item.position] = item.key
    return dict(keys)


def _sum_counters(outcomes: Sequence[EncodedOutcome]) -> Mapping[str, int]:
    counted = [outcome.counters for outcome in outcomes if outcome.counters]
    return _add_up(counted) if counted else NO_COUNTERS


def _sum_lane_counters(outcomes: Sequence[EncodedOutcome]) -> Mapping[str, Mapping[str, int]]:
    counted = [outcome for outcome in outcomes if outcome.lane_counters]
    if not counted:
        return NO_LANE_COUNTERS
    by_lane: defaultdict[str, list[Mapping[str, int]]] = defaultdict(list)
    for outcome in counted:
        by_lane[outcome.item.lane].append(outcome.lane_counters)
    return {lane: _add_up(counters) for lane, counters in by_lane.items()}


def _add_up(several: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for counters in several:
        for name, count in counters.items():
            total[name] = total.get(name, 0) + count
    return total


def _build_settled_event(fence: int, settlement: Settlement, seconds: float) -> events.Settled:
    kinds = [move.kind for move in settlement.moves]
    counts = {name: kinds.count(kind) for kind, name in _COUNT_NAMES.items()}
    return events.Settled(
        fence=fence,
        partition=settlement.partition,
        discovered=len(settlement.discovered),
        seconds=seconds,
        **counts,
    )
