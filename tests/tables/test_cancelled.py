"""Whoever is cancelled leaves an SQLite connection that nobody uses and that holds no lock."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from swath.tables.sqlite import SqliteTable, call_interruptibly

ENDLESS = "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"


@pytest.fixture
def path(tmp_path: Path) -> str:
    path = str(tmp_path / "app.db")
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER); INSERT INTO t VALUES (1, 0)")
    return path


@pytest.fixture
async def table(path: str) -> AsyncIterator[SqliteTable]:
    table = await SqliteTable.open(path, "t", key=None)
    yield table
    await table.close()


async def cancelled(task: "asyncio.Task[None]") -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_statement_that_is_given_up_has_ended(table: SqliteTable, path: str) -> None:
    async def run() -> None:
        async with table.transaction() as connection:
            connection.execute("UPDATE t SET n = 7")
            await call_interruptibly(connection, connection.execute, ENDLESS)

    task = asyncio.create_task(run())
    await asyncio.sleep(0.2)
    async with asyncio.timeout(60):
        await cancelled(task)
    async with table.transaction() as connection:
        connection.execute("UPDATE t SET n = n + 1")
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("SELECT n FROM t").fetchone() == (1,)


async def test_a_lock_that_is_no_longer_waited_for_is_not_kept(table: SqliteTable, path: str) -> None:
    async def run() -> None:
        async with table.transaction():
            pytest.fail("it was cancelled before")

    with closing(sqlite3.connect(path, isolation_level=None, timeout=30)) as other:
        other.execute("BEGIN IMMEDIATE")
        task = asyncio.create_task(run())
        await asyncio.sleep(0.2)
        ending = asyncio.create_task(cancelled(task))
        await asyncio.sleep(0.2)
        other.execute("COMMIT")
        async with asyncio.timeout(60):
            await ending
        other.execute("BEGIN IMMEDIATE")
        other.execute("COMMIT")


async def test_a_look_that_is_given_up_has_ended(table: SqliteTable) -> None:
    task = asyncio.create_task(table._fetch_one(ENDLESS, ()))
    await asyncio.sleep(0.2)
    async with asyncio.timeout(60):
        await cancelled(task)  # type: ignore[arg-type]
    assert await table.find_first_key() == (1,)


async def test_a_thread_that_was_given_up_can_only_roll_back(table: SqliteTable, path: str) -> None:
    """It keeps the connection, and may be in the middle of a slice that others change from now on."""
    kept: list[sqlite3.Connection] = []
    begun = asyncio.Event()

    async def run() -> None:
        async with table.blocking_transaction() as connection:
            kept.append(connection)
            connection.execute("UPDATE t SET n = 7")
            begun.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(run())
    await begun.wait()
    await cancelled(task)
    for statement in ("UPDATE t SET n = 8", "BEGIN", "COMMIT", "SELECT n FROM t"):
        with pytest.raises(sqlite3.DatabaseError, match="not authorized"):
            kept[0].execute(statement)
    assert not kept[0].in_transaction
    kept[0].rollback()
    async with table.transaction() as connection:
        assert connection is not kept[0]
        connection.execute("UPDATE t SET n = n + 1")
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("SELECT n FROM t").fetchone() == (1,)
