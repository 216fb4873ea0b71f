"""A table in an SQLite file."""

import asyncio
import math
import os
import re
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from hashlib import blake2b
from typing import Any, Self, TypeVar

from swath.core.errors import StoreUnavailable, UsageError
from swath.tables import keyset
from swath.tables.naming import named_columns, nearest, quoted
from swath.tables.table import Column, Description, Digest, Fragment, Key, Record, Rows, SliceEnd

BUSY_SECONDS = 60.0  # for a writer before us
INTERRUPT_SECONDS = 0.1  # after which something that goes on is interrupted again

T = TypeVar("T")


class SqliteTable:
    """One table of an SQLite file. There is one writer at a time in it, so there is one connection to write with."""

    kind = "sqlite"

    def __init__(self, path: str) -> None:
        self.shown = path
        self.about: Description
        self.first: Key | None = None
        self._reader = _connect(path)
        self._writer = _connect(path)
        self._reading = asyncio.Lock()
        self._writing = asyncio.Lock()

    @classmethod
    async def open(cls, path: str, table: str, *, key: Sequence[str] | None) -> Self:
        """Look a table up; UsageError if it is not there or its key cannot be relied on."""
        with translated(path):
            self = cls(path)
        try:
            self.about = await self._read(lambda connection: describe(connection, table, key=key, shown=path))
        except BaseException:
            await self.close()
            raise
        return self

    async def close(self) -> None:
        self._reader.close()
        self._writer.close()

    # what is where

    async def parse_key(self, texts: Sequence[str]) -> Key:
        names = ", ".join(self.about.key_names)
        if len(texts) != len(self.about.key):
            raise UsageError(f"{', '.join(texts)} is no key of {self.about.name}: its key is {names}")
        return tuple(_parsed(text, column, self.about) for text, column in zip(texts, self.about.key, strict=True))

    async def first_key(self, *, after: Key | None = None, upto: Key | None = None) -> Key | None:
        return await self._end(after, upto, descending=False)

    async def last_key(self, *, after: Key | None = None, upto: Key | None = None) -> Key | None:
        return await self._end(after, upto, descending=True)

    async def _end(self, after: Key | None, upto: Key | None, *, descending: bool) -> Key | None:
        where = self.within(after=after, upto=upto)
        order = keyset.key_list(self.about, DIALECT, descending=descending)
        row = await self._one(
            f"SELECT {self._keys} FROM {self.about.quoted} WHERE {where.sql} ORDER BY {order} LIMIT 1", where.values
        )
        return None if row is None else tuple(map(carried, row))

    async def slice_end(self, limit: int, *, after: Key | None = None, upto: Key | None = None) -> SliceEnd | None:
        where = self.within(after=after, upto=upto)
        statement = f"SELECT {self._keys} FROM {self.about.quoted} WHERE {where.sql} ORDER BY {self._keys}"

        def look(connection: sqlite3.Connection) -> SliceEnd | None:
            # Within the slice the rows before its end are passed over by SQLite itself: no Python for each of them.
            ending = connection.execute(f"{statement} LIMIT 1 OFFSET {limit - 1:d}", where.values).fetchone()
            if ending is not None:
                return SliceEnd(tuple(map(carried, ending)), limit)
            last: Sequence[Any] | None = None
            rows = 0
            for rows, last in enumerate(connection.execute(f"{statement} LIMIT {limit:d}", where.values), start=1):  # noqa: B007  the last
                pass
            return None if last is None else SliceEnd(tuple(map(carried, last)), rows)

        return await self._read(look)

    async def follows(self, one: Key, other: Key) -> bool:
        """By the collations of the key's columns, which values alone do not have."""
        left, right = self.literal(one), self.literal(other)
        collated = ", ".join(f"? COLLATE {column.collation}" for column in self.about.key)
        row = await self._one(f"SELECT ({collated}) > ({right.sql})", (*left.values, *right.values))
        return row is not None and bool(row[0])

    async def estimate(self, *, after: Key | None = None, upto: Key | None = None) -> int | None:
        """From the numbers of the rows, where the table has any; of the whole table."""
        try:
            row = await self._one(f"SELECT max(rowid) - min(rowid) + 1 FROM {self.about.quoted}", ())
        except sqlite3.OperationalError:  # WITHOUT ROWID
            return None
        return None if row is None else row[0] or 0

    # what is in it

    async def records(self, *, after: Key | None = None, upto: Key | None = None) -> list[Record]:
        return await self._records(self.within(after=after, upto=upto))

    def reader(self) -> "SqliteReader":
        with translated(self.shown):
            return SqliteReader(self, _connect(self.shown))

    async def records_of(self, keys: Sequence[Key]) -> list[Record]:
        return await self._records(keyset.among(self.about, keys, DIALECT)) if keys else []

    async def _records(self, where: Fragment) -> list[Record]:
        keys = len(self.about.key)
        statement = f"SELECT {self._keys}, * FROM {self.about.quoted} WHERE {where.sql} ORDER BY {self._keys}"

        def look(connection: sqlite3.Connection) -> list[Record]:
            cursor = connection.execute(statement, where.values)
            names = [column[0] for column in cursor.description[keys:]]
            return [
                Record(tuple(map(carried, row[:keys])), dict(zip(names, row[keys:], strict=True))) for row in cursor
            ]

        return await self._read(look)

    async def digest(self, columns: Sequence[str], *, after: Key | None = None, upto: Key | None = None) -> Digest:
        """SQLite has no hash of its own: `quote` writes every value apart from every other, Python hashes."""
        where = self.within(after=after, upto=upto)
        listed = ", ".join(f"quote({quoted(name)})" for name in columns)
        statement = f"SELECT {listed} FROM {self.about.quoted} WHERE {where.sql} ORDER BY {self._keys}"

        def look(connection: sqlite3.Connection) -> Digest:
            rows, hashed = 0, blake2b(digest_size=16)
            for row in connection.execute(statement, where.values):
                rows += 1
                hashed.update(repr(row).encode(errors="surrogatepass"))
            return Digest(rows, hashed.hexdigest())

        return await self._read(look)

    # for statements of one's own

    def within(self, *, after: Key | None = None, upto: Key | None = None) -> Fragment:
        return keyset.within(self.about, DIALECT, first=self.first, after=after, upto=upto)

    def literal(self, key: Key) -> Fragment:
        return keyset.literal(self.about, key, DIALECT)

    def transaction(self) -> AbstractAsyncContextManager[sqlite3.Connection]:
        return self._begun(in_a_thread=False)

    def blocking_transaction(self) -> AbstractAsyncContextManager[sqlite3.Connection]:
        return self._begun(in_a_thread=True)

    @asynccontextmanager
    async def _begun(self, *, in_a_thread: bool) -> AsyncIterator[sqlite3.Connection]:
        async with self._writing:
            connection = self._writer
            try:
                with translated(self.shown):
                    await seen_through(connection, connection.execute, "BEGIN IMMEDIATE")
                yield connection
                with translated(self.shown):
                    await seen_through(connection, connection.commit)
            except asyncio.CancelledError:
                if in_a_thread:
                    # It may go on for ever, and must not write into the transactions of others. The connection is its
                    # own from now on, and is not closed under it.
                    connection.interrupt()
                    connection.set_authorizer(_only_roll_back)
                    self._writer = _connect(self.shown)
                raise
            finally:
                if connection.in_transaction:
                    await seen_through(connection, connection.rollback)

    async def _one(self, statement: str, values: Sequence[Any]) -> tuple[Any, ...] | None:
        def look(connection: sqlite3.Connection) -> tuple[Any, ...] | None:
            row: tuple[Any, ...] | None = connection.execute(statement, values).fetchone()
            return row

        return await self._read(look)

    async def _read(self, look: Callable[[sqlite3.Connection], T]) -> T:
        async with self._reading:
            with reading(self.shown):
                return await seen_through(self._reader, look, self._reader)

    @property
    def _keys(self) -> str:
        return keyset.key_list(self.about, DIALECT)


class SqliteReader:
    """A connection of its own to the file of a table."""

    def __init__(self, table: SqliteTable, connection: sqlite3.Connection) -> None:
        self._table = table
        self._connection = connection

    def rows(self, limit: int, *, after: Key | None = None, upto: Key | None = None) -> Rows:
        about, where = self._table.about, self._table.within(after=after, upto=upto)
        keys = keyset.key_list(about, DIALECT)
        with reading(self._table.shown):
            cursor = self._connection.execute(
                f"SELECT * FROM {about.quoted} WHERE {where.sql} ORDER BY {keys} LIMIT {limit:d}", where.values
            )
            return Rows([column[0] for column in cursor.description], cursor.fetchall())

    def close(self) -> None:
        self._connection.close()


def describe(connection: sqlite3.Connection, table: str, *, key: Sequence[str] | None, shown: str) -> Description:
    """A table and its key; UsageError where it has none that can be relied on, with what to do about that."""
    with translated(shown):
        found = connection.execute(
            "SELECT name, type FROM sqlite_schema WHERE lower(name) = lower(?) AND type IN ('table', 'view')", (table,)
        ).fetchone()
        if found is None:
            known = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
            raise UsageError(f"{shown} has no table {table!r}.{nearest(table, known)}")
        name, kind = found
        if kind == "view":
            raise UsageError(f"{table} is a view, which has no key of its own: name the table that its rows are in")
        infos = connection.execute(f"PRAGMA table_xinfo({quoted(name)})").fetchall()
        columns = tuple(Column(info[1], info[2].upper()) for info in infos)
        if key is None:
            primary = sorted((info[5], info[1]) for info in infos if info[5])
            if not primary:
                raise UsageError(f"{name} has no primary key: name the columns of a unique index with --key")
            key = [column for _, column in primary]
        chosen = named_columns(key, columns, table=name)
        names = [column.name for column in chosen]
        _check_null(connection, name, names, infos)
        collations = _fit(connection, name, names, infos)
        collated = tuple(replace(column, collation=collations.get(column.name, "BINARY")) for column in chosen)
        return Description(name, quoted(name), collated, columns)


def _check_null(connection: sqlite3.Connection, table: str, names: list[str], infos: Sequence[Any]) -> None:
    """SQLite lets NULL into most primary keys, and cannot forbid it later: one passes as long as there is none."""
    for _, name, _, not_null, _, primary, _ in infos:
        if name not in names or not_null:
            continue
        if not primary:
            raise UsageError(
                f"{name} of {table} may be NULL, and rows without a key would be passed over: choose another key, or "
                "make the table anew with the column NOT NULL"
            )
        if connection.execute(f"SELECT 1 FROM {quoted(table)} WHERE {quoted(name)} IS NULL LIMIT 1").fetchone():
            raise UsageError(
                f"{name} of {table} is NULL in some rows, which would be passed over: give them a key first"
            )


def _fit(connection: sqlite3.Connection, table: str, names: list[str], infos: Sequence[Any]) -> Mapping[str, str]:
    """The collations of the index that gives the key's order and uniqueness. SQLite itself says whether it does."""
    found: list[tuple[str, Mapping[str, str]]] = []
    if [(info[1], info[2].upper()) for info in infos if info[5]] == [(names[0], "INTEGER")] and len(names) == 1:
        found.append(("", {}))  # the number of the row, which needs no index
    for _, index, unique, _, partial in connection.execute(f"PRAGMA index_list({quoted(table)})").fetchall():
        listed = connection.execute(f"PRAGMA index_xinfo({quoted(index)})").fetchall()
        ordered = {name: collation for _, _, name, _, collation, is_key in listed if is_key}
        if unique and not partial and list(ordered) == names:
            found.append((f"INDEXED BY {quoted(index)}", ordered))
    for by, collations in found:
        if _serves(connection, f"{quoted(table)} {by}", names):
            return collations
    columns = ", ".join(map(quoted, names))
    name = quoted(f"{table}_{'_'.join(names)}_key")
    raise UsageError(
        f"no unique index of {table} has exactly the columns {', '.join(names)}, in this order and by the "
        f"columns' own collations: CREATE UNIQUE INDEX {name} ON {quoted(table)} ({columns})"
    )


def _serves(connection: sqlite3.Connection, table: str, names: list[str]) -> bool:
    """Whether a table is gone through by a key without a look at all of it: by this index, where one is named."""
    columns, values = ", ".join(map(quoted, names)), ", ".join("?" * len(names))
    statement = f"SELECT {columns} FROM {table} WHERE ({columns}) > ({values}) ORDER BY {columns} LIMIT 1"
    try:
        steps = connection.execute(f"EXPLAIN QUERY PLAN {statement}", [0] * len(names)).fetchall()
    except sqlite3.OperationalError:  # the index is of no use for it
        return False
    plan = " ".join(step[3] for step in steps)
    return plan.startswith("SEARCH") and "TEMP B-TREE" not in plan


def _connect(path: str) -> sqlite3.Connection:
    if not os.path.isfile(path):
        raise UsageError(f"there is no file {path}")
    # Transactions are begun by hand. Without a level of isolation, what somebody writes after SQLite has rolled one
    # back would be committed at once.
    return sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level="IMMEDIATE", check_same_thread=False)


async def seen_through(connection: sqlite3.Connection, call: Callable[..., T], *arguments: Any) -> T:
    """Call something of a connection in a thread. Whoever is cancelled meanwhile interrupts it and waits for its end:
    to use a connection in two threads at once, or to close it under one, crashes the process."""
    called = asyncio.get_running_loop().run_in_executor(None, call, *arguments)
    try:
        return await asyncio.shield(called)
    except asyncio.CancelledError:
        while not called.done():
            connection.interrupt()
            with suppress(asyncio.CancelledError):
                await asyncio.wait([called], timeout=INTERRUPT_SECONDS)
        called.exception()  # which nobody waits for any more
        raise


def _only_roll_back(action: int, operation: str | None, *_: object) -> int:
    allowed = action == sqlite3.SQLITE_TRANSACTION and operation == "ROLLBACK"
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


@contextmanager
def translated(path: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise StoreUnavailable(f"{path}: {error}") from error


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Somebody who has the file to himself, as VACUUM does without write-ahead mode, is waited for."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_BUSY:  # Python raises some that have none
            raise
        raise StoreUnavailable(f"{path}: {error}") from error


def carried(value: Any) -> Any:
    """A value of a key as JSON can hold it."""
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    return {"real": str(value)} if isinstance(value, float) and math.isinf(value) else value


def _bound(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return bytes.fromhex(value["hex"]) if "hex" in value else float(value["real"])


_DECIMAL = re.compile(r"[+-]?\d+(?:\.\d+)?")


def _parsed(text: str, column: Column, about: Description) -> Any:
    """By SQLite's rules of affinity: what a column of this type would make of a text."""
    kind = column.type
    try:
        if "INT" in kind:
            return _number(text)
        if any(word in kind for word in ("CHAR", "CLOB", "TEXT")):
            return text
        if "BLOB" in kind:
            return {"hex": bytes.fromhex(text).hex()}
        numeric = any(word in kind for word in ("REAL", "FLOA", "DOUB", "NUM", "DEC"))
        return _number(text) if numeric or _DECIMAL.fullmatch(text) else text  # of DATE and its like, or no type
    except ValueError as error:
        raise UsageError(f"{text!r} is no value of {column.name} of {about.name}, which is {kind}") from error


def _number(text: str) -> Any:
    whole = text.strip().lstrip("+-").isdecimal()
    if whole and -(2**63) <= int(text) < 2**63:
        return int(text)
    number = float(text)
    if math.isnan(number):  # which SQLite takes for NULL: nothing is before or after it
        raise ValueError("not a number")
    return carried(number)


def _placeholder(column: Column) -> str:
    return "?"


DIALECT = keyset.Dialect(quoted, _placeholder, _bound)
