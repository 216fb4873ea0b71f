"""Compare two tables by hashes of slices, and row by row if the hashes differ."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from swath import Item, UsageError
from swath.scan.finding import Finding
from swath.scan.sources.key_order import check_order
from swath.scan.sources.row_keys import format_row_key, parse_row_key
from swath.scan.sources.slice_plan import make_plan_item, parse_slice, plan_slices
from swath.scan.sources.source import ReadCounts, ReadStep, Source, SourceFinding, SourceSize, Task
from swath.scan.sources.sync_table import KeyRange, SyncTable
from swath.tables.canonical.form import ColumnForm
from swath.tables.canonical.pairing import choose_forms, explain_difference, format_canonical
from swath.tables.definition import describe_change, parse_definition
from swath.tables.table import CanonicalRow, Key

MAX_ROWS = 10_000  # of a slice, on either side
MAX_FETCHED = 500  # rows that are compared one by one; a larger slice that differs is halved

MISSING_HERE = "missing-here"
MISSING_THERE = "missing-there"
DIFFERENT = "different"

Values = tuple[str | None, ...]  # canonical texts


class TableComparison(Source):
    """Compares a table with another that should hold the same rows."""

    def __init__(
        self, source: str, against: str, *, key: str | None, columns: Sequence[str], loose: Sequence[str] = ()
    ) -> None:
        self._here = SyncTable(source, key=key)
        try:
            names = ",".join(self._here.table.description.key_names)
            self._there = SyncTable(against, key=key or names)
        except BaseException:
            self._here.close()
            raise
        self._asked = columns
        self._loose = loose
        self._columns: Sequence[str] = ()
        self._our_forms: Sequence[ColumnForm] = ()
        self._their_forms: Sequence[ColumnForm] = ()
        self._key_positions: Sequence[int] = ()
        self._width = len(self._here.table.description.key)
        self._same_kind = self._here.kind == self._there.kind

    def snapshot(self) -> Mapping[str, Any]:
        self._columns = _choose_columns(self._asked, self._here, self._there)
        check_order(self._here, self._there)
        self._key_positions = [self._columns.index(name) for name in self._here.table.description.key_names]
        self._our_forms, self._their_forms = _choose_forms(self._columns, self._here, self._there, self._loose)
        return {
            "key": list(self._here.table.description.key_names),
            "columns": list(self._columns),
            "definitions": [rows.table.definition.to_json() for rows in (self._here, self._there)],
        }

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
        if any(now[name] != before[name] for name in ("key", "columns")):
            return f"{self._here.label} was compared by other columns"
        for rows, data in zip((self._here, self._there), before.get("definitions", ()), strict=False):
            change = describe_change(rows.label, parse_definition(data), rows.table.definition)
            if change is not None:
                return change
        return None

    def list_first_items(self, snapshot: Mapping[str, Any]) -> Iterable[Item]:
        return [make_plan_item(1, None)]

    def read(self, task: Task) -> Iterator[ReadStep]:
        if "plan" in task:
            return self._watch_changes(plan_slices(task, self._find_end))
        return self._watch_changes(self._compare(parse_slice(task)))

    def fetch(self, keys: Sequence[str]) -> Iterator[ReadStep]:
        return self._watch_changes(self._compare_keys(keys))

    def _watch_changes(self, steps: Iterator[ReadStep]) -> Iterator[ReadStep]:
        """Raise TableChanged if either table has changed. The canonical forms depend on the types of all columns."""
        return self._here.watch_changes(self._there.watch_changes(steps, columns=True), columns=True)

    def _compare_keys(self, keys: Sequence[str]) -> Iterator[ReadStep]:
        kind = self._here.kind if self._same_kind else "postgresql"
        found = [parse_row_key(key, kind, columns=self._width) for key in keys]
        ours, theirs = (self._convert_keys(rows, found) for rows in (self._here, self._there))
        yield from self._compare_rows(
            self._here.fetch_canonical_keys(self._our_forms, ours),
            self._there.fetch_canonical_keys(self._their_forms, theirs),
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
                yield from self._compare_slice(part, there)
                continue
            one = self._here.digest_slice(self._our_forms, part)
            other = self._there.digest_slice(self._their_forms, there)
            if one == other:
                yield ReadCounts(records=one.rows)
            elif max(one.rows, other.rows) <= MAX_FETCHED:
                yield from self._compare_slice(part, there)
            else:
                middle = self._find_middle(part, there, one.rows, other.rows)
                parts += [part] if middle is None else [KeyRange(middle, part.upto), KeyRange(part.after, middle)]

    def _find_middle(self, here: KeyRange, there: KeyRange, ours: int, theirs: int) -> Key | None:
        """Return a key that halves a slice, on the side with more rows; None if the rows were deleted."""
        rows, part, count = (self._here, here, ours) if ours >= theirs else (self._there, there, theirs)
        middle = rows.find_cut(count // 2, part)
        return None if middle is None else self._convert_to_source(rows, middle)

    def _compare_slice(self, here: KeyRange, there: KeyRange) -> Iterator[ReadStep]:
        yield from self._compare_rows(
            self._here.fetch_canonical_slice(self._our_forms, here),
            self._there.fetch_canonical_slice(self._their_forms, there),
        )

    def _compare_rows(self, ours: Sequence[CanonicalRow], theirs: Sequence[CanonicalRow]) -> Iterator[ReadStep]:
        """Match rows by the canonical texts of their keys, and compare them."""
        here, there = self._index_by_key(ours), self._index_by_key(theirs)
        yield ReadCounts(records=len(here.keys() | there.keys()))
        for key, row in here.items():
            if key not in there:
                missing = Finding(MISSING_THERE, "only in the source")
                yield SourceFinding(self._format_key(row.key), missing, records=0)
            elif row.values != there[key].values:
                different = _make_finding(self._columns, row.values, there[key].values, self._loose)
                yield SourceFinding(self._format_key(row.key), different, records=0)
        for key, row in there.items():
            if key not in here:
                missing = Finding(MISSING_HERE, "not in the source")
                yield SourceFinding(self._format_key(row.key), missing, records=0)

    def _index_by_key(self, rows: Sequence[CanonicalRow]) -> dict[Values, CanonicalRow]:
        return {tuple(row.values[position] for position in self._key_positions): row for row in rows}

    def _format_key(self, key: Key) -> str:
        """Return the text of a key, in a form that both sides share."""
        if self._same_kind:
            return format_row_key(key, self._here.kind)
        return format_row_key(tuple(map(str, key)), "postgresql")

    def _convert_keys(self, rows: SyncTable, keys: Sequence[Key]) -> Sequence[Key]:
        """Return keys in the form of one side."""
        return keys if self._same_kind else [rows.parse_key(key) for key in keys]

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


def _choose_forms(
    columns: Sequence[str], here: SyncTable, there: SyncTable, loose: Sequence[str]
) -> tuple[Sequence[ColumnForm], Sequence[ColumnForm]]:
    ours, theirs = here.find_types(), there.find_types()
    keys = here.table.description.key_names
    forms = [choose_forms(name, ours[name], theirs[name], loose=loose, is_key=name in keys) for name in columns]
    return [form for form, _ in forms], [form for _, form in forms]


def _make_finding(columns: Sequence[str], here: Values, there: Values, loose: Sequence[str]) -> Finding:
    """Return the finding for a row that is on both sides, with the values that differ."""
    changed = [(name, one, other) for name, one, other in zip(columns, here, there, strict=True) if one != other]
    message = ", ".join(explain_difference(*change, loose=loose) for change in changed)
    return Finding(
        DIFFERENT,
        f"{message} differ{'s' if len(changed) == 1 else ''}",
        {"columns": {name: [format_canonical(one), format_canonical(other)] for name, one, other in changed}},
    )
