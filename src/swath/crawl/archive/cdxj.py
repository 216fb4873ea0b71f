"""Write the CDXJ index of an archive: one line per record, sorted by key and time, for binary search.

The lines of a large crawl do not fit in memory, so this is an external merge sort.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from heapq import merge
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

CHUNK = 200_000  # lines sorted in memory, about 80 MB
FAN_IN = 200  # files merged at a time; more are merged in rounds
REVISIT_TYPE = "warc/revisit"


class IndexEntry(NamedTuple):
    """One response or revisit record of the archive. `mime` is REVISIT_TYPE for a revisit."""

    url: str
    time: float
    status: int
    mime: str
    digest: str
    file: str
    offset: int
    length: int


def format_line(capture: IndexEntry, *, surt: Callable[[str], str]) -> str:
    """Return the line of one record, without the line break."""
    fields = {
        "url": capture.url,
        "mime": capture.mime,
        "status": str(capture.status),
        "digest": capture.digest,
        "length": str(capture.length),
        "offset": str(capture.offset),
        "filename": capture.file,
    }
    moment = datetime.fromtimestamp(capture.time, UTC)
    return f"{surt(capture.url)} {moment:%Y%m%d%H%M%S} {json.dumps(fields)}"


def sort_lines(
    captures: Iterable[IndexEntry],
    *,
    surt: Callable[[str], str],
    directory: Path | None = None,
    chunk: int = CHUNK,
    fan_in: int = FAN_IN,
) -> Iterator[str]:
    """Yield the lines of all records, sorted. `directory` is for temporary files; the default is that of the system.
    UTF-8 preserves the order of code points, so the lines are sorted by bytes as well."""
    unsorted = (format_line(capture, surt=surt) for capture in captures)
    first = sorted(islice(unsorted, chunk))
    if len(first) < chunk:
        yield from first
        return
    with TemporaryDirectory(prefix="cdxj-", dir=directory) as waiting:
        serial = iter(range(2**63))
        runs = [_write_run(first, Path(waiting, str(next(serial))))]
        del first
        while part := sorted(islice(unsorted, chunk)):
            runs.append(_write_run(part, Path(waiting, str(next(serial)))))
        del part
        while len(runs) > fan_in:
            batch, runs = runs[:fan_in], runs[fan_in:]
            runs.append(_write_run(_merge_runs(batch), Path(waiting, str(next(serial)))))
            for run in batch:
                run.unlink()
        yield from _merge_runs(runs)


def _write_run(lines: Iterable[str], path: Path) -> Path:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{one}\n" for one in lines)
    return path


def _merge_runs(runs: Iterable[Path]) -> Iterator[str]:
    with ExitStack() as stack:
        files = [stack.enter_context(run.open(encoding="utf-8", newline="\n")) for run in runs]
        for one in merge(*files):
            yield one[:-1]
