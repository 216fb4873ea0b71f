"""Claim: a leased batch of items, and the only way to settle them."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from itertools import chain
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from swath.core import codec, events
from swath.core.clock import as_datetime, microseconds
from swath.core.errors import InvalidOutcome, LeaseLost, StoreFull, StoreUnavailable, SwathError
from swath.core.item import Dead, Done, Item, Outcome, Release
from swath.core.store import ClaimRef, ClaimReply, EncodedItem, Fact, Move, MoveKind, OutputMove, Settlement

if TYPE_CHECKING:
    from swath.frontier import Frontier

_COUNTED = {
    MoveKind.DONE: "done",
    MoveKind.RETRY: "retried",
    MoveKind.DEAD: "died",
    MoveKind.RELEASE: "released",
    MoveKind.SPLIT: "split",
}
_NONE: dict[int, str] = {}


def lease_clock() -> float:
    """Seconds on a clock that cannot be set and runs on while the machine sleeps."""
    return time.clock_gettime(_LEASE_CLOCK)


_LEASE_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Encoded(NamedTuple):
    """An outcome that was checked and can be committed."""

    item: Item
    move: Move
    discovered: Sequence[EncodedItem]
    facts: Sequence[Fact]
    output: Any
    doubtful: Callable[[], None] | None = None  # settled already, by a commit whose end was not seen? This counts it


class _Sent(NamedTuple):
    """A settlement, what it was made of, and what the store was like when it was known what that holds."""

    settlement: Settlement
    outcomes: Sequence[Encoded]
    generation: int
    seconds: float | None = None  # that it took, once it is answered


def _keys(items: Iterable[Item]) -> dict[int, dict[int, str]]:
    """By partition and position. Those of another frontier have the same places, so it takes a key to tell an item."""
    keys: defaultdict[int, dict[int, str]] = defaultdict(dict)
    for item in items:
        keys[item.partition][item.position] = item.key
    return dict(keys)


class Claim:
    """A batch of items held by one worker until `expires_at`. Only its holder can settle or renew it (INV-2)."""

    def __init__(self, frontier: "Frontier", reply: ClaimReply, *, token: int, lease: float, asked_at: float) -> None:
        self.items: Sequence[Item] = codec.held_items(reply.items)
        self.fence = reply.fence
        self.expires_at: datetime = as_datetime(reply.expires_at)
        self.ends_at = asked_at + lease  # on `lease_clock`, counted from before the request was sent: never too late
        self._frontier = frontier
        self._ref = ClaimRef(reply.fence, token)
        self._lease = lease
        self._number = 0
        self._held = _keys(self.items)  # not settled yet
        self._lost = False
        self._unsure: _Sent | None = None  # and not through: perhaps it is not known whether it took effect
        self._again: set[tuple[int, int]] = set()  # what a settlement that was broken off may be repeated with
        self._one_at_a_time = asyncio.Lock()
        self.tally = dict.fromkeys([*_COUNTED.values(), "discovered"], 0)  # of what was settled
        self.writes_output = False  # whether somebody writes what outcomes hand in as output: a runner that has one

    def __repr__(self) -> str:
        held = f"{self.held} of {len(self.items)} items held"
        return f"<Claim {self.fence}: {held} until {self.expires_at:%H:%M:%S}>"

    @property
    def partitions(self) -> Sequence[int]:
        return sorted(self._held)

    @property
    def held(self) -> int:
        """How many of its items are not settled yet."""
        return sum(map(len, self._held.values()))

    async def renew(self, *, lease: float | None = None) -> None:
        """Make the lease end `lease` seconds from now; as long as it was before, if not given."""
        try:
            await self.prolong(self._lease if lease is None else codec.check_lease(lease))
        except LeaseLost as lost:
            self.lose(lost)
            raise

    async def prolong(self, lease: float) -> None:
        """Renew for a runner, which tells by itself when something is lost."""
        asked_at = lease_clock()
        began = perf_counter()
        expires_at = await self._frontier.store.renew(self._ref, microseconds(lease))
        self.expires_at, self.ends_at, self._lease = as_datetime(expires_at), asked_at + lease, lease
        self._frontier.emit(events.Renewed(self.fence, perf_counter() - began))

    async def settle(
        self, outcomes: Iterable[Outcome], *, connection: Any = None, outputs: Sequence[OutputMove] = ()
    ) -> None:
        """Commit what became of all or some of the items.

        Each partition's outcomes commit together with what they discovered (INV-5). With `connection`, an open psycopg
        or sqlite3 transaction on the frontier's database, everything commits with the caller's own writes: make it the
        last statement before the commit.

        After StoreUnavailable, or when it was cancelled, it is not known whether the outcomes took effect. Call again
        with the same ones: what was sent before is looked up first, and stands. After another error, those of earlier
        partitions may stand: they may be handed in again with the others.
        """
        outcomes = list(outcomes)
        codec.check_outputs(outputs)
        if outputs and not outcomes:
            raise InvalidOutcome(
                "outputs were given without an outcome: hand in those of the items that they were written for"
            )
        grouped = self._grouped(outcomes)
        if outputs and len(grouped) > 1:
            raise InvalidOutcome(
                f"outputs were given with outcomes of partitions {sorted(grouped)}: "
                "one settlement has one partition, so settle them one by one"
            )
        try:
            for partition in sorted(grouped):
                await self.commit(partition, grouped[partition], connection=connection, outputs=outputs)
        except (SwathError, asyncio.CancelledError):
            self._again.update((part, outcome.move.position) for part, group in grouped.items() for outcome in group)
            raise
        if self._again:
            self._again.difference_update((outcome.item.partition, outcome.item.position) for outcome in outcomes)

    def _grouped(self, outcomes: Iterable[object]) -> dict[int, list[Encoded]]:
        """Outcomes by partition. Nothing is sent before all of them are known to be good."""
        grouped: dict[int, list[Encoded]] = {}
        for outcome in outcomes:
            if self._again and isinstance(outcome, Outcome) and self._was_settled(outcome.item):
                continue  # before the store was lost
            encoded = self.encode(outcome)
            partition = encoded.item.partition
            group = grouped.get(partition)
            if group is None:
                group = grouped[partition] = []
            group.append(encoded)
        for group in grouped.values():
            if len({outcome.move.position for outcome in group}) < len(group):
                positions = [outcome.move.position for outcome in group]
                twice = next(outcome for outcome in group if positions.count(outcome.move.position) > 1)
                raise InvalidOutcome(f"{twice.item.key!r} has two outcomes in one settlement: it can have one")
        return grouped

    def encode(self, outcome: object) -> Encoded:
        """Check an outcome by itself: it can be stored, and is for an item that this claim still holds."""
        if not isinstance(outcome, Done):  # nearly all are, and to ask for one class is a tenth of asking for any
            return self._encode_other(outcome)
        item, result, discovered, revisit_after, facts, output, started = outcome
        # Asked here and below: for every item, a method would cost as much as the answer.
        if self._held.get(item.partition, _NONE).get(item.position) != item.key:
            raise self._not_held(item)
        found: Sequence[EncodedItem] = ()
        if discovered:
            partitions = self._frontier.store.settings.partitions
            found = [codec.new_item(new, partitions) for new in discovered]
        known = codec.facts(facts) if facts else ()
        if output is not None:
            self._check_output(item)
        move = codec.done(item, result, revisit_after, started)
        return tuple.__new__(Encoded, (item, move, found, known, output, None))

    def _encode_other(self, outcome: object) -> Encoded:
        if not isinstance(outcome, Outcome):
            raise InvalidOutcome(f"{outcome!r} is not an outcome: use item.done(), .retry(), .dead(), .release() …")
        item = outcome.item
        if self._held.get(item.partition, _NONE).get(item.position) != item.key:
            raise self._not_held(item)
        settings = self._frontier.store.settings
        move = codec.move(outcome, max_attempts=settings.max_attempts, partitions=settings.partitions)
        output = outcome.output if isinstance(outcome, Dead | Release) else None
        if output is not None:
            self._check_output(item)
        return Encoded(item, move, (), (), output)

    def _not_held(self, item: Item) -> InvalidOutcome:
        return InvalidOutcome(
            f"claim {self.fence} does not hold {item.key!r}: it was settled before, or belongs to another claim"
        )

    def _check_output(self, item: Item) -> None:
        if not self.writes_output:
            raise InvalidOutcome(
                f"the outcome of {item.key!r} has an output, which nobody writes: give `run()` an `output=`, "
                "or write the file yourself and settle with `outputs=`"
            )

    def _was_settled(self, item: Item) -> bool:
        """Whether a settlement that was broken off had come so far."""
        place = (item.partition, item.position)
        return place in self._again and item.position not in self._held.get(item.partition, ())

    async def commit(
        self,
        partition: int,
        outcomes: Sequence[Encoded],
        *,
        connection: Any = None,
        outputs: Sequence[OutputMove] = (),
    ) -> None:
        """Settle encoded outcomes of one partition. May be called again with the same ones after StoreUnavailable."""
        if connection is not None:
            settlement = self._settlement(partition, 0, outcomes, outputs)
            self._count(settlement, await self._send(settlement, connection))
            return  # the caller may still roll back: the store refuses what is settled twice
        async with self._one_at_a_time:
            if self._unsure is not None:
                await self._send_surely(self._unsure)
            mine = self._held[partition]
            held = [outcome for outcome in outcomes if outcome.move.position in mine]
            if held:
                self._number += 1
                settlement = self._settlement(partition, self._number, held, outputs)
                await self._send_surely(_Sent(settlement, held, self._frontier.store.generation))

    async def stage(self, outcome: Encoded, connection: Any) -> Callable[[], None]:
        """Settle an outcome inside an open transaction; what is returned is to be called once that has committed."""
        settlement = self._settlement(outcome.item.partition, 0, [outcome], ())
        seconds = await self._send(settlement, connection)

        def committed() -> None:
            self._let_go(settlement)
            self._count(settlement, seconds)

        return committed

    def _settlement(
        self, partition: int, number: int, outcomes: Sequence[Encoded], outputs: Sequence[OutputMove]
    ) -> Settlement:
        found = chain.from_iterable([outcome.discovered for outcome in outcomes])
        return Settlement(
            partition,
            number,
            moves=[outcome.move for outcome in outcomes],
            # Where the store turns out to have lost what it was known to hold, a caller's transaction is over (INV-4).
            discovered=self._frontier.unknown(found) if number else list(found),
            outputs=outputs,
            facts=list({fact.key: fact for outcome in outcomes if outcome.facts for fact in outcome.facts}.values()),
        )

    async def _send_surely(self, sent: _Sent) -> None:
        """A lost reply is looked up, not guessed: what may have taken effect is sent again, under its number, before
        anything else is."""
        before, self._unsure = self._unsure, sent
        try:
            seconds = await self._send(sent.settlement, None) if sent.seconds is None else sent.seconds
        except StoreUnavailable:
            raise
        except SwathError as error:  # nothing was changed; with no room to tell, by this try
            if not isinstance(error, StoreFull) or before is not sent:
                self._unsure = None
            raise
        if sent.generation != self._frontier.store.generation:  # what was known to be in the store may have gone
            self._unsure = sent._replace(seconds=seconds)
            await self._frontier.add(chain.from_iterable([outcome.discovered for outcome in sent.outcomes]))
        self._unsure = None
        self._let_go(sent.settlement)
        self._count(sent.settlement, seconds)

    async def _send(self, settlement: Settlement, connection: Any) -> float:
        """Settle, and return the seconds that it took."""
        began = perf_counter()
        try:
            reply = await self._frontier.store.settle(self._ref, settlement, connection=connection)
        except LeaseLost as lost:
            self.lose(lost)
            raise
        seconds = perf_counter() - began
        self._frontier.clock_seen(reply.now, seconds)
        return seconds

    def _let_go(self, settlement: Settlement) -> None:
        held = self._held[settlement.partition]
        for move in settlement.moves:
            held.pop(move.position, None)
        self._frontier.recent.remember(item.hash for item in settlement.discovered)

    def _count(self, settlement: Settlement, seconds: float) -> None:
        settled = _settled(self.fence, settlement, seconds)
        for name in self.tally:
            self.tally[name] += getattr(settled, name)
        self._frontier.emit(settled)

    def lose(self, lost: LeaseLost) -> None:
        """Say that what is held is dropped, once."""
        if not self._lost:
            self._lost = True
            self._frontier.emit(events.Lost(self.fence, self.held, str(lost)))


def _settled(fence: int, settlement: Settlement, seconds: float) -> events.Settled:
    kinds = [move.kind for move in settlement.moves]
    counts = {name: kinds.count(kind) for kind, name in _COUNTED.items()}
    return events.Settled(
        fence=fence,
        partition=settlement.partition,
        discovered=len(settlement.discovered),
        seconds=seconds,
        **counts,
    )
