"""Player: the steps that the rules of a machine share.

Each call goes to the store and to the ledger. If the store must behave exactly like the model, the model
gets it too.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar, cast

from hypothesis.stateful import RuleBasedStateMachine, invariant

from swath.backends.memory import MemoryStore
from swath.core.clock import Clock, ManualClock
from swath.core.errors import LeaseLost, SwathError
from swath.core.item import Item
from swath.core.lane import KEY_HASH_BYTES, locate_lane
from swath.core.store import (
    ITEM_STATES,
    ClaimRef,
    ClaimReply,
    ClaimRequest,
    EncodedItem,
    Fact,
    Found,
    ItemRow,
    LaneChange,
    LaneRow,
    Move,
    OutputMove,
    PartitionStatus,
    Settings,
    Settlement,
    Signal,
    Store,
)
from tests.stateful.ledger import Ledger, Name

MakeStore = Callable[[Settings, Clock], Coroutine[Any, Any, Store]]
T = TypeVar("T")

MILLISECOND = 1_000
SECOND = 1_000_000
FILE = "pages.warc"
FACTS = ("robots", "digest")


@dataclass(slots=True, eq=False)
class Hand:
    """A claim as its worker got it, whatever happened to it since."""

    ref: ClaimRef
    model: ClaimRef
    items: Sequence[Item]
    number: int = 0
    last: Settlement | None = None

    def as_stranger(self) -> "Hand":
        """A reference with the right fence and a wrong token."""
        stranger = replace(self)
        stranger.ref, stranger.model = [ref._replace(token=ref.token + 1) for ref in (self.ref, self.model)]
        return stranger


class Look(NamedTuple):
    """Everything that can be read from a store."""

    found: dict[Name, Found]
    status: Sequence[PartitionStatus]
    counted: Sequence[PartitionStatus]
    lanes: Sequence[tuple[int, LaneRow]]
    items: dict[str, Sequence[ItemRow]]  # by state
    pending: Sequence[ItemRow]
    outputs: dict[str, int]
    counters: dict[str, int]
    facts: dict[str, str]
    signal: Signal


class Player(RuleBasedStateMachine):
    """A store on a manual clock, the model, and the ledger that records every call."""

    def __init__(self, make_store: MakeStore, *, partitions: int, exact: bool) -> None:
        super().__init__()
        self.make_store = make_store
        self.partitions = partitions
        self.exact = exact
        self.clock = ManualClock()
        self.runner = asyncio.Runner()
        self.hands: list[Hand] = []  # claims of living workers
        self.gone: list[Hand] = []  # claims of lost workers, which may come back as zombies
        self.fences: dict[int, int] = {}  # the store's to the model's
        self.tokens = 0
        self.steps = 0
        self.well = False  # nothing has failed so far
        self.store: Store | None = None
        self.seen: Look | None = None

    def open(self, settings: Settings) -> None:
        self.subject = self.store = self.run(self.make_store(settings, self.clock))
        self.model = MemoryStore(settings, clock=self.clock)
        self.ledger = Ledger(settings)

    def teardown(self) -> None:
        """A play that went well is played to its end."""
        try:
            if self.well:
                self.finish()
                self.promises()
        finally:
            if self.store is not None:
                self.run(self.store.close())
            self.runner.close()

    def finish(self) -> None:
        """Bring everything to its end."""

    def step(self) -> None:
        self.well = False
        self.steps += 1
        self.advance(MILLISECOND)

    def advance(self, microseconds: int) -> None:
        self.clock.advance(microseconds / SECOND)

    def do_add(self, items: Sequence[EncodedItem]) -> None:
        self.ledger.added(items, self.must(lambda store: store.add(items)))

    def do_claim(self, worker: str, limit: int, lease: int, order: Sequence[int]) -> ClaimReply:
        self.tokens += 1
        request = ClaimRequest(limit, lease, worker, self.tokens, order)
        self.seen = None
        reply = self.run(self.subject.claim(request))
        model = ClaimRef(0, self.tokens)
        if self.exact:
            expected = self.run(self.model.claim(request))
            model = ClaimRef(expected.fence, self.tokens)
            self.fences[reply.fence] = expected.fence
            assert_same_claim(reply, expected)
        assert list(reply.skipped) == []
        self.ledger.claimed(reply, limit=limit, found=self.look().found, times=self.times())
        if reply.items:
            self.hands.append(Hand(ClaimRef(reply.fence, self.tokens), model, reply.items))
        return reply

    def do_settle(
        self,
        hand: Hand,
        partition: int,
        moves: Sequence[Move],
        discovered: Sequence[EncodedItem] = (),
        outputs: Sequence[OutputMove] = (),
        facts: Sequence[Fact] = (),
    ) -> None:
        lane_counters = {lane: {"moves": count} for lane, count in self.count_moves(hand, partition, moves).items()}
        counters = {"moves": len(moves), f"claim {hand.ref.fence % 2}": 1}
        settlement = Settlement(partition, hand.number + 1, moves, discovered, outputs, facts, counters, lane_counters)
        if self.is_lost(hand):
            self.refuse_settle(hand, settlement, LeaseLost)
            return
        reply = self.must(lambda store: store.settle(self.ref(store, hand), settlement))
        hand.number, hand.last = hand.number + 1, settlement
        self.ledger.settled(hand.ref.fence, settlement, reply)

    def count_moves(self, hand: Hand, partition: int, moves: Sequence[Move]) -> Counter[str]:
        """Count the moves of each lane."""
        lanes = {item.position: item.lane for item in hand.items if item.partition == partition}
        return Counter(lanes[move.position] for move in moves)

    def refuse_settle(self, hand: Hand, settlement: Settlement, error_type: type[SwathError]) -> None:
        self.refused(lambda store: store.settle(self.ref(store, hand), settlement), error_type)

    def do_renew(self, hand: Hand, lease: int) -> None:
        held = self.ledger.claims[hand.ref.fence]
        if held.lost or held.expires_at <= self.clock.now():
            self.refused(lambda store: store.renew(self.ref(store, hand), lease), LeaseLost)
        else:
            expires_at = self.must(lambda store: store.renew(self.ref(store, hand), lease))
            self.ledger.renewed(hand.ref.fence, expires_at)

    def do_look_up(self, hand: Hand, settlement: Settlement) -> None:
        """Settle again under the same number. The rest of the lost reply does not matter."""

        async def checkpoint(store: Store) -> int:
            return (await store.settle(self.ref(store, hand), settlement)).checkpoint

        self.must(checkpoint)

    def do_change_lane(self, lane: str, change: LaneChange) -> None:
        partition = locate_lane(lane, self.partitions)[0]
        self.must(lambda store: store.change_lane(partition, lane, change))
        self.ledger.changed_lane(lane, change, self.times())

    def do_pause(self, paused: bool) -> None:
        self.must(lambda store: store.change_settings(paused=paused))
        self.ledger.paused = paused

    def do_change_settings(self, interval: int | None, concurrency: int | None, attempts: int | None) -> None:
        self.must(
            lambda store: store.change_settings(min_interval=interval, concurrency=concurrency, max_attempts=attempts)
        )
        values = {"min_interval": interval, "concurrency": concurrency, "max_attempts": attempts}
        self.ledger.changed_settings(self.times(), **values)

    def is_lost(self, hand: Hand) -> bool:
        return self.ledger.claims[hand.ref.fence].lost

    def busy(self) -> list[Hand]:
        """Return the workers that hold unsettled items."""
        return [hand for hand in self.hands if self.open_items(hand)]

    def open_items(self, hand: Hand) -> list[Item]:
        places = self.ledger.claims[hand.ref.fence].names
        return [item for item in hand.items if (item.partition, item.position) in places]

    def must(self, call: Callable[[Store], Awaitable[T]]) -> T:
        """Call the store, and the model if they must agree."""
        reply, error = self.both(call)
        if error is not None:
            raise error
        return cast(T, reply)

    def refused(self, call: Callable[[Store], Awaitable[T]], error_type: type[SwathError]) -> None:
        """Call the store, which must refuse; call the model too if they must agree."""
        _, error = self.both(call)
        assert isinstance(error, error_type), f"{error_type.__name__} was due, not {error!r}"

    def both(self, call: Callable[[Store], Awaitable[T]]) -> tuple[T | None, SwathError | None]:
        self.seen = None
        reply, error = self.run(_outcome(call(self.subject)))
        if self.exact:
            expected, expected_error = self.run(_outcome(call(self.model)))
            assert type(error) is type(expected_error), f"{error!r}, and the model: {expected_error!r}"
            assert whole(reply) == whole(expected), f"{reply}, and the model: {expected}"
        return reply, error

    @invariant()
    def promises(self) -> None:
        """INV-1 to INV-7, after every step."""
        if self.store is None:
            return
        look = self.look()
        assert _counters(look.status) == _counters(look.counted), "status is not what is there"
        self.ledger.check(look.found, look.status, look.lanes, look.outputs, look.counters, look.facts)
        if self.exact:
            self.as_the_model(look)
        self.well = True

    def as_the_model(self, look: Look) -> None:
        model = self.run(_look(self.model, self._items()))
        for name, found in look.found.items():
            mapped = found if found.fence is None else found._replace(fence=self.fences[found.fence])
            assert whole(mapped) == whole(model.found[name])
        for mine, theirs in zip(look.status, model.status, strict=True):
            assert mine._replace(next_ready_at=None, time=0) == theirs._replace(next_ready_at=None, time=0)
            assert not_later(mine.next_ready_at, theirs.next_ready_at), "lost wake-up: a worker would sleep through it"
        for part in ("lanes", "items", "pending", "outputs", "counters", "facts", "signal"):
            assert whole(getattr(look, part)) == whole(getattr(model, part))

    def look(self) -> Look:
        """All that can be seen, looked at again only when something may have changed."""
        if self.seen is None:
            self.seen = self.run(_look(self.subject, self._items()))
        return self.seen

    def times(self) -> dict[int, int]:
        """Of the partitions."""
        status = self.run(self.subject.status()).partitions if self.seen is None else self.seen.status
        return {partition.partition: partition.time for partition in status}

    def _items(self) -> list[EncodedItem]:
        return [entry.item for entry in self.ledger.entries.values()]

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(coroutine)

    def ref(self, store: Store, hand: Hand) -> ClaimRef:
        return hand.model if store is self.model else hand.ref


async def _look(store: Store, items: Sequence[EncodedItem]) -> Look:
    """Every item that was ever added is in exactly one place (INV-4)."""
    found: dict[Name, Found] = {}
    for key in sorted({item.hash[:KEY_HASH_BYTES] for item in items}):
        same_key = [item for item in items if item.hash[:KEY_HASH_BYTES] == key]
        places = await store.find(key, None)
        lanes = {place.lane.lane: place for place in places if place.lane is not None}
        for item in same_key:
            if item.lane not in lanes:  # in an inbox: what is there has no lane yet
                (lanes[item.lane],) = await store.find(key, item.hash[KEY_HASH_BYTES:])
            found[item.lane, item.key] = lanes[item.lane]
        assert len(places) == len(same_key), f"INV-4: {[item.lane for item in same_key]}, and found {places}"
    return Look(
        found=found,
        status=(await store.status()).partitions,
        counted=await store.recount(),
        lanes=list(await store.lanes()),
        items={state: _ignore_fences((await store.items(state)).rows) for state in ITEM_STATES},
        pending=list(await store.pending(revisits=True)),
        outputs=await store.outputs(),
        counters=await store.counters(),
        facts=await store.facts(FACTS),
        signal=await store.signal(),
    )


async def _outcome(call: Awaitable[T]) -> tuple[T | None, SwathError | None]:
    try:
        return await call, None
    except SwathError as error:
        return None, error


def _ignore_fences(rows: Sequence[ItemRow]) -> Sequence[ItemRow]:
    """The numbers of claims differ between the store and the model, and with them the order of what they hold."""
    return sorted((row._replace(fence=None) for row in rows), key=lambda row: (row.partition, row.position))


def _counters(partitions: Sequence[PartitionStatus]) -> list[PartitionStatus]:
    return [status._replace(next_ready_at=None, time=0) for status in partitions]


def assert_same_claim(reply: ClaimReply, expected: ClaimReply) -> None:
    assert list(reply.items) == list(expected.items)
    assert (reply.recovered, reply.died, reply.signal) == (expected.recovered, expected.died, expected.signal)
    # Where it found nothing it may have looked into a partition whose time is ahead of a clock that stepped back.
    assert whole(reply.now) >= whole(expected.now)
    assert not reply.items or whole(reply.now) == whole(expected.now)
    assert not reply.items or whole(reply.expires_at) == whole(expected.expires_at)
    assert not_later(reply.next_ready_at, expected.next_ready_at), "lost wake-up: a worker would sleep through it"


def not_later(mine: int | None, expected: int | None) -> bool:
    """Whoever sleeps until `mine` is awake at `expected`."""
    return expected is None or (mine is not None and whole(mine) <= whole(expected))


def whole(value: Any) -> Any:
    """A value with its times in whole milliseconds, as the clock has them. While the clock is behind, every move adds
    a microsecond to a partition's time, and how often it is looked into is up to the store."""
    match value:
        case int() if value > 1_000 * SECOND:
            return value // MILLISECOND
        case tuple() | list():
            return [whole(part) for part in value]
        case dict():
            return {name: whole(part) for name, part in value.items()}
        case _:
            return value
