"""Connections to a frontier's file: check the path, configure SQLite, and wait for locks."""

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
BUSY_SECONDS = 30.0  # how long to wait for a lock that another process holds
CACHE_KIB = 64 * 1024
WAL_BYTES = 4_000_000  # the limit of the log of a small database, see `wal_limiter`
STATEMENTS = 256  # prepared statements kept by a connection

FULL = 2  # the value of PRAGMA synchronous
SYNCHRONOUS = {
    "full": "FULL",  # except for leases, see `writer`
    "normal": "NORMAL",  # no sync at each commit: a power cut can undo the last commits, but not corrupt the file
}

NETWORK_FILE_SYSTEMS = {
    "9p", "afs", "beegfs", "ceph", "cifs", "fuse.ceph", "fuse.gcsfuse", "fuse.glusterfs", "fuse.rclone", "fuse.s3fs",
    "fuse.sshfs", "glusterfs", "gfs", "gfs2", "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "smb2", "smb3",
    "smbfs", "vboxsf", "virtiofs",
}  # fmt: skip


_ESCAPE = re.compile(r"\\([0-7]{3})")  # in mountinfo, for a space, a tab, a newline or a backslash


def resolve_path(path: str) -> str:
    """Return the absolute path; raise InvalidStoreURL if SQLite's locks do not work there."""
    if not path or path == ":memory:":
        raise InvalidStoreURL(
            f"{path!r} is not the name of a file: a frontier in SQLite is a file, as in sqlite:///work.db"
        )
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        oldest = ".".join(map(str, OLDEST_SQLITE))
        raise StoreUnavailable(f"this Python has SQLite {sqlite3.sqlite_version}; swath needs {oldest} or newer")
    path = os.path.realpath(path)  # SQLite also puts the log beside the file, not beside a link to it
    if os.path.isdir(path):
        raise InvalidStoreURL(f"{path} is a directory: name a file in it")
    if (names := _count_links(path)) > 1:
        raise InvalidStoreURL(
            f"{path} has {names} names (hard links), and SQLite keeps a separate log for each: processes that use "
            "different names would corrupt it. Keep one of them, or use symbolic links"
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
    except OSError:  # it does not exist, or cannot be reached: opening it reports which
        return 0


def find_file_system(path: str, mountinfo: str) -> str:
    """Return the type of the file system of an absolute path, from the text of /proc/self/mountinfo."""
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
    """Open a connection to a frontier's file. One thread at a time may use it."""
    if synchronous not in SYNCHRONOUS:
        raise InvalidSetting(f"synchronous={synchronous!r} is unknown: use {' or '.join(SYNCHRONOUS)}")
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
    connection.execute(f"PRAGMA journal_size_limit = {WAL_BYTES}")
    connection.execute("PRAGMA mmap_size = 0")  # a file that another process truncates must not cause a SIGBUS
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute("PRAGMA secure_delete = OFF")  # Debian's default overwrites every deleted row
    if read_only:
        connection.execute("PRAGMA query_only = ON")


def retry_while_busy(action: Callable[[], T], *, since: float | None = None) -> T:
    """Retry an action while another connection holds a lock, for up to BUSY_SECONDS from now or from `since` on the
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
