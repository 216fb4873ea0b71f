"""SyncTable: call a table from threads. Its connections belong to a separate event loop."""

import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from swath import SwathError, UsageError, mask_password
from swath.scan.sources.row_keys import format_row_key, parse_row_key
from swath.scan.sources.source import ReadStep, SourceSize
from swath.sync.portal import Portal
from swath.tables.canonical.column_types import ColumnType
from swath.tables.canonical.form import ColumnForm
from swath.tables.identifiers import quote_identifier
from swath.tables.open import MAX_CONNECTIONS, open_table
from swath.tables.sqlite import call_interruptibly
from swath.tables.sqlite_keys import encode_value
from swath.tables.table import CanonicalRow, Column, Digest, Key, RawRows, Reader, Table, TableRow

MAX_READ = 4_000  # rows of a slice held in memory
# Types of PostgreSQL whose values Python formats like the database.
PLAIN_TYPES = ("smallint", "integer", "bigint", "uuid", "text", "character varying")


class KeyRange(NamedTuple):
    """The keys in (after, upto]. None means the start or the end of the table."""

    after: Key | None
    upto: Key | None


class SyncTable:
    """Calls a `Table` from threads."""

    def __init__(self, source: str, *, key: str | None) -> None:
        url, _, name = source.partition("#")
        self.label = mask_password(source)
        if not name:
            raise UsageError(f"{self.label} does not name a table. Append it after a #, as in {self.label}#users")
        self._portal = Portal()
        columns = None if key is None else [part.strip() for part in key.split(",")]
        try:
            self.table: Table = self._portal.call(open_table(url, name, key=columns))
        except BaseException:
            self._portal.close()
            raise
        self._idle: list[Reader] = []
        self._free = threading.Semaphore(MAX_CONNECTIONS)
        self.kind = self.table.kind
        self.plain_key = all(_is_plain(column, self.kind) for column in self.table.description.key)

    def close(self) -> None:
        while self._idle:  # a thread may still be using other readers
            self._idle.pop().close()
        if not self._portal.closed:
            self._portal.call(self.table.close())
            self._portal.close()

    @property
    def names(self) -> Sequence[str]:
        return [column.name for column in self.table.description.columns]

    def watch_changes(self, steps: Iterable[ReadStep], *, columns: bool = False) -> Iterator[ReadStep]:
        """Yield the steps of a read. Raise TableChanged if the table has changed since it was opened.

        With `columns`, all columns must have the same names and types.
        """
        with self._explain_errors():
            yield from steps
        self._portal.call(self.table.check_unchanged(columns=columns))

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        """Raise TableChanged instead of an error of the driver if the table has changed since it was opened."""
        try:
            yield
        except SwathError:
            raise
        except Exception:
            self._portal.call(self.table.check_unchanged(columns=True))
            raise

    def measure(self) -> SourceSize:
        """Return the first and the last key, and an estimate of the number of rows."""
        with self._explain_errors():
            return {
                "about_records": self._portal.call(self.table.estimate_rows()),
                "first_key": self._portal.call(self.table.find_first_key()),
                "last_key": self._portal.call(self.table.find_last_key()),
                "text_key": self.table.description.key[0].is_text,
            }

    def find_slice_end(self, limit: int, *, after: Key | None) -> tuple[Key, int] | None:
        """Return the key of the last of the next `limit` rows, and their number."""
        return self._portal.call(self.table.find_slice_end(limit, after=after))

    def find_cut(self, limit: int, part: KeyRange) -> Key | None:
        found = self._portal.call(self.table.find_slice_end(limit, after=part.after, upto=part.upto))
        return None if found is None else found.key

    def is_after(self, one: Key, other: Key) -> bool:
        return self._portal.call(self.table.is_after(one, other))

    def parse_key(self, texts: Sequence[str]) -> Key:
        return self._portal.call(self.table.parse_key(texts))

    def fetch_slice(self, part: KeyRange) -> Sequence[TableRow]:
        """Return the rows of a slice."""
        return self._portal.call(self.table.fetch_slice(after=part.after, upto=part.upto))

    def read_raw(self, part: KeyRange) -> RawRows:
        """Return the first rows of a slice, at most MAX_READ, as the driver returns them.

        They are read in this thread. Passing every row from another thread would double the time.
        """
        with self._free:
            reader = self._idle.pop() if self._idle else self.table.open_reader()
            try:
                found = reader.read_rows(MAX_READ, after=part.after, upto=part.upto)
            except BaseException:
                reader.close()
                raise
            self._idle.append(reader)
            return found

    def get_key(self, row: Mapping[str, Any]) -> Key:
        """Return the key of a row, if `plain_key`."""
        write = str if self.kind == "postgresql" else encode_value
        return tuple(write(row[name]) for name in self.table.description.key_names)

    def get_key_text(self, row: Mapping[str, Any]) -> str:
        """Return the text of a row's key, if `plain_key`."""
        return format_row_key(self.get_key(row), self.kind)

    def fetch_keys(self, keys: Sequence[Key]) -> Sequence[TableRow]:
        """Return the rows that have these keys."""
        return self._portal.call(self.table.fetch_keys(keys))

    def parse_key_text(self, text: str) -> Key:
        return parse_row_key(text, self.kind, columns=len(self.table.description.key))

    def find_types(self) -> Mapping[str, ColumnType]:
        return self._portal.call(self.table.find_types())

    def fetch_canonical_slice(self, forms: Sequence[ColumnForm], part: KeyRange) -> Sequence[CanonicalRow]:
        """Return the rows of a slice as canonical texts."""
        return self._portal.call(self.table.fetch_canonical_slice(forms, after=part.after, upto=part.upto))

    def fetch_canonical_keys(self, forms: Sequence[ColumnForm], keys: Sequence[Key]) -> Sequence[CanonicalRow]:
        """Return the rows that have these keys as canonical texts."""
        return self._portal.call(self.table.fetch_canonical_keys(forms, keys))

    def digest_slice(self, forms: Sequence[ColumnForm], part: KeyRange) -> Digest:
        return self._portal.call(self.table.digest_slice(forms, after=part.after, upto=part.upto))

    def fetch_value(self, statement: str, *values: str) -> str:
        """Return the single value of a query in PostgreSQL."""

        async def fetch() -> str:
            async with self.table.transaction() as connection:
                return str((await (await connection.execute(statement, values)).fetchone())[0])

        return self._portal.call(fetch())

    def update_row(self, key: str, columns: Mapping[str, Any]) -> None:
        if not columns:
            return
        where = self.table.build_key_values(self.parse_key_text(key))
        postgres = self.kind == "postgresql"
        mark = "%s" if postgres else "?"

        def name(*parts: str) -> str:
            return quote_identifier(*parts).replace("%", "%%") if postgres else quote_identifier(*parts)

        sets = ", ".join(f"{name(column)} = {mark}" for column in columns)
        table = self.table.description.quoted.replace("%", "%%") if postgres else self.table.description.quoted
        keys = ", ".join(map(name, self.table.description.key_names))
        statement = f"UPDATE {table} SET {sets} WHERE ({keys}) = ({where.sql})"
        self._portal.call(self._execute(statement, (*columns.values(), *where.values)))

    async def _execute(self, statement: str, values: tuple[Any, ...]) -> None:
        async with self.table.transaction() as connection:
            if self.kind == "postgresql":
                await connection.execute(statement.encode(), values)
            else:
                await call_interruptibly(connection, connection.execute, statement, values)


def _is_plain(column: Column, kind: str) -> bool:
    """Return whether Python formats values of this column like the database."""
    return kind == "sqlite" or re.sub(r"\(.*\)$", "", column.type) in PLAIN_TYPES
