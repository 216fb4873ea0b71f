"""JSON Lines files. Items are byte ranges of a plain file, or consecutive sections of a compressed one.

A record's key is the offset of its line in the uncompressed data. A line belongs to the range or section that contains
its first byte.
"""

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from swath import Item
from swath.scan.finding import Finding
from swath.scan.record import Record
from swath.scan.sources.line_reader import MAX_LINE, Line, LineReader
from swath.scan.sources.source import ReadCounts, ReadStep, Source, SourceFinding, SourceSize, Task, make_item
from swath.scan.sources.source_file import SourceFile
from swath.scan.sources.streams import CompressedStream, PlainStream, open_gzip, open_zstd

RANGE = 4_000_000  # bytes of a plain file per item
SECTION = 16_000_000  # uncompressed bytes of a compressed file per item
MAX_PAUSED = 8  # compressed streams kept open to continue reading
BATCH = 500  # records per step
BOM = b"\xef\xbb\xbf"

_decoder = json.JSONDecoder()
_decode = _decoder.decode
_scan: Callable[[str, int], tuple[Any, int]] = _decoder.scan_once  # type: ignore[attr-defined]


class JsonLinesSource(Source):
    """One JSON Lines file, plain or compressed."""

    def __init__(self, source: str) -> None:
        self._file = SourceFile(source)
        self._compressed = source.endswith((".gz", ".zst"))
        self._paused: list[LineReader] = []  # compressed streams at the end of a section
        self._lock = threading.Lock()

    @property
    def readahead(self) -> int:
        return 1 if self._file.is_remote else 0

    def snapshot(self) -> Mapping[str, Any]:
        return self._file.snapshot()

    def measure(self, snapshot: Mapping[str, Any]) -> SourceSize:
        return {"compressed": snapshot["size"]} if self._compressed else {"bytes": snapshot["size"]}

    def explain_change(self, before: Mapping[str, Any]) -> str | None:
        return self._file.explain_change(before)

    def list_first_items(self, snapshot: Mapping[str, Any]) -> Iterable[Item]:
        size = snapshot["size"]
        if self._compressed:
            yield _make_section_item(0)
            return
        for start in range(0, size, RANGE):
            end = min(start + RANGE, size)
            yield make_item(f"bytes {start} to {end}", {"lo": start, "hi": end})

    def read(self, task: Task) -> Iterator[ReadStep]:
        if "lo" in task:
            return self._read_range(task["lo"], task["hi"])
        return self._read_section(task["from"])

    def fetch(self, keys: Sequence[str]) -> Iterator[ReadStep]:
        for key in sorted(keys, key=int):
            lines = self._open_at(int(key))
            yield from _read_records(islice(lines, 1))
            if self._compressed:
                self._pause(lines)
            else:
                lines.close()

    def find_unread_part(self, key: str, finding: Mapping[str, Any]) -> Task | None:
        return {"from": int(key)} if finding["code"] in ("truncated", "damaged") else None

    def close(self) -> None:
        with self._lock:
            for lines in self._paused:
                lines.close()
            self._paused.clear()

    def _read_range(self, lo: int, hi: int) -> Iterator[ReadStep]:
        lines = LineReader(PlainStream(self._file.open(), max(0, lo - 1)), max(0, lo - 1))
        try:
            if lo and not lines.skip_to_line(hi):
                return
            yield from _read_records(lines.read_until(hi))
        finally:
            lines.close()

    def _read_section(self, start: int) -> Iterator[ReadStep]:
        lines = self._open_at(start)
        before = lines.stream.consumed
        yield from _read_records(lines.read_until(start + SECTION))
        yield ReadCounts(compressed=lines.stream.consumed - before)
        if lines.stream.fault is not None and lines.at_end:
            yield SourceFinding(str(lines.offset), Finding(*lines.stream.fault), records=0)
        if lines.at_end:
            lines.close()
        else:
            self._pause(lines)
            yield _make_section_item(lines.offset)

    def _open_at(self, offset: int) -> LineReader:
        """Return a reader at an offset. Continue the nearest paused stream before it, or decompress from the start."""
        if not self._compressed:
            return LineReader(PlainStream(self._file.open(), offset), offset)
        with self._lock:
            before = [lines for lines in self._paused if lines.offset <= offset]
            nearest = max(before, key=lambda lines: lines.offset, default=None)
            if nearest is not None:
                self._paused.remove(nearest)
        lines = nearest or LineReader(self._open_compressed(), 0)
        lines.skip(offset)
        return lines

    def _pause(self, lines: LineReader) -> None:
        with self._lock:
            self._paused.append(lines)
            if len(self._paused) > MAX_PAUSED:
                self._paused.pop(0).close()

    def _open_compressed(self) -> CompressedStream:
        return open_gzip(self._file.open()) if self._file.source.endswith(".gz") else open_zstd(self._file.open())


def _make_section_item(start: int) -> Item:
    return make_item(f"from byte {start}", {"from": start})


def _read_records(lines: Iterable[Line]) -> Iterator[ReadStep]:
    """Yield the records of lines in batches. This loop runs for every line, so it does no extra work."""
    total = 0
    records: list[Record] = []
    for offset, text, size in lines:
        total += size
        if len(records) == BATCH:
            yield records
            records = []
        if text is None:
            yield SourceFinding(
                str(offset), Finding("too-long", f"the line has {size:,} bytes; the maximum is {MAX_LINE:,}")
            )
            continue
        if offset == 0 and text.startswith(BOM):
            text = text[len(BOM) :]
        try:
            decoded = text.decode()
            if not decoded or decoded.isspace():
                continue
            records.append(Record(offset, _parse(decoded)))
        except (ValueError, RecursionError) as error:
            yield SourceFinding(str(offset), Finding("not-json", str(error), {"line": f"{text[:200]!r}"[2:-1]}))
    if records:
        yield records
    yield ReadCounts(bytes=total)


def _parse(text: str) -> Any:
    """Parse JSON with the scanner itself, and with the slower decoder if whitespace surrounds the value."""
    try:
        value, end = _scan(text, 0)
    except StopIteration:
        return _decode(text)
    return value if end == len(text) else _decode(text)
