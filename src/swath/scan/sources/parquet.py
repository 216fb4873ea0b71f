"""Parquet: by row groups. A record's key is the number of its row in the file."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice, repeat
from typing import Any

from swath import Item, UsageError
from swath.scan.finding import Finding
from swath.scan.parquet_out import need_arrow
from swath.scan.record import Record
from swath.scan.sources.dicts import dicts
from swath.scan.sources.filesystems import filesystem_of, local_path, reading
from swath.scan.sources.source import Step, Task, Trouble, work

ROWS = 5_000  # that are held as Python values at once, at the most
DECODED = 20_000  # that are decoded at once: each time costs as much as some hundred rows do
DECODED_SIZE = 64_000_000  # and about so many bytes of them


class ParquetSource:
    """One Parquet file, here or wherever fsspec reaches."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._path = local_path(source)
        self._starts: list[int] | None = None  # the number of the first row of each group, and that of all rows

    @property
    def ahead(self) -> int:
        return 1 if self._path is None else 0

    def state(self) -> Mapping[str, Any]:
        arrow = need_arrow()
        with reading(self._source):
            try:
                with self._open() as file:
                    return {"rows": file.metadata.num_rows, "groups": file.num_row_groups}
            except arrow.ArrowInvalid as error:
                raise UsageError(f"{self._source} is no Parquet file: {error}") from error

    def changed(self, before: Mapping[str, Any]) -> str | None:
        now = self.state()
        if now == before:
            return None
        return f"{self._source} had {before['rows']:,} rows when the scan began and has {now['rows']:,} now"

    def first(self, state: Mapping[str, Any]) -> Iterable[Item]:
        for group in range(state["groups"]):
            yield work(f"row group {group}", {"group": group, "from": 0})

    def read(self, task: Task) -> Iterator[Step]:
        return self._rows(task["group"], task["from"])

    def fetch(self, keys: Sequence[str]) -> Iterator[Step]:
        starts = self._row_starts()
        for row in sorted(map(int, keys)):
            if row < starts[-1]:
                group = max(number for number, start in enumerate(starts[:-1]) if start <= row)
                for step in islice(self._rows(group, row - starts[group]), 1):
                    yield step[:1] if isinstance(step, list) else step

    def rest(self, key: str, finding: Mapping[str, Any]) -> Task | None:
        if finding["code"] != "damaged":
            return None
        return {"group": finding["data"]["group"], "from": finding["data"]["from"]}

    def close(self) -> None:
        pass

    def _rows(self, group: int, start: int) -> Iterator[Step]:
        """The rows of a group from one on, as far as they can be read."""
        at, failure = start, ""
        # The rest of a damaged one goes in small steps, so that most of what is before the damage is found.
        for most in (DECODED, ROWS):
            try:
                for behind, records in self._decoded(group, at, most):
                    yield records
                    at = behind
                return
            except (need_arrow().ArrowInvalid, OSError) as error:
                failure = f"row group {group}: {error}"
        data = {"group": group, "from": at}
        yield Trouble(str(self._row_starts()[group] + at), Finding("damaged", failure, data), records=0)

    def _decoded(self, group: int, start: int, most: int) -> Iterator[tuple[int, list[Record]]]:
        """Records of a group from one row on, with the number of the row behind them."""
        first = self._row_starts()[group]
        with self._open() as file:
            about = file.metadata.row_group(group)
            size = max(1, min(most, DECODED_SIZE * about.num_rows // max(1, about.total_byte_size)))
            before = 0
            for batch in file.iter_batches(batch_size=size, row_groups=[group]):
                for number in range(max(0, start - before), batch.num_rows, ROWS):
                    values = _values(batch.slice(number, ROWS))
                    row = before + number
                    records = map(Record, range(first + row, first + row + len(values)), values)
                    yield row + len(values), list(records)
                before += batch.num_rows

    def _row_starts(self) -> list[int]:
        if self._starts is None:
            starts = [0]
            with self._open() as file:
                for group in range(file.num_row_groups):
                    starts.append(starts[-1] + file.metadata.row_group(group).num_rows)
            self._starts = starts
        return self._starts

    @contextmanager
    def _open(self) -> Iterator[Any]:
        arrow = need_arrow()
        with self._raw(arrow) as raw, arrow.parquet.ParquetFile(raw) as file:
            yield file

    def _raw(self, arrow: Any) -> Any:
        """The file's bytes; here by Arrow itself, which then need not ask Python for them."""
        if self._path is not None:
            with open(self._path, "rb"):  # so that what is wrong with it is said as for every other file
                return arrow.OSFile(os.fsencode(self._path), "rb")
        filesystem, path = filesystem_of(self._source)
        return filesystem.open(path, "rb")


def _values(batch: Any) -> list[dict[str, Any]]:
    columns = [_listed(column) for column in batch.columns]
    rows = zip(*columns, strict=True) if columns else repeat((), batch.num_rows)
    return dicts(tuple(batch.schema.names))(rows)


def _listed(column: Any) -> list[Any]:
    try:
        listed: list[Any] = column.to_pylist()
    except (ValueError, OverflowError):
        return [_alone(column, row) for row in range(len(column))]
    return listed


def _alone(column: Any, row: int) -> Any:
    """One value. What Python has no value for, such as a time of nanoseconds, is a text, and a text that is not UTF-8
    is bytes, so that it does not make a whole row group unreadable."""
    one = column.slice(row, 1)
    for kind in (column.type, "string", "binary"):
        try:
            return one.cast(kind)[0].as_py()
        except (ValueError, OverflowError, NotImplementedError):
            continue
    return one.to_string()
