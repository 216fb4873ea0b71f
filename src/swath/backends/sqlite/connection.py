"""The file that a frontier lives in: whether it is there, how it is made, and how the file is opened."""

import os
import re
import sqlite3
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from swath.backends.sqlite.errors import is_busy
from swath.core.errors import InvalidSetting, InvalidStoreURL, StoreUnavailable

T = TypeVar("T")

OLDEST_SQLITE = (3, 38, 0)  # JSON functions, RETURNING, row values
BUSY_SECONDS = 30.0  # how long another process may hold the file
CACHE_KIB = 64 * 1024
WAL_PAGES = 32_000  # of the log, 128 MB, from which a commit copies what the copier has left of it
WAL_BYTES = WAL_PAGES * 4096  # to which a log that had to grow is cut back
STATEMENTS = 256  # prepared statements kept by a connection

FULL = 2  # as SQLite tells it
SYNCHRONOUS = {
    "full": "FULL",  # but for leases, as `writer` tells
    "normal": "NORMAL",  # no sync with each commit: a power cut can take back the last moments, never corrupt the file
}

NETWORK_FILE_SYSTEMS = {
    "9p", "afs", "beegfs", "ceph", "cifs", "fuse.ceph", "fuse.gcsfuse", "fuse.glusterfs", "fuse.rclone", "fuse.s3fs",
    "fuse.sshfs", "glusterfs", "gfs", "gfs2", "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "smb2", "smb3",
    "smbfs", "vboxsf", "virtiofs",
}  # fmt: skip


_ESCAPE = re.compile(r"\\([0-7]{3})")  # how mountinfo writes a space, a tab, a newline and a backslash


def resolve_path(path: str) -> str:
    """The absolute path, once it is clear that SQLite's locks work there (rule 17)."""
    if not path or path == ":memory:":
        raise InvalidStoreURL(f"{path!r} names no file: a frontier in SQLite is a file, as in sqlite:///work.db")
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        oldest = ".".join(map(str, OLDEST_SQLITE))
        raise StoreUnavailable(f"this Python has SQLite {sqlite3.sqlite_version}; swath needs {oldest} or newer")
    path = os.path.realpath(path)  # as SQLite does, which puts the log beside the file and not beside a link to it
    if os.path.isdir(path):
        raise InvalidStoreURL(f"{path} is a directory: name a file in it")
    if (names := _count_links(path)) > 1:
        raise InvalidStoreURL(
            f"{path} has {names} names (hard links), and SQLite keeps a log under each: who works under one does not "
            "know of who works under another. Keep one of them, or use symbolic links"
        )
    try:
        with open("/proc/self/mountinfo", encoding="utf-8") as mounts:
            kind = find_file_system(path, mounts.read())
    except OSError:  # not Linux
        return path
    if kind in NETWORK_FILE_SYSTEMS:
        raise InvalidStoreURL(
            f"{path} is on a network file system ({kind}), where SQLite's locks do not hold. "
            "Put the file on a local disk, or use a postgresql:// store"
        )
    return path


def _count_links(path: str) -> int:
    try:
        return os.stat(path).st_nlink
    except OSError:  # it is not there yet, or cannot be reached, as opening it will tell
        return 0


def find_file_system(path: str, mountinfo: str) -> str:
    """The type of the file system that holds an absolute path, as /proc/self/mountinfo tells it."""
    best, kind = "", ""
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        fields = left.split(" ")
        point = _ESCAPE.sub(lambda match: chr(int(match[1], 8)), fields[4]) if len(fields) > 4 else ""
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if point and inside and len(point) >= len(best):  # a later mount hides an earlier one
            best, kind = point, right.split(" ")[0]
    return kind


def connect(path: str, *, synchronous: str = "full", read_only: bool = False) -> sqlite3.Connection:
    """A connection to a frontier's file. One thread at a time may use it."""
    if synchronous not in SYNCHRONOUS:
        raise InvalidSetting(f"synchronous={synchronous!r} is unknown: it is {' or '.join(SYNCHRONOUS)}")
    connection = open_connection(path)
    try:
        retry_while_busy(partial(_set_up, connection, synchronous, read_only))
    except BaseException:
        connection.close()
        raise
    return connection


def open_connection(path: str) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False, cached_statements=STATEMENTS)


def _set_up(connection: sqlite3.Connection, synchronous: str, read_only: bool) -> None:
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise StoreUnavailable(
            f"write-ahead logging does not work here (SQLite stays in mode {mode!r}): use a local disk"
        )
    connection.execute(f"PRAGMA synchronous = {SYNCHRONOUS[synchronous]}")
    connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    connection.execute(f"PRAGMA wal_autocheckpoint = {WAL_PAGES}")
    connection.execute(f"PRAGMA journal_size_limit = {WAL_BYTES}")
    connection.execute("PRAGMA mmap_size = 0")  # a file cut short by others must not become a SIGBUS
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute("PRAGMA secure_delete = OFF")  # Debian's default overwrites what every move deletes
    if read_only:
        connection.execute("PRAGMA query_only = ON")


def retry_while_busy(action: Callable[[], T], *, since: float | None = None) -> T:
    """Run an action again while somebody else holds the file, up to BUSY_SECONDS: from now, or from a moment on the
    monotonic clock."""
    deadline = (time.monotonic() if since is None else since) + BUSY_SECONDS
    pause = 0.000_5
    while True:
        try:
            return action()
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() > deadline:
                raise
        time.sleep(pause)
        pause = min(pause * 2, 0.01)
