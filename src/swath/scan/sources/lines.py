"""JSON Lines: a plain file in ranges of bytes, a compressed one from its beginning, a stretch at a time.

A record's key is the offset of its line, in what a compressed file decompresses to. A line belongs to the range or the
stretch that it begins in.
"""

import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import IO, Any

from swath import Item
from swath.scan.finding import Finding
from swath.scan.record import Record
from swath.scan.sources.filesystems import filesystem_of, local_path, reading
from swath.scan.sources.source import Counted, Step, Task, Trouble, work
from swath.scan.sources.streams import PackedStream, PlainStream, Stream, gzip_stream, zstd_stream

SUFFIXES = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz", ".jsonl.zst", ".ndjson.zst")
RANGE = 4_000_000  # bytes of a plain file that are an item
STRETCH = 16_000_000  # bytes that a compressed file decompresses to, between two settlements
MOST_PAUSED = 8  # compressed streams that are kept open, to be read on
AT_ONCE = 500  # records that are handed out together
MAX_LINE = 16_000_000  # bytes
BOM = b"\xef\xbb\xbf"

_decoder = json.JSONDecoder()
_decode = _decoder.decode
_scan: Callable[[str, int], tuple[Any, int]] = _decoder.scan_once  # type: ignore[attr-defined]


Line = tuple[int, bytes | None, int]  # its offset, itself without its end, or None if it is too long, and its size


class LinesSource:
    """One file of JSON Lines, here or wherever fsspec reaches."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._path = local_path(source)
        self._packed = source.endswith((".gz", ".zst"))
        self._filesystem: Any = None
        self._paused: list[Lines] = []  # compressed streams that stand where a stretch ended
        self._lock = threading.Lock()

    @property
    def ahead(self) -> int:
        return 1 if self._path is None else 0

    def state(self) -> Mapping[str, Any]:
        with reading(self._source):
            if self._path is not None:
                found = os.stat(self._path)
                with self._open():
                    return {"size": found.st_size, "mtime": found.st_mtime}
            filesystem, path = self._remote()
            info = filesystem.info(path)
        modified = info.get("LastModified") or info.get("ETag") or info.get("mtime")
        return {"size": info["size"], "mtime": None if modified is None else str(modified)}

    def changed(self, before: Mapping[str, Any]) -> str | None:
        now = self.state()
        if now["size"] < before["size"]:
            return f"{self._source} had {before['size']:,} bytes when the scan began and has {now['size']:,} now"
        if now["size"] == before["size"] and now["mtime"] != before["mtime"]:
            return f"{self._source} was written to since the scan began"
        return None

    def first(self, state: Mapping[str, Any]) -> Iterable[Item]:
        size = state["size"]
        if self._packed:
            yield _stretch(0)
            return
        for start in range(0, size, RANGE):
            end = min(start + RANGE, size)
            yield work(f"bytes {start} to {end}", {"lo": start, "hi": end})

    def read(self, task: Task) -> Iterator[Step]:
        if "lo" in task:
            return self._read_range(task["lo"], task["hi"])
        return self._read_stretch(task["from"])

    def fetch(self, keys: Sequence[str]) -> Iterator[Step]:
        for key in sorted(keys, key=int):
            lines = self._lines_from(int(key))
            yield from _steps(islice(lines, 1))
            if self._packed:
                self._pause(lines)
            else:
                lines.close()

    def rest(self, key: str, finding: Mapping[str, Any]) -> Task | None:
        return {"from": int(key)} if finding["code"] in ("truncated", "damaged") else None

    def close(self) -> None:
        with self._lock:
            for lines in self._paused:
                lines.close()
            self._paused.clear()

    def _read_range(self, lo: int, hi: int) -> Iterator[Step]:
        lines = Lines(PlainStream(self._open(), max(0, lo - 1)), max(0, lo - 1))
        try:
            if lo and not lines.skip_to_line(hi):
                return
            yield from _steps(lines.until(hi))
        finally:
            lines.close()

    def _read_stretch(self, start: int) -> Iterator[Step]:
        lines = self._lines_from(start)
        yield from _steps(lines.until(start + STRETCH))
        if lines.stream.fault is not None and lines.at_end:
            yield Trouble(str(lines.offset), Finding(*lines.stream.fault), records=0)
        if lines.at_end:
            lines.close()
        else:
            self._pause(lines)
            yield _stretch(lines.offset)

    def _lines_from(self, offset: int) -> "Lines":
        """Lines from one on. Where a compressed stream stands before it, it is read on; else it begins anew."""
        if not self._packed:
            return Lines(PlainStream(self._open(), offset), offset)
        with self._lock:
            before = [lines for lines in self._paused if lines.offset <= offset]
            nearest = max(before, key=lambda lines: lines.offset, default=None)
            if nearest is not None:
                self._paused.remove(nearest)
        lines = nearest or Lines(self._unpacked(), 0)
        lines.skip(offset)
        return lines

    def _pause(self, lines: "Lines") -> None:
        with self._lock:
            self._paused.append(lines)
            if len(self._paused) > MOST_PAUSED:
                self._paused.pop(0).close()

    def _unpacked(self) -> PackedStream:
        return gzip_stream(self._open()) if self._source.endswith(".gz") else zstd_stream(self._open())

    def _open(self) -> IO[bytes]:
        if self._path is not None:
            file: IO[bytes] = open(self._path, "rb")  # noqa: SIM115  whoever asked for it closes it
            return file
        filesystem, path = self._remote()
        remote: IO[bytes] = filesystem.open(path, "rb")
        return remote

    def _remote(self) -> tuple[Any, str]:
        if self._filesystem is None:
            self._filesystem = filesystem_of(self._source)
        found: tuple[Any, str] = self._filesystem
        return found


def _stretch(start: int) -> Item:
    return work(f"from byte {start}", {"from": start})


class Lines:
    """Lines of a stream, each with its offset, in bounded memory however long one is."""

    def __init__(self, stream: Stream, offset: int) -> None:
        self.stream = stream
        self.offset = offset  # where the next line begins
        self.at_end = False
        self._buffer = b""
        self._at = 0  # where in the buffer that is

    def close(self) -> None:
        self.stream.close()

    def __iter__(self) -> Iterator[Line]:
        return self.until(None)

    def until(self, end: int | None) -> Iterator[Line]:
        """The lines that begin before `end`."""
        while not self.at_end and (end is None or self.offset < end):
            stop = self._buffer.find(b"\n", self._at)
            if stop < 0:
                yield from self._across()
                continue
            start, self._at = self._at, stop + 1
            offset, self.offset = self.offset, self.offset + self._at - start
            yield offset, self._buffer[start:stop], self._at - start

    def _across(self) -> Iterator[Line]:
        """A line that goes on beyond the buffer, or is the last."""
        start = self.offset
        parts = [self._buffer[self._at :]]
        size = len(parts[0])
        stop = -1
        while stop < 0:
            chunk = self.stream.read()
            if not chunk:
                break
            stop = chunk.find(b"\n")
            part = chunk if stop < 0 else chunk[: stop + 1]
            size += len(part)
            if size <= MAX_LINE:
                parts.append(part)
            else:
                parts.clear()
            self._buffer, self._at = chunk, len(part)
        if stop < 0:
            self.at_end = True
            if self.stream.fault is not None or not size:
                return  # a line that was cut off is none
        self.offset += size
        yield start, b"".join(parts).removesuffix(b"\n") if size <= MAX_LINE else None, size

    def skip_to_line(self, end: int) -> bool:
        """Go to the first line that begins behind this byte; whether one begins before `end`."""
        while True:
            stop = self._buffer.find(b"\n", self._at)
            if stop >= 0:
                self.offset += stop + 1 - self._at
                self._at = stop + 1
                return self.offset < end
            self.offset += len(self._buffer) - self._at
            self._buffer, self._at = self.stream.read(), 0
            if not self._buffer or self.offset >= end:
                return False

    def skip(self, offset: int) -> None:
        """Go forward to an offset, or to the end if that comes first."""
        while (left := offset - self.offset) > 0:
            have = len(self._buffer) - self._at
            if have > left:
                self._at += left
                self.offset += left
            else:
                self.offset += have
                self._buffer, self._at = self.stream.read(), 0
                if not self._buffer:
                    return


def _steps(lines: Iterable[Line]) -> Iterator[Step]:
    """What lines hold, some records at a time. This is run for every line, so it makes no more than it must."""
    total = 0
    records: list[Record] = []
    for offset, text, size in lines:
        total += size
        if len(records) == AT_ONCE:
            yield records
            records = []
        if text is None:
            yield Trouble(str(offset), Finding("too-long", f"a line of {size:,} bytes; {MAX_LINE:,} is the most"))
            continue
        if offset == 0 and text.startswith(BOM):
            text = text[len(BOM) :]
        try:
            decoded = text.decode()
            if not decoded or decoded.isspace():
                continue
            records.append(Record(offset, _value(decoded)))
        except (ValueError, RecursionError) as error:
            yield Trouble(str(offset), Finding("not-json", str(error), {"line": f"{text[:200]!r}"[2:-1]}))
    if records:
        yield records
    yield Counted(bytes=total)


def _value(text: str) -> Any:
    """What a text holds: by the scanner itself where it fills the text, which it does with hardly an exception."""
    try:
        value, end = _scan(text, 0)
    except StopIteration:
        return _decode(text)
    return value if end == len(text) else _decode(text)
