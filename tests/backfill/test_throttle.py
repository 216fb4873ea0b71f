"""A good citizen: it slows, pauses and goes on, and says why."""

import asyncio
from pathlib import Path
from typing import cast

import psycopg
import pytest

from swath import Frontier, StoreFull, StoreUnavailable, UsageError
from swath.backfill import throttle
from swath.backfill.load_signals import LoadSignals, Overload
from swath.backfill.ranges import LANE
from swath.backfill.throttle import Throttle, choose_limit
from swath.tables import slice_sizer
from tests.backfill.driving import SERIES, Running, ready, running, settings_of, until
from tests.tables.conftest import Database

SLOWER, PAUSED = Overload(False, "because"), Overload(True, "because")


@pytest.mark.parametrize(
    ("limit", "in_flight", "complaint", "expected"),
    [
        (None, 8, SLOWER, 4),
        (None, 1, SLOWER, 1),
        (None, 0, SLOWER, 1),
        (4, 4, SLOWER, 2),
        (2, 2, SLOWER, 1),
        (1, 1, SLOWER, 1),
        (100, 3, SLOWER, 1),
        (1, 1, None, 2),
        (3, 2, None, 4),
        (4, 1, None, None),
        (32, 8, None, None),
        (None, 8, None, None),
    ],
)
def test_allowance(limit: int | None, in_flight: int, complaint: Overload | None, expected: int | None) -> None:
    """Halved when somebody suffers, one more when nobody does, lifted when it limits nobody."""
    assert choose_limit(limit, in_flight, complaint) == expected


def test_allowance_is_lifted_in_the_end() -> None:
    limit: int | None = 1
    for _ in range(100):
        if limit is None:
            return
        limit = choose_limit(limit, min(limit, 8), None)
    pytest.fail("it never was")


@pytest.fixture
def table(a_database: Database, name: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """More than is covered while a test lasts, with slices that stay as small as they begin."""
    monkeypatch.setattr(slice_sizer, "GROWTH", 1.0)
    monkeypatch.setattr(throttle, "CHECK_SECONDS", 0.05)
    monkeypatch.setattr(throttle, "BLOCK_SECONDS", 0.3)
    a_database.do(
        f"CREATE TABLE {name} (id integer PRIMARY KEY, n integer NOT NULL DEFAULT 0)",
        f"INSERT INTO {name} (id) {SERIES.format(100_000)} SELECT g FROM s",
        f"CREATE TABLE {name}_lag (seconds real)",
        f"INSERT INTO {name}_lag VALUES (0)",
    )
    return name


async def still(job: Running) -> None:
    """Nothing is covered while it is up, save what was begun before."""
    await asyncio.sleep(0.2)
    rows = job.job.stats.rows
    await asyncio.sleep(0.6)
    assert job.job.stats.rows == rows
    assert not job.ended.done()


def goes_on(job: Running) -> bool:
    """Also if it goes on slowly, because the machine is busy."""
    return job.said[-1] == "resumed" or job.said[-1].startswith("slowed down: ")


async def moves(job: Running) -> None:
    rows = job.job.stats.rows
    await until(lambda: job.job.stats.rows > rows or job.ended.done())


async def test_lag_that_rises_and_falls(a_database: Database, table: str) -> None:
    settings = settings_of(
        a_database, table, batch=1, target_time=0.01, max_lag=5.0, lag_query=f"SELECT seconds FROM {table}_lag"
    )
    async with running(settings) as job:
        for _ in range(2):
            await moves(job)
            job.said.clear()
            await asyncio.to_thread(a_database.do, f"UPDATE {table}_lag SET seconds = 12")
            await job.until(lambda: any("paused" in words and "12.0 s behind" in words for words in job.said))
            await still(job)
            await asyncio.to_thread(a_database.do, f"UPDATE {table}_lag SET seconds = 0")
            await job.until(lambda: goes_on(job))
        await moves(job)


async def test_a_file_pauses_it(a_database: Database, table: str, tmp_path: Path) -> None:
    pause = tmp_path / "pause"
    async with running(settings_of(a_database, table, batch=1, target_time=0.01, pause_file=str(pause))) as job:
        await moves(job)
        pause.touch()
        await job.until(lambda: any(str(pause) in words for words in job.said))
        await still(job)
        pause.unlink()
        await job.until(lambda: goes_on(job))
        await moves(job)


async def test_pause_and_resume_from_elsewhere(a_database: Database, table: str) -> None:
    async with running(settings_of(a_database, table, batch=1, target_time=0.01)) as job:
        await moves(job)
        await job.frontier.pause()
        await asyncio.sleep(1.0)
        await still(job)
        await job.frontier.resume()
        await moves(job)


@pytest.mark.parametrize("a_database", ["postgresql"], indirect=True)
async def test_other_sessions_that_are_active(a_database: Database, table: str) -> None:
    async with (
        await psycopg.AsyncConnection.connect(a_database.url, autocommit=True) as busy,
        running(settings_of(a_database, table, batch=1, target_time=0.01, max_active=0)) as job,
    ):
        await moves(job)
        query = asyncio.create_task(busy.execute("SELECT pg_sleep(60)"))
        await job.until(lambda: any("1 other session is active" in words for words in job.said))
        await still(job)
        busy.cancel()
        await asyncio.gather(query, return_exceptions=True)
        await job.until(lambda: goes_on(job))
        await moves(job)


@pytest.mark.parametrize("a_database", ["postgresql"], indirect=True)
async def test_those_who_wait_for_our_locks_have_fewer_to_wait_for(a_database: Database, table: str) -> None:
    """The limit is the lane's, so that it is one for all machines."""
    settings = settings_of(a_database, table)
    async with ready(settings) as (job, frontier, _, _, said):
        one = Throttle(frontier, job._make_signals(), slowdown=lambda: 1.0, report=said.append)
        await frontier.limit(LANE, concurrency=8)
        async with (
            job.table.transaction() as ours,
            await psycopg.AsyncConnection.connect(a_database.url) as another,
        ):
            await ours.execute(f"UPDATE {table} SET n = n WHERE id = 7".encode())
            waits = asyncio.create_task(another.execute(f"UPDATE {table} SET n = n WHERE id = 7".encode()))
            await until(lambda: bool(a_database.do("SELECT 1 FROM pg_locks WHERE NOT granted")))
            await one._check()
            lane = await frontier.lane(LANE)
            assert lane is not None
            assert lane.concurrency == 1
            assert said == ["slowed down: 1 session waits for locks of this backfill"]
            await ours.execute(b"ROLLBACK; BEGIN")
            await waits
        for _ in range(9):
            await one._check()
        lane = await frontier.lane(LANE)
        assert lane is not None
        assert not lane.overrides
        assert said[1:] == ["speeding up again"]


@pytest.mark.parametrize("a_database", ["postgresql"], indirect=True)
async def test_a_session_that_ends_in_the_middle_of_a_look_is_an_outage(a_database: Database, table: str) -> None:
    """Which passes: the next look is to find the database there again."""
    async with ready(settings_of(a_database, table)) as (job, _, _, _, _):
        query = "SELECT pg_terminate_backend(pg_backend_pid())"
        signals = LoadSignals(job.table, max_lag=1.0, lag_query=query, max_active=None, pause_file=None)
        with pytest.raises(StoreUnavailable):
            await signals.check(slowdown=1.0)
        assert await job._make_signals().check(slowdown=1.0) is None


async def test_its_own_slowdown(a_database: Database, table: str) -> None:
    async with ready(settings_of(a_database, table)) as (job, _, _, _, _):
        assert await job._make_signals().check(slowdown=1.5) is None
        assert await job._make_signals().check(slowdown=20.0) == (
            False,
            "a row takes 20.0 times as long as in the fastest slice",
        )


@pytest.mark.parametrize(
    "query", ["SELECT nonsense", "SELECT 'many'", "SELECT 1 WHERE 1 = 2", "SELECT 'a'; SELECT 'b'"]
)
async def test_a_lag_that_cannot_be_read(a_database: Database, table: str, query: str) -> None:
    with pytest.raises(UsageError, match="lag-query"):
        async with ready(settings_of(a_database, table, max_lag=1.0, lag_query=query)):
            pass


async def test_a_lag_that_cannot_be_read_any_more_is_a_pause(a_database: Database, table: str) -> None:
    settings = settings_of(
        a_database, table, batch=1, target_time=0.01, max_lag=1.0, lag_query=f"SELECT seconds FROM {table}_lag"
    )
    async with running(settings) as job:
        await moves(job)
        await asyncio.to_thread(a_database.do, f"DROP TABLE {table}_lag")
        await job.until(lambda: any("paused: the database rejected --lag-query" in words for words in job.said))
        await still(job)
        again = (f"CREATE TABLE {table}_lag (seconds real)", f"INSERT INTO {table}_lag VALUES (0)")
        await asyncio.to_thread(a_database.do, *again)
        await moves(job)


class FullStore:
    """A frontier whose first write finds no room."""

    def __init__(self) -> None:
        self.blocks = asyncio.Queue[str]()

    async def block(self, lane: str, *, seconds: float) -> None:
        self.blocks.put_nowait(lane)
        if self.blocks.qsize() == 1:
            raise StoreFull("the disk is full")


class BusySignals:
    async def check(self, *, slowdown: float) -> Overload:
        return PAUSED


async def test_a_full_store_does_not_end_the_throttle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the pause would never end."""
    monkeypatch.setattr(throttle, "CHECK_SECONDS", 0.001)
    store = FullStore()
    signals, frontier = cast(LoadSignals, BusySignals()), cast(Frontier, store)
    watching = asyncio.create_task(
        Throttle(frontier, signals, slowdown=lambda: 1.0, report=lambda message: None).watch()
    )
    await until(lambda: store.blocks.qsize() >= 2 or watching.done())
    assert not watching.done()
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
