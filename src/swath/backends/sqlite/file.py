"""The file that a frontier lives in: whether it is one of ours, how it is made, and how it is opened."""

import os
import re
import sqlite3
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar
from urllib.parse import quote

from swath.backends.sql import read
from swath.backends.sqlite.migration import all_migrations, run_script
from swath.backends.sqlite.state import FORMAT, SQL
from swath.backends.sqlite.trouble import is_busy, translated
from swath.core.errors import InvalidSetting, InvalidStoreURL, NotAFrontier, StoreUnavailable
from swath.core.store import Settings

T = TypeVar("T")

APPLICATION_ID = 0x73777468  # "swth", in the header of the file
OLDEST_SQLITE = (3, 38, 0)  # JSON functions, RETURNING, row values
BUSY_SECONDS = 30.0  # how long another process may hold the file
CACHE_KIB = 64 * 1024
WAL_PAGES = 16_000  # 64 MB between checkpoints
WAL_BYTES = 64 * 1024 * 1024  # to which a WAL that had to grow is cut back
STATEMENTS = 256  # prepared statements kept by a connection

SYNCHRONOUS = {
    "full": "FULL",
    "normal": "NORMAL",  # no sync with each commit: a power cut can take back the last moments, never corrupt the file
}

NETWORK_FILE_SYSTEMS = {
    "9p", "afs", "ceph", "cifs", "fuse.ceph", "fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs",
    "glusterfs", "gfs", "gfs2", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "smb2", "smb3", "smbfs",
}  # fmt: skip


_ESCAPE = re.compile(r"\\([0-7]{3})")  # how mountinfo writes a space, a tab, a newline and a backslash


def locate(path: str) -> str:
    """The absolute path, once it is clear that SQLite's locks work there (rule 17)."""
    if not path or path == ":memory:":
        raise InvalidStoreURL(f"{path!r} names no file: a frontier in SQLite is a file, as in sqlite:///work.db")
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        oldest = ".".join(map(str, OLDEST_SQLITE))
        raise StoreUnavailable(f"this Python has SQLite {sqlite3.sqlite_version}; swath needs {oldest} or newer")
    path = os.path.abspath(path)
    if os.path.isdir(path):
        raise InvalidStoreURL(f"{path} is a directory: name a file in it")
    try:
        with open("/proc/self/mountinfo", encoding="utf-8") as mounts:
            kind = file_system(os.path.realpath(path), mounts.read())
    except OSError:  # not Linux
        return path
    if kind in NETWORK_FILE_SYSTEMS:
        raise InvalidStoreURL(
            f"{path} is on a network file system ({kind}), where SQLite's locks do not hold. "
            "Put the file on a local disk, or use a postgresql:// store"
        )
    return path


def file_system(path: str, mountinfo: str) -> str:
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
    connection = _connect(path)
    try:
        patiently(partial(_set_up, connection, synchronous, read_only))
    except BaseException:
        connection.close()
        raise
    return connection


def _connect(path: str) -> sqlite3.Connection:
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


def patiently(action: Callable[[], T]) -> T:
    """Run an action again while somebody else holds the file, up to BUSY_SECONDS."""
    deadline = time.monotonic() + BUSY_SECONDS
    pause = 0.000_5
    while True:
        try:
            return action()
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() > deadline:
                raise
        time.sleep(pause)
        pause = min(pause * 2, 0.01)


def prepare(path: str, settings: Settings | None, *, create: bool, now: int) -> None:
    """See that there is a frontier at `path`; anything else that is there is left untouched."""
    with translated(path):
        if _is_frontier(path):
            return
        if not create:
            raise NotAFrontier(f"there is no frontier at {path}: check the path, or create one by adding to it")
        connection = _connect(path)
        try:
            # Before WAL is switched on, so that the header of the file itself carries our mark from the start.
            patiently(partial(_create, connection, settings or Settings(partitions=1), now))
        finally:
            connection.close()


def _is_frontier(path: str) -> bool:
    """True: ours. False: nothing yet. NotAFrontier: somebody else's."""
    try:
        if os.path.getsize(path) == 0:
            return False
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:  # it may well be there, behind a directory that is closed to this user
        raise StoreUnavailable(
            f"{path} cannot be reached: {error.strerror}. Check that this user may enter every directory on the way"
        ) from error
    mark, tables = patiently(partial(_peek, path))
    if mark == APPLICATION_ID:
        return True
    if not mark and not tables and not os.path.exists(f"{path}-wal"):
        return False
    raise NotAFrontier(f"{path} is a database of something else; it was left alone. Name another file")


def _peek(path: str) -> tuple[int, int]:
    """The mark in the header and the number of tables, without leaving a trace: `immutable` locks and writes nothing.

    A journal means that somebody is creating the file or has crashed over it: that takes locks and SQLite's recovery.
    The file is not read by hand, since closing it would drop the locks that this process holds on it through SQLite.
    """
    mode = "mode=rw" if os.path.exists(f"{path}-journal") else "mode=ro&immutable=1"
    connection = sqlite3.connect(f"file:{quote(path)}?{mode}", uri=True, isolation_level=None, timeout=0)
    try:
        (mark,) = connection.execute("PRAGMA application_id").fetchone()
        (tables,) = connection.execute(SQL["tables"]).fetchone()
    finally:
        connection.close()
    return mark, tables


def _create(connection: sqlite3.Connection, settings: Settings, now: int) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        (tables,) = connection.execute(SQL["tables"]).fetchone()
        if tables == 0:  # otherwise another process was first
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            run_script(connection, read("swath.backends.sqlite", "schema.sql"))
            for migration in all_migrations():
                connection.execute(SQL["record_migration"], {"name": migration.name, "applied_at": now})
            connection.execute(SQL["insert_frontier"], {"format": FORMAT, **settings._asdict()})
            connection.executemany(SQL["insert_partition"], [(number,) for number in range(settings.partitions)])
        elif connection.execute("PRAGMA application_id").fetchone() != (APPLICATION_ID,):
            raise NotAFrontier("another process has made a database of its own here at this moment; it was left alone")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
