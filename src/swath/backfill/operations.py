"""Change: what is done to the rows of a slice, on the connection of its transaction."""

import asyncio
import inspect
import sqlite3
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from swath.backfill import timeouts
from swath.backfill.statement import set_statement, sql_statement
from swath.core.errors import SwathError, UsageError
from swath.tables.identifiers import quote_identifier
from swath.tables.sqlite import call_interruptibly
from swath.tables.table import Fragment, Key, Table
from swath.worker_threads import Threads

Row = dict[str, Any]


_OURS: timeouts.Errors = (*timeouts.OVERRUN, *timeouts.REFUSED, *timeouts.GONE, SwathError)


class HandlerRaised(Exception):
    """A handler of the user's raised something. It may go well another time."""

    def __init__(self, error: Exception) -> None:
        super().__init__(f"{type(error).__name__}: {error}".strip().removesuffix(":"))
        self.trace = "".join(traceback.format_exception(error))


class Change(Protocol):
    """Changes rows. `blocking` says which kind of connection it wants."""

    blocking: bool

    async def apply(self, connection: Any, *, after: Key | None, upto: Key) -> int:
        """Change the rows of a slice, and return how many were."""
        ...

    async def attempt(self, connection: Any, sample: Key) -> None:
        """Have the database look at what it will be asked to do. May change the row with this key."""
        ...


class SetChange:
    """`--set` and `--where`."""

    blocking = False

    def __init__(self, table: Table, changes: str, where: str | None) -> None:
        self._table = table
        self._changes = changes
        self._where = where

    async def apply(self, connection: Any, *, after: Key | None, upto: Key) -> int:
        statement = set_statement(self._table, self._changes, self._where, after=after, upto=upto)
        return await execute(connection, statement)

    async def attempt(self, connection: Any, sample: Key) -> None:
        await self.apply(connection, after=sample, upto=sample)


class SqlChange:
    """`--sql`, whose ends are both part of the slice: the first is the first key that there is now."""

    blocking = False

    def __init__(self, table: Table, sql: str) -> None:
        self._table = table
        self._sql = sql

    async def apply(self, connection: Any, *, after: Key | None, upto: Key) -> int:
        first = await self._table.find_first_key(after=after, upto=upto)
        if first is None:
            return 0
        return await execute(connection, sql_statement(self._table, self._sql, lo=first, hi=upto))

    async def attempt(self, connection: Any, sample: Key) -> None:
        await execute(connection, sql_statement(self._table, self._sql, lo=sample, hi=sample))


class HandlerChange:
    """`--run`: a function of the user's, with the rows of the slice and the connection of its transaction. An async
    one is interrupted when it takes longer than `seconds` for several rows; a thread cannot be."""

    def __init__(
        self, table: Table, handler: Callable[..., Any], where: str | None, *, seconds: float, threads: Threads
    ) -> None:
        self._table = table
        self._handler = handler
        self._where = where
        self._seconds = seconds
        self._threads = threads
        self.blocking = not inspect.iscoroutinefunction(handler)

    async def apply(self, connection: Any, *, after: Key | None, upto: Key) -> int:
        statement = self._rows(after, upto)
        if self.blocking:
            count, answer = await self._in_thread(statement, connection)
        else:
            rows = await fetch(connection, statement, self._threads)
            count, answer = len(rows), await self._called(rows, connection) if rows else 0
        if answer is None:
            return count
        if type(answer) is int and answer >= 0:
            return answer
        raise UsageError(f"the handler returned {answer!r:.100}: return nothing, or the number of rows that it changed")

    async def attempt(self, connection: Any, sample: Key) -> None:
        """Nobody knows what a handler does outside of its transaction: it is not called."""

    async def _called(self, rows: Sequence[Row], connection: Any) -> Any:
        limit = asyncio.timeout(self._seconds if len(rows) > 1 else None)
        try:
            with handlers_errors():
                async with limit:
                    if isinstance(connection, sqlite3.Connection):
                        with _kept_open(connection):
                            return await self._handler(rows, connection)
                    async with connection.transaction():
                        return await self._handler(rows, connection)
        except HandlerRaised as error:
            if limit.expired() and isinstance(error.__cause__, TimeoutError):
                raise timeouts.Interrupted(f"the handler took longer than {self._seconds:g} s") from error
            raise

    async def _in_thread(self, statement: Fragment, connection: Any) -> tuple[int, Any]:
        """How many rows there were, and what the handler said. When this is cancelled, the thread closes the
        connection that was left to it."""
        left, over = threading.Event(), threading.Event()

        def work() -> tuple[int, Any]:
            try:
                rows = read(connection, statement)
                if not rows:
                    return 0, 0
                keeping = _kept_open if isinstance(connection, sqlite3.Connection) else lambda one: one.transaction()
                with handlers_errors(), keeping(connection):
                    return len(rows), self._handler(rows, connection)
            finally:
                over.set()
                if left.is_set():
                    connection.close()

        try:
            return await self._threads.run(work)
        except asyncio.CancelledError:
            left.set()
            if over.is_set():
                connection.close()
            raise

    def _rows(self, after: Key | None, upto: Key) -> Fragment:
        """The rows of the slice, locked against others until the end of the transaction, so that nothing that is
        written between reading and writing is lost."""
        table = self._table
        within = table.build_slice_condition(after=after, upto=upto)
        percent = "%%" if table.kind == "postgresql" else "%"
        name, where = (text.replace("%", percent) for text in (table.description.quoted, self._where or "true"))
        order = ", ".join(
            f"t.{quote_identifier(column)}".replace("%", percent) for column in table.description.key_names
        )
        lock = " FOR NO KEY UPDATE" if table.kind == "postgresql" else ""
        statement = f"SELECT t.* FROM {name} AS t WHERE {within.sql} AND ({where}\n) ORDER BY {order}{lock}"
        return Fragment(statement, within.values)


@contextmanager
def handlers_errors() -> Iterator[None]:
    """Tell what a handler raises from what the database says, and from our own."""
    try:
        yield
    except _OURS:
        raise
    except Exception as error:  # it is code of the user's
        if timeouts.was_interrupted(error):
            raise
        raise HandlerRaised(error) from error


@contextmanager
def _kept_open(connection: sqlite3.Connection) -> Iterator[None]:
    """Refuse to end the transaction, as psycopg does inside of `connection.transaction()`."""
    connection.set_authorizer(
        lambda action, *_: sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_TRANSACTION else sqlite3.SQLITE_OK
    )
    try:
        yield
        if not connection.in_transaction:
            raise timeouts.Interrupted(
                "SQLite had rolled back the transaction, and the handler went on: let errors through"
            )
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorname", None) != "SQLITE_AUTH" or not connection.in_transaction:
            raise
        raise UsageError(
            "the handler wanted to commit or to roll back: its transaction ends with the slice, leave that to swath"
        ) from error
    finally:
        connection.set_authorizer(None)


async def execute(connection: Any, statement: Fragment) -> int:
    """Run a statement on a connection of either kind, and return how many rows it changed."""
    if isinstance(connection, sqlite3.Connection):
        cursor = await call_interruptibly(connection, connection.execute, statement.sql, statement.values)
    else:
        cursor = await connection.execute(statement.sql.encode(), statement.values)
    return max(0, int(cursor.rowcount))


async def fetch(connection: Any, statement: Fragment, threads: Threads) -> list[Row]:
    """The rows of a query on a connection of any kind."""
    if not inspect.iscoroutinefunction(connection.execute):
        return await threads.run(lambda: read(connection, statement))
    cursor = await connection.execute(statement.sql.encode(), statement.values)
    return _named(cursor, await cursor.fetchall())


def read(connection: Any, statement: Fragment) -> list[Row]:
    """The rows of a query on a connection that blocks."""
    sql = statement.sql if isinstance(connection, sqlite3.Connection) else statement.sql.encode()
    cursor = connection.execute(sql, statement.values)
    return _named(cursor, cursor.fetchall())


def _named(cursor: Any, rows: Sequence[Sequence[Any]]) -> list[Row]:
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in rows]
