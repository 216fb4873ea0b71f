"""Handlers that the tests backfill with."""

import asyncio
import contextlib
import sqlite3
import threading
import time
from collections.abc import Sequence
from typing import Any

import psycopg

FOREVER, woken = threading.Event(), threading.Event()
LAST = 60
POISON = 13


async def nothing(rows: Sequence[dict[str, Any]], connection: Any) -> None:
    return None


async def counting(rows: Sequence[dict[str, Any]], connection: Any) -> None:
    await _add_one(rows, connection)


def counting_plainly(rows: Sequence[dict[str, Any]], connection: Any) -> int:
    _add_one_plainly(rows, connection)
    return len(rows)


async def raising(rows: Sequence[dict[str, Any]], connection: Any) -> None:
    await _add_one(rows, connection)
    _check(rows)


def raising_plainly(rows: Sequence[dict[str, Any]], connection: Any) -> None:
    _add_one_plainly(rows, connection)
    _check(rows)


async def nonsense(rows: Sequence[dict[str, Any]], connection: Any) -> Any:
    await _add_one(rows, connection)
    return "fine" if _poisoned(rows) else None


def nonsense_plainly(rows: Sequence[dict[str, Any]], connection: Any) -> Any:
    _add_one_plainly(rows, connection)
    return -1 if _poisoned(rows) else None


async def committing(rows: Sequence[dict[str, Any]], connection: Any) -> None:
    await _add_one(rows, connection)
    if _poisoned(rows):
        done = connection.commit()
        if done is not None:
            await done


def committing_plainly(rows: Sequence[dict[str, Any]], connection: Any) -> None:
    _add_one_plainly(rows, connection)
    if _poisoned(rows):
        connection.commit()


async def hanging_forever(rows: Sequence[dict[str, Any]], connection: Any) -> None:
    await _add_one(rows, connection)
    if _poisoned(rows):
        await asyncio.Event().wait()


def hanging_plainly(rows: Sequence[dict[str, Any]], connection: Any) -> None:
    _add_one_plainly(rows, connection)
    if _poisoned(rows):
        FOREVER.wait()
        try:
            _add_one_plainly(rows, connection)
        finally:
            woken.set()
    elif rows[-1]["id"] == LAST:
        if not isinstance(connection, sqlite3.Connection):  # it waits until nobody has the lock
            connection.execute(f"SELECT FROM {rows[0]['own']} WHERE id = {POISON} FOR UPDATE")
        FOREVER.set()
        woken.wait(60)


async def slow(rows: Sequence[dict[str, Any]], connection: Any) -> None:
    await asyncio.sleep(0.02 * len(rows))
    await _add_one(rows, connection)


async def very_slow(rows: Sequence[dict[str, Any]], connection: Any) -> None:
    await asyncio.sleep(0.15 * len(rows))
    await _add_one(rows, connection)


async def slow_in_sqlite(rows: Sequence[dict[str, Any]], connection: sqlite3.Connection) -> None:
    slow_in_sqlite_plainly(rows, connection)


def slow_in_sqlite_plainly(rows: Sequence[dict[str, Any]], connection: sqlite3.Connection) -> None:
    """One statement that takes several milliseconds for each row, on a loaded machine hardly more."""
    connection.create_function("pause", 1, _pause)
    connection.execute(
        f"UPDATE {rows[0]['own']} SET n = n + 1 + pause(id) WHERE id BETWEEN ? AND ?", (rows[0]["id"], rows[-1]["id"])
    )


def _pause(key: int) -> int:
    time.sleep(0.012)
    return 0


async def swallowing(rows: Sequence[dict[str, Any]], connection: sqlite3.Connection) -> None:
    swallowing_plainly(rows, connection)


def swallowing_plainly(rows: Sequence[dict[str, Any]], connection: sqlite3.Connection) -> None:
    """Goes on, whatever happens, also when SQLite has rolled back the transaction."""
    _add_one_plainly(rows, connection)
    if _poisoned(rows):
        for statement in ("INSERT OR ROLLBACK INTO {0} (id) VALUES (1)", "UPDATE {0} SET n = n + 100"):
            with contextlib.suppress(sqlite3.Error):
                connection.execute(statement.format(rows[0]["own"]))


async def losing_another_server(rows: Sequence[dict[str, Any]], connection: Any) -> None:
    await _add_one(rows, connection)
    if _poisoned(rows):
        raise psycopg.OperationalError("another server is gone")


def _poisoned(rows: Sequence[dict[str, Any]]) -> bool:
    return any(row["id"] == POISON for row in rows)


def _check(rows: Sequence[dict[str, Any]]) -> None:
    if _poisoned(rows):
        raise ValueError(f"{POISON} is bad luck")


async def _add_one(rows: Sequence[dict[str, Any]], connection: Any) -> None:
    done = connection.execute(*_statement(rows, connection))
    if not isinstance(connection, sqlite3.Connection):
        await done


def _add_one_plainly(rows: Sequence[dict[str, Any]], connection: Any) -> None:
    connection.execute(*_statement(rows, connection))


def _statement(rows: Sequence[dict[str, Any]], connection: Any) -> tuple[str, list[Any]]:
    ids = [row["id"] for row in rows]
    if isinstance(connection, sqlite3.Connection):
        return f"UPDATE {rows[0]['own']} SET n = n + 1 WHERE id IN ({', '.join('?' * len(ids))})", ids
    return f"UPDATE {rows[0]['own']} SET n = n + 1 WHERE id = ANY(%s)", [ids]
