"""WarcIndexer: write the CDXJ index of each WARC file beside it when the next file begins.

The lines of the records are in the page lists of the same process, in order. If this run opened the WARC file, it knows
where in the lists its lines begin; otherwise all lists are read. Indexing takes seconds, so it happens in a thread. It
stops when the crawl stops: the next start, or the end of the crawl, writes the indexes that are missing.
"""

import json
import logging
import shutil
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from swath import SwathError
from swath.crawl.archive import cdxj
from swath.crawl.archive.page_list import describe_damage, read_lines
from swath.crawl.urls import normalise
from swath.files.replace_file import NEW, replace_file

log = logging.getLogger("swath.crawl")

SUFFIX = ".cdxj"  # of the index, after the name of the WARC file
RUNS_PREFIX = "cdxj-"  # of directories with sorted runs


class ListPosition(NamedTuple):
    """A position in the page lists."""

    file: str
    offset: int


class WarcIndexer:
    """Writes the indexes of finished WARC files of one process, one after the other."""

    def __init__(self, directory: Path, *, unique: str) -> None:
        self._directory = directory
        self._unique = unique
        self._stopping = threading.Event()
        self._thread: ThreadPoolExecutor | None = None

    def add(self, warc: str, lists: Sequence[tuple[str, int]], start: ListPosition | None) -> None:
        """Index a WARC file in the background. `lists` are the page lists of this process with their committed
        lengths, in order, and `start` is where the lines of the file begin, if that is known."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="swath-index")
        self._thread.submit(self._write, warc, lists, start, self._stopping)

    def finish(self) -> None:
        """Wait until all indexes are written."""
        if self._thread is not None:
            self._thread.shutdown()
            self._thread = None

    def stop(self) -> None:
        """Stop writing. Indexes that are not written yet are written at the next start."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.shutdown(cancel_futures=True)
        self._thread, self._stopping = None, threading.Event()

    def remove_remains(self) -> None:
        """Remove what a killed process has left of indexes that it was writing."""
        for path in self._directory.glob(f"*-{self._unique}.warc.gz{SUFFIX}{NEW}"):
            path.unlink()
        for path in self._directory.glob(f"{RUNS_PREFIX}{self._unique}-*"):
            shutil.rmtree(path, ignore_errors=True)

    def _write(
        self, warc: str, lists: Sequence[tuple[str, int]], start: ListPosition | None, stopping: threading.Event
    ) -> None:
        pages = _read_pages(self._directory, warc, lists, start, stopping)
        try:
            write_warc_index(self._directory, warc, pages, prefix=f"{RUNS_PREFIX}{self._unique}-")
        except _Stopped:
            pass
        except (OSError, SwathError) as error:
            log.warning("the index of %s cannot be written (%s); the end of the crawl tries again", warc, error)


class _Stopped(Exception):
    """The crawl stops, so the index is not written now."""


def write_warc_index(directory: Path, warc: str, pages: Iterator[Mapping[str, Any]], *, prefix: str) -> None:
    """Write the index of one WARC file from its pages."""
    entries = map(cdxj.make_entry, pages)
    lines = cdxj.sort_lines(entries, surt=normalise.surt, directory=directory, prefix=prefix)
    replace_file(directory / f"{warc}{SUFFIX}", (f"{line}\n" for line in lines))


def _read_pages(
    directory: Path, warc: str, lists: Sequence[tuple[str, int]], start: ListPosition | None, stopping: threading.Event
) -> Iterator[dict[str, Any]]:
    """Yield the pages in a WARC file."""
    wanted = f'"file":{json.dumps(warc)}'.encode()  # as `format_page_line` writes it
    names = [name for name, _ in lists]
    first = names.index(start.file) if start is not None and start.file in names else 0
    for name, length in lists[first:]:
        offset = start.offset if start is not None and start.file == name else 0
        for line in read_lines(directory / name, length, start=offset):
            if stopping.is_set():
                raise _Stopped
            if wanted in line:
                try:
                    page = json.loads(line)
                except ValueError as error:
                    raise describe_damage(directory / name, error) from error
                if page.get("file") == warc:
                    yield page
