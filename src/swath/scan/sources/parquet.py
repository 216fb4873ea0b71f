"""Parquet: by row groups. A record's key is the number of its row in the file."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import IO, Any

from swath.core.errors import UsageError
from swath.core.item import Item
from swath.scan.finding import Finding
from swath.scan.parquet_out import need_arrow
from swath.scan.record import Record
from swath.scan.sources.places import filesystem_of, local_path, reading
from swath.scan.sources.source import Step, Task, Trouble, work

ROWS = 5_000  # that are held as Python values at once


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
                with self._open() as raw, arrow.parquet.ParquetFile(raw) as file:
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
        arrow = need_arrow()
        first = self._row_starts()[group]
        number = 0
        try:
            with self._open() as raw, arrow.parquet.ParquetFile(raw) as file:
                for batch in file.iter_batches(batch_size=ROWS, row_groups=[group]):
                    if number + batch.num_rows > start:
                        skipped = max(0, start - number)
                        values = batch.slice(skipped).to_pylist()
                        yield [Record(row, value) for row, value in enumerate(values, first + number + skipped)]
                    number += batch.num_rows
        except (arrow.ArrowInvalid, OSError) as error:
            number = max(number, start)
            data = {"group": group, "from": number}
            yield Trouble(str(first + number), Finding("damaged", f"row group {group}: {error}", data), records=0)

    def _row_starts(self) -> list[int]:
        if self._starts is None:
            starts = [0]
            with self._open() as raw, need_arrow().parquet.ParquetFile(raw) as file:
                for group in range(file.num_row_groups):
                    starts.append(starts[-1] + file.metadata.row_group(group).num_rows)
            self._starts = starts
        return self._starts

    def _open(self) -> IO[bytes]:
        if self._path is not None:
            file: IO[bytes] = open(self._path, "rb")  # noqa: SIM115  whoever asked for it closes it
            return file
        filesystem, path = filesystem_of(self._source)
        remote: IO[bytes] = filesystem.open(path, "rb")
        return remote
