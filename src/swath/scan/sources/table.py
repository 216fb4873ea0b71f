"""Tables: rows in slices of their key."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from swath import Item
from swath.scan.sources.row_dicts import make_row_builder
from swath.scan.sources.row_keys import format_row_key
from swath.scan.sources.slice_plan import make_plan_item, parse_slice, plan_slices
from swath.scan.sources.source import ReadStep, Source, SourceSize, Task
from swath.scan.sources.sync_table import MAX_READ, KeyRange, SyncTable
from swath.tables.definition import describe_change, parse_definition
from swath.tables.slice_sizer import LARGEST, SliceSizer
from swath.tables.table import Key, TableRow

SCHEMES = ("postgresql://", "postgres://", "sqlite://")
BATCH = 1_000  # records per step
FIRST_SLICE = 2_000  # rows
SMALLEST_SLICE = 100  # rows
TARGET_SECONDS = 0.25  # per slice: a stop waits for it, and a crash repeats it


class RowRecord(dict[str, Any]):
    """A row of a table: a dict of its columns. `fix` can change it with `change`.

    An instance holds only the row, since there is one per row. What rows share is an attribute of their class.
    """

    __slots__ = ()
    _rows: "SyncTable"

    @property
    def key(self) -> str:
        """The key as text. Formatted on demand, because most rows have no findings."""
        return self._rows.get_key_text(self)

    @property
    def value(self) -> dict[str, Any]:
        return self

    def change(self, **columns: Any) -> None:
        """Update columns of this row in the table, in its own transaction. For use in `fix`."""
        self._rows.update_row(self.key, columns)


class KeyedRowRecord(RowRecord):
    """A row whose key only the database can format."""

    __slots__ = ("_text",)
    _text: str

    @property
    def key(self) -> str:
        return self._text


class TableSource(Source):
    """All rows of a table."""

    def __init__(self, source: str, *, key: str | None) -> None:
        self._rows = SyncTable(source, key=key)
        largest = LARGEST if self._rows.plain_key else MAX_READ
        self._sizer = SliceSizer(FIRST_SLICE, target=TARGET_SECONDS, smallest=SMALLEST_SLICE, largest=largest)
        shared = {"__slots__": (), "_rows": self._rows}
        self._record: type[RowRecord] = type("RowRecord", (RowRecord,), shared)
        self._keyed_record: type[KeyedRowRecord] = type("KeyedRowRecord", (KeyedRowRecord,), shared)

    @property
    def readahead(self) -> int:
        return 1 if self._rows.kind == "postgresql" else 0

    def snapshot(self) -> Mapping[str, Any]:
        table = self._rows.table
        return {"key": list(table.description.key_names), "definition": table.definition.to_json()}

    def measure(self, snapshot: Mapping[str, Any]) -> SourceSize:
        return self._rows.measure()

    def explain_change(self, before: Mapping[str, Any]) -> str | None:
        table = self._rows.table
        names = list(table.description.key_names)
        if before["key"] != names:
            return f"{self._rows.label} was scanned by the key {', '.join(before['key'])}, not by {', '.join(names)}"
        if "definition" not in before:  # the scan was begun by an earlier version
            return None
        return describe_change(table.description.name, parse_definition(before["definition"]), table.definition)

    def list_first_items(self, snapshot: Mapping[str, Any]) -> Iterable[Item]:
        return [make_plan_item(1, None)]

    def read(self, task: Task) -> Iterator[ReadStep]:
        if "plan" in task:
            return self._rows.watch_changes(plan_slices(task, self._find_end))
        return self._rows.watch_changes(self._read_slice(parse_slice(task)))

    def fetch(self, keys: Sequence[str]) -> Iterator[ReadStep]:
        return self._rows.watch_changes(self._fetch(keys))

    def close(self) -> None:
        self._rows.close()

    def _fetch(self, keys: Sequence[str]) -> Iterator[ReadStep]:
        yield self._make_keyed_records(self._rows.fetch_keys([self._rows.parse_key_text(text) for text in keys]))

    def _read_slice(self, part: KeyRange) -> Iterator[ReadStep]:
        began, rows = self._sizer.clock(), 0
        for records in self._read_records(part):
            rows += len(records)
            yield records
        self._sizer.record(rows, self._sizer.clock() - began)

    def _read_records(self, part: KeyRange) -> Iterator[list[RowRecord]]:
        if not self._rows.plain_key:
            yield self._make_keyed_records(self._rows.fetch_slice(part))
            return
        names, values = self._rows.read_raw(part)
        while values:
            for start in range(0, len(values), BATCH):
                yield list(map(self._record, make_row_builder(tuple(names))(values[start : start + BATCH])))
            last = self._rows.get_key(dict(zip(names, values[-1], strict=True)))
            if len(values) < MAX_READ or last == part.upto:
                return
            names, values = self._rows.read_raw(KeyRange(last, part.upto))

    def _make_keyed_records(self, rows: Sequence[TableRow]) -> list[RowRecord]:
        kind = self._rows.kind
        keyed: list[RowRecord] = []
        for key, row in rows:
            record = self._keyed_record(row)
            record._text = format_row_key(key, kind)
            keyed.append(record)
        return keyed

    def _find_end(self, after: Key | None) -> Key | None:
        limit = self._sizer.size
        found = self._rows.find_slice_end(limit, after=after)
        return None if found is None or found[1] < limit else found[0]
