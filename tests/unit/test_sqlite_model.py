"""SQLite does exactly what the model does: the same replies, times and counters for the same calls on one clock."""

import os
import random
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import astuple
from pathlib import Path
from typing import Any

import pytest

from swath.backends.memory import MemoryStore
from swath.backends.sqlite import SqliteStore
from swath.core.clock import SECOND, ManualClock
from swath.core.errors import SwathError
from swath.core.item import LEVELS
from swath.core.lane import hash_key, locate_lane
from swath.core.store import (
    DEFAULT,
    ITEM_STATES,
    ClaimRef,
    ClaimReply,
    ClaimRequest,
    EncodedItem,
    LaneChange,
    Move,
    MoveKind,
    OutputMove,
    RowPage,
    Settings,
    Settlement,
)

STEPS = 250
FOUND = 50  # keys that are looked for each time
LANE_ROWS = """
    SELECT partition, number, name, min_interval, concurrency, blocked_until, waiting, in_flight, last_at, ready_at,
           visits, counters, low, head, level, paused FROM swath_lane
"""
READY_AT = 7  # its place behind partition and number
PARTITION_ROWS = """
    SELECT partition, time, next_position, next_place, checkpoint, checkpoint_dead, claims_made,
           ready, delayed, claimed, done, dead, lanes, visits FROM swath_partition_state
"""
HELD_ROWS = "SELECT fence, partition, position, lane FROM swath_claimed"
SEEDS = [int(seed) for seed in os.environ["SWATH_SEED"].split(",")] if "SWATH_SEED" in os.environ else range(3)
LANES = [*"abcdefghij", "with\ttab and \x01", 'quoted "ä" 🦊']


class Driver:
    """Calls both stores with the same random arguments and compares everything that comes back.

    Several SQLite stores are on one file, as in several processes: any of them does what the next call asks for.
    """

    def __init__(self, seed: int, model: MemoryStore, stores: Sequence[SqliteStore], clock: ManualClock) -> None:
        self.random = random.Random(seed)
        self.model = model
        self.stores = stores
        self.store = stores[0]
        self.clock = clock
        self.partitions = model.settings.partitions
        self.keys: list[tuple[str, str]] = []
        self.claims: list[tuple[ClaimReply, int, dict[tuple[int, int], Any]]] = []
        self.numbers: dict[int, int] = {}
        self.settled: list[tuple[int, int]] = []
        self.outputs: dict[str, int] = {}

    async def both(self, move: str, *arguments: Any, **options: Any) -> Any:
        """The reply of both, which is the same; an error is a reply too."""
        replies = []
        self.store = self.random.choice(self.stores)
        for store in (self.model, self.store):
            try:
                replies.append(await getattr(store, move)(*arguments, **options))
            except SwathError as error:
                replies.append(type(error))
        expected, got = replies
        if isinstance(expected, ClaimReply):
            assert got._replace(items=list(got.items)) == expected._replace(
                items=list(expected.items), next_ready_at=_expected_moment(got, expected, arguments[0])
            )
        elif isinstance(expected, RowPage):
            assert list(got.rows) == list(expected.rows), f"{move}{arguments}{options}"  # each has its own cursors
        else:
            assert got == expected, f"{move}{arguments}{options}"
        return expected

    async def compare(self) -> None:
        expected, status = await self.model.status(), await self.store.status()
        assert status._replace(partitions=list(status.partitions)) == expected
        assert list(await self.store.recount()) == expected.partitions
        if len(self.stores) == 1:  # otherwise known to one that has written since
            assert self.store.settings == self.model.settings

    def compare_known(self) -> None:
        """What the only writer keeps in memory is what the tables say."""
        if len(self.stores) > 1:
            return
        with closing(sqlite3.connect(self.store.path)) as connection:
            lanes = {(row[0], row[1]): row[2:] for row in connection.execute(LANE_ROWS)}
            items = {tuple(where): lane for *where, lane in connection.execute(HELD_ROWS)}
            partitions = {row[0]: row for row in connection.execute(PARTITION_ROWS)}
        known = self.store._writer._session
        if known is None:  # something was refused
            return
        assert not any(row.milestone for row in known.partitions.values())  # written with its partition
        assert {number: astuple(row)[:-1] for number, row in known.partitions.items()}.items() <= partitions.items()
        for partition, numbered in known.lanes.items():
            for number, lane in numbered.items():
                stored = list(lanes[partition, number])
                if lane.level is None:  # the lane is not in the queue, so its place there means nothing
                    stored[READY_AT] = lane.ready_at
                assert list(astuple(lane)[1:15]) == stored
                assert known.named[partition][lane.name] is lane
        held = {(*where, position): lane for where, lanes in known.held.items() for position, lane in lanes.items()}
        assert held == {where: lane for where, lane in items.items() if where[:2] in known.held}

    async def compare_all(self) -> None:
        await self.compare()
        self.compare_known()
        for name in ("lanes", "claims", "outputs", "counters", "signal"):
            await self.both(name)
        for state in ITEM_STATES:
            await self.both("items", state, limit=1_000)
        await self.both("lanes", after=(0, 2), limit=3)
        lane = self.random.choice(LANES)
        await self.both("lane", locate_lane(lane, self.partitions)[0], lane)
        for key, lane in self.random.sample(self.keys, min(len(self.keys), FOUND)):
            await self.both("find", hash_key(key), locate_lane(lane, self.partitions)[1])
            await self.both("find", hash_key(key), None)

    # what can be done

    async def step(self) -> None:
        moves = {
            self.add: 20,
            self.claim: 25,
            self.settle: 30,
            self.advance: 20,
            self.renew: 5,
            self.change_lane: 6,
            self.change_settings: 3,
            self.requeue_lanes: 3,
            self.reopen: 4,
            self.drop: 4,
            self.settle_again: 2,
        }
        (move,) = self.random.choices(list(moves), list(moves.values()))
        await move()

    def new_item(self, span: int | None = None) -> EncodedItem:
        choose = self.random
        if self.keys and choose.random() < 0.3:
            key, lane = choose.choice(self.keys)
        else:
            key, lane = f"key {choose.randrange(10_000)} é", choose.choice(LANES)
            self.keys.append((key, lane))
        partition, lane_hash = locate_lane(lane, self.partitions)
        later = self.clock.now() + choose.randrange(-5, 10) * SECOND
        return EncodedItem(
            partition=partition,
            hash=hash_key(key) + lane_hash,
            lane=lane,
            priority=choose.choice([3, 3, 3, choose.randrange(LEVELS)]),
            key=key,
            payload=choose.choice([None, '{"lo": 1, "hi": 9}']),
            not_before=choose.choice([None, None, None, later]),
            span=span or choose.choice([1, 1, 2, 7, 64]),
        )

    async def add(self) -> None:
        items = [self.new_item() for _ in range(self.random.randrange(1, 30))]
        await self.both("add", items + self.random.choices(items, k=2))

    async def claim(self) -> None:
        choose = self.random
        order = list(range(self.partitions))
        choose.shuffle(order)
        token = choose.randrange(2**63)
        request = ClaimRequest(
            limit=choose.choice([1, 2, 5, 10, 40, 200]),
            lease=choose.choice([1, 5, 30]) * SECOND,
            worker=f"worker {choose.randrange(3)}",
            token=token,
            order=order,
        )
        reply = await self.both("claim", request)
        if reply.fence:
            held = {(item.partition, item.position): item for item in reply.items}
            self.claims.append((reply, token, held))

    async def renew(self) -> None:
        if self.claims:
            reply, token, _ = self.random.choice(self.claims)
            token += self.random.random() < 0.1
            await self.both("renew", ClaimRef(reply.fence, token), self.random.choice([1, 10]) * SECOND)

    async def settle(self) -> None:
        choose = self.random
        if not self.claims:
            return
        reply, token, held = choose.choice(self.claims[-6:])
        if not held:
            return
        partition = choose.choice(sorted({partition for partition, _ in held}))
        places = [place for place in held if place[0] == partition]
        chosen = choose.sample(places, choose.randrange(1, len(places) + 1)) if choose.random() < 0.5 else places
        moves = [self.move(held[place]) for place in chosen]
        if choose.random() < 0.05:
            moves.append(moves[0])
        if choose.random() < 0.1:
            others = [place for *_, other in self.claims for place in other if place not in held]
            moves += [Move(position, MoveKind.DONE) for number, position in others if number == partition][:1]
        number = self.numbers.get(reply.fence, 0) + 1
        settlement = Settlement(
            partition=partition,
            number=number,
            moves=moves,
            discovered=[self.new_item(span=1) for _ in range(choose.choice([0, 0, 3, 20]))],
            outputs=self.output_moves(),
            counters=choose.choice([{}, {}, {"records": choose.randrange(-5, 50), "bytes": 1}]),
            lane_counters={held[place].lane: {"pages": 1} for place in chosen if choose.random() < 0.3},
        )
        outcome = await self.both("settle", ClaimRef(reply.fence, token), settlement)
        if not isinstance(outcome, type):
            self.numbers[reply.fence] = number
            self.outputs |= {move.name: move.new for move in settlement.outputs}
            for place in chosen:
                del held[place]
                self.settled.append(place)

    def output_moves(self) -> list[OutputMove]:
        choose = self.random
        if choose.random() < 0.7:
            return []
        name = choose.choice(["a.warc", "b.warc"])
        old = self.outputs.get(name, 0) + (choose.random() < 0.1)
        return [OutputMove(name, old, old + choose.randrange(100))]

    def move(self, item: Any) -> Move:
        choose = self.random
        position = item.position
        match choose.choices(list(MoveKind), [60, 10, 5, 10, 15])[0]:
            case MoveKind.DONE:
                delay = choose.choice([None, None, 3 * SECOND])
                payload = None if delay is None else choose.choice([None, '{"lo": 2}', "null"])
                return Move(position, MoveKind.DONE, delay=delay, result='"ok"', payload=payload)
            case MoveKind.RETRY:
                delay = choose.randrange(5) * SECOND
                return Move(position, MoveKind.RETRY, delay=delay, reason="slow", error="Traceback")
            case MoveKind.DEAD:
                return Move(position, MoveKind.DEAD, reason="gone", error=choose.choice([None, "404"]))
            case MoveKind.RELEASE:
                return Move(position, MoveKind.RELEASE, started=choose.random() < 0.5)
            case MoveKind.SPLIT:
                rest = self.new_item()._replace(partition=item.partition, lane=item.lane, payload='{"lo": 5}')
                return Move(position, MoveKind.SPLIT, result="1", payload='{"hi": 5}', rest=rest)

    async def settle_again(self) -> None:
        """A reply was lost, and its settlement is sent a second time."""
        if self.numbers:
            fence = self.random.choice(sorted(self.numbers))
            token = next(token for reply, token, _ in self.claims if reply.fence == fence)
            settlement = Settlement(partition=0, number=self.numbers[fence], moves=[])
            await self.both("settle", ClaimRef(fence, token), settlement)

    async def advance(self) -> None:
        self.clock.advance(self.random.choice([0, 0.000001, 0.2, 1, 1, 3, 20, -2]))

    async def change_lane(self) -> None:
        choose = self.random
        lane = choose.choice(LANES)
        change = LaneChange(
            min_interval=choose.choice([None, None, DEFAULT, 0, SECOND]),
            concurrency=choose.choice([None, None, DEFAULT, 0, 1, 2]),
            paused=choose.choice([None, None, False, True]),
            blocked_until=choose.choice([None, None, None, 0, self.clock.now() + 4 * SECOND]),
        )
        await self.both("change_lane", locate_lane(lane, self.partitions)[0], lane, change)

    async def change_settings(self) -> None:
        choose = self.random
        await self.both(
            "change_settings",
            min_interval=choose.choice([None, 0, 0, SECOND]),
            concurrency=choose.choice([None, 0, 0, 1, 3]),
            max_attempts=choose.choice([None, 2, 5]),
            paused=choose.choice([None, None, False, False, True]),
        )

    async def requeue_lanes(self) -> None:
        if lanes := await self.model.lanes():
            partition = self.random.randrange(self.partitions)
            await self.both("requeue_lanes", partition, [n for n, lane in lanes if lane.partition == partition][::2])

    async def reopen(self) -> None:
        if self.settled:
            places = self.random.choices(self.settled, k=self.random.randrange(1, 6))
            await self.both("reopen", [*places, (0, 10**9)])

    async def drop(self) -> None:
        if pending := await self.model.pending(limit=1_000, revisits=True):
            places = [
                (row.partition, row.position) for row in self.random.choices(pending, k=self.random.randrange(1, 9))
            ]
            await self.both("drop", [*places, (0, 10**9)], self.random.choice([None, "1"]))


def _expected_moment(got: ClaimReply, expected: ClaimReply, request: ClaimRequest) -> int | None:
    """What `next_ready_at` has to be: of a claim that is full it may be too early, and is never too late."""
    moment = expected.next_ready_at
    if len(expected.items) == request.limit and got.next_ready_at is not None:
        return got.next_ready_at if moment is None else min(moment, got.next_ready_at)
    return moment


@pytest.mark.parametrize(("partitions", "stores"), [(1, 1), (4, 1), (2, 3)])
@pytest.mark.parametrize("seed", SEEDS)
async def test_sqlite_equals_the_model(seed: int, partitions: int, stores: int, tmp_path: Path) -> None:
    print(f"SWATH_SEED={seed}")
    clock = ManualClock()
    rng = random.Random(seed)
    settings = Settings(partitions, min_interval=rng.choice([0, SECOND]), concurrency=rng.choice([0, 1, 2]))
    model = MemoryStore(settings, clock=clock)
    path = str(tmp_path / "f.db")
    opened = [await SqliteStore.open(path, settings=settings, clock=clock, synchronous="normal") for _ in range(stores)]
    driver = Driver(seed, model, opened, clock)
    try:
        for step in range(STEPS):
            await driver.step()
            await driver.compare()
            if step % 25 == 0:
                await driver.compare_all()
        await driver.compare_all()
    finally:
        for store in opened:
            await store.close()


async def test_a_claim_lost_in_one_partition_is_lost_in_all(tmp_path: Path) -> None:
    """INV-3 if one partition's time is ahead of the other's because the clock stepped back."""
    clock = ManualClock()
    settings = Settings(2)
    model = MemoryStore(settings, clock=clock)
    store = await SqliteStore.open(str(tmp_path / "f.db"), settings=settings, clock=clock)
    driver = Driver(0, model, [store], clock)
    lanes = {locate_lane(name, 2)[0]: name for name in LANES}
    items = [
        EncodedItem(
            number, hash_key(f"{number} {i}") + locate_lane(lane, 2)[1], lane, 3, f"{number} {i}", None, None, 1
        )
        for number, lane in lanes.items()
        for i in range(2)
    ]
    await driver.both("add", items)
    request = ClaimRequest(limit=3, lease=5 * SECOND, worker="w", token=1, order=[0, 1])
    assert len((await driver.both("claim", request)).items) == 3
    clock.advance(10)
    await driver.both("change_lane", 0, lanes[0], LaneChange(blocked_until=0))  # partition 0 has seen the later time
    clock.advance(-8)
    assert (await driver.both("claim", request._replace(limit=1, token=2))).recovered == 2
    longer = request._replace(order=[1], lease=60 * SECOND)
    assert (await driver.both("claim", longer._replace(token=3))).recovered == 0
    clock.advance(8)
    assert (await driver.both("claim", longer._replace(token=4))).recovered == 1
    await driver.compare_all()
    await store.close()
