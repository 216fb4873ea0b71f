"""Archives of small pages for tests of indexes; as a program, one that kills itself while it writes an index."""

import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

from swath.crawl.archive import warc
from swath.crawl.archive.output import CrawlOutput
from swath.crawl.archive.record import Capture, Exchange, build_records
from swath.crawl.http.response import NO_HEADERS, Response

UNIQUE = "x_0"
SIZE = 3_000  # of a WARC file: a few pages


def make_capture(number: int) -> Capture:
    url = f"https://h{number % 3}.example/{number}"
    body = f"page {number}".encode()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n"
    response = Response(url, 200, "http/1.1", b"GET / HTTP/1.1\r\n\r\n", head, NO_HEADERS, body, None, number, 0, 0)
    digest = warc.compute_payload_digest(body)
    page = {"url": url, "status": 200, "time": 1.7e9 + number, "type": "text/html", "digest": digest}
    return Capture(page, build_records(Exchange(response, warc.new_record_id(), digest)))


class Archive:
    """A CrawlOutput with the lengths that its store would have committed."""

    def __init__(self, directory: Path, committed: Mapping[str, int] | None = None, *, size: int = SIZE) -> None:
        self.committed = dict(committed or {})
        self.output = CrawlOutput(directory, unique=UNIQUE, warc_size=size, about={})
        self.output.restore(self.committed)

    def settle(self, *numbers: int) -> None:
        for number in numbers:
            (moves,) = self.output.write([[[make_capture(number)]]])
            self.committed |= {move.name: move.new for move in moves}
            self.output.keep()


def _die_at(step: str) -> None:
    """Let this process kill itself before or after the new index gets its name."""
    rename = Path.replace

    def die(self: Path, target: Path) -> Path:
        if step == "after":
            rename(self, target)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError

    Path.replace = die  # type: ignore[method-assign,assignment]


if __name__ == "__main__":
    directory, step = Path(sys.argv[1]), sys.argv[2]
    _die_at(step)
    archive = Archive(directory)
    archive.settle(*range(3))
    committed = directory.parent / "committed"
    for number in range(3, 1_000):
        (moves,) = archive.output.write([[[make_capture(number)]]])
        archive.committed |= {move.name: move.new for move in moves}
        committed.with_suffix(".new").write_text("\n".join(f"{n} {s}" for n, s in archive.committed.items()))
        os.replace(committed.with_suffix(".new"), committed)
        archive.output.keep()
