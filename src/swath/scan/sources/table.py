"""Tables: rows in slices of their key, planned a few at a time.

Slices are half-open and tile all of the key's space, the first from where it begins and the last to where it ends: a
row belongs to the slice that its place is in, whenever it is inserted.
"""

import re
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from swath import Item, UsageError, mask_password
from swath.scan.sources import sizer
from swath.scan.sources.dicts import dicts
from swath.scan.sources.keys import key_of, text_of
from swath.scan.sources.source import Step, Task, work
from swath.sync.portal import Portal
from swath.tables.identifiers import quote_identifier
from swath.tables.open import MAX_CONNECTIONS, open_table
from swath.tables.sqlite import call_interruptibly
from swath.tables.sqlite_keys import encode_value
from swath.tables.table import Column, Key, RawRows, Reader, Table, TableRow

SCHEMES = ("postgresql://", "postgres://", "sqlite://")
READ = 4_000  # rows of a slice that are held in memory
AT_ONCE = 1_000  # records that are handed out together
# Types of PostgreSQL that Python writes alike.
PLAIN = ("smallint", "integer", "bigint", "uuid", "text", "character varying")
SLICES = 16  # that a step of the plan hands out; the first ones fewer, as their size is a guess


class Slice(NamedTuple):
    """(after, upto]: None is where the table begins or ends."""

    after: Key | None
    upto: Key | None


class RowRecord(dict[str, Any]):
    """A row of a table: a dict of its columns, which `fix` can change.

    A dict, and with nothing in it but the row: there are as many as there are rows. What they share is their class's.
    """

    __slots__ = ()
    _rows: "Rows"

    @property
    def key(self) -> str:
        """What names it in its table, written out when somebody asks: most rows are as they should be."""
        return self._rows.text_in(self)

    @property
    def value(self) -> dict[str, Any]:
        return self

    def change(self, **columns: Any) -> None:
        """Set some columns of this row in the table, in a transaction of its own: for `fix`."""
        self._rows.change(self.key, columns)


class KeyedRow(RowRecord):
    """A row whose key only the database can write out."""

    __slots__ = ("_text",)
    _text: str

    @property
    def key(self) -> str:
        return self._text


class Rows:
    """A table as threads can use it. What it talks to lives in an event loop of its own."""

    def __init__(self, source: str, *, key: str | None) -> None:
        url, _, name = source.partition("#")
        self.label = mask_password(source)
        if not name:
            raise UsageError(f"{self.label} names no table: put it behind a #, as in {self.label}#users")
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
        while self._idle:  # one that is in use is left to its thread
            self._idle.pop().close()
        if not self._portal.closed:
            self._portal.call(self.table.close())
            self._portal.close()

    @property
    def names(self) -> Sequence[str]:
        return [column.name for column in self.table.description.columns]

    def end(self, limit: int, *, after: Key | None) -> tuple[Key, int] | None:
        """Where the next `limit` rows end, and how many there are."""
        return self._portal.call(self.table.find_slice_end(limit, after=after))

    def cut(self, limit: int, part: Slice) -> Key | None:
        found = self._portal.call(self.table.find_slice_end(limit, after=part.after, upto=part.upto))
        return None if found is None else found.key

    def is_after(self, one: Key, other: Key) -> bool:
        return self._portal.call(self.table.is_after(one, other))

    def parsed(self, texts: Sequence[str]) -> Key:
        return self._portal.call(self.table.parse_key(texts))

    def within(self, part: Slice) -> Sequence[TableRow]:
        """The rows of a slice."""
        return self._portal.call(self.table.fetch_slice(after=part.after, upto=part.upto))

    def raw(self, part: Slice) -> RawRows:
        """The first rows of a slice as the driver gives them, no more than READ. They are read in this thread: to hand
        every row from thread to thread would cost as much as to read it."""
        with self._free:
            reader = self._idle.pop() if self._idle else self.table.open_reader()
            try:
                found = reader.read_rows(READ, after=part.after, upto=part.upto)
            except BaseException:
                reader.close()
                raise
            self._idle.append(reader)
            return found

    def key_in(self, row: Mapping[str, Any]) -> Key:
        """The key of a row, where that is plain."""
        write = str if self.kind == "postgresql" else encode_value
        return tuple(write(row[name]) for name in self.table.description.key_names)

    def text_in(self, row: Mapping[str, Any]) -> str:
        """The text of a row's key, where that is plain."""
        return text_of(self.key_in(row), self.kind)

    def of(self, keys: Sequence[Key]) -> Sequence[TableRow]:
        """The rows of some keys, as far as there are any."""
        return self._portal.call(self.table.fetch_keys(keys))

    def key(self, text: str) -> Key:
        return key_of(text, self.kind, columns=len(self.table.description.key))

    def digest(self, columns: Sequence[str], part: Slice) -> tuple[int, str]:
        return self._portal.call(self.table.digest_slice(columns, after=part.after, upto=part.upto))

    def ask(self, statement: str, *values: str) -> str:
        """The only value that a statement gives, in PostgreSQL."""

        async def asked() -> str:
            async with self.table.transaction() as connection:
                return str((await (await connection.execute(statement, values)).fetchone())[0])

        return self._portal.call(asked())

    def change(self, key: str, columns: Mapping[str, Any]) -> None:
        if not columns:
            return
        where = self.table.build_key_values(self.key(key))
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
    """Whether Python writes a value of this column as its database does."""
    return kind == "sqlite" or re.sub(r"\(.*\)$", "", column.type) in PLAIN


class TableSource:
    """All rows of a table."""

    def __init__(self, source: str, *, key: str | None) -> None:
        self._rows = Rows(source, key=key)
        self._sizer = sizer.Sizer(most=sizer.MOST if self._rows.plain_key else READ)
        shared = {"__slots__": (), "_rows": self._rows}
        self._record: type[RowRecord] = type("RowRecord", (RowRecord,), shared)
        self._keyed_record: type[KeyedRow] = type("KeyedRow", (KeyedRow,), shared)

    @property
    def ahead(self) -> int:
        return 1 if self._rows.kind == "postgresql" else 0

    def state(self) -> Mapping[str, Any]:
        return {"key": list(self._rows.table.description.key_names)}

    def changed(self, before: Mapping[str, Any]) -> str | None:
        now = self.state()
        if before["key"] == now["key"]:
            return None
        return f"{self._rows.label} was gone through by {', '.join(before['key'])}, not by {', '.join(now['key'])}"

    def first(self, state: Mapping[str, Any]) -> Iterable[Item]:
        return [plan_work(1, None)]

    def read(self, task: Task) -> Iterator[Step]:
        if "plan" in task:
            return plan(task, self._end)
        return self._slice(slice_of(task))

    def fetch(self, keys: Sequence[str]) -> Iterator[Step]:
        yield self._keyed(self._rows.of([self._rows.key(text) for text in keys]))

    def close(self) -> None:
        self._rows.close()

    def rest(self, key: str, finding: Mapping[str, Any]) -> Task | None:
        return None

    def _slice(self, part: Slice) -> Iterator[Step]:
        began, rows = time.monotonic(), 0
        for records in self._records(part):
            rows += len(records)
            yield records
        self._sizer.took(rows, time.monotonic() - began)

    def _records(self, part: Slice) -> Iterator[list[RowRecord]]:
        if not self._rows.plain_key:
            yield self._keyed(self._rows.within(part))
            return
        names, values = self._rows.raw(part)
        while values:
            for start in range(0, len(values), AT_ONCE):
                yield list(map(self._record, dicts(tuple(names))(values[start : start + AT_ONCE])))
            last = self._rows.key_in(dict(zip(names, values[-1], strict=True)))
            if len(values) < READ or last == part.upto:
                return
            names, values = self._rows.raw(Slice(last, part.upto))

    def _keyed(self, rows: Sequence[TableRow]) -> list[RowRecord]:
        kind = self._rows.kind
        keyed: list[RowRecord] = []
        for key, row in rows:
            record = self._keyed_record(row)
            record._text = text_of(key, kind)
            keyed.append(record)
        return keyed

    def _end(self, after: Key | None) -> Key | None:
        limit = self._sizer.rows
        found = self._rows.end(limit, after=after)
        return None if found is None or found[1] < limit else found[0]


# the plan


def plan(task: Task, end: Any) -> Iterator[Item]:
    """Some slices, and the next step of the plan among them: while the latter half is looked at, it is settled what
    comes next. `end` says where the next slice ends; None: it is the last."""
    number, after = task["plan"], as_key(task["after"])
    most = min(SLICES, 2 << number)
    slices: list[Item] = []
    while len(slices) < most:
        upto = end(after)
        slices.append(work(f"slice {number}.{len(slices) + 1}", {"after": after, "upto": upto}))
        if upto is None:
            yield from slices
            return
        after = upto
    yield from slices[: most // 2]
    yield plan_work(number + 1, after)
    yield from slices[most // 2 :]


def plan_work(number: int, after: Key | None) -> Item:
    return work(f"plan {number}", {"plan": number, "after": after})


def slice_of(task: Task) -> Slice:
    return Slice(as_key(task["after"]), as_key(task["upto"]))


def as_key(value: Sequence[Any] | None) -> Key | None:
    """A key as it comes back out of JSON."""
    return None if value is None else tuple(value)
