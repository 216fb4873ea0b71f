"""LogFile: several processes, rotation, and a full disk."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from swath import UsageError
from swath.logs.log_file import LogFile
from tests.small_disk import mount_small_disk

LINES = 600
WRITER = """
import sys
from pathlib import Path
from swath.logs.log_file import LogFile
file = LogFile(Path(sys.argv[1]), format_gap=lambda lines: b"gap\\n", report=print)
sys.stdin.readline()
for number in range(int(sys.argv[3])):
    file.write(f"{sys.argv[2]} {number} ".encode() + b"x" * (number % 4_000) + b"\\n")
"""


@contextmanager
def opened(path: Path) -> Iterator[tuple[LogFile, list[str]]]:
    reports: list[str] = []
    file = LogFile(path, format_gap=lambda lines: b"gap %d\n" % lines, report=reports.append)
    try:
        yield file, reports
    finally:
        file.close()


def count_lines(paths: list[Path]) -> Counter[str]:
    found: Counter[str] = Counter()
    for path in paths:
        for one in path.read_text().splitlines():
            process, number, filler = one.split(" ")
            assert filler == "x" * (int(number) % 4_000)
            found[process] += 1
    return found


def test_lines_of_several_processes_are_whole_and_complete_while_the_file_is_rotated(tmp_path: Path) -> None:
    path = tmp_path / "log"
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, path, str(n), str(LINES)], stdin=subprocess.PIPE)
        for n in range(4)
    ]
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write(b"go\n")
        writer.stdin.close()
    rotated = 0
    while any(writer.poll() is None for writer in writers):
        if path.exists() and path.stat().st_size > 500_000:
            rotated += 1
            path.rename(tmp_path / f"log.{rotated}")
    assert [writer.wait() for writer in writers] == [0, 0, 0, 0]
    assert rotated
    assert count_lines(list(tmp_path.iterdir())) == Counter({f"{n}": LINES for n in range(4)})


def test_a_file_that_is_renamed_truncated_or_removed_is_continued(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with opened(path) as (file, reports):
        file.write(b"1\n")
        path.rename(tmp_path / "old")
        file.write(b"2\n")
        os.truncate(path, 0)
        file.write(b"3\n")
        assert path.read_bytes() == b"3\n"
        path.unlink()
        file.write(b"4\n")
    assert ((tmp_path / "old").read_bytes(), path.read_bytes(), reports) == (b"1\n", b"4\n", [])


def test_lines_go_to_the_renamed_file_while_the_directory_is_gone(tmp_path: Path) -> None:
    directory = tmp_path / "logs"
    directory.mkdir()
    with opened(directory / "log") as (file, _):
        directory.rename(tmp_path / "moved")
        file.write(b"1\n")
    assert (tmp_path / "moved" / "log").read_bytes() == b"1\n"


def test_a_full_disk_is_reported_once_and_the_log_says_what_is_missing(tmp_path: Path) -> None:
    with mount_small_disk(tmp_path / "disk") as disk, opened(disk.path / "log") as (file, reports):
        file.write(b"before\n")
        disk.fill()
        for _ in range(3):
            file.write(b"x" * 5_000 + b"\n")  # more than the last page of the file has room for
        assert len(reports) == 1
        assert "No space left on device. The run continues" in reports[0]
        disk.clear()
        file.write(b"after\n")
        first, torn, *rest = (disk.path / "log").read_bytes().splitlines()
        assert (first, torn.strip(b"x"), rest) == (b"before", b"", [b"gap 3", b"after"])
        disk.fill()
        file.write(b"x" * 5_000 + b"\n")
        assert len(reports) == 2  # of another outage


@pytest.mark.parametrize("kind", ["directory", "missing directory", "pipe"])
def test_a_path_that_cannot_be_a_log_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "missing" / "log" if kind == "missing directory" else tmp_path / "it"
    reader = None
    if kind == "directory":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
        reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(UsageError, match="--log-file"):
        LogFile(path, format_gap=lambda lines: b"", report=print)
    if reader is not None:
        os.close(reader)
