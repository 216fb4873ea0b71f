"""Compare two tables by hashes of slices, and row by row if the hashes differ."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from swath import Item, UsageError
from swath.scan.finding import Finding
from swath.scan.sources.key_order import check_order
from swath.scan.sources.row_keys import format_row_key, parse_row_key
from swath.scan.sources.slice_plan import make_plan_item, parse_slice, plan_slices
from swath.scan.sources.source import ReadCounts, ReadStep, Source, SourceFinding, SourceSize, Task
from swath.scan.sources.sync_table import KeyRange, SyncTable
from swath.tables.table import Key, TableRow

MAX_ROWS = 10_000  # of a slice, on either side
MAX_FETCHED = 500  # rows that are compared one by one; a larger slice that differs is halved
MAX_VALUE = 200  # characters of a value in a finding

MISSING_HERE = "missing-here"
MISSING_THERE = "missing-there"
DIFFERENT = "different"

Row = Mapping[str, Any]


class TableComparison(Source):
    """Compares a table with another that should hold the same rows."""

    def __init__(self, source: str, against: str, *, key: str | None, columns: Sequence[str]) -> None:
        self._here = SyncTable(source, key=key)
        try:
            names = ",".join(self._here.table.description.key_names)
            self._there = SyncTable(against, key=key or names)
        except BaseException:
            self._here.close()
            raise
        self._asked = columns
        self._columns: Sequence[str] = ()
        self._width = len(self._here.table.description.key)
        self._same_kind = self._here.kind == self._there.kind

    def snapshot(self) -> Mapping[str, Any]:
        self._columns = _choose_columns(self._asked, self._here, self._there)
        check_order(self._here, self._there)
        return {"key": list(self._here.table.description.key_names), "columns": list(self._columns)}

    def measure(self, snapshot: Mapping[str, Any]) -> SourceSize:
        """Return the size of both sides together, with keys in the form of the source."""
        here, there = self._here.measure(), self._there.measure()
        rows = [size["about_records"] for size in (here, there) if size["about_records"] is not None]
        return {
            "about_records": max(rows, default=None),
            "first_key": self._choose_key(here["first_key"], there["first_key"], later=False),
            "last_key": self._choose_key(here["last_key"], there["last_key"], later=True),
            "text_key": here["text_key"],
        }

    def _choose_key(self, here: Key | None, there: Key | None, *, later: bool) -> Key | None:
        """Return the earlier or the later of a key of the source and a key of the other side."""
        if there is None:
            return here
        converted = self._convert_to_source(self._there, there)
        if here is None or self._here.is_after(converted, here) is later:
            return converted
        return here

    def explain_change(self, before: Mapping[str, Any]) -> str | None:
        now = self.snapshot()
        return None if now == before else f"{self._here.label} was compared by other columns"

    def list_first_items(self, snapshot: Mapping[str, Any]) -> Iterable[Item]:
        return [make_plan_item(1, None)]

    def read(self, task: Task) -> Iterator[ReadStep]:
        if "plan" in task:
            return plan_slices(task, self._find_end)
        return self._compare(parse_slice(task))

    def fetch(self, keys: Sequence[str]) -> Iterator[ReadStep]:
        kind = self._here.kind if self._same_kind else "postgresql"
        found = [parse_row_key(key, kind, columns=self._width) for key in keys]
        yield from self._compare_rows(
            *(rows.fetch_keys(self._convert_keys(rows, found)) for rows in (self._here, self._there))
        )

    def close(self) -> None:
        self._here.close()
        self._there.close()

    def _find_end(self, after: Key | None) -> Key | None:
        """Return where the next slice ends, so that neither side has more than MAX_ROWS rows in it."""
        ends = []
        for rows in (self._here, self._there):
            found = rows.find_slice_end(MAX_ROWS, after=self._convert_key(rows, after))
            if found is not None and found[1] == MAX_ROWS:
                ends.append(self._convert_to_source(rows, found[0]))
        if len(ends) == 2 and self._here.is_after(ends[0], ends[1]):
            return ends[1]
        return ends[0] if ends else None

    def _compare(self, part: KeyRange) -> Iterator[ReadStep]:
        """Yield the differences in a slice. Equal slices cost one query per side."""
        parts = [part]
        while parts:
            part = parts.pop()
            there = KeyRange(self._convert_key(self._there, part.after), self._convert_key(self._there, part.upto))
            if not self._same_kind:  # they have no hash function in common
                yield from self._compare_rows(self._here.fetch_slice(part), self._there.fetch_slice(there))
                continue
            one, other = self._here.digest_slice(self._columns, part), self._there.digest_slice(self._columns, there)
            if one == other:
                yield ReadCounts(records=one[0])
            elif max(one[0], other[0]) <= MAX_FETCHED:
                yield from self._compare_rows(self._here.fetch_slice(part), self._there.fetch_slice(there))
            else:
                middle = self._find_middle(part, there, one[0], other[0])
                parts += [part] if middle is None else [KeyRange(middle, part.upto), KeyRange(part.after, middle)]

    def _find_middle(self, here: KeyRange, there: KeyRange, ours: int, theirs: int) -> Key | None:
        """Return a key that halves a slice, on the side with more rows; None if the rows were deleted."""
        rows, part, count = (self._here, here, ours) if ours >= theirs else (self._there, there, theirs)
        middle = rows.find_cut(count // 2, part)
        return None if middle is None else self._convert_to_source(rows, middle)

    def _compare_rows(self, ours: Sequence[TableRow], theirs: Sequence[TableRow]) -> Iterator[ReadStep]:
        here, there = self._index_by_text(ours), self._index_by_text(theirs)
        yield ReadCounts(records=len(here.keys() | there.keys()))
        for key, row in here.items():
            if key not in there:
                yield SourceFinding(key, Finding(MISSING_THERE, "only in the source"), records=0)
            elif changed := _find_differences(row, there[key], self._columns):
                message = f"{', '.join(changed)} differ{'s' if len(changed) == 1 else ''}"
                yield SourceFinding(key, Finding(DIFFERENT, message, {"columns": changed}), records=0)
        for key in there.keys() - here.keys():
            yield SourceFinding(key, Finding(MISSING_HERE, "not in the source"), records=0)

    def _convert_keys(self, rows: SyncTable, keys: Sequence[Key]) -> Sequence[Key]:
        """Return keys in the form of one side."""
        return keys if self._same_kind else [rows.parse_key(key) for key in keys]

    def _index_by_text(self, rows: Sequence[TableRow]) -> dict[str, Row]:
        """Return rows by the text of their key, in a form that both sides share."""
        if self._same_kind:
            return {format_row_key(key, self._here.kind): row for key, row in rows}
        return {format_row_key(tuple(map(str, key)), "postgresql"): row for key, row in rows}

    def _convert_key(self, rows: SyncTable, key: Key | None) -> Key | None:
        """Return a key of the source in the form of one side."""
        if key is None or self._same_kind or rows is self._here:
            return key
        return rows.parse_key([str(value) for value in key])

    def _convert_to_source(self, rows: SyncTable, key: Key) -> Key:
        if self._same_kind or rows is self._here:
            return key
        return self._here.parse_key([str(value) for value in key])


def _choose_columns(asked: Sequence[str], here: SyncTable, there: SyncTable) -> Sequence[str]:
    """Return the columns to compare: those of --columns, or all if both sides have the same columns."""
    keys = here.table.description.key_names
    if not asked:
        missing = set(here.names) ^ set(there.names)
        if missing:
            raise UsageError(
                f"{here.label} and {there.label} have different columns: {', '.join(sorted(missing))} is only in one "
                "of them. Name the columns to compare with --columns"
            )
        return here.names
    for side in (here, there):
        if unknown := [name for name in asked if name not in side.names]:
            raise UsageError(f"--columns: {side.label} has no column {', '.join(unknown)}")
    return [*keys, *(name for name in asked if name not in keys)]


def _find_differences(here: Row, there: Row, columns: Sequence[str]) -> dict[str, list[str | None]]:
    return {
        name: [_format_value(here[name]), _format_value(there[name])]
        for name in columns
        if not is_equal(here[name], there[name])
    }


def _format_value(value: Any) -> str | None:
    return None if value is None else f"{value!s:.{MAX_VALUE}}"


def is_equal(one: Any, other: Any) -> bool:
    """Return whether two values are equal, even if two databases use different types for them."""
    if one is None or other is None:
        return one is other
    if one == other or (_is_nan(one) and _is_nan(other)):
        return True
    if type(one) is type(other):
        return False
    return _is_equal_to_text(one, other) if isinstance(other, str) else _is_equal_to_text(other, one)


def _is_equal_to_text(value: Any, text: Any) -> bool:
    """Compare a value of PostgreSQL with its form in SQLite, which has fewer types."""
    if not isinstance(text, str):
        return _is_number(value) and _is_number(text) and math.isclose(value, text, rel_tol=1e-15)
    try:
        match value:
            case datetime():
                return _add_zone(value) == _add_zone(datetime.fromisoformat(text))
            case date():
                return value == date.fromisoformat(text)
            case UUID():
                return value == UUID(text)
            case Decimal() | int() | float():
                return Decimal(str(value)) == Decimal(text)
            case dict() | list():
                return bool(value == json.loads(text))
            case _:
                return str(value) == text
    except (ValueError, ArithmeticError):
        return False


def _add_zone(moment: datetime) -> datetime:
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _is_nan(value: Any) -> bool:
    return isinstance(value, float | Decimal) and value != value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal)
