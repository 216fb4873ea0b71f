"""A process that writes records until all are settled, or kills itself at a given line: for test_output_directory."""

import os
import random
import signal
import sqlite3
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from swath.core.store import OutputMove
from swath.crawl.archive import warc
from swath.files import output_directory
from swath.files.rotation import FileSeries

RECORDS = 60
TIME = 1_700_000_000.0
SERIES = [
    FileSeries(
        "warc",
        prefix="t",
        unique="u",
        suffix=".warc.gz",
        size=3_000,
        first_record=lambda name: warc.build_warcinfo(name, record_id=warc.new_record_id(), time=TIME, fields={}),
    ),
    FileSeries("pages", prefix="pages", unique="u", suffix=".jsonl", size=200),
]


def body(number: int) -> bytes:
    return random.Random(number).randbytes(300)


def page(number: int) -> bytes:
    text = body(number)
    head = b"HTTP/1.1 200 OK\r\nX-Number: %d\r\n\r\n" % number
    digest = warc.compute_payload_digest(text)
    return warc.build_response(
        f"http://a/{number}", record_id=warc.new_record_id(), time=TIME, head=head, body=text, digest=digest
    )


class Refused(Exception):
    """A settlement that the store did not take."""


class Store:
    """Committed lengths and settled records, in SQLite."""

    def __init__(self, path: Path) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.executescript(
            "CREATE TABLE IF NOT EXISTS output (name TEXT PRIMARY KEY, length INTEGER);"
            "CREATE TABLE IF NOT EXISTS done (number INTEGER PRIMARY KEY, file TEXT, start INTEGER, length INTEGER);"
        )

    def committed(self) -> dict[str, int]:
        return dict(self.connection.execute("SELECT name, length FROM output"))

    def done(self) -> dict[int, output_directory.RecordLocation]:
        return {
            row[0]: output_directory.RecordLocation(*row[1:]) for row in self.connection.execute("SELECT * FROM done")
        }

    def settle(
        self, placed: dict[int, output_directory.RecordLocation], moves: Sequence[OutputMove], *, refuse: bool
    ) -> None:
        self.connection.execute("BEGIN IMMEDIATE")
        for move in moves:
            if move.old:
                changed = self.connection.execute(
                    "UPDATE output SET length = ? WHERE name = ? AND length = ?", (move.new, move.name, move.old)
                )
                assert changed.rowcount == 1, move
            else:
                self.connection.execute("INSERT INTO output VALUES (?, ?)", (move.name, move.new))
        for number, place in placed.items():
            self.connection.execute("INSERT INTO done VALUES (?, ?, ?, ?)", (number, *place))
        self.connection.execute("ROLLBACK" if refuse else "COMMIT")
        if refuse:
            raise Refused


def die_at(line: int) -> None:
    """SIGKILL this process at the n-th line that it executes here or in the archive."""
    left = line

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal left
        if frame.f_code.co_filename not in (__file__, output_directory.__file__):
            return None
        if event == "line":
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    sys.settrace(trace)


def write_in_pieces(draw: random.Random) -> None:
    """Let the system take fewer bytes than it is given, so that the process can die with half a record written."""
    whole = os.pwritev

    def pwritev(descriptor: int, buffers: Sequence[bytes], offset: int) -> int:
        return whole(descriptor, [bytes(buffers[0][: draw.randint(1, 400)])], offset)

    os.pwritev = pwritev  # type: ignore[assignment]


def main(directory: Path, *, seed: int, line: int) -> None:
    draw = random.Random(seed)
    write_in_pieces(draw)
    store = Store(directory / "store.db")
    if line:
        die_at(line)
    with output_directory.OutputDirectory(
        directory, series=SERIES, timestamp=lambda: warc.format_timestamp17(TIME)
    ) as files:
        files.recover(store.committed())
        while waiting := sorted(set(range(RECORDS)) - store.done().keys()):
            batch = waiting[: draw.randint(1, 12)]
            placed = files.append("warc", [page(number) for number in batch])
            files.append("pages", [b"%d\n" % number for number in batch])
            files.sync()
            try:
                store.settle(dict(zip(batch, placed, strict=True)), files.list_moves(), refuse=draw.random() < 0.3)
            except Refused:
                files.rollback()
            else:
                files.commit()
    print("finished")


if __name__ == "__main__":
    main(Path(sys.argv[1]), seed=int(sys.argv[2]), line=int(sys.argv[3]))
