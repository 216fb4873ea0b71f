"""Read the committed part of a page list: compressed JSON Lines that grow with each settlement."""

import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from swath.files.errors import OutputDamaged


def read_lines(path: Path, length: int, *, start: int = 0) -> Iterator[bytes]:
    """Yield the lines between two settlements, which are offsets in the file."""
    with path.open("rb") as file:
        file.seek(start)
        there = io.BufferedReader(_CommittedPart(file, length - start))
        try:
            yield from gzip.GzipFile(mode="rb", fileobj=there)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise describe_damage(path, error) from error


def describe_damage(path: Path, error: Exception) -> OutputDamaged:
    return OutputDamaged(
        f"{path} is damaged ({error}): pages are missing. "
        "Restore it from a copy, or move it away to continue without it"
    )


class _CommittedPart(io.RawIOBase):
    """The committed part of a file. Bytes after it are not read."""

    def __init__(self, file: BinaryIO, length: int) -> None:
        self._file = file
        self._left = length

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._file.read(min(len(buffer), self._left))
        if self._left and not data:
            raise EOFError(f"{self._left:,} bytes are missing at the end")
        buffer[: len(data)] = data
        self._left -= len(data)
        return len(data)
