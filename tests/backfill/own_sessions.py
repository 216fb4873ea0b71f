"""Handlers that open database sessions of their own."""

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import psycopg

Rows = Sequence[dict[str, Any]]

begun, may_end = threading.Event(), threading.Event()


def plain(rows: Rows, connection: Any) -> None:
    """Write each row through another session than the one of the slice."""
    _write(rows)


async def blocking_the_loop(rows: Rows, connection: Any) -> None:
    _write(rows)


async def in_another_thread(rows: Rows, connection: Any) -> None:
    await asyncio.to_thread(_write, rows)


async def waiting_in_the_loop(rows: Rows, connection: Any) -> None:
    async with await psycopg.AsyncConnection.connect(rows[0]["url"]) as own:
        await own.execute(f"UPDATE {rows[0]['own']} SET n = n + 1 WHERE id = %s", (rows[0]["id"],))


def writing_all_rows(rows: Rows, connection: Any) -> None:
    """The sessions of all handlers wait for the first row, one behind the other."""
    with psycopg.connect(rows[0]["url"]) as own:
        own.execute(f"UPDATE {rows[0]['own']} SET n = n + 1")


def catching(rows: Rows, connection: Any) -> None:
    with contextlib.suppress(Exception):
        _write(rows)


def beginning(rows: Rows, connection: Any) -> None:
    path = rows[0]["url"].removeprefix("sqlite:///")
    with closing(sqlite3.connect(path, timeout=0.1, isolation_level=None)) as own:
        own.execute("BEGIN IMMEDIATE")


def waiting_for_the_test(rows: Rows, connection: Any) -> None:
    begun.set()
    may_end.wait(60)
    _add_one(rows, connection)


def logging_plainly(rows: Rows, connection: Any) -> None:
    with psycopg.connect(rows[0]["url"]) as own:
        own.execute(f"UPDATE {rows[0]['own']}_log SET entries = entries + 1")
    _add_one(rows, connection)


def reading_and_logging(rows: Rows, connection: Any) -> None:
    path = rows[0]["url"].removeprefix("sqlite:///")
    with closing(sqlite3.connect(path)) as reader:
        assert reader.execute(f"SELECT count(*) FROM {rows[0]['own']}").fetchone()
        reader.execute(f"CREATE TEMP TABLE seen AS SELECT id FROM {rows[0]['own']}")
        reader.execute("DELETE FROM seen")
    with closing(sqlite3.connect(path.replace("app.db", "other.db"))) as log, log:
        log.execute("INSERT INTO log VALUES (?)", (len(rows),))
    _add_one(rows, connection)


def _write(rows: Rows) -> None:
    url, table, ids = rows[0]["url"], rows[0]["own"], [row["id"] for row in rows]
    if url.startswith("sqlite:"):
        # It would wait for longer than any test.
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), timeout=600.0)) as own, own:
            own.executemany(f"UPDATE {table} SET n = n + 1 WHERE id = ?", [(id_,) for id_ in ids])
    else:
        with psycopg.connect(url) as own_session:
            own_session.execute(f"UPDATE {table} SET n = n + 1 WHERE id = ANY(%s)", (ids,))


def _add_one(rows: Rows, connection: Any) -> None:
    marks = ", ".join("?" if isinstance(connection, sqlite3.Connection) else "%s" for _ in rows)
    connection.execute(f"UPDATE {rows[0]['own']} SET n = n + 1 WHERE id IN ({marks})", [row["id"] for row in rows])
