"""Streams of a file's bytes, plain or decompressed, up to the first damage."""

import zlib
from collections.abc import Callable
from typing import IO, Any, NamedTuple, Protocol

from swath import MissingExtra

CHUNK = 1 << 18  # bytes per read
COMPRESSED_CHUNK = 1 << 16  # may decompress to a thousand times as many bytes


class StreamFault(NamedTuple):
    """Why a stream ends early."""

    code: str
    message: str


class Stream(Protocol):
    """Bytes from an offset on. After `read` has returned nothing, `fault` tells whether the stream ended early.

    `consumed` is the number of bytes read from the file.
    """

    fault: StreamFault | None
    consumed: int

    def read(self) -> bytes:
        """Return more bytes, or an empty string at the end."""
        ...

    def close(self) -> None: ...


class PlainStream:
    """A file from an offset on."""

    def __init__(self, file: IO[bytes], start: int) -> None:
        self.fault: StreamFault | None = None
        self.consumed = 0
        self._file = file
        if start:
            file.seek(start)

    def read(self) -> bytes:
        data = self._file.read(CHUNK)
        self.consumed += len(data)
        return data

    def close(self) -> None:
        self._file.close()


class CompressedStream:
    """A compressed file from its start: consecutive gzip members or Zstandard frames.

    Returns everything up to a damaged or missing part. Python's own readers discard some of that.
    """

    def __init__(
        self, file: IO[bytes], make_decompressor: Callable[[], Any], error: type[Exception], *, name: str
    ) -> None:
        self.fault: StreamFault | None = None
        self.consumed = 0
        self._file = file
        self._make_decompressor = make_decompressor
        self._error = error
        self._name = name
        self._current: Any = None
        self._rest = b""

    def read(self) -> bytes:
        while self.fault is None:
            compressed = self._rest
            if not compressed:
                compressed = self._file.read(COMPRESSED_CHUNK)
                self.consumed += len(compressed)
            self._rest = b""
            if not compressed:
                if self._current is not None:
                    self.fault = StreamFault("truncated", f"the file ends in the middle of its {self._name} data")
                return b""
            if self._current is None:
                compressed = compressed.lstrip(b"\0")  # padding between members
                if not compressed:
                    continue
                self._current = self._make_decompressor()
            try:
                data: bytes = self._current.decompress(compressed)
            except self._error as error:
                self.fault = StreamFault("damaged", f"the {self._name} data is damaged: {error}")
                return b""
            if self._current.eof:
                self._rest = self._current.unused_data
                self._current = None
            if data:
                return data
        return b""

    def close(self) -> None:
        self._file.close()


def open_gzip(file: IO[bytes]) -> CompressedStream:
    return CompressedStream(file, lambda: zlib.decompressobj(wbits=31), zlib.error, name="gzip")


def open_zstd(file: IO[bytes]) -> CompressedStream:
    try:
        import zstandard
    except ImportError as error:
        file.close()
        raise MissingExtra("reading .zst files needs zstandard: pip install 'swath[scan]'") from error
    return CompressedStream(
        file, lambda: zstandard.ZstdDecompressor().decompressobj(), zstandard.ZstdError, name="zstd"
    )
