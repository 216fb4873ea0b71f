"""Change: what is done to the rows of a slice, on the connection of its transaction."""

import asyncio
import inspect
import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from swath.backfill.statement import set_statement, sql_statement
from swath.core.errors import UsageError
from swath.tables.naming import quoted
from swath.tables.table import Fragment, Key, Table
from swath.threads import Threads

Row = dict[str, Any]


class Change(Protocol):
    """Changes rows. `blocking` says which kind of connection it wants."""

    blocking: bool

    async def apply(self, connection: Any, *, after: Key | None, upto: Key) -> int:
        """Change the rows of a slice, and return how many were."""
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


class SqlChange:
    """`--sql`, whose ends are both part of the slice: the first is the first key that there is now."""

    blocking = False

    def __init__(self, table: Table, sql: str) -> None:
        self._table = table
        self._sql = sql

    async def apply(self, connection: Any, *, after: Key | None, upto: Key) -> int:
        first = await self._table.first_key(after=after, upto=upto)
        if first is None:
            return 0
        return await execute(connection, sql_statement(self._table, self._sql, lo=first, hi=upto))


class HandlerChange:
    """`--run`: a function of the user's, with the rows of the slice and the connection of its transaction."""

    def __init__(self, table: Table, handler: Callable[..., Any], where: str | None, threads: Threads) -> None:
        self._table = table
        self._handler = handler
        self._where = where
        self._threads = threads
        self.blocking = not inspect.iscoroutinefunction(handler)

    async def apply(self, connection: Any, *, after: Key | None, upto: Key) -> int:
        rows = await self._rows(connection, after, upto)
        if not rows:
            return 0
        if self.blocking:
            answer = await self._threads.run(lambda: self._handler(rows, connection))
        else:
            answer = await self._handler(rows, connection)
        if answer is None:
            return len(rows)
        if type(answer) is int and answer >= 0:
            return answer
        raise UsageError(f"the handler returned {answer!r:.100}: return nothing, or the number of rows that it changed")

    async def _rows(self, connection: Any, after: Key | None, upto: Key) -> list[Row]:
        """The rows of the slice, locked against others until the end of the transaction, so that nothing that is
        written between reading and writing is lost."""
        table = self._table
        within = table.within(after=after, upto=upto)
        percent = "%%" if table.kind == "postgresql" else "%"
        name, where = (text.replace("%", percent) for text in (table.about.quoted, self._where or "true"))
        order = ", ".join(f"t.{quoted(column)}".replace("%", percent) for column in table.about.key_names)
        lock = " FOR NO KEY UPDATE" if table.kind == "postgresql" else ""
        statement = f"SELECT t.* FROM {name} AS t WHERE {within.sql} AND ({where}\n) ORDER BY {order}{lock}"
        return await fetch(connection, Fragment(statement, within.values), self._threads)


async def execute(connection: Any, statement: Fragment) -> int:
    """Run a statement on a connection of either kind, and return how many rows it changed."""
    if isinstance(connection, sqlite3.Connection):
        cursor = await asyncio.to_thread(connection.execute, statement.sql, statement.values)
    else:
        cursor = await connection.execute(statement.sql.encode(), statement.values)
    return max(0, int(cursor.rowcount))


async def fetch(connection: Any, statement: Fragment, threads: Threads) -> list[Row]:
    """The rows of a query on a connection of any kind."""
    if inspect.iscoroutinefunction(connection.execute):
        cursor = await connection.execute(statement.sql.encode(), statement.values)
        return _named(cursor, await cursor.fetchall())
    sql = statement.sql if isinstance(connection, sqlite3.Connection) else statement.sql.encode()

    def read() -> list[Row]:
        cursor = connection.execute(sql, statement.values)
        return _named(cursor, cursor.fetchall())

    return await threads.run(read)


def _named(cursor: Any, rows: Sequence[Sequence[Any]]) -> list[Row]:
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in rows]
