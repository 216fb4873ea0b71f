"""Parquet files, by row groups. A record's key is the number of its row in the file."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice, repeat
from typing import Any

from swath import Item, UsageError
from swath.scan.finding import Finding
from swath.scan.parquet_output import import_pyarrow
from swath.scan.record import Record
from swath.scan.sources.filesystems import explain_read_errors
from swath.scan.sources.row_dicts import make_row_builder
from swath.scan.sources.source import ReadStep, Source, SourceFinding, SourceSize, Task, make_item
from swath.scan.sources.source_file import SourceFile

BATCH = 5_000  # rows held as Python values at once
DECODED_ROWS = 20_000  # per call of the decoder; a call costs as much as some hundred rows
DECODED_BYTES = 64_000_000  # per call of the decoder, approximately


class ParquetSource(Source):
    """One Parquet file."""

    def __init__(self, source: str) -> None:
        self._file = SourceFile(source)
        self._starts: list[int] | None = None  # the first row of each group, then the number of rows

    @property
    def readahead(self) -> int:
        return 1 if self._file.is_remote else 0

    def snapshot(self) -> Mapping[str, Any]:
        arrow = import_pyarrow()
        with explain_read_errors(self._file.source):
            try:
                with self._open() as file:
                    return {"rows": file.metadata.num_rows, "groups": file.num_row_groups}
            except arrow.ArrowInvalid as error:
                raise UsageError(f"{self._file.source} is not a Parquet file: {error}") from error

    def measure(self, snapshot: Mapping[str, Any]) -> SourceSize:
        return {"records": snapshot["rows"]}

    def explain_change(self, before: Mapping[str, Any]) -> str | None:
        now = self.snapshot()
        if now == before:
            return None
        return f"{self._file.source} had {before['rows']:,} rows when the scan started and has {now['rows']:,} now"

    def list_first_items(self, snapshot: Mapping[str, Any]) -> Iterable[Item]:
        for group in range(snapshot["groups"]):
            yield make_item(f"row group {group}", {"group": group, "from": 0})

    def read(self, task: Task) -> Iterator[ReadStep]:
        return self._read_group(task["group"], task["from"])

    def fetch(self, keys: Sequence[str]) -> Iterator[ReadStep]:
        starts = self._get_row_starts()
        for row in sorted(map(int, keys)):
            if row < starts[-1]:
                group = max(number for number, start in enumerate(starts[:-1]) if start <= row)
                for step in islice(self._read_group(group, row - starts[group]), 1):
                    yield step[:1] if isinstance(step, list) else step

    def find_unread_part(self, key: str, finding: Mapping[str, Any]) -> Task | None:
        if finding["code"] != "damaged":
            return None
        return {"group": finding["data"]["group"], "from": finding["data"]["from"]}

    def _read_group(self, group: int, start: int) -> Iterator[ReadStep]:
        """Yield the rows of a group from a row on, up to the first damage."""
        at, failure = start, ""
        # Retry a damaged group in small steps, to read most of the rows before the damage.
        for most in (DECODED_ROWS, BATCH):
            try:
                for behind, records in self._decode(group, at, most):
                    yield records
                    at = behind
                return
            except (import_pyarrow().ArrowInvalid, OSError) as error:
                failure = f"row group {group}: {error}"
        data = {"group": group, "from": at}
        yield SourceFinding(str(self._get_row_starts()[group] + at), Finding("damaged", failure, data), records=0)

    def _decode(self, group: int, start: int, most: int) -> Iterator[tuple[int, list[Record]]]:
        """Yield records of a group from a row on, each batch with the number of the row after it."""
        first = self._get_row_starts()[group]
        with self._open() as file:
            about = file.metadata.row_group(group)
            size = max(1, min(most, DECODED_BYTES * about.num_rows // max(1, about.total_byte_size)))
            before = 0
            for batch in file.iter_batches(batch_size=size, row_groups=[group]):
                for number in range(max(0, start - before), batch.num_rows, BATCH):
                    values = _make_rows(batch.slice(number, BATCH))
                    row = before + number
                    records = map(Record, range(first + row, first + row + len(values)), values)
                    yield row + len(values), list(records)
                before += batch.num_rows

    def _get_row_starts(self) -> list[int]:
        if self._starts is None:
            starts = [0]
            with self._open() as file:
                for group in range(file.num_row_groups):
                    starts.append(starts[-1] + file.metadata.row_group(group).num_rows)
            self._starts = starts
        return self._starts

    @contextmanager
    def _open(self) -> Iterator[Any]:
        arrow = import_pyarrow()
        with self._open_raw(arrow) as raw, arrow.parquet.ParquetFile(raw) as file:
            yield file

    def _open_raw(self, arrow: Any) -> Any:
        """Open the file. Arrow reads local files itself, which is faster than through Python."""
        if self._file.path is None:
            return self._file.open()
        with self._file.open():  # raise the same errors as for other files
            return arrow.OSFile(os.fsencode(self._file.path), "rb")


def _make_rows(batch: Any) -> list[dict[str, Any]]:
    columns = [_list_values(column) for column in batch.columns]
    rows = zip(*columns, strict=True) if columns else repeat((), batch.num_rows)
    return make_row_builder(tuple(batch.schema.names))(rows)


def _list_values(column: Any) -> list[Any]:
    try:
        listed: list[Any] = column.to_pylist()
    except (ValueError, OverflowError):
        return [_convert_value(column, row) for row in range(len(column))]
    return listed


def _convert_value(column: Any, row: int) -> Any:
    """Return one value. If Python cannot represent it, return text, and bytes for text that is not UTF-8.

    Otherwise a single value, such as a time with nanoseconds, would make a whole row group unreadable.
    """
    one = column.slice(row, 1)
    for kind in (column.type, "string", "binary"):
        try:
            return one.cast(kind)[0].as_py()
        except (ValueError, OverflowError, NotImplementedError):
            continue
    return one.to_string()
