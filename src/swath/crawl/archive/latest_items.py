"""Find the items of the last visit of each page, in bounded memory.

A page that was visited twice has the items of both visits, and those of the last one may be none at all. So the page
lists say which visit is the last: that with the latest time, in the lists of all machines. A line without a status is
about a fetch that failed, which is not a visit.

Neither lines nor items fit in memory. Their hashes and times go to temporary files, partitioned by the hash of the URL.
What stays in memory is one bit of each item.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from hashlib import blake2b
from pathlib import Path
from struct import Struct
from tempfile import SpooledTemporaryFile
from typing import Any

from swath import UsageError

ReadLines = Callable[[], Iterator[bytes]]  # each call reads the lines of all items of a kind again

PARTITIONS = 128
SPOOLED = 512 * 1024  # bytes of a partition in memory; larger partitions are written to disk
HASH_BYTES = 12
VISIT = Struct(f"<{HASH_BYTES}sq")  # hash of the URL, microseconds
ITEM = Struct(f"<{HASH_BYTES}sqHQ")  # and number of the kind, number of the item in its kind
READ_AT_ONCE = 8_192
SECOND = 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def select_latest(
    pages: Iterable[Mapping[str, Any]], sources: Mapping[str, ReadLines], *, directory: Path
) -> dict[str, ReadLines]:
    """Return the items of the last visit of each page, by kind. `pages` are the lines of all page lists.

    Each source is read once here. `directory` is for temporary files.
    """
    with ExitStack() as stack:
        visits, items = ([stack.enter_context(_open(directory)) for _ in range(PARTITIONS)] for _ in range(2))
        for page in pages:
            if page.get("kind", "page") == "page" and page.get("status") is not None:
                hashed = _hash(page["url"])
                moment = datetime.fromtimestamp(page["time"], UTC)  # as items have it
                visits[hashed[0] % PARTITIONS].write(VISIT.pack(hashed, _to_microseconds(moment)))
        outdated = [bytearray() for _ in sources]
        for number, (kind, read) in enumerate(sources.items()):
            count = 0
            for count, line in enumerate(read(), 1):
                hashed, moment = _parse_visit(kind, line)
                place = ITEM.pack(hashed, _to_microseconds(moment), number, count - 1)
                items[hashed[0] % PARTITIONS].write(place)
            outdated[number] = bytearray(count // 8 + 1)
        for partition in range(PARTITIONS):
            last: dict[bytes, int] = {}
            for hashed, time in _read(visits[partition], VISIT):
                last[hashed] = max(time, last.get(hashed, time))
            visits[partition].close()
            for hashed, time, number, nth in _read(items[partition], ITEM):
                if time != last.get(hashed, time):
                    outdated[number][nth >> 3] |= 1 << (nth & 7)
            items[partition].close()
    return {kind: partial(_select, read, outdated[number]) for number, (kind, read) in enumerate(sources.items())}


def _select(read: ReadLines, outdated: bytearray) -> Iterator[bytes]:
    for number, line in enumerate(read()):
        if not outdated[number >> 3] & 1 << (number & 7):
            yield line


def _open(directory: Path) -> "SpooledTemporaryFile[bytes]":
    return SpooledTemporaryFile(SPOOLED, dir=str(directory))


def _read(file: "SpooledTemporaryFile[bytes]", entry: Struct) -> Iterator[tuple[Any, ...]]:
    file.seek(0)
    while part := file.read(READ_AT_ONCE * entry.size):
        yield from entry.iter_unpack(part)


def _hash(url: str) -> bytes:
    return blake2b(url.encode(errors="surrogatepass"), digest_size=HASH_BYTES).digest()


def _parse_visit(kind: str, line: bytes) -> tuple[bytes, datetime]:
    """Return the hash of the page of an item, and when it was visited."""
    try:
        item = json.loads(line)
        return _hash(item["_url"]), datetime.fromisoformat(item["_fetched_at"])
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"an item of the kind {kind} does not say which page it is from ({error!r})") from error


def _to_microseconds(moment: datetime) -> int:
    since = moment - _EPOCH
    return (since.days * 86_400 + since.seconds) * SECOND + since.microseconds
