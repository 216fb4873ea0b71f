"""`--follow` goes on with rows that come later, and passes none that commits late."""

import asyncio

import psycopg
import pytest

from swath import Item
from swath.backfill import handler, tail
from swath.backfill.progress import read_progress
from swath.backfill.ranges import PlanStep
from tests.backfill.driving import SERIES, Running, counts, running, settings_of, until
from tests.tables.conftest import Database

LOOKS = 5  # enough to go on in, if it would
looks: list[PlanStep] = []


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    next_step = tail.TailFollower.find_next_step

    async def counted(follower: tail.TailFollower, step: PlanStep) -> Item | None:
        looks.append(step)
        return await next_step(follower, step)

    for module in (handler, tail):
        monkeypatch.setattr(module, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(tail.TailFollower, "find_next_step", counted)


@pytest.fixture
def table(a_database: Database, name: str) -> str:
    a_database.do(
        f"CREATE TABLE {name} (id integer PRIMARY KEY, n integer NOT NULL DEFAULT 0)",
        f"INSERT INTO {name} (id) {SERIES.format(100)} SELECT g FROM s WHERE g <> 50",
    )
    return name


async def looked(job: Running) -> None:
    """Wait until it has looked for more some times, and has covered what it found."""
    looks.clear()
    await job.until(lambda: len(looks) > LOOKS)
    for _ in range(1_000):
        if (await job.frontier.status()).waiting <= 1:
            return
        await asyncio.sleep(0.01)


async def beside(database: Database, statement: str) -> None:
    """Write while the job goes on: it may hold the lock of an SQLite file, and let go of it only if it can."""
    await asyncio.to_thread(database.do, statement)


def numbers(database: Database, table: str) -> list[int]:
    """The keys of the rows that are not changed."""
    return [key for (key,) in database.do(f"SELECT id FROM {table} WHERE n = 0 ORDER BY id")]


async def test_rows_that_come_later(a_database: Database, table: str) -> None:
    async with running(settings_of(a_database, table, follow=True, batch=20)) as job:
        await until(lambda: not numbers(a_database, table))
        for low, high in ((101, 101), (150, 260), (1_000, 1_001)):
            await beside(a_database, f"INSERT INTO {table} (id) {SERIES.format(high)} SELECT g FROM s WHERE g >= {low}")
            await until(lambda: not numbers(a_database, table))
        assert not job.ended.done()
        await looked(job)
        before = (await job.frontier.status()).done
        await looked(job)
        assert (await job.frontier.status()).done == before, "looks leave a trace, and the frontier grows for ever"
        job.stop.request("enough")
        assert (await job.finished()).stopped_by == "enough"
        now = await read_progress(job.frontier)
        assert now is not None
        assert now.key is not None
        assert int(now.key[0]) == 1_001
    assert set(counts(a_database, table)) == {1}


async def test_an_empty_table_is_waited_for(a_database: Database, name: str) -> None:
    a_database.do(f"CREATE TABLE {name} (id integer PRIMARY KEY, n integer NOT NULL DEFAULT 0)")
    async with running(settings_of(a_database, name, follow=True)) as job:
        await looked(job)
        await beside(a_database, f"INSERT INTO {name} (id) VALUES (1), (2)")
        await until(lambda: counts(a_database, name) == {1: 2})


@pytest.mark.parametrize("a_database", ["postgresql"], indirect=True)
async def test_what_commits_late_is_not_passed(a_database: Database, table: str) -> None:
    """A key that is inserted and not committed when it starts, and one while it runs."""
    database = a_database
    with psycopg.connect(database.url) as early, psycopg.connect(database.url) as late:
        early.execute(f"INSERT INTO {table} (id) VALUES (50)".encode())
        async with running(settings_of(database, table, follow=True, batch=7)) as job:
            await looked(job)
            assert 51 in numbers(database, table)
            early.commit()
            await until(lambda: not numbers(database, table))
            late.execute("SELECT 1")  # has a transaction, and nothing to be seen of it
            database.do(f"INSERT INTO {table} (id) VALUES (102)")
            await looked(job)
            late.execute(f"INSERT INTO {table} (id) VALUES (101)".encode())
            database.do(f"INSERT INTO {table} (id) VALUES (103)")
            await looked(job)
            assert numbers(database, table) == [102, 103]
            late.commit()
            await until(lambda: not numbers(database, table))
    assert counts(database, table) == {1: 103}


@pytest.mark.parametrize("a_database", ["postgresql"], indirect=True)
async def test_others_are_seen_by_a_role_that_may_see_little(a_database: Database, table: str) -> None:
    """pg_stat_activity tells an ordinary role nothing about the transactions of others."""
    role = f"role_{table}"
    a_database.do(
        f"CREATE ROLE {role} LOGIN",
        f"GRANT ALL ON {table} TO {role}",
        f"GRANT CREATE ON DATABASE {a_database.url.rpartition('/')[2].partition('?')[0]} TO {role}",
    )
    ours = Database(a_database.url.replace("postgres@", f"{role}@"))
    try:
        with psycopg.connect(a_database.url) as late:
            late.execute("SELECT 1")
            async with running(settings_of(ours, table, follow=True, batch=7)) as job:
                await looked(job)
                late.execute(f"INSERT INTO {table} (id) VALUES (50)".encode())
                late.commit()
                await until(lambda: not numbers(a_database, table))
        assert counts(a_database, table) == {1: 100}
    finally:
        a_database.do(f"DROP OWNED BY {role} CASCADE", f"DROP ROLE {role}")
