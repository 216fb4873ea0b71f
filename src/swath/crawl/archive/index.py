"""Read the page lists of a crawl, and write the CDXJ index from them."""

import gzip
import io
import json
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from swath.crawl.archive import cdxj
from swath.crawl.urls import normalise
from swath.crawl.workspace import list_outputs
from swath.files.errors import OutputDamaged

FILE = "index.cdxj"


def read_pages(directory: Path, committed: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """Yield every settled page in the lists of this directory, in the order of settlement."""
    for path in list_outputs(directory):
        if path.name.startswith("pages-") and path.name in committed:
            with path.open("rb") as file:
                there = io.BufferedReader(_CommittedPart(file, committed[path.name]))
                try:
                    yield from map(json.loads, gzip.GzipFile(mode="rb", fileobj=there))
                except (EOFError, gzip.BadGzipFile, zlib.error, ValueError) as error:
                    raise OutputDamaged(
                        f"{path} is damaged ({error}): pages are missing. "
                        "Restore it from a copy, or move it away to continue without it"
                    ) from error


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


def write_index(directory: Path, committed: Mapping[str, int]) -> Path:
    """Write the sorted index of all archived pages."""
    made = directory / f"{FILE}.new"
    with made.open("w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in read_cdxj_lines(directory, committed))
    return made.replace(directory / FILE)


def read_cdxj_lines(directory: Path, committed: Mapping[str, int]) -> Iterator[str]:
    captures = (_make_index_entry(page) for page in read_pages(directory, committed) if "file" in page)
    return cdxj.sort_lines(captures, surt=normalise.surt, directory=directory)


def _make_index_entry(page: Mapping[str, Any]) -> cdxj.IndexEntry:
    revisit = "duplicate_of" in page
    mime = (page.get("type") or "").partition(";")[0].strip() or "unk"
    return cdxj.IndexEntry(
        url=page["url"],
        time=page["time"],
        status=page["status"],
        mime=cdxj.REVISIT_TYPE if revisit else mime,
        digest=page["digest"],
        file=page["file"],
        offset=page["offset"],
        length=page["length"],
    )
