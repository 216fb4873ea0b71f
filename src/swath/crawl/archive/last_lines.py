"""Find the last line of each page in the page lists, in bounded memory.

A page may have several lines: it failed in one run and was fetched in the next, or it was refused and then re-opened.
The last line is the one with the latest time. An item is in one claim at a time (INV-1), so a later line of the same
item has a later time, in whatever file it is. The line of a repair has the time of the visit, and that of the repair.
Of lines with the same times, the one that is read last counts.

The lines of a large crawl do not fit in memory. `LastLines` keeps 36 bytes of each in temporary files, partitioned by
the hash of the key, and then one bit of each line in memory.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from hashlib import blake2b
from pathlib import Path
from struct import Struct
from tempfile import SpooledTemporaryFile
from typing import Any, Self

PARTITIONS = 128
SPOOLED = 512 * 1024  # bytes of a partition in memory; larger partitions are written to disk
HASH_BYTES = 12  # two of a billion URLs share a hash with a probability of one in a hundred billion
LINE = Struct(f"<{HASH_BYTES}sddQ")  # hash of the page's key and kind, time, time of its repair, number of the line
READ_LINES = 8_192  # lines of a partition that are read at once


class LastLines:
    """Says of each line, by its number, whether it is the last one of its page and kind."""

    def __init__(self, superseded: bytearray) -> None:
        self._superseded = superseded  # one bit of each line

    @classmethod
    def find(cls, pages: Iterable[Mapping[str, Any]], *, directory: Path | None = None) -> Self:
        """Read all lines once. `directory` is for temporary files; the default is that of the system."""
        with ExitStack() as stack:
            place = None if directory is None else str(directory)
            partitions = [stack.enter_context(SpooledTemporaryFile(SPOOLED, dir=place)) for _ in range(PARTITIONS)]
            count = 0
            for count, page in enumerate(pages, 1):
                hashed = _hash(page)
                partitions[hashed[0] % PARTITIONS].write(LINE.pack(hashed, *get_order(page), count - 1))
            superseded = bytearray(count // 8 + 1)
            for partition in partitions:
                for number in _list_superseded(partition):
                    superseded[number >> 3] |= 1 << (number & 7)
                partition.close()
        return cls(superseded)

    def select(self, pages: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Yield the last line of each page. `pages` are the lines that `find` has read, in the same order."""
        for number, page in enumerate(pages):
            if not self._superseded[number >> 3] & 1 << (number & 7):
                yield page


def get_order(page: Mapping[str, Any]) -> tuple[float, float]:
    """Return what is larger for a later line of a URL."""
    return page.get("time", 0.0), page.get("repaired", 0.0)


def describe_page(page: Mapping[str, Any]) -> str:
    """Return a text that identifies the page of a line: its URL, and its key if that is another.

    A key of the user's own is unique within its lane only (INV-7), which the line does not have.
    """
    return f"{page.get('key', '')}\n{page['url']}"


def _hash(page: Mapping[str, Any]) -> bytes:
    text = f"{page.get('kind')} {describe_page(page)}"
    return blake2b(text.encode(errors="surrogatepass"), digest_size=HASH_BYTES).digest()


def _list_superseded(partition: "SpooledTemporaryFile[bytes]") -> Iterator[int]:
    """Yield the numbers of the lines in a partition that have a later line with the same hash."""
    last: dict[bytes, tuple[float, float, int]] = {}
    partition.seek(0)
    while part := partition.read(READ_LINES * LINE.size):
        for hashed, *line in LINE.iter_unpack(part):
            time, repaired, number = line
            before = last.get(hashed)
            if before is None:
                last[hashed] = (time, repaired, number)
                continue
            last[hashed] = max(before, (time, repaired, number))
            yield min(before, (time, repaired, number))[2]
