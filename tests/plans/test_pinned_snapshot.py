"""INV-8. Another client keeps a transaction open, so that vacuum cannot remove dead rows.

After thousands of calls a claim costs what the first one did. The tests compare counts that the server keeps, above all
index entries including dead ones, and measure no time.
"""

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import count

import pytest
import pytest_asyncio

from swath.backends.postgres.connections import connect
from swath.backends.postgres.statements import QUERIES
from swath.conformance.trial import Batch, Trial, done, release, retry
from swath.core.clock import SECOND
from swath.core.item import Item
from swath.core.store import Move, OutputMove, Settings
from tests.conftest import Server
from tests.plans.meter import Cost, Metered
from tests.postgres.site import Site

BATCH = 10
WARM = 3  # rounds before the measuring begins: what a session reads once is no part of a move's cost
WINDOW = 25  # rounds that are measured, at the beginning and at the end
ROUNDS = 200
THOUSANDS = 1_000

PER_ITEM = 24  # entries of any one index that an item may cost
AT_LEAST = 40  # and a round, whatever its size
ONE_A_MOVE = {"partition_state_pkey", "partition_pkey", "claim_pkey", "output_pkey", "counter_value"}
GROWTH = 1.5
BUFFERS = 60  # more than at first, in a round

Act = Callable[[int], Awaitable[None]]
Scenario = Callable[[Trial], Awaitable[Act]]


reader = pytest.mark.parametrize("pinned", ["snapshot"], indirect=True)
both = pytest.mark.parametrize("pinned", ["snapshot", "writer"], indirect=True)


@pytest.fixture(scope="module")
def server(postgres: Server) -> Server:
    """One version is enough here: what an index keeps of the dead is the same in all of them."""
    return postgres


@pytest_asyncio.fixture(autouse=True)
async def pinned(request: pytest.FixtureRequest, site: Site) -> AsyncIterator[None]:
    """Somebody else's transaction: one that reads, or one that has written as well, and so has a number of its own."""
    connection = await site.connect()
    await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    await connection.execute("SELECT 1")
    if getattr(request, "param", "writer") == "writer":
        await connection.execute("SELECT pg_current_xact_id()")
    yield
    rows = await site.sql(
        "SELECT backend_xmin IS NOT NULL FROM pg_stat_activity WHERE pid = %s", connection.info.backend_pid
    )
    assert rows == [(True,)]


async def stays_flat(site: Site, settings: Settings, scenario: Scenario, *, rounds: int = ROUNDS) -> None:
    store = await site.store(settings)
    trial = Trial(store, site.clock)
    act = await scenario(trial)
    metered = Metered(await connect(site.location.dsn), schema=site.location.schema)
    slow = await site.store(connections=metered)

    async def measured(begin: int, end: int) -> Cost:
        trial.store = slow
        for n in range(begin, end):
            await act(n)
        trial.store = store
        return metered.take()

    await measured(0, WARM)
    first = await measured(WARM, WARM + WINDOW)
    for n in range(WARM + WINDOW, rounds - WINDOW):
        await act(n)
    await site.sql("ANALYZE")  # of what is left alive: a planner that believes it must not walk the dead either
    last = await measured(rounds - WINDOW, rounds)
    await trial.check()
    for when, cost in (("first", first), ("last", last)):
        most = (PER_ITEM * BATCH + AT_LEAST) * WINDOW
        assert {name: met / WINDOW for name, met in cost.entries.items() if met > most} == {}, f"in a round, at {when}"
    for name in ONE_A_MOVE:
        assert last.entries[name] <= GROWTH * first.entries[name] + WINDOW, name
    assert last.buffers <= GROWTH * first.buffers + BUFFERS * WINDOW


async def fill(trial: Trial, count: int, *, lanes: int, chunk: int = 500, after: float | None = None) -> None:
    for start in range(0, count, chunk):
        trial.clock.advance(0.001)
        await trial.store.add(
            [trial.item(f"key{n}", lane=f"lane{n % lanes}", after=after) for n in range(start, start + chunk)]
        )


async def settle(batch: Batch, outcome: Callable[[Item], Move] = done) -> None:
    for partition in batch.partitions:
        await batch.settle(*(outcome(item) for item in batch.items if item.partition == partition), partition=partition)


async def cover(trial: Trial, outcome: Callable[[Item], Move] = done, *, seconds: float = 0.01) -> None:
    trial.clock.advance(seconds)
    batch = await trial.claim(BATCH)
    assert batch.items
    await settle(batch, outcome)


@reader
async def test_many_lanes(site: Site) -> None:
    async def scenario(trial: Trial) -> Act:
        await fill(trial, THOUSANDS * BATCH, lanes=2_000)
        return lambda n: cover(trial)

    await stays_flat(site, Settings(1, concurrency=1), scenario, rounds=THOUSANDS)


async def test_lane_returns_one_lane(site: Site) -> None:
    async def scenario(trial: Trial) -> Act:
        await fill(trial, THOUSANDS * BATCH, lanes=1)
        return lambda n: cover(trial)

    await stays_flat(site, Settings(1), scenario, rounds=THOUSANDS)


@pytest.mark.parametrize("lanes", [1, 500])
async def test_retries_and_releases(site: Site, lanes: int) -> None:
    rng = random.Random(lanes)

    def outcome(item: Item) -> Move:
        return rng.choice([done(item), done(item), retry(item), retry(item, after=0.05), release(item)])

    async def scenario(trial: Trial) -> Act:
        await fill(trial, ROUNDS * BATCH, lanes=lanes)
        return lambda n: cover(trial, outcome)

    await stays_flat(site, Settings(1), scenario)


async def test_delayed_items_that_fall_due(site: Site) -> None:
    """A few lanes through which much passes, with little waiting at any moment."""

    async def scenario(trial: Trial) -> Act:
        for n in range(0, ROUNDS * BATCH, 500):
            items = [trial.item(f"key{n}", lane=f"lane{n % 20}", after=n * 0.001) for n in range(n, n + 500)]
            await trial.store.add(items)
        return lambda n: cover(trial, seconds=0.001 * BATCH)

    await stays_flat(site, Settings(1), scenario)


async def test_delayed_items_that_fall_due_at_once(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than one claim takes in, all with the same due time."""
    monkeypatch.setattr("swath.backends.postgres.store.DELAYED_DRAIN", BATCH)

    async def scenario(trial: Trial) -> Act:
        due = trial.clock.now() + SECOND
        for start in range(0, ROUNDS * BATCH, 500):
            items = [trial.item(f"key{n}", lane=f"lane{n % 20}") for n in range(start, start + 500)]
            await trial.store.add([item._replace(not_before=due) for item in items])
        trial.clock.advance(2)
        return lambda n: cover(trial)

    await stays_flat(site, Settings(1), scenario)


async def test_the_checkpoint_behind_retries(site: Site) -> None:
    """All were retried once, so that at every position something dead is in both places."""

    async def scenario(trial: Trial) -> Act:
        await fill(trial, ROUNDS * BATCH, lanes=1)
        for _ in range(ROUNDS * BATCH // 500):
            await settle(await trial.claim(500), lambda item: retry(item, after=30))
        trial.clock.advance(60)
        return lambda n: cover(trial)

    await stays_flat(site, Settings(1), scenario)


async def test_the_checkpoint_before_what_is_delayed(site: Site) -> None:
    """All wait for another day, and fall due in order: nothing is ready, and much that was."""

    async def scenario(trial: Trial) -> Act:
        await fill(trial, ROUNDS * BATCH, lanes=1)
        for _ in range(ROUNDS * BATCH // 500):
            await settle(await trial.claim(500), lambda item: retry(item, after=60 + item.position * 0.001))
        trial.clock.advance(60)
        return lambda n: cover(trial, seconds=0.001 * BATCH)

    await stays_flat(site, Settings(1), scenario)


@both
async def test_inbox(site: Site) -> None:
    """What is covered discovers as much again, in any partition."""
    names = count()

    async def scenario(trial: Trial) -> Act:
        await fill(trial, 500, lanes=100)

        async def act(n: int) -> None:
            trial.clock.advance(0.01)
            batch = await trial.claim(BATCH, order=[(n + turn) % 4 for turn in range(4)])
            for partition in batch.partitions:
                mine = [item for item in batch.items if item.partition == partition]
                found = [trial.item(f"found{next(names)}", lane=f"lane{next(names) % 100}") for _ in mine]
                await batch.settle(*map(done, mine), partition=partition, discovered=found)

        return act

    await stays_flat(site, Settings(4), scenario)


@both
async def test_inbox_that_is_never_empty(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """As much comes in as a claim takes in, and there is always more than that."""
    rows, size, behind = 5, 2, 20
    rounds = ROUNDS // 2
    monkeypatch.setattr("swath.backends.postgres.store.INBOX_DRAIN", size)

    async def scenario(trial: Trial) -> Act:
        target = trial.lane(1)
        await trial.add(*(f"source{n}" for n in range(rounds * rows + behind)), lane=trial.lane(0))

        async def discover(rows: int) -> None:
            batch = await trial.claim(rows, order=[0])
            for item in batch.items:
                found = [trial.item(f"{item.key}/{n}", lane=target) for n in range(size)]
                await batch.settle(done(item), discovered=found)

        async def act(n: int) -> None:
            trial.clock.advance(0.01)
            await trial.claim(BATCH, order=[1])
            assert (await trial.status(1)).inbox > 0
            await discover(rows)

        await discover(behind)
        return act

    await stays_flat(site, Settings(2), scenario, rounds=rounds)


@both
async def test_status_beside_what_was_drained(site: Site) -> None:
    """A look at all counters meets nothing of what went through the inboxes."""
    rounds, links = 100, 12
    trial = await site.trial(partitions=2)
    here, there = trial.lane(0), trial.lane(1)
    await trial.add(*(f"source{n}" for n in range(2 + rounds)), lane=here)

    async def discover(rounds: int) -> None:
        for _ in range(rounds):
            (item,) = (batch := await trial.claim(1, order=[0])).items
            found = [trial.item(f"{item.key}/{'long' * 18}/{n}", lane=there) for n in range(links)]
            await batch.settle(done(item), discovered=found)

    onlooker = await site.connect()

    async def buffers() -> int:
        explain = site.location.fill(f"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) {QUERIES['status']}")
        await onlooker.execute(explain)  # what a session reads once is no part of it
        (((plan,),),) = await (await onlooker.execute(explain)).fetchall()
        return int(plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"])

    await discover(1)
    assert (await trial.status(1)).inbox == links
    await trial.claim(BATCH, order=[1])
    first = await buffers()
    await discover(rounds)
    assert (await trial.status(1)).inbox == rounds * links
    while (await trial.status(1)).inbox:
        await trial.claim(BATCH, order=[1])
    assert await buffers() < first + rounds // 10, "pages of rows that were drained"
    await discover(1)
    assert (await trial.status(1)).inbox == links


async def test_lanes_that_keep_their_turn(site: Site) -> None:
    """Additions to lanes that stand between others, or are blocked: each leaves a dead row behind."""
    names = count()

    async def scenario(trial: Trial) -> Act:
        await fill(trial, ROUNDS * BATCH, lanes=100)
        await trial.change_lane("blocked", blocked_until=trial.clock.now() + 3_600 * SECOND)

        async def act(n: int) -> None:
            trial.clock.advance(0.01)
            await trial.add(f"lowest{next(names)}", lane="lowest", priority=0)  # has the share of the low ones
            for _ in range(3):
                await trial.add(f"low{next(names)}", lane="low", priority=1)
            await trial.add(f"later{next(names)}", lane="blocked")
            await settle(await trial.claim(BATCH))

        return act

    await stays_flat(site, Settings(1), scenario)


async def test_paced_lanes(site: Site) -> None:
    """Every lane waits between its items, and gets more while it waits."""
    names = count()

    async def scenario(trial: Trial) -> Act:
        await fill(trial, ROUNDS * BATCH, lanes=200)

        async def act(n: int) -> None:
            await cover(trial, seconds=0.055)
            await trial.add(f"more{next(names)}", lane=f"lane{n % 200}")

        return act

    await stays_flat(site, Settings(1, min_interval=SECOND, concurrency=1), scenario)


async def test_take_over(site: Site) -> None:
    """Every claim is lost, and every claim takes back what the last one held."""

    async def scenario(trial: Trial) -> Act:
        await fill(trial, 1_000, lanes=100)

        async def act(n: int) -> None:
            trial.clock.advance(2)
            batch = await trial.claim(BATCH, lease=1)
            assert len(batch.items) == BATCH

        return act

    await stays_flat(site, Settings(1, max_attempts=30_000), scenario)


async def test_outputs(site: Site) -> None:
    """One file that grows with every settlement."""

    async def scenario(trial: Trial) -> Act:
        await fill(trial, ROUNDS * BATCH, lanes=100)

        async def act(n: int) -> None:
            trial.clock.advance(0.01)
            batch = await trial.claim(2)
            await batch.settle(*map(done, batch.items), outputs=[OutputMove("file", n * 10, n * 10 + 10)])

        return act

    await stays_flat(site, Settings(1), scenario)


async def test_counters(site: Site) -> None:
    """Each settlement changes the same counters, of the frontier and of one lane. Reading them stays flat as well."""

    async def scenario(trial: Trial) -> Act:
        await fill(trial, ROUNDS * 2, lanes=1, chunk=100)

        async def act(n: int) -> None:
            trial.clock.advance(0.01)
            batch = await trial.claim(2)
            counts = {"pages": 2, "bytes": n}
            await batch.settle(*map(done, batch.items), counters=counts, lane_counters={"lane0": counts})
            assert (await trial.store.counters())["pages"] == 2 * (n + 1)

        return act

    await stays_flat(site, Settings(1), scenario)
    for statistics in ("SELECT", "ANALYZE"):
        await site.sql(statistics)
        explain = site.location.fill(f"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) {QUERIES['counters']}")
        connection = await site.connect()
        ((report,),) = await (await connection.execute(explain)).fetchall()
        plan = report[0]["Plan"]
        assert plan["Actual Rows"] == 2
        assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] <= AT_LEAST


async def test_every_priority(site: Site) -> None:
    async def scenario(trial: Trial) -> Act:
        for start in range(0, ROUNDS * BATCH, 500):
            trial.clock.advance(0.001)
            items = [trial.item(f"key{n}", lane=f"lane{n % 100}", priority=n % 8) for n in range(start, start + 500)]
            await trial.store.add(items)
        return lambda n: cover(trial)

    await stays_flat(site, Settings(1), scenario)


@reader
async def test_a_lane_that_was_dropped_is_claimed_from_like_a_new_one(site: Site) -> None:
    """Thousands of dead entries lie before the first item that is added later."""
    trial = Trial(await site.store(Settings(1)), site.clock)
    await fill(trial, 5 * THOUSANDS, lanes=1)
    for start in range(1, 5 * THOUSANDS, THOUSANDS):
        places = [(0, position) for position in range(start, start + THOUSANDS)]
        assert await trial.store.drop(places, None) == THOUSANDS
    await trial.add(*(f"fresh{n}" for n in range(2 * BATCH)), lane="lane0")
    metered = Metered(await connect(site.location.dsn), schema=site.location.schema)
    trial.store = await site.store(connections=metered)
    for _ in range(2):
        metered.take()
        assert len((await trial.claim(BATCH)).items) == BATCH
        assert metered.take().entries["item_pkey"] <= PER_ITEM * BATCH
    await trial.check()
