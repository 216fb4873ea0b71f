"""Table: one table in the order of one of its keys, whatever database it is in.

Keys travel as texts and back, and are only ever compared by the database itself: Python does not know how a collation
orders, nor how a database compares numbers of different types.
"""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

# One value for each column of the key, as JSON can hold it. PostgreSQL's are texts; SQLite's are numbers, texts, and
# {"hex": "…"} for blobs, {"real": "inf"} for what JSON has no number for.
Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Column:
    """A column, with its type as its database writes it."""

    name: str
    type: str
    collation: str | None = None  # quoted; None is the type's own

    @property
    def is_text(self) -> bool:
        """Whether its values are ordered as texts are, "10" before "9"."""
        return any(word in self.type.upper() for word in ("CHAR", "CLOB", "NAME", "TEXT"))


@dataclass(frozen=True, slots=True)
class Description:
    """What a table is, after it was found fit to be gone through by its key."""

    name: str  # as people read it
    quoted: str  # as SQL reads it
    key: tuple[Column, ...]
    columns: tuple[Column, ...]

    @property
    def key_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.key)


class SliceEnd(NamedTuple):
    """Where a slice of so many rows ends."""

    key: Key
    rows: int


class Record(NamedTuple):
    """A row and its key."""

    key: Key
    row: dict[str, Any]


class Rows(NamedTuple):
    """Rows as the driver gives them, and the names of their columns."""

    names: Sequence[str]
    values: Sequence[tuple[Any, ...]]


class Fragment(NamedTuple):
    """A piece of SQL and what is bound in it, in the style of the database's driver."""

    sql: str
    values: tuple[Any, ...]


class Digest(NamedTuple):
    """What a slice holds, in brief: equal digests of the same columns mean equal rows."""

    rows: int
    hash: str


class Reader(Protocol):
    """Reads in the thread that calls it. One that raised may be of no more use."""

    def rows(self, limit: int, *, after: Key | None = None, upto: Key | None = None) -> Rows:
        """The first `limit` rows of a slice, in order, with nothing done to them."""

    def close(self) -> None: ...


class Table(Protocol):
    """One table in the order of its key. Slices are half-open, (after, upto]; None is where the table begins or ends,
    so that slices which meet cover every place a row may be inserted at."""

    about: Description
    first: Key | None  # what is below this key is no part of it; None: everything is
    kind: str  # "postgresql" or "sqlite"
    shown: str  # the database without its password

    async def close(self) -> None:
        """Let go of the database."""

    # what is where

    async def parse_key(self, texts: Sequence[str]) -> Key:
        """A key that somebody wrote, as the database reads it; UsageError if it cannot."""

    async def first_key(self, *, after: Key | None = None, upto: Key | None = None) -> Key | None:
        """The lowest key in a slice; None when it is empty."""

    async def last_key(self, *, after: Key | None = None, upto: Key | None = None) -> Key | None:
        """The greatest key in a slice; None when it is empty."""

    async def slice_end(self, limit: int, *, after: Key | None = None, upto: Key | None = None) -> SliceEnd | None:
        """The last of the first `limit` keys of a slice, and how many there are; None when it is empty. Reads no more
        than those from the key's index."""

    async def follows(self, one: Key, other: Key) -> bool:
        """Whether one key comes after another."""

    async def estimate(self, *, after: Key | None = None, upto: Key | None = None) -> int | None:
        """About how many rows a slice has, without a look at them; None where nobody knows."""

    # what is in it

    async def records(self, *, after: Key | None = None, upto: Key | None = None) -> list[Record]:
        """The rows of a slice, in order. Memory holds them all: ask for slices that `slice_end` measured."""

    def reader(self) -> Reader:
        """Another connection, for one thread, without the event loop: for whoever reads many rows."""

    async def records_of(self, keys: Sequence[Key]) -> list[Record]:
        """Those rows of some keys that there are, in order."""

    async def digest(self, columns: Sequence[str], *, after: Key | None = None, upto: Key | None = None) -> Digest:
        """Count and hash of some columns of a slice's rows, computed in the database where it can do that. Digests of
        two tables in databases of the same kind can be compared."""

    # for statements of one's own

    def within(self, *, after: Key | None = None, upto: Key | None = None) -> Fragment:
        """The condition that a row is in a slice."""

    def literal(self, key: Key) -> Fragment:
        """A key as a list of values, such as `%s::bigint, %s::text`."""

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        """A transaction of one's own, with the session as the database sets it up: commits at the end, rolls back
        when that raises. What it hands out is an `AsyncConnection` of psycopg or an `sqlite3.Connection`."""

    def blocking_transaction(self) -> AbstractAsyncContextManager[Any]:
        """The same for code that blocks, in a thread: a `psycopg.Connection` or an `sqlite3.Connection`. When it is
        cancelled the connection is left to the thread, which may still be using it."""
