"""The output files of one crawl process, which hold exactly what was settled (INV-5)."""

import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from isal import igzip

import swath
from swath import OutputMove
from swath.crawl.archive import warc
from swath.crawl.archive.record import Capture, Exchange, build_records, format_page_line
from swath.files.errors import translate_write_errors
from swath.files.output_directory import OutputDirectory
from swath.files.rotation import FileSeries

PAGES_SIZE: Final = 256_000_000
Captures = Sequence[Capture]


class CrawlOutput:
    """WARC files and page lists in one directory. Only this process writes to them."""

    def __init__(self, directory: Path, *, unique: str, warc_size: int | None, about: Mapping[str, str]) -> None:
        """With `warc_size` None, pages are listed but not archived."""
        self._about = {"software": f"swath/{swath.__version__}", **about}
        pages = FileSeries("pages", "pages", unique, ".jsonl.gz", PAGES_SIZE)
        series = [pages]
        if warc_size is not None:
            series.append(FileSeries("warc", "swath", unique, ".warc.gz", warc_size, self._build_warcinfo))
        self._files = OutputDirectory(directory, series=series, timestamp=lambda: warc.format_timestamp17(time.time()))
        self._write_lock = threading.Lock()  # a write may still be in flight when a run is aborted

    def _build_warcinfo(self, name: str) -> bytes:
        return warc.build_warcinfo(name, record_id=warc.new_record_id(), time=time.time(), fields=self._about)

    # The Output protocol, which the runner calls.

    def size(self, entry: Captures) -> int:
        return sum(capture.size for capture in entry)

    def write(self, settlements: Sequence[Sequence[Captures]]) -> Sequence[Sequence[OutputMove]]:
        with self._write_lock, translate_write_errors(self._files.directory):
            ends: dict[str, int] = {}
            moves = []
            try:
                for entries in settlements:
                    self._append([capture for entry in entries for capture in entry])
                    moves.append(self._list_growth(ends))
                self._files.sync()
            except BaseException:
                self._files.rollback()  # the settlement will not take place
                raise
            return moves

    def keep(self) -> None:
        self._files.commit()

    def restore(self, committed: Mapping[str, int]) -> None:
        with self._write_lock, translate_write_errors(self._files.directory):
            self._files.recover(committed)

    def close(self) -> None:
        with self._write_lock:
            self._files.close()

    def _append(self, captures: Sequence[Capture]) -> None:
        archived = [capture.archived for capture in captures if capture.archived is not None]
        made = (record for one in archived for record in (build_records(one) if isinstance(one, Exchange) else one))
        placed = iter(self._files.append("warc", made) if archived else ())
        lines = []
        for page, archived_as in captures:
            if archived_as is not None:
                place = next(placed)
                next(placed)  # skip the location of the request record
                page = {**page, "file": place.file, "offset": place.offset, "length": place.length}
            lines.append(format_page_line(page))
        if lines:
            self._files.append("pages", [igzip.compress(b"".join(lines), compresslevel=1)])

    def _list_growth(self, ends: dict[str, int]) -> list[OutputMove]:
        """Return how the files grew since the previous call in this batch."""
        grown = []
        for move in self._files.list_moves():
            old = ends.get(move.name, move.old)
            if move.new > old:
                grown.append(OutputMove(move.name, old, move.new))
                ends[move.name] = move.new
        return grown
