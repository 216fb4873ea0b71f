"""Operation: change the rows of a slice, on the connection of its transaction."""

import asyncio
import inspect
import sqlite3
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from swath import SwathError, UsageError
from swath.backfill import timeouts
from swath.backfill.self_deadlock import DeadlockWatcher
from swath.backfill.statement import build_set_statement, build_sql_statement
from swath.tables.identifiers import quote_identifier
from swath.tables.sqlite import call_interruptibly
from swath.tables.table import Fragment, Key, Table
from swath.worker_threads import WorkerThreads

Row = dict[str, Any]

# Errors that decide what happens to the slice, even if they come from a handler
_KNOWN: timeouts.Errors = (*timeouts.OVERRUN, *timeouts.REJECTED, *timeouts.UNAVAILABLE, SwathError)


class HandlerRaised(Exception):
    """The user's handler raised an exception. The slice is retried."""

    def __init__(self, error: Exception) -> None:
        super().__init__(f"{type(error).__name__}: {error}".strip().removesuffix(":"))
        self.trace = "".join(traceback.format_exception(error))


class Operation(Protocol):
    """Changes rows. If `blocking` is true, it needs a connection that blocks."""

    blocking: bool

    async def apply(self, connection: Any, *, after: Key | None, upto: Key) -> int:
        """Change the rows of a slice and return how many were changed."""
        ...

    async def attempt(self, connection: Any, sample: Key) -> None:
        """Let the database check the statement. May change the row with this key."""
        ...


class SetOperation:
    """`--set` and `--where`: an UPDATE."""

    blocking = False

    def __init__(self, table: Table, changes: str, where: str | None) -> None:
        self._table = table
        self._changes = changes
        self._where = where

    async def apply(self, connection: Any, *, after: Key | None, upto: Key) -> int:
        statement = build_set_statement(self._table, self._changes, self._where, after=after, upto=upto)
        return await execute(connection, statement)

    async def attempt(self, connection: Any, sample: Key) -> None:
        await self.apply(connection, after=sample, upto=sample)


class SqlOperation:
    """`--sql`: a statement with :lo and :hi. Both are inclusive, so :lo is the first key of the slice."""

    blocking = False

    def __init__(self, table: Table, sql: str) -> None:
        self._table = table
        self._sql = sql

    async def apply(self, connection: Any, *, after: Key | None, upto: Key) -> int:
        first = await self._table.find_first_key(after=after, upto=upto)
        if first is None:
            return 0
        return await execute(connection, build_sql_statement(self._table, self._sql, lo=first, hi=upto))

    async def attempt(self, connection: Any, sample: Key) -> None:
        await execute(connection, build_sql_statement(self._table, self._sql, lo=sample, hi=sample))


class FunctionOperation:
    """`--run`: a Python function, called with the rows of the slice and the connection of its transaction.

    An async function is cancelled if it takes longer than `seconds` for several rows; a thread cannot be.
    """

    def __init__(
        self,
        table: Table,
        handler: Callable[..., Any],
        where: str | None,
        *,
        seconds: float,
        threads: WorkerThreads,
        watcher: DeadlockWatcher,
    ) -> None:
        self._table = table
        self._handler = handler
        self._where = where
        self._seconds = seconds
        self._threads = threads
        self._watcher = watcher
        self.blocking = not inspect.iscoroutinefunction(handler)

    async def apply(self, connection: Any, *, after: Key | None, upto: Key) -> int:
        statement = self._build_query(after, upto)
        if self.blocking:
            count, answer = await self._run_in_thread(statement, connection)
        else:
            rows = await fetch(connection, statement, self._threads)
            count, answer = len(rows), await self._call(rows, connection) if rows else 0
        if answer is None:
            return count
        if type(answer) is int and answer >= 0:
            return answer
        raise UsageError(f"the handler returned {answer!r:.100}. Return None or the number of rows that it changed")

    async def attempt(self, connection: Any, sample: Key) -> None:
        """Do not call the handler: it may have effects outside of its transaction."""

    async def _call(self, rows: Sequence[Row], connection: Any) -> Any:
        limit = asyncio.timeout(self._seconds if len(rows) > 1 else None)
        try:
            with wrap_handler_errors(), self._watcher.watch(connection):
                async with limit:
                    if isinstance(connection, sqlite3.Connection):
                        with _forbid_commit(connection):
                            return await self._handler(rows, connection)
                    async with connection.transaction():
                        return await self._handler(rows, connection)
        except HandlerRaised as error:
            if limit.expired() and isinstance(error.__cause__, TimeoutError):
                raise timeouts.TimedOut(f"the handler took longer than {self._seconds:g} s") from error
            raise

    async def _run_in_thread(self, statement: Fragment, connection: Any) -> tuple[int, Any]:
        """Return the number of rows and the handler's return value. If cancelled, the thread closes the connection."""
        abandoned, finished = threading.Event(), threading.Event()

        def work() -> tuple[int, Any]:
            try:
                rows = read(connection, statement)
                if not rows:
                    return 0, 0
                guard = _forbid_commit if isinstance(connection, sqlite3.Connection) else lambda one: one.transaction()
                with wrap_handler_errors(), self._watcher.watch(connection), guard(connection):
                    return len(rows), self._handler(rows, connection)
            finally:
                finished.set()
                if abandoned.is_set():
                    connection.close()

        try:
            return await self._threads.run(work)
        except asyncio.CancelledError:
            abandoned.set()
            if finished.is_set():
                connection.close()
            raise

    def _build_query(self, after: Key | None, upto: Key) -> Fragment:
        """Return the query for the slice's rows. It locks them, so that no concurrent write is lost."""
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
def wrap_handler_errors() -> Iterator[None]:
    """Wrap an exception of the handler's own code in HandlerRaised. Let database errors and swath's errors pass."""
    try:
        yield
    except _KNOWN:
        raise
    except Exception as error:  # user code
        if timeouts.is_interrupt(error):
            raise
        raise HandlerRaised(error) from error


@contextmanager
def _forbid_commit(connection: sqlite3.Connection) -> Iterator[None]:
    """Keep the handler from ending the transaction, as psycopg does inside `connection.transaction()`."""
    connection.set_authorizer(
        lambda action, *_: sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_TRANSACTION else sqlite3.SQLITE_OK
    )
    try:
        yield
        if not connection.in_transaction:
            raise timeouts.TimedOut(
                "SQLite rolled back the transaction, but the handler caught the error and continued. "
                "Do not catch database errors"
            )
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorname", None) != "SQLITE_AUTH" or not connection.in_transaction:
            raise
        raise UsageError(
            "the handler tried to commit or roll back. swath ends the transaction of a slice; remove that call"
        ) from error
    finally:
        connection.set_authorizer(None)


async def execute(connection: Any, statement: Fragment) -> int:
    """Run a statement on an async or SQLite connection and return how many rows it changed."""
    if isinstance(connection, sqlite3.Connection):
        cursor = await call_interruptibly(connection, connection.execute, statement.sql, statement.values)
    else:
        cursor = await connection.execute(statement.sql.encode(), statement.values)
    return max(0, int(cursor.rowcount))


async def fetch(connection: Any, statement: Fragment, threads: WorkerThreads) -> list[Row]:
    """Return the rows of a query on any connection."""
    if not inspect.iscoroutinefunction(connection.execute):
        return await threads.run(lambda: read(connection, statement))
    cursor = await connection.execute(statement.sql.encode(), statement.values)
    return _to_dicts(cursor, await cursor.fetchall())


def read(connection: Any, statement: Fragment) -> list[Row]:
    """Return the rows of a query on a blocking connection."""
    sql = statement.sql if isinstance(connection, sqlite3.Connection) else statement.sql.encode()
    cursor = connection.execute(sql, statement.values)
    return _to_dicts(cursor, cursor.fetchall())


def _to_dicts(cursor: Any, rows: Sequence[Sequence[Any]]) -> list[Row]:
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in rows]
