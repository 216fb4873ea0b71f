"""A slice that takes too long is undone, and the transaction it was in can still carry a smaller one."""

import asyncio
import sqlite3
from pathlib import Path

import pytest

from swath.backfill import timeouts


@pytest.mark.parametrize(
    "statement", ["UPDATE t SET n = n + 1 + 0 * slow()", "SELECT sum(slow()) FROM t"], ids=["change", "question"]
)
async def test_sqlite_goes_on_after_an_interrupt(tmp_path: Path, statement: str) -> None:
    connection = sqlite3.connect(tmp_path / "app.db", isolation_level=None, check_same_thread=False)
    connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER NOT NULL DEFAULT 0)")
    connection.execute("WITH RECURSIVE s (v) AS (SELECT 1 UNION ALL SELECT v + 1 FROM s WHERE v < 9) "
                       "INSERT INTO t (id) SELECT v FROM s")  # fmt: skip
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()

    def slow() -> int:
        """Until it is interrupted: SQLite looks at that between two steps of a statement."""
        loop.call_soon_threadsafe(begun.set)
        return sum(range(10**6)) * 0

    connection.create_function("slow", 0, slow)
    connection.execute("BEGIN IMMEDIATE")
    with pytest.raises(timeouts.TimedOut):
        async with timeouts.attempt(connection, 0.0):  # the least there is
            await asyncio.to_thread(lambda: [connection.execute(statement).fetchall() for _ in range(1_000)])
    assert begun.is_set()
    assert connection.in_transaction, "nothing could be settled in it"
    async with timeouts.attempt(connection, 60.0):
        connection.execute("UPDATE t SET n = n + 1 WHERE id <= 3")
    connection.execute("COMMIT")
    assert connection.execute("SELECT sum(n) FROM t").fetchone() == (3,)
    connection.close()


async def test_sqlite_keeps_the_transaction_after_an_error(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "app.db", isolation_level=None)
    connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY)")
    connection.execute("BEGIN IMMEDIATE")
    with pytest.raises(sqlite3.IntegrityError):
        async with timeouts.attempt(connection, 60.0):
            connection.executemany("INSERT INTO t VALUES (?)", [(1,), (1,)])
    assert connection.in_transaction
    connection.execute("COMMIT")
    assert connection.execute("SELECT count(*) FROM t").fetchone() == (0,)
    connection.close()
