"""A slice that takes too long, meets locks or deadlocks is made smaller, and holds its own locks for a short time."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace

import psycopg
import pytest

from tests.backfill.driving import SERIES, backfill, counts, ready, running, settings_of, until
from tests.tables.conftest import Database

ROWS = 400


@pytest.fixture
def table(server: Database, name: str) -> str:
    server.do(
        f"CREATE TABLE {name} (id integer PRIMARY KEY, n integer NOT NULL DEFAULT 0, other integer DEFAULT 0)",
        f"INSERT INTO {name} (id) SELECT g FROM generate_series(1, {ROWS}) AS g",
    )
    return name


@contextlib.asynccontextmanager
async def session(server: Database) -> AsyncIterator["psycopg.AsyncConnection[tuple[int]]"]:
    """Somebody else, in a transaction."""
    async with await psycopg.AsyncConnection.connect(server.url) as connection:
        yield connection


def slow_rows(server: Database, table: str, condition: str, seconds: float) -> None:
    server.do(
        f"""CREATE FUNCTION {table}_slow() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN PERFORM pg_sleep({seconds}); RETURN NEW; END $$""",
        f"""CREATE TRIGGER slow BEFORE UPDATE ON {table} FOR EACH ROW WHEN ({condition})
        EXECUTE FUNCTION {table}_slow()""",
    )


async def test_slow_rows_split_their_slice(server: Database, table: str) -> None:
    slow_rows(server, table, "NEW.id BETWEEN 130 AND 140", 0.04)
    found = await backfill(settings_of(server, table, batch=100, target_time=0.1, workers=2))
    assert counts(server, table) == {1: ROWS}
    assert found.job.stats.overruns["timeout"] > 0
    assert found.summary.split > 0
    assert not found.dead
    assert found.job.stats.rows == ROWS


async def test_somebody_else_does_the_rest(server: Database, table: str) -> None:
    """What was split off before this one went away is not lost, and is not done twice."""
    slow_rows(server, table, "NEW.id > 100", 0.01)
    settings = settings_of(server, table, batch=200, target_time=0.05, workers=1)
    async with running(settings) as job:
        await job.until(lambda: job.job.stats.overruns.total() > 0 and job.job.stats.slices > 1)
        job.stop.request("enough")
        await job.finished()
        assert (await job.frontier.status()).ready > 0
    assert set(counts(server, table)) == {0, 1}
    server.do(f"DROP TRIGGER slow ON {table}")
    found = await backfill(settings)
    assert found.start.resumed
    assert counts(server, table) == {1: ROWS}


async def test_rows_that_came_since_are_counted(server: Database, table: str) -> None:
    """A slice that was planned with one row, and has many now, is made smaller as any other."""
    server.do(f"DELETE FROM {table} WHERE id NOT IN (1, {ROWS})")
    settings = settings_of(server, table, batch=1, target_time=0.4, workers=1)
    async with ready(settings, attempts=1) as (job, frontier, _, _, _):
        claim = await frontier.claim(1)
        assert claim is not None
        plan = job.make_handler(pause_reason=lambda: None)
        await claim.settle([await plan(claim.items[0], None)])
        server.do(f"INSERT INTO {table} (id) SELECT g FROM generate_series(2, 60) AS g")
        slow_rows(server, table, "true", 0.02)  # of which one alone is far from too long
        await job.run(frontier)
        assert job.stats.overruns["timeout"] > 0
        assert job.stats.slices < 40, "one row at a time, as many as there were when it was planned"
        assert (await frontier.status()).dead == 0
    assert counts(server, table) == {1: 61}


async def test_a_locked_row_holds_up_nobody_else(server: Database, table: str) -> None:
    """Whoever wants another row of the slice that waits for it has that before long."""
    settings = settings_of(server, table, batch=ROWS, target_time=0.3, workers=1)
    async with session(server) as somebody, session(server) as another:
        await somebody.execute(f"SELECT FROM {table} WHERE id = 50 FOR UPDATE".encode())
        async with running(settings) as job:
            await another.execute("SET lock_timeout = '2s'")
            await another.commit()
            while not job.job.stats.overruns:
                await another.execute(f"UPDATE {table} SET other = other + 1 WHERE id = 49".encode())
                await another.commit()
            await somebody.rollback()
            await job.finished()
            assert (await job.frontier.status()).dead == 0
            assert job.job.stats.overruns.keys() <= {"timeout", "lock timeout"}
    assert counts(server, table) == {1: ROWS}


async def test_a_row_that_stays_locked_is_a_dead_letter(server: Database, table: str) -> None:
    settings = settings_of(server, table, batch=10, target_time=0.05, workers=2)
    async with session(server) as somebody:
        await somebody.execute(f"SELECT FROM {table} WHERE id = 50 FOR UPDATE".encode())
        found = await backfill(settings, attempts=2)
        (dead,) = found.dead
        assert "timeout" in dead.reason
        assert found.progress.key == ("49",)
        left = [row for (row,) in server.do(f"SELECT id FROM {table} WHERE n = 0 ORDER BY id")]
        assert left == list(range(50, left[-1] + 1))
        assert len(left) <= 10
    patient = replace(settings, target_time=5.0)  # nothing is locked any more, but the machine may be slow
    async with ready(patient) as (job, frontier, _, _, _):
        assert await frontier.reopen_dead() == 1
        await job.run(frontier)
    assert counts(server, table) == {1: ROWS}


async def test_deadlocks_are_tried_again(server: Database, table: str) -> None:
    """Somebody locks the rows in the opposite order, and is patient, so that it is the backfill that gives way."""
    server.do(f"ALTER DATABASE {server.url.rpartition('/')[2].partition('?')[0]} SET deadlock_timeout = '300ms'")
    settings = settings_of(server, table, batch=ROWS, target_time=2.0, workers=1)
    async with session(server) as somebody:
        await somebody.execute("SET deadlock_timeout = '60s'")
        await somebody.execute(f"UPDATE {table} SET other = 1 WHERE id = 300".encode())
        async with running(settings) as job:
            await until(lambda: waiting(server))
            await somebody.execute(f"UPDATE {table} SET other = 1 WHERE id = 10".encode())
            await somebody.commit()
            await job.finished()
            assert job.job.stats.overruns["deadlock"] == 1
    assert counts(server, table) == {1: ROWS}
    assert counts(server, table, "other") == {0: ROWS - 2, 1: 2}


def waiting(server: Database) -> bool:
    return bool(server.do("SELECT 1 FROM pg_locks WHERE NOT granted"))


async def test_serialisation_failures_are_tried_again(server: Database, table: str) -> None:
    server.do(
        f"CREATE SEQUENCE {table}_failures",
        f"""CREATE FUNCTION {table}_fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF nextval('{table}_failures') <= 3 THEN RAISE 'not now' USING ERRCODE = '40001'; END IF; RETURN NEW; END $$""",
        f"CREATE TRIGGER fail BEFORE UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION {table}_fail()",
    )
    found = await backfill(settings_of(server, table, batch=100, workers=1))
    assert found.job.stats.overruns == {"serialization failure": 3}
    assert counts(server, table) == {1: ROWS}


async def test_rows_that_the_database_refuses_are_a_dead_letter(server: Database, table: str) -> None:
    server.do(f"ALTER TABLE {table} ADD CHECK (id <> 130 OR n = 0)")
    found = await backfill(settings_of(server, table, batch=50, workers=2))
    (dead,) = found.dead
    assert "CheckViolation" in dead.reason
    assert (dead.payload["start"], dead.payload["lo"], dead.payload["hi"]) == (["100"], ["100"], ["150"])
    assert counts(server, table) == {0: 50, 1: ROWS - 50}


async def test_what_is_checked_at_the_commit_is_refused_with_its_slice(server: Database, name: str) -> None:
    server.do(
        f"CREATE TABLE {name}_known (n integer PRIMARY KEY)",
        f"INSERT INTO {name}_known VALUES (0), (1)",
        f"CREATE TABLE {name} (id integer PRIMARY KEY, n integer REFERENCES {name}_known INITIALLY DEFERRED)",
        f"INSERT INTO {name} {SERIES.format(60)} SELECT g, CASE g WHEN 55 THEN 1 ELSE 0 END FROM s",
    )
    found = await backfill(settings_of(server, name, batch=10))
    (dead,) = found.dead
    assert dead.attempts == 1
    assert "ForeignKeyViolation" in dead.reason
    assert found.job.stats.changed == 50
    assert counts(server, name) == {0: 9, 1: 51}


async def test_what_the_server_has_no_room_for_is_no_outage(server: Database, table: str) -> None:
    """The connection stands, so waiting for the server would be waiting for ever."""
    server.do(f"ALTER TABLE {table} ADD COLUMN v text", f"CREATE INDEX ON {table} (v)")
    long = "(SELECT string_agg(md5(g::text), '') FROM generate_series(1, 999) AS g)"
    set_ = f"n = n + 1, v = CASE WHEN id = 130 THEN {long} END"
    found = await backfill(settings_of(server, table, set=set_, batch=50, workers=2), attempts=1)
    (dead,) = found.dead
    assert "ProgramLimitExceeded" in dead.reason
    assert counts(server, table) == {0: 50, 1: ROWS - 50}


async def test_sqlite_is_interrupted(file: Database, name: str) -> None:
    file.do(
        f"CREATE TABLE {name} (id INTEGER PRIMARY KEY, n INTEGER NOT NULL DEFAULT 0)",
        f"INSERT INTO {name} (id) {SERIES.format(ROWS)} SELECT g FROM s",
    )
    slowly = (
        "n = n + 1 + 0 * (WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 3000 + 0 * id) "
        "SELECT count(*) FROM c)"
    )
    found = await backfill(settings_of(file, name, set=slowly, batch=ROWS, target_time=0.05, workers=2))
    assert found.job.stats.overruns["timeout"] > 0
    assert counts(file, name) == {1: ROWS}
    assert not found.dead


async def test_connections_are_as_many_as_were_promised(server: Database, table: str) -> None:
    """Two for each worker and three to spare at the table, and what the frontier has, however it goes."""
    slow_rows(server, table, "true", 0.002)
    workers = 3
    async with running(settings_of(server, table, batch=20, target_time=0.05, workers=workers)) as job:
        most = 0
        while not job.ended.done():
            (row,) = await asyncio.to_thread(
                server.do,
                "SELECT count(*) FROM pg_stat_activity "
                "WHERE application_name = 'swath' AND datname = current_database()",
            )
            most = max(most, row[0])
        await job.finished()
    assert workers <= most <= 2 * workers + 3 + 5
