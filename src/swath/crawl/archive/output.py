"""The output files of one crawl process, which hold exactly what was settled (INV-5)."""

import os
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from isal import igzip

import swath
from swath import OutputMove, UsageError
from swath.crawl.archive import warc
from swath.crawl.archive.record import Capture, Exchange, ItemLine, build_records, format_page_line
from swath.crawl.archive.warc_index import SUFFIX, ListPosition, WarcIndexer
from swath.files.errors import translate_write_errors
from swath.files.output_directory import OutputDirectory
from swath.files.rotation import FileSeries

PAGES_SIZE: Final = 256_000_000
ITEMS_SIZE: Final = 256_000_000
MAX_KINDS = 100  # of extracted items: each has a file that stays open
ITEMS_PREFIX = "items-"  # of the files with extracted items, before their kind
Captures = Sequence[Capture]

_ITEMS_FILE = re.compile(rf"{ITEMS_PREFIX}(?P<kind>\w+)-\d{{17}}-\d+-(?P<unique>.+)\.jsonl\.gz", re.ASCII)


class CrawlOutput:
    """WARC files, page lists and extracted items in one directory. Only this process writes to them."""

    def __init__(
        self,
        directory: Path,
        *,
        unique: str,
        warc_size: int | None,
        about: Mapping[str, str],
        has_items: bool = True,
        on_committed: Callable[[Sequence[ItemLine]], None] | None = None,
    ) -> None:
        """With `warc_size` None, pages are listed but not archived. Without `has_items`, items are not written.

        `on_committed` is called, in any thread, with the items of each settlement after its commit.
        """
        self._has_items = has_items
        self._on_committed = on_committed
        self._uncommitted: list[tuple[Sequence[OutputMove], Sequence[ItemLine]]] = []  # for `on_committed`
        self._about = {"software": f"swath/{swath.__version__}", **about}
        pages = FileSeries("pages", "pages", unique, ".jsonl.gz", PAGES_SIZE)
        series = [pages]
        if warc_size is not None:
            series.append(
                FileSeries("warc", "swath", unique, ".warc.gz", warc_size, self._build_warcinfo, index_suffix=SUFFIX)
            )
        self._files = OutputDirectory(directory, series=series, timestamp=lambda: warc.format_timestamp17(time.time()))
        self._write_lock = threading.Lock()  # a write may still be in flight when a run is aborted
        self._archiving = warc_size is not None
        self._pages = pages
        self._lengths: dict[str, int] = {}  # committed lengths of page lists
        self._starts: dict[str, ListPosition | None] = {}  # where the lines of a WARC file begin, if that is known
        self._indexer = WarcIndexer(directory, unique=unique)
        self._unique = unique
        self._kinds: set[str] = set()  # of extracted items that have a series

    def _build_warcinfo(self, name: str) -> bytes:
        return warc.build_warcinfo(name, record_id=warc.new_record_id(), time=time.time(), fields=self._about)

    # The Output protocol, which the runner calls.

    def size(self, entry: Captures) -> int:
        return sum(capture.size for capture in entry)

    def write(self, settlements: Sequence[Sequence[Captures]]) -> Sequence[Sequence[OutputMove]]:
        with self._write_lock, translate_write_errors(self._files.directory):
            ends: dict[str, int] = {}
            moves = []
            self._uncommitted = []
            try:
                for entries in settlements:
                    self._append([capture for entry in entries for capture in entry])
                    moves.append(self._list_growth(ends))
                    if self._on_committed is not None:
                        items = [item for entry in entries for capture in entry for item in capture.items]
                        self._uncommitted.append((moves[-1], items))
                self._files.sync()
            except BaseException:
                self._files.rollback()  # the settlement will not take place
                raise
            return moves

    def keep(self) -> None:
        for move in self._files.list_moves():
            if self._pages.parse_serial(move.name) is not None:
                self._lengths[move.name] = move.new
        self._files.commit()
        self._report_committed(None)
        self._index_finished_files()

    def restore(self, committed: Mapping[str, int]) -> None:
        with self._write_lock, translate_write_errors(self._files.directory):
            self._indexer.stop()
            self._report_committed(committed)
            for name in committed.keys() | set(os.listdir(self._files.directory)):
                if (found := _ITEMS_FILE.fullmatch(name)) is not None and found["unique"] == self._unique:
                    self._add_kind(found["kind"])
            self._files.recover(committed)
            self._indexer.remove_remains()
            self._lengths = {name: length for _, name in self._pages.select(committed) for length in [committed[name]]}
            if self._archiving and (end := self._files.find_end("warc")) is not None:
                self._starts = {end.file: None}

    def _report_committed(self, committed: Mapping[str, int] | None) -> None:
        """Report the items of settlements that the committed lengths include; None means all."""
        uncommitted, self._uncommitted = self._uncommitted, []
        if self._on_committed is None:
            return
        for moves, items in uncommitted:
            if committed is None or all(committed.get(move.name, 0) >= move.new for move in moves):
                self._on_committed(items)

    def close(self) -> None:
        self._indexer.stop()
        with self._write_lock:
            self._files.close()

    def finish_indexes(self) -> None:
        """Wait until every finished WARC file has its index. Call it after the last settlement."""
        self._index_finished_files()
        self._indexer.finish()

    def _index_finished_files(self) -> None:
        """Index the files that this settlement has finished; after a start, also those that have no index."""
        if not self._archiving or not (finished := self._files.take_finished("warc")):
            return
        lists = [(name, self._lengths[name]) for _, name in self._pages.select(self._lengths)]
        for name in finished:
            start = self._starts.pop(name, None)
            if not (self._files.directory / f"{name}{SUFFIX}").exists():
                self._indexer.add(name, lists, start)

    def _append(self, captures: Sequence[Capture]) -> None:
        archived = [capture.archived for capture in captures if capture.archived is not None]
        made = (record for one in archived for record in (build_records(one) if isinstance(one, Exchange) else one))
        begun = self._files.find_end("pages")
        placed = iter(self._files.append("warc", made) if archived else ())
        lines = []
        for page, archived_as, _ in captures:
            if archived_as is not None:
                place = next(placed)
                next(placed)  # skip the location of the request record
                if place.file not in self._starts:
                    self._starts[place.file] = None if begun is None else ListPosition(begun.file, begun.offset)
                page = {**page, "file": place.file, "offset": place.offset, "length": place.length}
            lines.append(format_page_line(page))
        if lines:
            self._files.append("pages", [igzip.compress(b"".join(lines), compresslevel=1)])
        if self._has_items:
            self._append_items([item for capture in captures for item in capture.items])

    def _append_items(self, items: Sequence[ItemLine]) -> None:
        """Append extracted items to the files of their kinds, in order."""
        lines: dict[str, list[bytes]] = {}
        for kind, line in items:
            lines.setdefault(kind, []).append(line)
        for kind, of_kind in lines.items():
            self._add_kind(kind)
            self._files.append(_name_series(kind), [igzip.compress(b"".join(of_kind), compresslevel=1)])

    def _add_kind(self, kind: str) -> None:
        if kind in self._kinds:
            return
        check_kinds(len(self._kinds) + 1)
        self._files.add_series(
            FileSeries(_name_series(kind), f"{ITEMS_PREFIX}{kind}", self._unique, ".jsonl.gz", ITEMS_SIZE)
        )
        self._kinds.add(kind)

    def _list_growth(self, ends: dict[str, int]) -> list[OutputMove]:
        """Return how the files grew since the previous call in this batch."""
        grown = []
        for move in self._files.list_moves():
            old = ends.get(move.name, move.old)
            if move.new > old:
                grown.append(OutputMove(move.name, old, move.new))
                ends[move.name] = move.new
        return grown


def check_kinds(count: int) -> None:
    """Raise UsageError if the handlers yield too many kinds of items."""
    if count > MAX_KINDS:
        raise UsageError(f"the handlers yield more than {MAX_KINDS} kinds of items: use fewer classes")


def _name_series(kind: str) -> str:
    return f"{ITEMS_PREFIX}{kind}"
