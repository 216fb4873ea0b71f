"""A table in PostgreSQL."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Any, Self

import psycopg
from psycopg import errors as pg
from psycopg.rows import tuple_row

from swath import StoreUnavailable, UsageError
from swath.tables import keyset
from swath.tables.canonical.column_types import PostgresType
from swath.tables.canonical.form import ColumnForm, finish_rows
from swath.tables.canonical.postgres_sql import build_row_text
from swath.tables.canonical.postgres_types import find_column_types
from swath.tables.definition import Definition, TableChanged, require_unchanged
from swath.tables.identifiers import quote_identifier
from swath.tables.lenient_loaders import register_lenient_loaders
from swath.tables.postgres_catalog import describe
from swath.tables.postgres_definition import (
    FIND_NEW_NAME,
    READ_DATABASE,
    build_definition_query,
    parse_definition_rows,
)
from swath.tables.table import CanonicalRow, Column, Description, Digest, Fragment, Key, RawRows, SliceEnd, TableRow

CONNECT_TIMEOUT_SECONDS = 10
APPLICATION_NAME = "swath"

# Format keys the same way in every session. Read in the order of the key's index even if statistics are stale. Lift the
# role's statement timeout, which would end a slow slice on every attempt. SET LOCAL lasts for one transaction, so this
# works behind a pooler in transaction mode.
BEGIN_READING = b"""
BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY;
SET LOCAL datestyle = 'ISO'; SET LOCAL timezone = 'UTC'; SET LOCAL intervalstyle = 'postgres';
SET LOCAL extra_float_digits = 1; SET LOCAL bytea_output = 'hex';
SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_sort = off;
SET LOCAL jit = off; SET LOCAL max_parallel_workers_per_gather = 0; SET LOCAL statement_timeout = 0
"""

BEGIN = b"BEGIN ISOLATION LEVEL READ COMMITTED"

AsyncConnection = psycopg.AsyncConnection[tuple[Any, ...]]


class PostgresTable:
    """One table of a PostgreSQL database, with its own small pool of connections."""

    kind = "postgresql"

    def __init__(self, dsn: str, label: str, *, connections: int) -> None:
        self.label = label
        self.description: Description
        self.definition: Definition
        self.lower_bound: Key | None = None
        self._database: str | None = None
        self._dsn = dsn
        self._free = asyncio.Semaphore(connections)
        self._idle: list[AsyncConnection] = []

    @classmethod
    async def open(cls, dsn: str, table: str, *, key: Sequence[str] | None, label: str, connections: int) -> Self:
        """Look up a table. Raise UsageError if it does not exist or its key cannot order it."""
        self = cls(dsn, label, connections=connections)
        try:
            async with self.transaction() as connection:
                self.description = await describe(connection, table, key=key, label=label)
            # Check the privilege to read.
            await self._fetch_one(f"SELECT {self._list_key_texts()} FROM {self._name} AS t LIMIT 0", ())
            self._database = await self._identify_database()
            self.definition = await self._read_definition()
        except BaseException:
            await self.close()
            raise
        return self

    async def close(self) -> None:
        while self._idle:
            await self._idle.pop().close()

    # Notice changes

    async def check_unchanged(self, connection: Any | None = None, *, columns: bool = False) -> None:
        name = self.description.name
        now = await self._fetch_definition(connection)
        if now is None:
            raise TableChanged(f"{name} does not exist any more: it was {await self._explain_absence()}")
        require_unchanged(name, self.definition, now, columns=columns)

    async def _fetch_definition(self, connection: Any | None) -> Definition | None:
        if connection is None:
            async with self._begin_reading() as own:
                return await self._fetch_definition(own)
        # The handler of a backfill may have changed the row factory of its connection.
        cursor = connection.cursor(row_factory=tuple_row)
        query = build_definition_query(connection)
        values = {"table": self.description.quoted, "key": list(self.description.key_names)}
        with translate_errors(self.label):
            if isinstance(connection, psycopg.AsyncConnection):
                rows = await (await cursor.execute(query, values)).fetchall()
            else:
                rows = await asyncio.to_thread(lambda: cursor.execute(query, values).fetchall())
        return parse_definition_rows(rows, self.description.key_names, database=self._database)

    async def _read_definition(self) -> Definition:
        found = await self._fetch_definition(None)
        if found is None:
            raise TableChanged(f"{self.description.name} was just dropped or renamed")
        return found

    async def _explain_absence(self) -> str:
        """Return what happened to the table."""
        if self.definition.identity is None:
            return "dropped or renamed"
        oid = int(self.definition.identity.table)
        row = await self._fetch_one(FIND_NEW_NAME, (oid, oid))
        return "dropped" if row is None else f"renamed to {row[0]}"

    async def _identify_database(self) -> str | None:
        try:
            row = await self._fetch_one(READ_DATABASE, ())
        except (pg.ProgrammingError, UsageError):  # not permitted, or not known to a server that resembles PostgreSQL
            return None
        return None if row is None else str(row[0])

    # Find keys

    async def parse_key(self, texts: Sequence[str]) -> Key:
        names = ", ".join(self.description.key_names)
        if len(texts) != len(self.description.key):
            raise UsageError(f"{', '.join(texts)} is not a key of {self.description.name}, whose key is ({names})")
        values = ", ".join(f"CAST({_placeholder(column)} AS text)" for column in self.description.key)
        try:
            row = await self._fetch_one(f"SELECT {values}", tuple(texts))
        except pg.DataError as error:
            message = error.diag.message_primary
            raise UsageError(
                f"{', '.join(texts)} is not a key ({names}) of {self.description.name}: {message}"
            ) from error
        assert row is not None
        return row

    async def find_first_key(self, *, after: Key | None = None, upto: Key | None = None) -> Key | None:
        return await self._find_end(after, upto, descending=False)

    async def find_last_key(self, *, after: Key | None = None, upto: Key | None = None) -> Key | None:
        return await self._find_end(after, upto, descending=True)

    async def _find_end(self, after: Key | None, upto: Key | None, *, descending: bool) -> Key | None:
        where = self.build_slice_condition(after=after, upto=upto)
        order = keyset.list_key_columns(self.description, DIALECT, of="t", descending=descending)
        return await self._fetch_one(
            f"SELECT {self._list_key_texts()} FROM {self._name} AS t WHERE {where.sql} ORDER BY {order} LIMIT 1",
            where.values,
        )

    async def find_slice_end(self, limit: int, *, after: Key | None = None, upto: Key | None = None) -> SliceEnd | None:
        where = self.build_slice_condition(after=after, upto=upto)
        key = keyset.list_key_columns(self.description, DIALECT)
        # Aggregate in the server: it reads the rows once and sends only the last key.
        lasts = ", ".join(_select_last(column) for column in self.description.key)
        row = await self._fetch_one(
            f"SELECT {lasts}, count(*) FROM "
            f"(SELECT {key} FROM {self._name} AS t WHERE {where.sql} ORDER BY {key} LIMIT {int(limit)}) AS s",
            where.values,
        )
        assert row is not None
        return SliceEnd(row[:-1], row[-1]) if row[-1] else None

    async def is_after(self, one: Key, other: Key) -> bool:
        left, right = self.build_key_values(one), self.build_key_values(other)
        row = await self._fetch_one(f"SELECT ({left.sql}) > ({right.sql})", (*left.values, *right.values))
        return row is not None and bool(row[0])

    async def estimate_rows(self, *, after: Key | None = None, upto: Key | None = None) -> int | None:
        """Return the planner's estimate. Without ANALYZE, the planner derives it from the table's size."""
        where = self.build_slice_condition(after=after, upto=upto)
        row = await self._fetch_one(
            f"EXPLAIN (FORMAT JSON) SELECT 1 FROM {self._name} AS t WHERE {where.sql}", where.values
        )
        return None if row is None else int(row[0][0]["Plan"]["Plan Rows"])

    # Read rows

    async def fetch_slice(self, *, after: Key | None = None, upto: Key | None = None) -> list[TableRow]:
        return await self._fetch(self.build_slice_condition(after=after, upto=upto))

    def open_reader(self) -> "PostgresReader":
        with translate_errors(self.label):
            return PostgresReader(self, self._connect_blocking())

    async def fetch_keys(self, keys: Sequence[Key]) -> list[TableRow]:
        return await self._fetch(keyset.build_keys_condition(self.description, keys, DIALECT)) if keys else []

    async def _fetch(self, where: Fragment) -> list[TableRow]:
        keys = len(self.description.key)
        statement = (
            f"SELECT {self._list_key_texts()}, t.* FROM {self._name} AS t WHERE {where.sql} "
            f"ORDER BY {keyset.list_key_columns(self.description, DIALECT, of='t')}"
        )
        async with self._begin_reading() as connection:
            with translate_read_errors(self.label):
                cursor = await connection.execute(statement.encode(), where.values)
                found = await cursor.fetchall()
        names = [column.name for column in (cursor.description or ())[keys:]]
        return [TableRow(row[:keys], dict(zip(names, row[keys:], strict=True))) for row in found]

    # Compare rows

    async def find_types(self) -> Mapping[str, PostgresType]:
        async with self._begin_reading() as connection:
            with translate_read_errors(self.label):
                return await find_column_types(connection, self.description.quoted)

    async def fetch_canonical_slice(
        self, forms: Sequence[ColumnForm], *, after: Key | None = None, upto: Key | None = None
    ) -> list[CanonicalRow]:
        return await self._fetch_canonical(forms, self.build_slice_condition(after=after, upto=upto))

    async def fetch_canonical_keys(self, forms: Sequence[ColumnForm], keys: Sequence[Key]) -> list[CanonicalRow]:
        where = keyset.build_keys_condition(self.description, keys, DIALECT) if keys else None
        return [] if where is None else await self._fetch_canonical(forms, where)

    async def _fetch_canonical(self, forms: Sequence[ColumnForm], where: Fragment) -> list[CanonicalRow]:
        keys = len(self.description.key)
        statement = (
            f"SELECT {self._list_key_texts()}, {_list_forms(forms)} FROM {self._name} AS t WHERE {where.sql} "
            f"ORDER BY {keyset.list_key_columns(self.description, DIALECT, of='t')}"
        )
        async with self._begin_reading() as connection:
            with translate_read_errors(self.label):
                found = await (await connection.execute(statement.encode(), where.values)).fetchall()
        finished = finish_rows(forms, (row[keys:] for row in found))
        return [CanonicalRow(row[:keys], values) for row, values in zip(found, finished, strict=True)]

    async def digest_slice(
        self, forms: Sequence[ColumnForm], *, after: Key | None = None, upto: Key | None = None
    ) -> Digest:
        where = self.build_slice_condition(after=after, upto=upto)
        async with self._begin_reading() as connection:
            text = _escape_percent(build_row_text(forms))
            if connection.info.parameter_status("server_encoding") not in ("UTF8", "SQL_ASCII"):
                text = f"convert_to({text}, 'UTF8')"  # the other database may have another encoding
            statement = (
                "SELECT count(*), coalesce(bit_xor(('x' || left(h, 16))::bit(64)::bigint), 0), "
                "coalesce(bit_xor(('x' || right(h, 16))::bit(64)::bigint), 0) "
                f"FROM (SELECT md5({text}) AS h FROM {self._name} AS t WHERE {where.sql}) AS s"
            )
            with translate_read_errors(self.label):
                row = await (await connection.execute(statement.encode(), where.values)).fetchone()
        assert row is not None
        return Digest(row[0], f"{row[1] % 2**64:016x}{row[2] % 2**64:016x}")

    # Build and run other statements

    def build_slice_condition(self, *, after: Key | None = None, upto: Key | None = None) -> Fragment:
        return keyset.build_slice_condition(
            self.description, DIALECT, lower_bound=self.lower_bound, after=after, upto=upto
        )

    def build_key_values(self, key: Key) -> Fragment:
        return keyset.build_key_values(self.description, key, DIALECT)

    def transaction(self) -> AbstractAsyncContextManager[AsyncConnection]:
        return self._begin(BEGIN)

    def _begin_reading(self) -> AbstractAsyncContextManager[AsyncConnection]:
        return self._begin(BEGIN_READING)

    @asynccontextmanager
    async def _begin(self, begin: bytes) -> AsyncIterator[AsyncConnection]:
        """Lend a connection for one transaction. Close it afterwards if it broke or is not idle."""
        async with self._free:
            with translate_errors(self.label):
                connection = self._idle.pop() if self._idle else await self._connect()
            try:
                with translate_errors(self.label):
                    await connection.execute(begin)
                yield connection
                with translate_errors(self.label):
                    await connection.execute(b"COMMIT")
            finally:
                await self._return_connection(connection)

    @asynccontextmanager
    async def blocking_transaction(self) -> AsyncIterator[psycopg.Connection[Any]]:
        async with self._free:
            with translate_errors(self.label):
                connection = await asyncio.to_thread(self._connect_blocking)
            with translate_errors(self.label):
                await asyncio.to_thread(connection.execute, BEGIN)
            try:
                yield connection
                with translate_errors(self.label):
                    await asyncio.to_thread(connection.execute, b"COMMIT")
            except asyncio.CancelledError:
                # A thread may be in the middle of a statement, or may never return: let the server end its session.
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
            pass  # the server is gone, and so are its sessions

    def _connect_blocking(self) -> psycopg.Connection[Any]:
        connection = connect_blocking(self._dsn)
        register_lenient_loaders(connection)
        return connection

    async def _return_connection(self, connection: AsyncConnection) -> None:
        if not connection.closed and connection.info.transaction_status in _OPEN:
            try:
                await connection.execute(b"ROLLBACK")
            except psycopg.Error:  # the session is gone, and so is its transaction
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
            connect_timeout=CONNECT_TIMEOUT_SECONDS,
            application_name=APPLICATION_NAME,
        )
        register_lenient_loaders(connection)
        return connection

    async def _fetch_one(self, statement: str | bytes, values: Sequence[Any]) -> tuple[Any, ...] | None:
        query = statement.encode() if isinstance(statement, str) else statement
        async with self._begin_reading() as connection:
            with translate_read_errors(self.label):
                return await (await connection.execute(query, values)).fetchone()

    @property
    def _name(self) -> str:
        return _escape_percent(self.description.quoted)

    def _list_key_texts(self) -> str:
        return ", ".join(f"CAST(t.{_quote(name)} AS text)" for name in self.description.key_names)


def connect_blocking(dsn: str) -> psycopg.Connection[Any]:
    """Open a session of swath's own, in autocommit mode."""
    return psycopg.connect(
        dsn,
        autocommit=True,
        prepare_threshold=None,
        connect_timeout=CONNECT_TIMEOUT_SECONDS,
        application_name=APPLICATION_NAME,
    )


class PostgresReader:
    """A blocking connection to the database of a table."""

    def __init__(self, table: PostgresTable, connection: psycopg.Connection[Any]) -> None:
        self._table = table
        self._connection = connection

    def read_rows(self, limit: int, *, after: Key | None = None, upto: Key | None = None) -> RawRows:
        description, where = self._table.description, self._table.build_slice_condition(after=after, upto=upto)
        order = keyset.list_key_columns(description, DIALECT, of="t")
        name = _escape_percent(description.quoted)
        statement = f"SELECT t.* FROM {name} AS t WHERE {where.sql} ORDER BY {order} LIMIT {int(limit)}"
        with translate_read_errors(self._table.label):
            self._connection.execute(BEGIN_READING)
            cursor = self._connection.execute(statement.encode(), where.values)
            found = RawRows([column.name for column in cursor.description or ()], cursor.fetchall())
            self._connection.execute(b"COMMIT")
            return found

    def close(self) -> None:
        self._connection.close()


_HINT = re.compile(r"\n\t.*")  # libpq's question whether the server runs; the message below asks the same
_OPEN = (psycopg.pq.TransactionStatus.INTRANS, psycopg.pq.TransactionStatus.INERROR)


@contextmanager
def translate_errors(label: str) -> Iterator[None]:
    """Turn connection errors into StoreUnavailable. Errors of the caller's statements pass through."""
    try:
        yield
    except psycopg.OperationalError as error:
        message = " ".join(_HINT.sub("", error.diag.message_primary or str(error)).split())
        raise StoreUnavailable(
            f"{label} cannot be reached: {message}. Is the server running, and is the URL right?"
        ) from error


@contextmanager
def translate_read_errors(label: str) -> Iterator[None]:
    """Like `translate_errors`, and turn a missing privilege into UsageError: retrying would not help."""
    try:
        with translate_errors(label):
            yield
    except pg.InsufficientPrivilege as error:
        raise UsageError(
            f"this role may not read from {label}: {error.diag.message_primary}. "
            "Grant it SELECT on the table, or use another role in the URL"
        ) from error


def _escape_percent(sql: str) -> str:
    """Double percent signs, which are special in psycopg's statements."""
    return sql.replace("%", "%%")


def _quote(name: str) -> str:
    return _escape_percent(quote_identifier(name))


def _list_forms(forms: Sequence[ColumnForm]) -> str:
    return ", ".join(_escape_percent(form.sql) for form in forms)


def _placeholder(column: Column) -> str:
    collate = f" COLLATE {_escape_percent(column.collation)}" if column.collation else ""
    return f"CAST(%s AS {_escape_percent(column.type)}){collate}"


# array_agg over arrays returns one array with another dimension, and a domain's name does not tell its base type, so
# only these types are aggregated as they are. Others are cast to text first.
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


def _select_last(column: Column) -> str:
    name = _quote(column.name)
    if re.sub(r"\(.*?\)", "", column.type) not in _SCALARS:
        name = f"CAST({name} AS text)"
    return f"CAST((array_agg({name}))[count(*)] AS text)"


DIALECT = keyset.Dialect(_quote, _placeholder, str)
