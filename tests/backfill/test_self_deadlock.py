"""A handler that waits for its own slice is told so at once; whoever else waits is left alone."""

import asyncio
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from swath.backfill import self_deadlock
from swath.backfill.driver_sessions import list_session_pids
from swath.backfill.job import open_frontier
from swath.backfill.self_deadlock import PostgresWatcher, SelfDeadlock
from tests.backfill import own_sessions
from tests.backfill.driving import SERIES, backfill, counts, end, processes, running, settings_of, wait
from tests.tables.conftest import Database

ROWS = 40
HANDLERS = "tests.backfill.own_sessions"


def fill(database: Database, name: str) -> None:
    """Create a table whose rows say where they are."""
    database.do(
        f"CREATE TABLE {name} (id integer PRIMARY KEY, n integer NOT NULL DEFAULT 0, url text, own text)",
        f"INSERT INTO {name} (id, url, own) {SERIES.format(ROWS)} SELECT g, '{database.url}', '{name}' FROM s",
    )


@pytest.fixture
def table(a_database: Database, name: str) -> str:
    fill(a_database, name)
    return name


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """Grows with each look at the locks, which are more frequent than usual."""
    seen: list[None] = []
    look = PostgresWatcher._look

    def counted(watcher: PostgresWatcher, session: Any) -> None:
        look(watcher, session)
        seen.append(None)

    monkeypatch.setattr(PostgresWatcher, "_look", counted)
    monkeypatch.setattr(self_deadlock, "LOOK_SECONDS", 0.05)
    return seen


async def fail(database: Database, table: str, handler: str, **more: Any) -> str:
    """Run a backfill that fails, and return the message."""
    settings = settings_of(database, table, run=f"{HANDLERS}:{handler}", batch=10, target_time=60.0, **more)
    with pytest.raises(SelfDeadlock) as raised:
        await backfill(settings, attempts=1)
    async with open_frontier(settings) as frontier:
        reasons = {item.reason async for item in frontier.dead()}
    assert reasons == {f"gave up after 1 attempt: {raised.value}"}
    assert counts(database, table) == {0: ROWS}
    return str(raised.value)


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("handler", ["plain", "blocking_the_loop", "in_another_thread"])
async def test_a_handler_that_waits_for_its_own_slice_stops_the_backfill(
    a_database: Database, table: str, handler: str, workers: int
) -> None:
    said = await fail(a_database, table, handler, workers=workers)
    assert "the handler waits for itself" in said
    assert "docs/howto/orm.md" in said


async def test_an_async_handler_that_waits_for_its_own_slice_stops_the_backfill(server: Database, name: str) -> None:
    fill(server, name)
    assert "waits for a lock of its slice's transaction" in await fail(server, name, "waiting_in_the_loop", workers=2)


async def test_sessions_that_wait_behind_each_other_are_recognised(server: Database, name: str) -> None:
    fill(server, name)
    assert "the handler waits for itself" in await fail(server, name, "writing_all_rows", workers=4)


async def test_a_handler_that_catches_the_error_stops_the_backfill_too(a_database: Database, table: str) -> None:
    assert "the handler waits for itself" in await fail(a_database, table, "catching", workers=1)


async def test_a_begin_immediate_of_the_handler_is_recognised(file: Database, name: str) -> None:
    fill(file, name)
    assert "begins to write to" in await fail(file, name, "beginning", workers=1)


def test_the_command_names_the_mistake_and_exits_with_2(a_database: Database, table: str) -> None:
    settings = settings_of(a_database, table, run=f"{HANDLERS}:plain", batch=10)
    with processes(1, settings) as (process,):
        said = end(process, 2)
    assert said.count("the handler waits for itself") == 1
    assert "Traceback" not in said


@contextmanager
def other_program(code: str, *args: str) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen([sys.executable, "-c", code, *args], stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


async def wait_until_blocked(database: Database) -> None:
    """Wait until a session of the database waits for a lock."""
    query = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    await asyncio.to_thread(wait, lambda: bool(database.do(query)))


UPDATE = """
import psycopg, sys
with psycopg.connect(sys.argv[1], autocommit=True) as connection:
    print(connection.execute(f"UPDATE {sys.argv[2]} SET url = 'changed' WHERE id = 1").rowcount)
"""


async def test_another_program_that_waits_for_the_backfill_is_left_alone(
    server: Database, name: str, looks: list[None]
) -> None:
    fill(server, name)
    own_sessions.begun.clear()
    own_sessions.may_end.clear()
    settings = settings_of(server, name, run=f"{HANDLERS}:waiting_for_the_test", workers=1, target_time=60.0)
    async with running(settings) as job:
        await job.until(own_sessions.begun.is_set)
        with other_program(UPDATE, server.url, name) as program:
            await wait_until_blocked(server)
            before = len(looks)
            await job.until(lambda: len(looks) >= before + 4)
            own_sessions.may_end.set()
            await job.finished()
            assert await asyncio.to_thread(program.stdout.read) == "1\n"  # type: ignore[union-attr]
    assert counts(server, name) == {1: ROWS}


async def test_a_handler_that_waits_for_another_program_is_left_alone(
    server: Database, name: str, looks: list[None]
) -> None:
    """Its own session may wait for a lock, as long as the holder is not its slice."""
    fill(server, name)
    server.do(
        f"CREATE TABLE {name}_log (id integer PRIMARY KEY, entries integer NOT NULL)",
        f"INSERT INTO {name}_log VALUES (1, 0)",
    )
    with psycopg.connect(server.url) as holder:
        holder.execute(f"UPDATE {name}_log SET entries = entries + 1".encode())
        settings = settings_of(server, name, run=f"{HANDLERS}:logging_plainly", workers=1, target_time=60.0)
        async with running(settings) as job:
            await wait_until_blocked(server)
            before = len(looks)
            await job.until(lambda: len(looks) >= before + 4)
            await asyncio.to_thread(holder.commit)
            await job.finished()
    assert counts(server, name) == {1: ROWS}
    assert server.do(f"SELECT entries FROM {name}_log") == [(2,)]


async def test_a_handler_of_sqlite_may_read_its_file_and_write_to_another(file: Database, name: str) -> None:
    other = Path(file.url.removeprefix("sqlite:///")).with_name("other.db")
    fill(file, name)
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE log (entries integer)")
    run = await backfill(settings_of(file, name, run=f"{HANDLERS}:reading_and_logging", workers=1))
    assert run.progress.complete
    assert counts(file, name) == {1: ROWS}
    with closing(sqlite3.connect(other)) as connection:
        assert connection.execute("SELECT sum(entries) FROM log").fetchone() == (ROWS,)


async def test_connections_of_python_are_themselves_again_afterwards(file: Database, name: str) -> None:
    before = sqlite3.connect, sqlite3.dbapi2.connect
    file.do(f"CREATE TABLE {name} (id integer PRIMARY KEY, n integer NOT NULL DEFAULT 0)")
    await backfill(settings_of(file, name, run="nothing"))
    assert (sqlite3.connect, sqlite3.dbapi2.connect) == before


def test_sessions_of_this_process_are_found_in_every_thread(server: Database) -> None:
    opened: list[Any] = []
    thread = threading.Thread(target=lambda: opened.append(psycopg.connect(server.url)))
    thread.start()
    thread.join()
    (connection,) = opened
    assert connection.info.backend_pid in list_session_pids()
    connection.close()
    assert connection.closed
    list_session_pids()  # a closed connection has no pid, and is no error
