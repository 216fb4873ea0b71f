"""A table in PostgreSQL."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Any, Self

import psycopg
from psycopg import errors as pg

from swath.core.errors import StoreUnavailable, UsageError
from swath.tables import keyset
from swath.tables.catalog import describe
from swath.tables.loading import forgive
from swath.tables.naming import quoted
from swath.tables.table import Column, Description, Digest, Fragment, Key, Record, Rows, SliceEnd

CONNECT_TIMEOUT = 10
APPLICATION = "swath"

# Keys are written so that they read the same in any session. The order must come from the key's index, whatever the
# statistics say. A role's time limit would end the same slice each time that it is asked for. All of it holds for one
# transaction, so that a pooler in transaction mode may stand in between.
READING = b"""
BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY;
SET LOCAL datestyle = 'ISO'; SET LOCAL timezone = 'UTC'; SET LOCAL intervalstyle = 'postgres';
SET LOCAL extra_float_digits = 1; SET LOCAL bytea_output = 'hex';
SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_sort = off;
SET LOCAL jit = off; SET LOCAL max_parallel_workers_per_gather = 0; SET LOCAL statement_timeout = 0
"""

BEGIN = b"BEGIN ISOLATION LEVEL READ COMMITTED"

AsyncConnection = psycopg.AsyncConnection[tuple[Any, ...]]


class PostgresTable:
    """One table of a PostgreSQL database, over a few connections of its own."""

    kind = "postgresql"

    def __init__(self, dsn: str, shown: str, *, connections: int) -> None:
        self.shown = shown
        self.about: Description
        self.first: Key | None = None
        self._dsn = dsn
        self._free = asyncio.Semaphore(connections)
        self._idle: list[AsyncConnection] = []

    @classmethod
    async def open(cls, dsn: str, table: str, *, key: Sequence[str] | None, shown: str, connections: int) -> Self:
        """Look a table up; UsageError if it is not there or its key cannot be relied on."""
        self = cls(dsn, shown, connections=connections)
        try:
            async with self.transaction() as connection:
                self.about = await describe(connection, table, key=key, shown=shown)
            await self._one(f"SELECT {self._key_texts()} FROM {self._name} AS t LIMIT 0", ())  # whether it may be read
        except BaseException:
            await self.close()
            raise
        return self

    async def close(self) -> None:
        while self._idle:
            await self._idle.pop().close()

    # what is where

    async def parse_key(self, texts: Sequence[str]) -> Key:
        names = ", ".join(self.about.key_names)
        if len(texts) != len(self.about.key):
            raise UsageError(f"{', '.join(texts)} is no key of {self.about.name}: its key is {names}")
        values = ", ".join(f"CAST({_placeholder(column)} AS text)" for column in self.about.key)
        try:
            row = await self._one(f"SELECT {values}", tuple(texts))
        except pg.DataError as error:
            said = error.diag.message_primary
            raise UsageError(f"{', '.join(texts)} is no key ({names}) of {self.about.name}: {said}") from error
        assert row is not None
        return row

    async def first_key(self, *, after: Key | None = None, upto: Key | None = None) -> Key | None:
        return await self._end(after, upto, descending=False)

    async def last_key(self, *, after: Key | None = None, upto: Key | None = None) -> Key | None:
        return await self._end(after, upto, descending=True)

    async def _end(self, after: Key | None, upto: Key | None, *, descending: bool) -> Key | None:
        where = self.within(after=after, upto=upto)
        order = keyset.key_list(self.about, DIALECT, of="t", descending=descending)
        return await self._one(
            f"SELECT {self._key_texts()} FROM {self._name} AS t WHERE {where.sql} ORDER BY {order} LIMIT 1",
            where.values,
        )

    async def slice_end(self, limit: int, *, after: Key | None = None, upto: Key | None = None) -> SliceEnd | None:
        where = self.within(after=after, upto=upto)
        key = keyset.key_list(self.about, DIALECT)
        # Aggregates, so that the rows are read once and neither sorted again nor sent.
        lasts = ", ".join(_last(column) for column in self.about.key)
        row = await self._one(
            f"SELECT {lasts}, count(*) FROM "
            f"(SELECT {key} FROM {self._name} AS t WHERE {where.sql} ORDER BY {key} LIMIT {int(limit)}) AS s",
            where.values,
        )
        assert row is not None
        return SliceEnd(row[:-1], row[-1]) if row[-1] else None

    async def follows(self, one: Key, other: Key) -> bool:
        left, right = self.literal(one), self.literal(other)
        row = await self._one(f"SELECT ({left.sql}) > ({right.sql})", (*left.values, *right.values))
        return row is not None and bool(row[0])

    async def estimate(self, *, after: Key | None = None, upto: Key | None = None) -> int | None:
        """The planner's guess, which needs no ANALYZE: without one it goes by the table's size."""
        where = self.within(after=after, upto=upto)
        row = await self._one(f"EXPLAIN (FORMAT JSON) SELECT 1 FROM {self._name} AS t WHERE {where.sql}", where.values)
        return None if row is None else int(row[0][0]["Plan"]["Plan Rows"])

    # what is in it

    async def records(self, *, after: Key | None = None, upto: Key | None = None) -> list[Record]:
        return await self._records(self.within(after=after, upto=upto))

    def reader(self) -> "PostgresReader":
        with translated(self.shown):
            return PostgresReader(self, self._connect_blocking())

    async def records_of(self, keys: Sequence[Key]) -> list[Record]:
        return await self._records(keyset.among(self.about, keys, DIALECT)) if keys else []

    async def _records(self, where: Fragment) -> list[Record]:
        keys = len(self.about.key)
        statement = (
            f"SELECT {self._key_texts()}, t.* FROM {self._name} AS t WHERE {where.sql} "
            f"ORDER BY {keyset.key_list(self.about, DIALECT, of='t')}"
        )
        async with self._reading() as connection:
            with reading(self.shown):
                cursor = await connection.execute(statement.encode(), where.values)
                found = await cursor.fetchall()
        names = [column.name for column in (cursor.description or ())[keys:]]
        return [Record(row[:keys], dict(zip(names, row[keys:], strict=True))) for row in found]

    async def digest(self, columns: Sequence[str], *, after: Key | None = None, upto: Key | None = None) -> Digest:
        where = self.within(after=after, upto=upto)
        listed = ", ".join(f"t.{_name(name)}" for name in columns)
        row = await self._one(
            "SELECT count(*), coalesce(bit_xor(('x' || left(h, 16))::bit(64)::bigint), 0), "
            "coalesce(bit_xor(('x' || right(h, 16))::bit(64)::bigint), 0) "
            f"FROM (SELECT md5(ROW({listed})::text) AS h FROM {self._name} AS t WHERE {where.sql}) AS s",
            where.values,
        )
        assert row is not None
        return Digest(row[0], f"{row[1] % 2**64:016x}{row[2] % 2**64:016x}")

    # for statements of one's own

    def within(self, *, after: Key | None = None, upto: Key | None = None) -> Fragment:
        return keyset.within(self.about, DIALECT, first=self.first, after=after, upto=upto)

    def literal(self, key: Key) -> Fragment:
        return keyset.literal(self.about, key, DIALECT)

    def transaction(self) -> AbstractAsyncContextManager[AsyncConnection]:
        return self._begun(BEGIN)

    def _reading(self) -> AbstractAsyncContextManager[AsyncConnection]:
        return self._begun(READING)

    @asynccontextmanager
    async def _begun(self, begin: bytes) -> AsyncIterator[AsyncConnection]:
        """Lend a connection for one transaction. One that broke or was left in the middle of something is closed."""
        async with self._free:
            with translated(self.shown):
                connection = self._idle.pop() if self._idle else await self._connect()
            try:
                with translated(self.shown):
                    await connection.execute(begin)
                yield connection
                with translated(self.shown):
                    await connection.execute(b"COMMIT")
            finally:
                await self._take_back(connection)

    @asynccontextmanager
    async def blocking_transaction(self) -> AsyncIterator[psycopg.Connection[Any]]:
        async with self._free:
            with translated(self.shown):
                connection = await asyncio.to_thread(self._connect_blocking)
            with translated(self.shown):
                await asyncio.to_thread(connection.execute, BEGIN)
            try:
                yield connection
                with translated(self.shown):
                    await asyncio.to_thread(connection.execute, b"COMMIT")
            except asyncio.CancelledError:
                # A thread may be in the middle of a statement, or never come back: the server ends its session.
                await self._terminate(connection.info.backend_pid)
                raise
            except BaseException:
                await asyncio.to_thread(connection.close)
                raise
            await asyncio.to_thread(connection.close)

    async def _terminate(self, pid: int) -> None:
        try:
            async with await self._connect() as connection:
                await connection.execute(b"SELECT pg_terminate_backend(%s)", (pid,))
        except psycopg.OperationalError:
            pass  # the server is gone, and its sessions with it

    def _connect_blocking(self) -> psycopg.Connection[Any]:
        connection = psycopg.connect(
            self._dsn,
            autocommit=True,
            prepare_threshold=None,
            connect_timeout=CONNECT_TIMEOUT,
            application_name=APPLICATION,
        )
        forgive(connection)
        return connection

    async def _take_back(self, connection: AsyncConnection) -> None:
        if not connection.closed and connection.info.transaction_status in _OPEN:
            try:
                await connection.execute(b"ROLLBACK")
            except psycopg.Error:  # the session is gone, and its transaction with it
                await connection.close()
        if not connection.closed and connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
            self._idle.append(connection)
        else:
            await connection.close()

    async def _connect(self) -> AsyncConnection:
        connection = await psycopg.AsyncConnection.connect(
            self._dsn,
            autocommit=True,
            prepare_threshold=None,
            connect_timeout=CONNECT_TIMEOUT,
            application_name=APPLICATION,
        )
        forgive(connection)
        return connection

    async def _one(self, statement: str, values: Sequence[Any]) -> tuple[Any, ...] | None:
        async with self._reading() as connection:
            with reading(self.shown):
                return await (await connection.execute(statement.encode(), values)).fetchone()

    @property
    def _name(self) -> str:
        return _escaped(self.about.quoted)

    def _key_texts(self) -> str:
        return ", ".join(f"CAST(t.{_name(name)} AS text)" for name in self.about.key_names)


class PostgresReader:
    """A connection of its own to the database of a table."""

    def __init__(self, table: PostgresTable, connection: psycopg.Connection[Any]) -> None:
        self._table = table
        self._connection = connection

    def rows(self, limit: int, *, after: Key | None = None, upto: Key | None = None) -> Rows:
        about, where = self._table.about, self._table.within(after=after, upto=upto)
        order = keyset.key_list(about, DIALECT, of="t")
        name = _escaped(about.quoted)
        statement = f"SELECT t.* FROM {name} AS t WHERE {where.sql} ORDER BY {order} LIMIT {int(limit)}"
        with reading(self._table.shown):
            self._connection.execute(READING)
            cursor = self._connection.execute(statement.encode(), where.values)
            found = Rows([column.name for column in cursor.description or ()], cursor.fetchall())
            self._connection.execute(b"COMMIT")
            return found

    def close(self) -> None:
        self._connection.close()


_HINT = re.compile(r"\n\t.*")  # what libpq asks, and we do
_OPEN = (psycopg.pq.TransactionStatus.INTRANS, psycopg.pq.TransactionStatus.INERROR)


@contextmanager
def translated(shown: str) -> Iterator[None]:
    """A database that is not there is an error of ours; what a statement of the caller's does is not."""
    try:
        yield
    except psycopg.OperationalError as error:
        said = " ".join(_HINT.sub("", error.diag.message_primary or str(error)).split())
        raise StoreUnavailable(
            f"{shown} cannot be reached: {said}. Is the server running, and the URL right?"
        ) from error


@contextmanager
def reading(shown: str) -> Iterator[None]:
    """As `translated`, for statements of ours: a right that they lack is somebody's to grant, and waiting is no use."""
    try:
        with translated(shown):
            yield
    except pg.InsufficientPrivilege as error:
        raise UsageError(
            f"{shown} does not let this role read: {error.diag.message_primary}. GRANT SELECT on the table to it, or "
            "name another role in the URL"
        ) from error


def _escaped(sql: str) -> str:
    """In psycopg's statements a percent sign is doubled."""
    return sql.replace("%", "%%")


def _name(name: str) -> str:
    return _escaped(quoted(name))


def _placeholder(column: Column) -> str:
    collate = f" COLLATE {_escaped(column.collation)}" if column.collation else ""
    return f"CAST(%s AS {_escaped(column.type)}){collate}"


# An aggregate of arrays is one array of more dimensions, and a domain's name does not tell what it is over.
_SCALARS = frozenset(
    (
        "smallint",
        "integer",
        "bigint",
        "numeric",
        "real",
        "double precision",
        "text",
        "character",
        "character varying",
        "uuid",
        "bytea",
        "date",
        "timestamp with time zone",
        "timestamp without time zone",
    )
)


def _last(column: Column) -> str:
    name = _name(column.name)
    if re.sub(r"\(.*?\)", "", column.type) not in _SCALARS:
        name = f"CAST({name} AS text)"
    return f"CAST((array_agg({name}))[count(*)] AS text)"


DIALECT = keyset.Dialect(_name, _placeholder, str)
