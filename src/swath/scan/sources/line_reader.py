"""LineReader: the lines of a stream, each with its offset."""

from collections.abc import Iterator

from swath.scan.sources.streams import Stream

MAX_LINE = 16_000_000  # bytes

Line = tuple[int, bytes | None, int]  # offset; content without newline, or None if it is too long; size


class LineReader:
    """Splits a stream into lines, in bounded memory even if a line is very long."""

    def __init__(self, stream: Stream, offset: int) -> None:
        self.stream = stream
        self.offset = offset  # of the next line
        self.at_end = False
        self._buffer = b""
        self._position = 0  # the position of `offset` in the buffer

    def close(self) -> None:
        self.stream.close()

    def __iter__(self) -> Iterator[Line]:
        return self.read_until(None)

    def read_until(self, end: int | None) -> Iterator[Line]:
        """Yield the lines that start before `end`."""
        while not self.at_end and (end is None or self.offset < end):
            stop = self._buffer.find(b"\n", self._position)
            if stop < 0:
                yield from self._read_long_line()
                continue
            start, self._position = self._position, stop + 1
            offset, self.offset = self.offset, self.offset + self._position - start
            yield offset, self._buffer[start:stop], self._position - start

    def _read_long_line(self) -> Iterator[Line]:
        """Yield a line that crosses the end of the buffer, or the last line."""
        start = self.offset
        parts = [self._buffer[self._position :]]
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
            self._buffer, self._position = chunk, len(part)
        if stop < 0:
            self.at_end = True
            if self.stream.fault is not None or not size:
                return  # do not yield an incomplete line
        self.offset += size
        yield start, b"".join(parts).removesuffix(b"\n") if size <= MAX_LINE else None, size

    def skip_to_line(self, end: int) -> bool:
        """Skip to the next start of a line. Return whether it is before `end`."""
        while True:
            stop = self._buffer.find(b"\n", self._position)
            if stop >= 0:
                self.offset += stop + 1 - self._position
                self._position = stop + 1
                return self.offset < end
            self.offset += len(self._buffer) - self._position
            self._buffer, self._position = self.stream.read(), 0
            if not self._buffer or self.offset >= end:
                return False

    def skip(self, offset: int) -> None:
        """Skip to an offset, or to the end of the stream."""
        while (left := offset - self.offset) > 0:
            have = len(self._buffer) - self._position
            if have > left:
                self._position += left
                self.offset += left
            else:
                self.offset += have
                self._buffer, self._position = self.stream.read(), 0
                if not self._buffer:
                    return
