"""Streams: the bytes of a file, decompressed where it is compressed, up to wherever they can be read."""

import zlib
from collections.abc import Callable
from typing import IO, Any, NamedTuple, Protocol

from swath import MissingExtra

CHUNK = 1 << 18  # bytes that are read at once
PACKED_CHUNK = 1 << 16  # compressed ones, which may become a thousand times as many


class Fault(NamedTuple):
    """Why a stream ends before its end."""

    code: str
    message: str


class Stream(Protocol):
    """Bytes from some offset on. `fault` says, once `read` has returned nothing, why there is no more."""

    fault: Fault | None

    def read(self) -> bytes:
        """Some more bytes; none at the end."""
        ...

    def close(self) -> None: ...


class PlainStream:
    """A part of a file, as it is."""

    def __init__(self, file: IO[bytes], start: int) -> None:
        self.fault: Fault | None = None
        self._file = file
        if start:
            file.seek(start)

    def read(self) -> bytes:
        return self._file.read(CHUNK)

    def close(self) -> None:
        self._file.close()


class PackedStream:
    """A compressed file from its beginning: gzip members or Zstandard frames, one after another.

    Everything up to a damaged or missing part is handed out, which Python's own readers do not do.
    """

    def __init__(self, file: IO[bytes], unpacker: Callable[[], Any], error: type[Exception], *, name: str) -> None:
        self.fault: Fault | None = None
        self._file = file
        self._unpacker = unpacker
        self._error = error
        self._name = name
        self._current: Any = None
        self._rest = b""

    def read(self) -> bytes:
        while self.fault is None:
            packed = self._rest or self._file.read(PACKED_CHUNK)
            self._rest = b""
            if not packed:
                if self._current is not None:
                    self.fault = Fault("truncated", f"the file ends in the middle of its {self._name} data")
                return b""
            if self._current is None:
                packed = packed.lstrip(b"\0")  # padding between members
                if not packed:
                    continue
                self._current = self._unpacker()
            try:
                unpacked: bytes = self._current.decompress(packed)
            except self._error as error:
                self.fault = Fault("damaged", f"the {self._name} data is damaged: {error}")
                return b""
            if self._current.eof:
                self._rest = self._current.unused_data
                self._current = None
            if unpacked:
                return unpacked
        return b""

    def close(self) -> None:
        self._file.close()


def gzip_stream(file: IO[bytes]) -> PackedStream:
    return PackedStream(file, lambda: zlib.decompressobj(wbits=31), zlib.error, name="gzip")


def zstd_stream(file: IO[bytes]) -> PackedStream:
    try:
        import zstandard
    except ImportError as error:
        file.close()
        raise MissingExtra("reading .zst files needs zstandard: pip install 'swath[scan]'") from error
    return PackedStream(file, lambda: zstandard.ZstdDecompressor().decompressobj(), zstandard.ZstdError, name="zstd")
