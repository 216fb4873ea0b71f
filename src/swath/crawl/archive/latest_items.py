"""Find the items of the last visit of each page, in bounded memory.

A page that was visited twice has the items of both visits, and those of the last one may be none at all. So the page
lists say which visit is the last: that with the latest time, in the lists of all machines. A line without a status is
about a fetch that failed, which is not a visit.

Neither lines nor items fit in memory. Their hashes and times go to temporary files, partitioned by the hash of
the page's URL and key, which several requests for one URL differ in, and then by the visit.
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
from swath.crawl.archive.last_lines import describe_page
from swath.crawl.handlers.collector import format_time, make_visit_id

ReadLines = Callable[[], Iterator[bytes]]  # each call reads the lines of all items of a kind again

PARTITIONS = 128
SPOOLED = 512 * 1024  # bytes of a partition in memory; larger partitions are written to disk
HASH_BYTES = 12
VISIT_BYTES = 10
VISIT = Struct(f"<{HASH_BYTES}sq{VISIT_BYTES}s")  # hash of the page, microseconds, id of the visit
OUTDATED = Struct(f"<{VISIT_BYTES}s")
ITEM = Struct(f"<{VISIT_BYTES}sHQ")  # id of the visit, number of the kind, number of the item in its kind
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
        visits, outdated, items = ([stack.enter_context(_open(directory)) for _ in range(PARTITIONS)] for _ in range(3))
        for page in pages:
            if page.get("kind", "page") == "page" and page.get("status") is not None:
                key, moment = (
                    page.get("key", page["url"]),
                    datetime.fromtimestamp(page["time"], UTC),
                )  # as items have it
                hashed, visit = _hash(describe_page(page)), bytes.fromhex(make_visit_id(key, format_time(moment)))
                visits[hashed[0] % PARTITIONS].write(VISIT.pack(hashed, _to_microseconds(moment), visit))
        for seen in visits:
            last: dict[bytes, int] = {}
            for hashed, time, _ in _read(seen, VISIT):
                last[hashed] = max(time, last.get(hashed, time))
            for hashed, time, visit in _read(seen, VISIT):
                if time != last[hashed]:
                    outdated[visit[0] % PARTITIONS].write(visit)
            seen.close()
        dropped = [bytearray() for _ in sources]
        for number, (kind, read) in enumerate(sources.items()):
            count = 0
            for count, line in enumerate(read(), 1):
                visit = _parse_visit(kind, line)
                items[visit[0] % PARTITIONS].write(ITEM.pack(visit, number, count - 1))
            dropped[number] = bytearray(count // 8 + 1)
        for partition in range(PARTITIONS):
            earlier = {visit for (visit,) in _read(outdated[partition], OUTDATED)}
            outdated[partition].close()
            for visit, number, nth in _read(items[partition], ITEM):
                if visit in earlier:
                    dropped[number][nth >> 3] |= 1 << (nth & 7)
            items[partition].close()
    return {kind: partial(_select, read, dropped[number]) for number, (kind, read) in enumerate(sources.items())}


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


def _hash(text: str) -> bytes:
    return blake2b(text.encode(errors="surrogatepass"), digest_size=HASH_BYTES).digest()


def _parse_visit(kind: str, line: bytes) -> bytes:
    """Return the id of the visit of an item, which is a hash of the page's key and the time."""
    try:
        visit = bytes.fromhex(json.loads(line)["_id"].rpartition("-")[0])
        if len(visit) != VISIT_BYTES:
            raise ValueError("its _id is not one of swath's")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"an item of the kind {kind} does not say which page it is from ({error!r})") from error
    return visit


def _to_microseconds(moment: datetime) -> int:
    since = moment - _EPOCH
    return (since.days * 86_400 + since.seconds) * SECOND + since.microseconds
