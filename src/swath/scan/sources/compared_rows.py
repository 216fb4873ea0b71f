"""Two tables compared: by hashes of slices first, and row by row where these differ."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from swath import Item, UsageError
from swath.scan.finding import Finding
from swath.scan.sources.keys import key_of, text_of
from swath.scan.sources.ordering import check_order
from swath.scan.sources.source import Counted, Step, Task, Trouble
from swath.scan.sources.table import Rows, Slice, plan, plan_work, slice_of
from swath.tables.table import Key, TableRow

ROWS = 10_000  # of a slice, at the most, on either side
FETCHED = 500  # rows that are compared one by one; a larger slice that differs is cut in two
SHOWN = 200  # characters of a value in a finding

MISSING_HERE = "missing-here"
MISSING_THERE = "missing-there"
DIFFERENT = "different"

Row = Mapping[str, Any]


class ComparedRows:
    """A table, and another that should hold the same."""

    def __init__(self, source: str, against: str, *, key: str | None, columns: Sequence[str]) -> None:
        self._here = Rows(source, key=key)
        try:
            names = ",".join(self._here.table.description.key_names)
            self._there = Rows(against, key=key or names)
        except BaseException:
            self._here.close()
            raise
        self._asked = columns
        self._columns: Sequence[str] = ()
        self._width = len(self._here.table.description.key)
        self._same_kind = self._here.kind == self._there.kind

    @property
    def ahead(self) -> int:
        return 0

    def state(self) -> Mapping[str, Any]:
        self._columns = _columns(self._asked, self._here, self._there)
        check_order(self._here, self._there)
        return {"key": list(self._here.table.description.key_names), "columns": list(self._columns)}

    def changed(self, before: Mapping[str, Any]) -> str | None:
        now = self.state()
        return None if now == before else f"{self._here.label} was compared by other columns"

    def first(self, state: Mapping[str, Any]) -> Iterable[Item]:
        return [plan_work(1, None)]

    def read(self, task: Task) -> Iterator[Step]:
        if "plan" in task:
            return plan(task, self._end)
        return self._compare(slice_of(task))

    def fetch(self, keys: Sequence[str]) -> Iterator[Step]:
        kind = self._here.kind if self._same_kind else "postgresql"
        found = [key_of(key, kind, columns=self._width) for key in keys]
        yield from self._rows_differ(*(rows.of(self._written(rows, found)) for rows in (self._here, self._there)))

    def close(self) -> None:
        self._here.close()
        self._there.close()

    def rest(self, key: str, finding: Mapping[str, Any]) -> Task | None:
        return None

    def _end(self, after: Key | None) -> Key | None:
        """Where the next slice ends, so that neither side has more than ROWS in it."""
        ends = []
        for rows in (self._here, self._there):
            found = rows.end(ROWS, after=self._key_for(rows, after))
            if found is not None and found[1] == ROWS:
                ends.append(self._key_here(rows, found[0]))
        if len(ends) == 2 and self._here.is_after(ends[0], ends[1]):
            return ends[1]
        return ends[0] if ends else None

    def _compare(self, part: Slice) -> Iterator[Step]:
        """What differs in a slice. Equal stretches cost one query on each side."""
        parts = [part]
        while parts:
            part = parts.pop()
            there = Slice(self._key_for(self._there, part.after), self._key_for(self._there, part.upto))
            if not self._same_kind:  # no hash that both can compute
                yield from self._rows_differ(self._here.within(part), self._there.within(there))
                continue
            one, other = self._here.digest(self._columns, part), self._there.digest(self._columns, there)
            if one == other:
                yield Counted(records=one[0])
            elif max(one[0], other[0]) <= FETCHED:
                yield from self._rows_differ(self._here.within(part), self._there.within(there))
            else:
                middle = self._middle(part, there, one[0], other[0])
                parts += [part] if middle is None else [Slice(middle, part.upto), Slice(part.after, middle)]

    def _middle(self, here: Slice, there: Slice, ours: int, theirs: int) -> Key | None:
        """A key that halves a slice, on the side that has more rows in it; None if these are gone by now."""
        rows, part, count = (self._here, here, ours) if ours >= theirs else (self._there, there, theirs)
        middle = rows.cut(count // 2, part)
        return None if middle is None else self._key_here(rows, middle)

    def _rows_differ(self, ours: Sequence[TableRow], theirs: Sequence[TableRow]) -> Iterator[Step]:
        here, there = self._by_text(ours), self._by_text(theirs)
        yield Counted(records=len(here.keys() | there.keys()))
        for key, row in here.items():
            if key not in there:
                yield Trouble(key, Finding(MISSING_THERE, "only in the source"), records=0)
            elif changed := _changed(row, there[key], self._columns):
                message = f"{', '.join(changed)} differ{'s' if len(changed) == 1 else ''}"
                yield Trouble(key, Finding(DIFFERENT, message, {"columns": changed}), records=0)
        for key in there.keys() - here.keys():
            yield Trouble(key, Finding(MISSING_HERE, "not in the source"), records=0)

    def _written(self, rows: Rows, keys: Sequence[Key]) -> Sequence[Key]:
        """Keys that are texts, as one side writes them."""
        return keys if self._same_kind else [rows.parsed(key) for key in keys]

    def _by_text(self, rows: Sequence[TableRow]) -> dict[str, Row]:
        """Rows by keys that both sides write alike."""
        if self._same_kind:
            return {text_of(key, self._here.kind): row for key, row in rows}
        return {text_of(tuple(map(str, key)), "postgresql"): row for key, row in rows}

    def _key_for(self, rows: Rows, key: Key | None) -> Key | None:
        """A key of the source as the other side writes it."""
        if key is None or self._same_kind or rows is self._here:
            return key
        return rows.parsed([str(value) for value in key])

    def _key_here(self, rows: Rows, key: Key) -> Key:
        if self._same_kind or rows is self._here:
            return key
        return self._here.parsed([str(value) for value in key])


def _columns(asked: Sequence[str], here: Rows, there: Rows) -> Sequence[str]:
    """What is compared: what was asked for, or everything where both sides have the same columns."""
    keys = here.table.description.key_names
    if not asked:
        missing = set(here.names) ^ set(there.names)
        if missing:
            raise UsageError(
                f"{here.label} and {there.label} do not have the same columns ({', '.join(sorted(missing))} is only in "
                "one): name those to compare with --columns"
            )
        return here.names
    for side in (here, there):
        if unknown := [name for name in asked if name not in side.names]:
            raise UsageError(f"--columns: {side.label} has no column {', '.join(unknown)}")
    return [*keys, *(name for name in asked if name not in keys)]


def _changed(here: Row, there: Row, columns: Sequence[str]) -> dict[str, list[str | None]]:
    return {name: [_shown(here[name]), _shown(there[name])] for name in columns if not equal(here[name], there[name])}


def _shown(value: Any) -> str | None:
    return None if value is None else f"{value!s:.{SHOWN}}"


def equal(one: Any, other: Any) -> bool:
    """Whether two values are the same, also where two databases have different types for them."""
    if one is None or other is None:
        return one is other
    if one == other or (_is_nan(one) and _is_nan(other)):
        return True
    if type(one) is type(other):
        return False
    return _equal_to_text(one, other) if isinstance(other, str) else _equal_to_text(other, one)


def _equal_to_text(value: Any, text: Any) -> bool:
    """A value of PostgreSQL, and what SQLite, which has fewer types, holds for it."""
    if not isinstance(text, str):
        return _is_number(value) and _is_number(text) and math.isclose(value, text, rel_tol=1e-15)
    try:
        match value:
            case datetime():
                return _with_zone(value) == _with_zone(datetime.fromisoformat(text))
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


def _with_zone(moment: datetime) -> datetime:
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _is_nan(value: Any) -> bool:
    return isinstance(value, float | Decimal) and value != value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal)
