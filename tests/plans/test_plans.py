"""INV-8. The cost of a claim and of a settlement does not depend on the size of the frontier, on statistics, or on the
kind of plan.

With 200,000 items in 20,000 lanes, most of them not ready, there is no sequential scan and no sort beyond the batch. An
item costs no more buffers than with 2,000 items, plus one for each index probe, because a tree may be one level higher.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from itertools import count
from typing import NamedTuple

import pytest
import pytest_asyncio

from swath.backends.postgres import PostgresStore
from swath.backends.postgres.connections import connect
from swath.backends.postgres.statements import FUNCTIONS, QUERIES
from swath.conformance.trial import Batch, Trial, dead, done, release, retry
from swath.core.clock import SECOND
from swath.core.item import Item
from swath.core.lane import hash_key, locate_lane
from swath.core.store import EncodedItem, Move, Settings, Settlement
from tests.plans.meter import SMALL, Cost, Metered
from tests.postgres.site import Site

pytestmark = pytest.mark.asyncio(loop_scope="module")

BATCH = 10
ROUNDS = 4
CHUNK = 1_000
FRONT = 100
PER_ITEM = 16  # rows of any one table, or entries of any one index, that an item may cost
AT_LEAST = 40  # and a move, however small
READ = FUNCTIONS.fill("SELECT * FROM {schema}.claimed_items_{set}(%s)")

Outcome = Callable[[Item], Move]
OUTCOMES: Sequence[Outcome] = [done, done, retry, release, dead]
AFTERWARDS: Sequence[Outcome] = [done, dead, lambda item: retry(item, after=3_600)]


class Size(NamedTuple):
    lanes: int
    depth: int
    waiting: int  # lanes that are not ready


LARGE = Size(lanes=20_000, depth=10, waiting=18_000)
LITTLE = Size(lanes=1_600, depth=2, waiting=200)


class Round(NamedTuple):
    claim: Cost
    read: Cost  # what the claim holds, as where there is too much of it for the reply
    settle: Cost  # which discovers
    drain: Cost  # a claim in the other partition, which takes that in


class Worker:
    """Works through a session of its own, and takes the measure."""

    def __init__(self, trial: Trial, meter: Metered, *, depth: int, names: "count[int]") -> None:
        self.trial, self.meter, self._depth, self._names = trial, meter, depth, names

    async def round(self) -> Round:
        self.trial.clock.advance(0.001)
        batch = await self.trial.claim(BATCH, order=[0])
        assert len(batch.items) == BATCH
        claim = self.meter.take()
        read = await self._read(batch)
        before = (await self.trial.status()).checkpoint
        await self._settle(batch)
        assert (await self.trial.status()).checkpoint == before + 1
        settle = self.meter.take()
        self.trial.clock.advance(0.001)
        assert len((await self.trial.claim(BATCH, order=[1])).items) == BATCH
        return Round(claim, read, settle, self.meter.take())

    async def _read(self, batch: Batch) -> Cost:
        assert isinstance(self.trial.store, PostgresStore)
        async with self.meter.lend() as connection:
            await connection.execute(self.trial.store.location.fill(READ), (batch.reply.fence,))
        return self.meter.take()

    async def _settle(self, batch: Batch) -> None:
        """Every kind of outcome. Of what is discovered half is known, and half is for the other partition."""
        lanes = range(2 * BATCH)
        found = [self.trial.item(f"fresh{next(self._names)}", lane=f"lane{lane}") for lane in lanes]
        found += [self.trial.item(f"lane{lane}/{lane % self._depth}", lane=f"lane{lane}") for lane in lanes]
        assert len({item.partition for item in found}) == 2
        moves = (OUTCOMES[n % len(OUTCOMES)](item) for n, item in enumerate(batch.items))
        await batch.settle(*moves, discovered=found)


class Loaded:
    """A frontier of some size that nobody has analysed or vacuumed."""

    def __init__(self, site: Site, size: Size) -> None:
        self.site, self.size = site, size
        self._names = count()

    async def load(self) -> None:
        """Lanes that wait do so for an hour, with the rest of their items; what they had is done, dead or delayed."""
        size, trial = self.size, await self.site.trial(settings=Settings(2, min_interval=3_600 * SECOND))
        for (table,) in await self.site.sql(
            "SELECT relname FROM pg_class WHERE relnamespace = %s::regnamespace AND relkind = 'r'",
            self.site.location.schema,
        ):
            await self.site.sql(f"ALTER TABLE {{schema}}.{table} SET (autovacuum_enabled = off)")
        # At the front of the first partition, one item in every claim: so that settling it moves the checkpoint.
        front = next(name for name in (f"front{n}" for n in count()) if locate_lane(name, 2)[0] == 0)
        await trial.change_lane(front, min_interval=0, concurrency=1)
        await trial.add(*(f"front{n}" for n in range(FRONT)), lane=front, priority=7)
        await trial.change_lane(front, paused=True)
        await self._add(trial, range(size.waiting))
        while (batch := await trial.claim(CHUNK)).items:
            for partition in batch.partitions:
                mine = [item for item in batch.items if item.partition == partition]
                await batch.settle(*(AFTERWARDS[n % 3](item) for n, item in enumerate(mine)), partition=partition)
        self.site.clock.advance(1)
        await self._add(trial, range(size.waiting, size.lanes))
        await trial.change_lane(front, paused=False)
        assert await trial.total("end") == size.lanes * size.depth + FRONT
        assert await trial.total("ready") == size.lanes * size.depth - size.waiting + FRONT

    async def _add(self, trial: Trial, lanes: range) -> None:
        items: tuple[list[EncodedItem], list[EncodedItem]] = ([], [])
        for name in (f"lane{lane}" for lane in lanes):
            partition, lane_hash = locate_lane(name, 2)
            keys = [f"{name}/{n}" for n in range(self.size.depth)]
            items[partition].extend(
                EncodedItem(partition, hash_key(key) + lane_hash, name, 3, key, None, None, 1) for key in keys
            )

        async def each(mine: list[EncodedItem]) -> None:
            for start in range(0, len(mine), CHUNK):
                await trial.store.add(mine[start : start + CHUNK])

        await asyncio.gather(*map(each, items))

    async def worker(self, mode: str) -> Worker:
        connection = await connect(self.site.location.dsn)
        await connection.execute(f"SET plan_cache_mode TO {mode}".encode())
        meter = Metered(connection, schema=self.site.location.schema)
        trial = await self.site.trial(connections=meter)
        worker = Worker(trial, meter, depth=self.size.depth, names=self._names)
        await worker.round()  # what a session reads once, of the catalogue, is no part of what a move costs
        return worker


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def loaded(database: str) -> AsyncIterator[tuple[Loaded, Loaded]]:
    little, large = Loaded(Site(f"{database}&schema=little"), LITTLE), Loaded(Site(f"{database}&schema=large"), LARGE)
    await little.load()
    await large.load()
    yield little, large
    await little.site.close()
    await large.site.close()


# What the planner believes: nothing yet; that every table is empty, as it does of one that was analysed when it was so;
# the truth. In this order, since there is no way back to nothing.
STATISTICS = {
    "none": "SELECT",
    "empty": "UPDATE pg_class SET reltuples = 0, relpages = 1 "
    "WHERE relnamespace = '{schema}'::regnamespace AND relkind IN ('r', 'i')",
    "true": "ANALYZE",
}


@pytest.mark.parametrize("mode", ["auto", "force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize("statistics", STATISTICS)
async def test_moves_look_at_no_more_than_their_batch(
    loaded: tuple[Loaded, Loaded], statistics: str, mode: str
) -> None:
    little, large = loaded
    await large.site.sql(STATISTICS[statistics])
    less, more = await costs(little, mode), await costs(large, mode)
    for move in Round._fields:
        looked_at_little(getattr(more, move), move)
        grew_little(getattr(less, move), getattr(more, move), move)


async def costs(frontier: Loaded, mode: str) -> Round:
    """Of some rounds together."""
    worker = await frontier.worker(mode)
    rounds = [await worker.round() for _ in range(ROUNDS)]
    return Round(*(sum(moves, Cost()) for moves in zip(*rounds, strict=True)))


def looked_at_little(cost: Cost, move: str) -> None:
    most = (PER_ITEM * BATCH + AT_LEAST) * ROUNDS
    scanned = {table: scans for table, scans in cost.sequential.items() if scans and table not in SMALL}
    assert scanned == {}, f"{move}: sequential scans"
    assert {name: rows for name, rows in cost.fetched.items() if rows > most} == {}, f"{move}: rows"
    assert {name: met for name, met in cost.entries.items() if met > most} == {}, f"{move}: index entries"
    assert cost.temporary == 0, f"{move}: temporary files"


def grew_little(less: Cost, more: Cost, move: str) -> None:
    """A hundred times as many items make the trees of the indexes one level higher, and change nothing else."""
    probes = more.probes.total()
    assert more.buffers <= less.buffers + probes, f"{move}: {less.buffers} buffers at first, {probes} probes"


async def test_a_part_of_a_claim_is_settled_without_the_rest(loaded: tuple[Loaded, Loaded]) -> None:
    """A claim of hundreds that is settled by tens: each settlement looks at its own items. Before PostgreSQL 17 it may
    look at all of the claim, which a planner without statistics takes for one row."""
    ((version,),) = await loaded[1].site.sql("SELECT current_setting('server_version_num')::integer")
    worker = await loaded[1].worker("auto")
    trial, meter = worker.trial, worker.meter
    trial.clock.advance(0.001)
    batch = await trial.claim(30 * BATCH, order=[1])
    assert len(batch.items) == 30 * BATCH
    most = 5 * BATCH if version >= 170_000 else 2 * len(batch.items)
    meter.take()
    for start in range(0, len(batch.items), BATCH):
        await batch.settle(*map(done, batch.items[start : start + BATCH]))
        cost = meter.take()
        assert cost.entries["claimed_pkey"] <= most


async def test_a_drop_looks_at_no_more_than_its_items(loaded: tuple[Loaded, Loaded]) -> None:
    """Ready and delayed items of many lanes, one of which holds the checkpoint back."""

    async def cost(worker: Worker) -> Cost:
        total = Cost()
        for _ in range(ROUNDS):
            rows = await worker.trial.store.pending(limit=FRONT + 20 * BATCH, after=(0, 0))
            # Other tests need the items at the front.
            waiting = [row for row in rows if row.state != "claimed" and not row.key.startswith("front")][:BATCH]
            worker.meter.take()
            assert await worker.trial.store.drop([(row.partition, row.position) for row in waiting], "1") == BATCH
            total += worker.meter.take()
        return total

    modes = ("auto", "force_custom_plan", "force_generic_plan")
    # A worker begins with a round that moves the checkpoint by one position: all of them begin before the first drop.
    for little, large in [(await loaded[0].worker(mode), await loaded[1].worker(mode)) for mode in modes]:
        less, more = await cost(little), await cost(large)
        looked_at_little(more, "drop")
        grew_little(less, more, "drop")


async def test_a_repair_looks_at_no_more_than_its_items(loaded: tuple[Loaded, Loaded]) -> None:
    """Dead items among many done ones, with discovered items for both partitions."""

    async def cost(worker: Worker) -> Cost:
        total = Cost()
        for round_number in range(ROUNDS):
            batch = await worker.trial.claim(BATCH, order=[1])
            await batch.settle(*map(dead, batch.items), partition=1)
            moves = [done(item) if n % 2 else dead(item, reason="again") for n, item in enumerate(batch.items)]
            found = [worker.trial.item(f"repaired {item.key} {round_number}") for item in batch.items]
            worker.meter.take()
            await worker.trial.store.repair(Settlement(1, 0, moves, found))
            total += worker.meter.take()
        return total

    modes = ("auto", "force_custom_plan", "force_generic_plan")
    for little, large in [(await loaded[0].worker(mode), await loaded[1].worker(mode)) for mode in modes]:
        less, more = await cost(little), await cost(large)
        looked_at_little(more, "repair")
        grew_little(less, more, "repair")


async def test_a_lane_is_looked_at_by_itself(loaded: tuple[Loaded, Loaded]) -> None:
    connection = await connect(loaded[1].site.location.dsn)
    explain = loaded[1].site.location.fill(f"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) {QUERIES['lane']}")
    for mode in ("force_custom_plan", "force_generic_plan"):
        await connection.execute(f"SET plan_cache_mode TO {mode}".encode())
        given = {"partition": locate_lane("lane5", 2)[0], "lane": "lane5"}
        ((report,),) = await (await connection.execute(explain, given, prepare=True)).fetchall()
        plan = report[0]["Plan"]
        assert plan["Actual Rows"] == 1
        assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] <= AT_LEAST
    await connection.close()
