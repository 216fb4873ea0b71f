"""Table: one table in the order of a unique key, in PostgreSQL or SQLite.

Only the database compares keys. Python does not know how a collation orders text or how a database compares numbers
of different types.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from swath.tables.canonical.column_types import ColumnType
from swath.tables.canonical.form import ColumnForm
from swath.tables.definition import Definition

# One JSON value per key column. PostgreSQL's are texts. SQLite's are numbers, texts, {"hex": "…"} for blobs, and
# {"real": "inf"} for numbers that JSON cannot hold.
Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Column:
    """A column, with its type as the database writes it."""

    name: str
    type: str
    collation: str | None = None  # quoted; None: the type's default

    @property
    def is_text(self) -> bool:
        """Whether values are ordered as text, "10" before "9"."""
        return any(word in self.type.upper() for word in ("CHAR", "CLOB", "NAME", "TEXT"))


@dataclass(frozen=True, slots=True)
class Description:
    """A table's name and columns, and a key that is unique, not null and indexed."""

    name: str  # for messages
    quoted: str  # for SQL
    key: tuple[Column, ...]
    columns: tuple[Column, ...]

    @property
    def key_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.key)


class SliceEnd(NamedTuple):
    """The last key of a slice, and its number of rows."""

    key: Key
    rows: int


class TableRow(NamedTuple):
    """A row and its key."""

    key: Key
    row: dict[str, Any]


class CanonicalRow(NamedTuple):
    """A row's key and its canonical texts."""

    key: Key
    values: tuple[str | None, ...]


class RawRows(NamedTuple):
    """Rows as the driver returns them, and the names of their columns."""

    names: Sequence[str]
    values: Sequence[tuple[Any, ...]]


class Fragment(NamedTuple):
    """A piece of SQL and its bound values, in the driver's parameter style."""

    sql: str
    values: tuple[Any, ...]


class Digest(NamedTuple):
    """Number and hash of a slice's rows. Equal digests of the same forms mean equal rows."""

    rows: int
    hash: str


class Reader(Protocol):
    """A connection that reads rows in the calling thread. Close it after an exception."""

    def read_rows(self, limit: int, *, after: Key | None = None, upto: Key | None = None) -> RawRows:
        """Return the first `limit` rows of a slice, in key order."""

    def close(self) -> None: ...


class Table(Protocol):
    """One table in the order of its key.

    Slices are half-open, (after, upto]. None means the start or the end of the table, so adjacent slices cover every
    position where a row can be inserted.
    """

    description: Description
    definition: Definition  # when the table was opened
    lower_bound: Key | None  # rows below this key are ignored; None: no bound
    kind: str  # "postgresql" or "sqlite"
    label: str  # the database's URL or path without its password, for messages

    async def close(self) -> None:
        """Close all connections."""

    async def check_unchanged(self, connection: Any | None = None, *, columns: bool = False) -> None:
        """Raise TableChanged if the table is gone, is another one, or its key has another order than when opened.

        If a transaction has locked the table or the database, pass its connection: the answer then holds until the
        end of the transaction. With `columns`, all columns must have the same names and types.
        """

    # Find keys

    async def parse_key(self, texts: Sequence[str]) -> Key:
        """Parse a key that a user wrote. Raise UsageError if the database rejects it."""

    async def find_first_key(self, *, after: Key | None = None, upto: Key | None = None) -> Key | None:
        """Return the lowest key of a slice, or None if the slice is empty."""

    async def find_last_key(self, *, after: Key | None = None, upto: Key | None = None) -> Key | None:
        """Return the greatest key of a slice, or None if the slice is empty."""

    async def find_slice_end(self, limit: int, *, after: Key | None = None, upto: Key | None = None) -> SliceEnd | None:
        """Return the last of the first `limit` keys of a slice, or None if the slice is empty.

        Reads at most `limit` entries of the key's index.
        """

    async def is_after(self, one: Key, other: Key) -> bool:
        """Return whether key `one` sorts after key `other`."""

    async def estimate_rows(self, *, after: Key | None = None, upto: Key | None = None) -> int | None:
        """Estimate the number of rows without reading them. Return None if the database has no estimate."""

    # Read rows

    async def fetch_slice(self, *, after: Key | None = None, upto: Key | None = None) -> list[TableRow]:
        """Return all rows of a slice, in order. Use `find_slice_end` first to bound the memory this takes."""

    async def fetch_keys(self, keys: Sequence[Key]) -> list[TableRow]:
        """Return the rows that have these keys, in order. Missing keys are skipped."""

    def open_reader(self) -> Reader:
        """Open a connection for one thread that reads many rows without the event loop."""

    # Compare rows

    async def find_types(self) -> Mapping[str, ColumnType]:
        """Return the type of each column."""

    async def fetch_canonical_slice(
        self, forms: Sequence[ColumnForm], *, after: Key | None = None, upto: Key | None = None
    ) -> list[CanonicalRow]:
        """Return all rows of a slice, in order, as canonical texts."""

    async def fetch_canonical_keys(self, forms: Sequence[ColumnForm], keys: Sequence[Key]) -> list[CanonicalRow]:
        """Return the rows that have these keys, in order, as canonical texts."""

    async def digest_slice(
        self, forms: Sequence[ColumnForm], *, after: Key | None = None, upto: Key | None = None
    ) -> Digest:
        """Count and hash the canonical texts of a slice's rows, in the database if it has a hash function.

        Digests of tables in databases of the same kind are comparable.
        """

    # Build and run other statements

    def build_slice_condition(self, *, after: Key | None = None, upto: Key | None = None) -> Fragment:
        """Return the condition for rows in a slice."""

    def build_key_values(self, key: Key) -> Fragment:
        """Return a key as a list of values, such as `%s::bigint, %s::text`."""

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        """Run a transaction: commit at the end of the block, roll back if it raises.

        Yields a psycopg `AsyncConnection` or an `sqlite3.Connection`.
        """

    def blocking_transaction(self) -> AbstractAsyncContextManager[Any]:
        """Like `transaction`, for blocking code in a thread: yields a `psycopg.Connection` or `sqlite3.Connection`.

        If the block is cancelled, it does not close the connection, because the thread may still be using it.
        """
