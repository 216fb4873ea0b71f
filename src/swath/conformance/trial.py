"""Trial: a store under test with its clock, shorthands for its methods, and checks that must always pass."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest_asyncio

from swath.core.clock import Clock, ManualClock, to_microseconds
from swath.core.counters import NO_COUNTERS, NO_LANE_COUNTERS
from swath.core.encoding import encode_item
from swath.core.item import DEFAULT_PRIORITY, Item
from swath.core.key_check import check_keys
from swath.core.lane import hash_key, locate_lane
from swath.core.store import (
    ClaimRef,
    ClaimReply,
    ClaimRequest,
    EncodedItem,
    Fact,
    Found,
    LaneChange,
    LaneRow,
    Move,
    MoveKind,
    OutputMove,
    PartitionStatus,
    Settings,
    Settlement,
    SettleReply,
    Store,
)

LANE = "lane"
LEASE = 60.0

COUNTED = (
    "ready",
    "delayed",
    "claimed",
    "done",
    "visits",
    "dead",
    "lanes",
    "inbox",
    "checkpoint",
    "checkpoint_dead",
    "end",
)
STATES = frozenset({"inbox", "ready", "delayed", "claimed", "done", "dead"})


def list_counts(status: PartitionStatus) -> dict[str, int]:
    """Return the counts of a partition, without the times."""
    return {name: getattr(status, name) for name in COUNTED}


def name_lane(partition: int, partitions: int, nth: int = 0) -> str:
    """Return the name of the `nth` lane of this partition."""
    names = (name for n in count() if locate_lane(name := f"lane{n}", partitions)[0] == partition)
    return next(name for n, name in enumerate(names) if n == nth)


def done(
    item: Item,
    *,
    result: str | None = None,
    revisit: float | None = None,
    started: bool = True,
    payload: str | None = None,
) -> Move:
    delay = None if revisit is None else to_microseconds(revisit)
    return Move(item.position, MoveKind.DONE, delay=delay, result=result, started=started, payload=payload)


def retry(item: Item, *, after: float = 0, reason: str = "later", error: str | None = None) -> Move:
    return Move(item.position, MoveKind.RETRY, delay=to_microseconds(after), reason=reason, error=error)


def dead(item: Item, *, reason: str = "no use", error: str | None = None, started: bool = True) -> Move:
    return Move(item.position, MoveKind.DEAD, reason=reason, error=error, started=started)


def release(item: Item, *, started: bool = True, after: float | None = None) -> Move:
    delay = None if after is None else to_microseconds(after)
    return Move(item.position, MoveKind.RELEASE, delay=delay, started=started)


def split(
    item: Item,
    partitions: int,
    *,
    rest: str,
    payload: str | None = None,
    rest_payload: str | None = None,
    result: str | None = None,
) -> Move:
    other = encode_item(Item(rest, item.lane, item.priority, span=item.span), partitions)._replace(payload=rest_payload)
    return Move(item.position, MoveKind.SPLIT, payload=payload, rest=other, result=result)


@dataclass(slots=True)
class Batch:
    """A claim, with shorthands to settle and renew it."""

    store: Store
    reply: ClaimReply
    ref: ClaimRef
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    @property
    def items(self) -> Sequence[Item]:
        return self.reply.items

    @property
    def keys(self) -> list[str]:
        return [item.key for item in self.items]

    @property
    def partitions(self) -> list[int]:
        return sorted({item.partition for item in self.items})

    def __getitem__(self, key: str) -> Item:
        (item,) = [item for item in self.items if item.key == key]
        return item

    @property
    def only(self) -> Item:
        (item,) = self.items
        return item

    async def settle(
        self,
        *moves: Move,
        partition: int | None = None,
        number: int | None = None,
        discovered: Sequence[EncodedItem] = (),
        outputs: Sequence[OutputMove] = (),
        facts: Sequence[Fact] = (),
        counters: Mapping[str, int] = NO_COUNTERS,
        lane_counters: Mapping[str, Mapping[str, int]] = NO_LANE_COUNTERS,
        connection: Any = None,
    ) -> SettleReply:
        """Settle in one partition. It need not be named if the claim covers only one."""
        if partition is None:
            (partition,) = self.partitions
        number = next(self.numbers) if number is None else number
        settlement = Settlement(partition, number, moves, discovered, outputs, facts, counters, lane_counters)
        return await self.store.settle(self.ref, settlement, connection=connection)

    async def finish(self, *keys: str) -> SettleReply:
        """Settle these items, or all, as done; return the reply of the last partition."""
        reply = None
        for partition in self.partitions:
            mine = [item for item in self.items if item.partition == partition and (not keys or item.key in keys)]
            if mine:
                reply = await self.settle(*map(done, mine), partition=partition)
        assert reply is not None, f"the claim holds none of {keys}"
        return reply

    async def renew(self, lease: float = LEASE) -> int:
        return await self.store.renew(self.ref, to_microseconds(lease))


@dataclass(slots=True)
class Trial:
    """One store, its clock, and shorthands for its methods. Times are seconds."""

    store: Store
    clock: ManualClock
    tokens: Iterator[int] = field(default_factory=lambda: count(1))

    @property
    def partitions(self) -> int:
        return self.store.settings.partitions

    def item(
        self,
        key: str,
        *,
        lane: str = LANE,
        priority: int = DEFAULT_PRIORITY,
        payload: str | None = None,
        span: int = 1,
        after: float | None = None,
    ) -> EncodedItem:
        """Encode an item. `payload` is JSON text; `after` delays the item by that many seconds."""
        item = encode_item(Item(key, lane, priority, span=span), self.partitions)
        not_before = None if after is None else self.clock.now() + to_microseconds(after)
        return item._replace(payload=payload, not_before=not_before)

    def lane(self, partition: int, nth: int = 0) -> str:
        return name_lane(partition, self.partitions, nth)

    async def add(
        self, *keys: str, lane: str = LANE, priority: int = DEFAULT_PRIORITY, span: int = 1, after: float | None = None
    ) -> int:
        items = [self.item(key, lane=lane, priority=priority, span=span, after=after) for key in keys]
        return await self.store.add(items)

    async def claim(
        self,
        limit: int = 100,
        *,
        lease: float = LEASE,
        worker: str = "worker",
        order: Sequence[int] | None = None,
    ) -> Batch:
        token = next(self.tokens)
        order = range(self.partitions) if order is None else order
        reply = await self.store.claim(ClaimRequest(limit, to_microseconds(lease), worker, token, order))
        return Batch(self.store, reply, ClaimRef(reply.fence, token))

    async def claim_each(self, *keys: str, rounds: int = 20, lease: float = LEASE) -> dict[str, Batch]:
        """Claim until all of these keys are claimed: items discovered for another partition may arrive later."""
        held: dict[str, Batch] = {}
        for _ in range(rounds):
            if set(keys) <= held.keys():
                break
            batch = await self.claim(lease=lease)
            held |= dict.fromkeys(batch.keys, batch)
        assert sorted(held) == sorted(keys)
        return held

    async def change_lane(
        self,
        lane: str = LANE,
        *,
        min_interval: float | None = None,
        concurrency: int | None = None,
        paused: bool | None = None,
        blocked_until: int | None = None,
        blocked_for: float | None = None,
        at_least: bool = False,
    ) -> None:
        interval = None if min_interval is None else min_interval if min_interval < 0 else to_microseconds(min_interval)
        change = LaneChange(
            None if interval is None else int(interval),
            concurrency,
            paused,
            blocked_until,
            at_least,
            None if blocked_for is None else to_microseconds(blocked_for),
        )
        await self.store.change_lane(locate_lane(lane, self.partitions)[0], lane, change)

    async def wait_until(self, moment: int) -> None:
        """Set the clock to a time of the store, which may be earlier or later."""
        self.clock.advance((moment - self.clock.now()) / 1_000_000)

    async def find(self, key: str, lane: str | None = None) -> Sequence[Found]:
        lane_hash = None if lane is None else locate_lane(lane, self.partitions)[1]
        return await self.store.find(hash_key(key), lane_hash)

    async def find_only(self, key: str, lane: str | None = None) -> Found:
        (found,) = await self.find(key, lane)
        assert found.state in STATES
        return found

    async def state(self, key: str, lane: str | None = None) -> str:
        return (await self.find_only(key, lane)).state

    async def lane_status(self, lane: str = LANE) -> LaneRow:
        status = await self.store.lane(locate_lane(lane, self.partitions)[0], lane)
        assert status is not None
        return status

    async def status(self, partition: int = 0) -> PartitionStatus:
        return (await self.store.status()).partitions[partition]

    async def total(self, *names: str) -> int:
        """Return the sum of these counters over all partitions."""
        return sum(getattr(status, name) for status in (await self.store.status()).partitions for name in names)

    async def take_snapshot(self, *keys: str) -> tuple[object, ...]:
        """Return everything that a refused call must not change."""
        found = [await self.find(key) for key in keys]
        status = [list_counts(status) for status in (await self.store.status()).partitions]
        dead = await self.store.items("dead")
        return found, status, await self.store.outputs(), dead, await self.store.lanes()

    async def check(self) -> None:
        """Check what must always be true: exact counters (INV-4) and a correct checkpoint (INV-6)."""
        kept, counted = (await self.store.status()).partitions, await self.store.recount()
        assert [list_counts(status) for status in kept] == [list_counts(status) for status in counted]
        for status in kept:
            assert 0 <= status.checkpoint <= status.end, status
            assert 0 <= status.checkpoint_dead <= status.dead, status
            if status.ready == status.delayed == status.claimed == 0:
                assert status.checkpoint == status.end, f"the checkpoint is not at the end: {status}"
        keys = await check_keys(self.store, after=None, seconds=None)
        assert keys.mismatches == [], "INV-4, INV-7: a key is in two places or in none"


Start = Callable[..., Awaitable[Trial]]


class Conformance:
    """The base of every part of the suite. A subclass implements `make_store`."""

    async def make_store(self, settings: Settings, clock: Clock) -> Store:
        """Return a new, empty frontier that uses `clock`. Required."""
        raise NotImplementedError(f"{type(self).__name__} must implement `async def make_store(self, settings, clock)`")

    @pytest_asyncio.fixture
    async def start(self) -> AsyncIterator[Start]:
        """Return a function that starts trials. Each is checked and closed after the test."""
        trials: list[Trial] = []

        async def start(
            *, partitions: int = 1, min_interval: float = 0, concurrency: int = 0, max_attempts: int = 5
        ) -> Trial:
            clock = ManualClock()
            settings = Settings(partitions, to_microseconds(min_interval), concurrency, max_attempts)
            trials.append(Trial(await self.make_store(settings, clock), clock))
            return trials[-1]

        yield start
        for trial in trials:
            try:
                await trial.check()
            finally:
                await trial.store.close()
