"""Who reads from SQLite's log, in the list of locks of the system."""

import os
from pathlib import Path

import pytest

from swath.backends.sqlite.connection import WAL_BYTES
from swath.backends.sqlite.wal_limiter import MAX_WAL_BYTES, find_readers, get_wal_limit


@pytest.fixture
def listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that is locked by processes 11 to 14, if the list below is to be believed."""
    shm = tmp_path / "x.db-shm"
    shm.touch()
    stat = os.stat(shm)
    this = f"{os.major(stat.st_dev):02x}:{os.minor(stat.st_dev):02x}:{stat.st_ino}"
    lines = [
        f"1: POSIX  ADVISORY  READ 14 {this} 127 127",
        f"2: POSIX  ADVISORY  READ 11 {this} 124 124",
        f"3: POSIX  ADVISORY  READ 12 {this} 120 124",  # a range that contains one of these bytes
        f"4: POSIX  ADVISORY  READ 11 {this} 125 125",  # the same process again
        f"5: POSIX  ADVISORY  WRITE 21 {this} 124 124",  # recovers, or changes the mark
        f"6: POSIX  ADVISORY  READ 22 {this} 123 123",
        f"7: POSIX  ADVISORY  READ 23 {this} 128 128",
        "8: POSIX  ADVISORY  READ 24 00:00:1 124 124",  # another file
        f"9: POSIX  ADVISORY  READ 0 {this} 124 124",  # outside of this container
        f"10: POSIX  ADVISORY  READ -1 {this} 124 124",
        f"11: POSIX  ADVISORY  READ 25 {this} 124 EOF",
        f"11: -> POSIX  ADVISORY  READ 26 {this} 124 124",  # waits for the lock above it
        f"12: POSIX  ADVISORY  READ 1 {this} 126 126",
        "",
    ]
    read_text = Path.read_text

    def read(path: Path, encoding: str | None = None, errors: str | None = None) -> str:
        return "\n".join(lines) if str(path) == "/proc/locks" else read_text(path, encoding, errors)

    monkeypatch.setattr(Path, "read_text", read)
    return shm


def test_processes_with_a_read_lock_are_listed(listed: Path) -> None:
    assert find_readers(str(listed)) == [1, 11, 12, 14]


def test_a_file_that_does_not_exist_has_no_readers(tmp_path: Path) -> None:
    assert find_readers(str(tmp_path / "none")) == []


def test_the_limit_of_the_log_grows_with_the_database() -> None:
    limits = [get_wal_limit(size) for size in (0, 10_000_000, 10**12)]
    assert limits[0] == WAL_BYTES < limits[1] < limits[2] == MAX_WAL_BYTES
