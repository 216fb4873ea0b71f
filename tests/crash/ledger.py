"""A table of the user's own beside the frontier, written through `run(transaction=)` or `run(sink=)`.

As a program, it is one worker that tests kill: `python -m tests.crash.ledger URL transaction|sink`.
"""

import asyncio
import sqlite3
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from typing import Any, NamedTuple, Protocol

import psycopg

import swath
from swath import Item, Sink
from swath.backends.postgres.location import PostgresLocation
from swath.core.item import Outcome
from swath.runner.execution import Transaction

LEASE = 1.0


class Ledger(Protocol):
    """A table `ledger (key, worker)` without a key of its own: whatever is written twice is in it twice."""

    async def create(self) -> None: ...
    def connection(self) -> AbstractAsyncContextManager[Any]: ...
    def within(self, connection: Any) -> AbstractAsyncContextManager[Any]: ...
    def transaction(self) -> AbstractAsyncContextManager[Any]: ...
    async def write(self, connection: Any, key: str) -> None: ...
    def sink(self) -> Sink: ...
    async def keys(self) -> list[str]: ...


class PostgresLedger(NamedTuple):
    dsn: str

    async def create(self) -> None:
        async with await psycopg.AsyncConnection.connect(self.dsn) as connection:
            await connection.execute("CREATE TABLE ledger (key text)")

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        async with await psycopg.AsyncConnection.connect(self.dsn, autocommit=True) as connection:
            yield connection

    def within(self, connection: psycopg.AsyncConnection[Any]) -> AbstractAsyncContextManager[Any]:
        return connection.transaction()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        async with await psycopg.AsyncConnection.connect(self.dsn) as connection:
            yield connection

    async def write(self, connection: psycopg.AsyncConnection[Any], key: str) -> None:
        await connection.execute("INSERT INTO ledger VALUES (%s)", (key,))

    def sink(self) -> Sink:
        async def insert(connection: psycopg.AsyncConnection[Any], rows: Sequence[Any]) -> None:
            async with connection.cursor() as cursor:
                await cursor.executemany("INSERT INTO ledger VALUES (%s)", rows)

        return insert

    async def keys(self) -> list[str]:
        async with self.transaction() as connection:
            rows = await (await connection.execute("SELECT key FROM ledger")).fetchall()
        return [key for (key,) in rows]


class SqliteLedger(NamedTuple):
    path: str

    async def create(self) -> None:
        async with self.transaction() as connection:
            connection.execute("CREATE TABLE ledger (key text)")

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[sqlite3.Connection]:
        with closing(
            sqlite3.connect(self.path, isolation_level=None, timeout=30, check_same_thread=False)
        ) as connection:
            yield connection

    @asynccontextmanager
    async def within(self, connection: sqlite3.Connection) -> AsyncIterator[None]:
        begun = asyncio.ensure_future(asyncio.to_thread(connection.execute, "BEGIN IMMEDIATE"))
        try:
            await asyncio.shield(begun)
            yield
            connection.execute("COMMIT")
        finally:
            await asyncio.wait([begun])  # closed under the thread that waits for the lock, it would crash Python
            if connection.in_transaction:
                connection.execute("ROLLBACK")

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[sqlite3.Connection]:
        async with self.connection() as connection, self.within(connection):
            yield connection

    async def write(self, connection: sqlite3.Connection, key: str) -> None:
        connection.execute("INSERT INTO ledger VALUES (?)", (key,))

    def sink(self) -> Sink:
        def insert(connection: sqlite3.Connection, rows: Sequence[Any]) -> None:
            connection.executemany("INSERT INTO ledger VALUES (?)", rows)

        return insert

    async def keys(self) -> list[str]:
        async with self.transaction() as connection:
            return [key for (key,) in connection.execute("SELECT key FROM ledger")]


def ledger_of(url: str) -> Ledger:
    if url.startswith("sqlite:///"):
        return SqliteLedger(url.removeprefix("sqlite:///"))
    return PostgresLedger(PostgresLocation.parse(url).dsn)


async def cover(url: str, way: str) -> None:
    ledger = ledger_of(url)
    transaction: Transaction = ledger.transaction

    async def write(item: Item, connection: Any) -> None:
        await ledger.write(connection, item.key)
        await asyncio.sleep(0.001)

    async def hand_in(item: Item) -> Outcome:
        await asyncio.sleep(0.001)
        return item.done(rows=[(item.key,)])

    async with swath.open(url, create=False) as frontier:
        print("begun", flush=True)
        if way == "sink":
            await frontier.run(hand_in, workers=40, lease=LEASE, sink=ledger.sink())
        else:
            await frontier.run(write, workers=4, lease=LEASE, transaction=transaction)


if __name__ == "__main__":
    asyncio.run(cover(sys.argv[1], sys.argv[2]))
