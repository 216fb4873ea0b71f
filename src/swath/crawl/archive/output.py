"""Output: the archive of one process, grown and cut in step with the settlements (INV-5)."""

import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from isal import igzip

import swath
from swath.core.store import OutputMove
from swath.crawl.archive import warc
from swath.crawl.archive.record import Capture, Exchange, line, records
from swath.files.archive import Archive
from swath.files.errors import writing_to
from swath.files.rotation import Series

PAGES_SIZE: Final = 256_000_000
Entry = Sequence[Capture]


class CrawlOutput:
    """WARC files and lists of pages in one directory, written by this process alone."""

    def __init__(self, directory: Path, *, unique: str, warc_size: int | None, about: Mapping[str, str]) -> None:
        """`warc_size` None: pages are listed and not archived."""
        self._about = {"software": f"swath/{swath.__version__}", **about}
        pages = Series("pages", "pages", unique, ".jsonl.gz", PAGES_SIZE)
        series = [pages]
        if warc_size is not None:
            series.append(Series("warc", "swath", unique, ".warc.gz", warc_size, self._warcinfo))
        self._archive = Archive(directory, series=series, timestamp=lambda: warc.timestamp17(time.time()))
        self._one_at_a_time = threading.Lock()  # a write may still be under way when a run is given up

    def _warcinfo(self, name: str) -> bytes:
        return warc.warcinfo(name, record_id=warc.new_id(), time=time.time(), fields=self._about)

    # what the runner calls

    def size(self, entry: Entry) -> int:
        return sum(capture.size for capture in entry)

    def write(self, settlements: Sequence[Sequence[Entry]]) -> Sequence[Sequence[OutputMove]]:
        with self._one_at_a_time, writing_to(self._archive.directory):
            ends: dict[str, int] = {}
            moves = []
            try:
                for entries in settlements:
                    self._append([capture for entry in entries for capture in entry])
                    moves.append(self._growth(ends))
                self._archive.sync()
            except BaseException:
                self._archive.cut()  # none of it will be settled
                raise
            return moves

    def keep(self) -> None:
        self._archive.commit()

    def restore(self, committed: Mapping[str, int]) -> None:
        with self._one_at_a_time, writing_to(self._archive.directory):
            self._archive.recover(committed)

    def close(self) -> None:
        with self._one_at_a_time:
            self._archive.close()

    def _append(self, captures: Sequence[Capture]) -> None:
        archived = [capture.archived for capture in captures if capture.archived is not None]
        made = (record for one in archived for record in (records(one) if isinstance(one, Exchange) else one))
        placed = iter(self._archive.append("warc", made) if archived else ())
        lines = []
        for page, archived_as in captures:
            if archived_as is not None:
                place = next(placed)
                next(placed)  # of the request
                page = {**page, "file": place.file, "offset": place.offset, "length": place.length}
            lines.append(line(page))
        if lines:
            self._archive.append("pages", [igzip.compress(b"".join(lines), compresslevel=1)])

    def _growth(self, ends: dict[str, int]) -> list[OutputMove]:
        """How files grew since they were last looked at in this batch."""
        grown = []
        for move in self._archive.moves():
            old = ends.get(move.name, move.old)
            if move.new > old:
                grown.append(OutputMove(move.name, old, move.new))
                ends[move.name] = move.new
        return grown
