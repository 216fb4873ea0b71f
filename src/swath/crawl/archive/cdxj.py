"""The CDXJ index of an archive: one line a capture, sorted by key and time, so that readers can search it by halving.

The lines of a large crawl do not fit in memory. They are sorted in chunks that do, and the chunks are merged.
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

CHUNK = 200_000  # lines sorted in memory, some 80 MB
FAN_IN = 200  # files merged at once; more chunks than that are merged in rounds
REVISIT_TYPE = "warc/revisit"


class IndexEntry(NamedTuple):
    """One record of the archive that answers a URL. `mime` is REVISIT_TYPE for a revisit."""

    url: str
    time: float
    status: int
    mime: str
    digest: str
    file: str
    offset: int
    length: int


def format_line(capture: IndexEntry, *, surt: Callable[[str], str]) -> str:
    """The line of one capture, without its end."""
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


def sorted_lines(
    captures: Iterable[IndexEntry],
    *,
    surt: Callable[[str], str],
    directory: Path | None = None,
    chunk: int = CHUNK,
    fan_in: int = FAN_IN,
) -> Iterator[str]:
    """The lines of all captures in the order of their bytes. `directory` is where chunks wait; the system's own
    otherwise. UTF-8 sorts like the characters it codes, so the order is that of the bytes as well."""
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
            together, runs = runs[:fan_in], runs[fan_in:]
            runs.append(_write_run(_merge_runs(together), Path(waiting, str(next(serial)))))
            for run in together:
                run.unlink()
        yield from _merge_runs(runs)


def _write_run(sorted_lines: Iterable[str], path: Path) -> Path:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{one}\n" for one in sorted_lines)
    return path


def _merge_runs(runs: Iterable[Path]) -> Iterator[str]:
    with ExitStack() as stack:
        files = [stack.enter_context(run.open(encoding="utf-8", newline="\n")) for run in runs]
        for one in merge(*files):
            yield one[:-1]
