"""The lines of a CDXJ index: one per record, sorted by key and time, for binary search.

The lines of a large crawl do not fit in memory, so this is an external merge sort.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from heapq import merge
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

CHUNK = 200_000  # lines sorted in memory, about 80 MB
FAN_IN = 200  # files merged at a time; more are merged in rounds
REVISIT_TYPE = "warc/revisit"
PREFIX = "cdxj-"  # of directories with temporary files


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
    method: str = "GET"


def is_capture(page: Mapping[str, Any]) -> bool:
    """Return whether a line of the page list is that of a record. The line of a repair refers to an earlier one."""
    return "file" in page and "repaired" not in page


def make_entry(page: Mapping[str, Any]) -> IndexEntry:
    """Return the entry for an archived page of the page list."""
    mime = (page.get("type") or "").partition(";")[0].strip() or "unk"
    return IndexEntry(
        url=page["url"],
        time=page["time"],
        status=page["status"],
        mime=REVISIT_TYPE if "duplicate_of" in page else mime,
        digest=page["digest"],
        file=page["file"],
        offset=page["offset"],
        length=page["length"],
        method=page.get("method", "GET"),
    )


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
    url = capture.url
    if capture.method != "GET":
        # As in the indexes of other tools: whoever looks for the URL gets the answer to a GET.
        fields["method"] = capture.method
        url = f"{url}{'&' if '?' in url else '?'}__wb_method={capture.method}"
    moment = datetime.fromtimestamp(capture.time, UTC)
    return f"{surt(url)} {moment:%Y%m%d%H%M%S} {json.dumps(fields)}"


def sort_lines(
    captures: Iterable[IndexEntry],
    *,
    surt: Callable[[str], str],
    directory: Path | None = None,
    prefix: str = PREFIX,
    chunk: int = CHUNK,
    fan_in: int = FAN_IN,
) -> Iterator[str]:
    """Yield the lines of all records, sorted.

    `directory` is for temporary files, whose directory begins with `prefix`; the default is that of the system. UTF-8
    preserves the order of code points, so the lines are sorted by bytes as well.
    """
    unsorted = (format_line(capture, surt=surt) for capture in captures)
    first = sorted(islice(unsorted, chunk))
    if len(first) < chunk:
        yield from first
        return
    with TemporaryDirectory(prefix=prefix, dir=directory) as waiting:
        runs = [_write_run(first, Path(waiting, "0"))]
        del first
        while part := sorted(islice(unsorted, chunk)):
            runs.append(_write_run(part, Path(waiting, str(len(runs)))))
        del part
        yield from _merge_runs(_merge_in_rounds(runs, Path(waiting), fan_in))


def merge_sorted(
    files: Sequence[Path],
    lines: Iterable[str],
    *,
    directory: Path | None = None,
    prefix: str = PREFIX,
    fan_in: int = FAN_IN,
) -> Iterator[str]:
    """Yield the lines of sorted files and further sorted lines, in order. The files stay as they are."""
    with TemporaryDirectory(prefix=prefix, dir=directory) as waiting:
        yield from merge(_merge_runs(_merge_in_rounds(files, Path(waiting), fan_in)), lines)


def _merge_in_rounds(runs: Sequence[Path], waiting: Path, fan_in: int) -> Sequence[Path]:
    """Merge runs into files in `waiting` until at most `fan_in` are left. Remove the runs there that were merged."""
    serial = 0
    while len(runs) > fan_in:
        batch, runs = runs[:fan_in], runs[fan_in:]
        runs = [*runs, _write_run(_merge_runs(batch), waiting / f"merged-{serial}")]
        serial += 1
        for run in batch:
            if run.parent == waiting:
                run.unlink()
    return runs


def _write_run(lines: Iterable[str], path: Path) -> Path:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{one}\n" for one in lines)
    return path


def _merge_runs(runs: Iterable[Path]) -> Iterator[str]:
    with ExitStack() as stack:
        files = [stack.enter_context(run.open(encoding="utf-8", newline="\n")) for run in runs]
        for one in merge(*files):
            yield one[:-1]
