"""A table in an SQLite file."""

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from hashlib import blake2b
from typing import Any, Self, TypeVar

from swath import StoreUnavailable, UsageError
from swath.tables import keyset
from swath.tables.canonical.column_types import SqliteType
from swath.tables.canonical.form import ColumnForm, finish_rows
from swath.tables.canonical.sqlite_sql import decode_text, register_functions
from swath.tables.definition import Definition, KeyColumn, TableChanged, require_unchanged
from swath.tables.identifiers import quote_identifier
from swath.tables.sqlite_catalog import describe
from swath.tables.sqlite_keys import decode_value, encode_value, parse_value
from swath.tables.table import CanonicalRow, Column, Description, Digest, Fragment, Key, RawRows, SliceEnd, TableRow

BUSY_TIMEOUT_SECONDS = 60.0  # to wait for another writer
INTERRUPT_SECONDS = 0.1  # between interrupts of a call that does not end

T = TypeVar("T")


class SqliteTable:
    """One table of an SQLite file. SQLite allows one writer at a time, so one connection does all writes."""

    kind = "sqlite"

    def __init__(self, path: str) -> None:
        self.label = path
        self.description: Description
        self.definition: Definition
        self.lower_bound: Key | None = None
        self._schema_version = 0  # in which the definition is known to hold
        self._reader = _connect(path)
        self._writer = _connect(path)
        self._reading = asyncio.Lock()
        self._writing = asyncio.Lock()

    @classmethod
    async def open(cls, path: str, table: str, *, key: Sequence[str] | None) -> Self:
        """Look up a table. Raise UsageError if it does not exist or its key cannot order it."""
        with translate_errors(path):
            self = cls(path)
        try:
            with translate_errors(path):
                self.description = await self._read(lambda connection: describe(connection, table, key=key, label=path))
                self.definition = _define(self.description)
        except BaseException:
            await self.close()
            raise
        return self

    async def close(self) -> None:
        self._reader.close()
        self._writer.close()

    # Notice changes

    async def check_unchanged(self, connection: Any | None = None, *, columns: bool = False) -> None:
        """SQLite has no identity of a table: to change a table is to create it again under its name."""
        if connection is None:
            await self._read(lambda reader: self._check_unchanged(reader, columns))
        else:
            await call_interruptibly(connection, self._check_unchanged, connection, columns)

    def _check_unchanged(self, connection: sqlite3.Connection, columns: bool) -> None:
        (version,) = connection.execute("PRAGMA schema_version").fetchone()
        if version == self._schema_version and not columns:
            return
        name = self.description.name
        try:
            now = _define(describe(connection, name, key=self.description.key_names, label=self.label))
        except UsageError as error:
            raise TableChanged(str(error).removesuffix(".")) from error
        require_unchanged(name, self.definition, now, columns=columns)
        self._schema_version = version

    # Find keys

    async def parse_key(self, texts: Sequence[str]) -> Key:
        names = ", ".join(self.description.key_names)
        if len(texts) != len(self.description.key):
            raise UsageError(f"{', '.join(texts)} is not a key of {self.description.name}, whose key is ({names})")
        return tuple(
            parse_value(text, column, self.description)
            for text, column in zip(texts, self.description.key, strict=True)
        )

    async def find_first_key(self, *, after: Key | None = None, upto: Key | None = None) -> Key | None:
        return await self._find_end(after, upto, descending=False)

    async def find_last_key(self, *, after: Key | None = None, upto: Key | None = None) -> Key | None:
        return await self._find_end(after, upto, descending=True)

    async def _find_end(self, after: Key | None, upto: Key | None, *, descending: bool) -> Key | None:
        where = self.build_slice_condition(after=after, upto=upto)
        order = keyset.list_key_columns(self.description, DIALECT, descending=descending)
        row = await self._fetch_one(
            f"SELECT {self._key_columns} FROM {self.description.quoted} WHERE {where.sql} ORDER BY {order} LIMIT 1",
            where.values,
        )
        return None if row is None else tuple(map(encode_value, row))

    async def find_slice_end(self, limit: int, *, after: Key | None = None, upto: Key | None = None) -> SliceEnd | None:
        where = self.build_slice_condition(after=after, upto=upto)
        statement = (
            f"SELECT {self._key_columns} FROM {self.description.quoted} WHERE {where.sql} ORDER BY {self._key_columns}"
        )

        def read(connection: sqlite3.Connection) -> SliceEnd | None:
            # OFFSET makes SQLite skip the rows before the end of the slice; Python does not see them.
            ending = connection.execute(f"{statement} LIMIT 1 OFFSET {limit - 1:d}", where.values).fetchone()
            if ending is not None:
                return SliceEnd(tuple(map(encode_value, ending)), limit)
            last: Sequence[Any] | None = None
            rows = 0
            for rows, last in enumerate(connection.execute(f"{statement} LIMIT {limit:d}", where.values), start=1):  # noqa: B007  the last
                pass
            return None if last is None else SliceEnd(tuple(map(encode_value, last)), rows)

        return await self._read(read)

    async def is_after(self, one: Key, other: Key) -> bool:
        """Compare with the collations of the key's columns, which bound values lack."""
        left, right = self.build_key_values(one), self.build_key_values(other)
        collated = ", ".join(f"? COLLATE {column.collation}" for column in self.description.key)
        row = await self._fetch_one(f"SELECT ({collated}) > ({right.sql})", (*left.values, *right.values))
        return row is not None and bool(row[0])

    async def estimate_rows(self, *, after: Key | None = None, upto: Key | None = None) -> int | None:
        """Estimate the rows of the whole table by its rowids. Return None for a table without them."""
        try:
            row = await self._fetch_one(f"SELECT max(rowid) - min(rowid) + 1 FROM {self.description.quoted}", ())
        except sqlite3.OperationalError:  # WITHOUT ROWID
            return None
        return None if row is None else row[0] or 0

    # Read rows

    async def fetch_slice(self, *, after: Key | None = None, upto: Key | None = None) -> list[TableRow]:
        return await self._fetch(self.build_slice_condition(after=after, upto=upto))

    def open_reader(self) -> "SqliteReader":
        with translate_errors(self.label):
            return SqliteReader(self, _connect(self.label))

    async def fetch_keys(self, keys: Sequence[Key]) -> list[TableRow]:
        return await self._fetch(keyset.build_keys_condition(self.description, keys, DIALECT)) if keys else []

    async def _fetch(self, where: Fragment) -> list[TableRow]:
        keys = len(self.description.key)
        columns = self._key_columns
        statement = f"SELECT {columns}, * FROM {self.description.quoted} WHERE {where.sql} ORDER BY {columns}"

        def read(connection: sqlite3.Connection) -> list[TableRow]:
            cursor = connection.execute(statement, where.values)
            names = [column[0] for column in cursor.description[keys:]]
            return [
                TableRow(tuple(map(encode_value, row[:keys])), dict(zip(names, row[keys:], strict=True)))
                for row in cursor
            ]

        return await self._read(read)

    # Compare rows

    async def find_types(self) -> Mapping[str, SqliteType]:
        return {column.name: SqliteType(column.type) for column in self.description.columns}

    async def fetch_canonical_slice(
        self, forms: Sequence[ColumnForm], *, after: Key | None = None, upto: Key | None = None
    ) -> list[CanonicalRow]:
        return await self._fetch_canonical(forms, self.build_slice_condition(after=after, upto=upto))

    async def fetch_canonical_keys(self, forms: Sequence[ColumnForm], keys: Sequence[Key]) -> list[CanonicalRow]:
        where = keyset.build_keys_condition(self.description, keys, DIALECT) if keys else None
        return [] if where is None else await self._fetch_canonical(forms, where)

    async def _fetch_canonical(self, forms: Sequence[ColumnForm], where: Fragment) -> list[CanonicalRow]:
        keys = len(self.description.key)
        statement = self._select_forms(forms, where, with_key=True)

        def read(connection: sqlite3.Connection) -> list[CanonicalRow]:
            with _decode_leniently(connection):
                found = connection.execute(statement, where.values).fetchall()
            finished = finish_rows(forms, (row[keys:] for row in found))
            return [
                CanonicalRow(tuple(map(encode_value, row[:keys])), values)
                for row, values in zip(found, finished, strict=True)
            ]

        return await self._read(read)

    async def digest_slice(
        self, forms: Sequence[ColumnForm], *, after: Key | None = None, upto: Key | None = None
    ) -> Digest:
        """Hash in Python: SQLite has no hash function."""
        where = self.build_slice_condition(after=after, upto=upto)
        statement = self._select_forms(forms, where, with_key=False)

        def read(connection: sqlite3.Connection) -> Digest:
            rows, hashed = 0, blake2b(digest_size=16)
            with _decode_leniently(connection):
                for row in finish_rows(forms, connection.execute(statement, where.values)):
                    rows += 1
                    hashed.update(repr(row).encode(errors="surrogatepass"))
            return Digest(rows, hashed.hexdigest())

        return await self._read(read)

    def _select_forms(self, forms: Sequence[ColumnForm], where: Fragment, *, with_key: bool) -> str:
        listed = ", ".join([*([self._key_columns] if with_key else []), *(form.sql for form in forms)])
        return f"SELECT {listed} FROM {self.description.quoted} WHERE {where.sql} ORDER BY {self._key_columns}"

    # Build and run other statements

    def build_slice_condition(self, *, after: Key | None = None, upto: Key | None = None) -> Fragment:
        return keyset.build_slice_condition(
            self.description, DIALECT, lower_bound=self.lower_bound, after=after, upto=upto
        )

    def build_key_values(self, key: Key) -> Fragment:
        return keyset.build_key_values(self.description, key, DIALECT)

    def transaction(self) -> AbstractAsyncContextManager[sqlite3.Connection]:
        return self._begin(in_thread=False)

    def blocking_transaction(self) -> AbstractAsyncContextManager[sqlite3.Connection]:
        return self._begin(in_thread=True)

    @asynccontextmanager
    async def _begin(self, *, in_thread: bool) -> AsyncIterator[sqlite3.Connection]:
        async with self._writing:
            connection = self._writer
            try:
                with translate_errors(self.label):
                    await call_interruptibly(connection, connection.execute, "BEGIN IMMEDIATE")
                yield connection
                with translate_errors(self.label):
                    await call_interruptibly(connection, connection.commit)
            except asyncio.CancelledError:
                if in_thread:
                    # The thread may never return. It keeps this connection, which must not be closed under it, and the
                    # authorizer keeps it from writing into later transactions.
                    connection.interrupt()
                    connection.set_authorizer(_allow_only_rollback)
                    self._writer = _connect(self.label)
                raise
            finally:
                if connection.in_transaction:
                    await call_interruptibly(connection, connection.rollback)

    async def _fetch_one(self, statement: str, values: Sequence[Any]) -> tuple[Any, ...] | None:
        def read(connection: sqlite3.Connection) -> tuple[Any, ...] | None:
            row: tuple[Any, ...] | None = connection.execute(statement, values).fetchone()
            return row

        return await self._read(read)

    async def _read(self, read: Callable[[sqlite3.Connection], T]) -> T:
        async with self._reading:
            with translate_read_errors(self.label):
                return await call_interruptibly(self._reader, read, self._reader)

    @property
    def _key_columns(self) -> str:
        return keyset.list_key_columns(self.description, DIALECT)


class SqliteReader:
    """A blocking connection to the file of a table."""

    def __init__(self, table: SqliteTable, connection: sqlite3.Connection) -> None:
        self._table = table
        self._connection = connection

    def read_rows(self, limit: int, *, after: Key | None = None, upto: Key | None = None) -> RawRows:
        description, where = self._table.description, self._table.build_slice_condition(after=after, upto=upto)
        keys = keyset.list_key_columns(description, DIALECT)
        with translate_read_errors(self._table.label):
            cursor = self._connection.execute(
                f"SELECT * FROM {description.quoted} WHERE {where.sql} ORDER BY {keys} LIMIT {limit:d}", where.values
            )
            return RawRows([column[0] for column in cursor.description], cursor.fetchall())

    def close(self) -> None:
        self._connection.close()


def _connect(path: str) -> sqlite3.Connection:
    if not os.path.isfile(path):
        raise UsageError(f"{path} does not exist or is not a file")
    # BEGIN is always explicit. The isolation level is for writes after SQLite has rolled back a transaction by itself:
    # in autocommit mode, they would be committed at once.
    connection = sqlite3.connect(
        path, timeout=BUSY_TIMEOUT_SECONDS, isolation_level="IMMEDIATE", check_same_thread=False
    )
    register_functions(connection)
    return connection


@contextmanager
def _decode_leniently(connection: sqlite3.Connection) -> Iterator[None]:
    """Accept text that is not UTF-8, which SQLite does not check."""
    connection.text_factory = decode_text
    try:
        yield
    finally:
        connection.text_factory = str


async def call_interruptibly(connection: sqlite3.Connection, call: Callable[..., T], *arguments: Any) -> T:
    """Run a call on a connection in a thread. If cancelled, interrupt the call and wait until it ends.

    Using a connection in two threads at once, or closing it under a running call, crashes the process.
    """
    called = asyncio.get_running_loop().run_in_executor(None, call, *arguments)
    try:
        return await asyncio.shield(called)
    except asyncio.CancelledError:
        while not called.done():
            connection.interrupt()
            with suppress(asyncio.CancelledError):
                await asyncio.wait([called], timeout=INTERRUPT_SECONDS)
        called.exception()  # mark it as retrieved
        raise


def _allow_only_rollback(action: int, operation: str | None, *_: object) -> int:
    allowed = action == sqlite3.SQLITE_TRANSACTION and operation == "ROLLBACK"
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


@contextmanager
def translate_errors(path: str) -> Iterator[None]:
    """Turn SQLite's errors into StoreUnavailable."""
    try:
        yield
    except sqlite3.Error as error:
        raise StoreUnavailable(f"{path}: {error}") from error


@contextmanager
def translate_read_errors(path: str) -> Iterator[None]:
    """Turn SQLITE_BUSY into StoreUnavailable: another process holds an exclusive lock, as VACUUM does without WAL."""
    try:
        yield
    except sqlite3.OperationalError as error:
        # Errors that Python itself raises have no code.
        if getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_BUSY:
            raise
        raise StoreUnavailable(f"{path}: {error}") from error


def _define(description: Description) -> Definition:
    key = tuple(
        KeyColumn(column.name, column.type, (column.collation or "BINARY").upper()) for column in description.key
    )
    return Definition(None, key, {column.name: column.type for column in description.columns})


def _placeholder(column: Column) -> str:
    return "?"


DIALECT = keyset.Dialect(quote_identifier, _placeholder, decode_value)
