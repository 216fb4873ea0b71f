"""The file that a frontier lives in: whether it is there, how it is made, and how the file is opened."""

import os
import re
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from typing import NamedTuple, TypeVar
from urllib.parse import quote

from swath.backends.sqlite.errors import is_busy, translated
from swath.backends.sqlite.format import FORMAT
from swath.backends.sqlite.location import Target
from swath.backends.sqlite.migration import all_migrations, run_script
from swath.core.errors import InvalidSetting, InvalidStoreURL, NotAFrontier, StoreUnavailable, UsageError
from swath.core.store import Settings

T = TypeVar("T")

APPLICATION_ID = 0x73777468  # "swth", in the header of a file that is a frontier's own
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


def locate(path: str) -> str:
    """The absolute path, once it is clear that SQLite's locks work there (rule 17)."""
    if not path or path == ":memory:":
        raise InvalidStoreURL(f"{path!r} names no file: a frontier in SQLite is a file, as in sqlite:///work.db")
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        oldest = ".".join(map(str, OLDEST_SQLITE))
        raise StoreUnavailable(f"this Python has SQLite {sqlite3.sqlite_version}; swath needs {oldest} or newer")
    path = os.path.realpath(path)  # as SQLite does, which puts the log beside the file and not beside a link to it
    if os.path.isdir(path):
        raise InvalidStoreURL(f"{path} is a directory: name a file in it")
    if (names := _names(path)) > 1:
        raise InvalidStoreURL(
            f"{path} has {names} names (hard links), and SQLite keeps a log under each: who works under one does not "
            "know of who works under another. Keep one of them, or use symbolic links"
        )
    try:
        with open("/proc/self/mountinfo", encoding="utf-8") as mounts:
            kind = file_system(path, mounts.read())
    except OSError:  # not Linux
        return path
    if kind in NETWORK_FILE_SYSTEMS:
        raise InvalidStoreURL(
            f"{path} is on a network file system ({kind}), where SQLite's locks do not hold. "
            "Put the file on a local disk, or use a postgresql:// store"
        )
    return path


def _names(path: str) -> int:
    try:
        return os.stat(path).st_nlink
    except OSError:  # it is not there yet, or cannot be reached, as opening it will tell
        return 0


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


class Files:
    """The file of a frontier, its log and the locks of both, as they were when they were opened."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._inodes = self._look()
        self.inode = self._inodes[0]
        self.pid = os.getpid()
        _OPEN.append(self)

    def let_go(self) -> None:
        """They are closed."""
        with suppress(ValueError):  # for the second time
            _OPEN.remove(self)

    def _look(self) -> tuple[tuple[int, int], ...]:
        return inode_of(self._path), inode_of(f"{self._path}-wal"), inode_of(f"{self._path}-shm")

    def check(self) -> None:
        """SQLite goes on to write into files that are gone, and tells nobody. A log also goes when a process closes the
        file by hand, and with it the locks that say that it is in use."""
        try:
            same = self._look() == self._inodes
        except OSError:
            same = False
        if not same:
            raise NotAFrontier(
                f"{self._path} or its -wal or -shm was removed or replaced while this process had it open: nothing "
                "more is written to it. See that nothing but SQLite opens it, and start again"
            )


_OPEN: list[Files] = []  # also those of the process that this one was forked from


def check_fork(path: str) -> None:
    """After a fork SQLite takes the locks of the parent for its own. Whoever closes the file next would take itself for
    the last, and remove the log from under the child, with what that has confirmed."""
    try:
        inode = inode_of(path)
    except OSError:  # it is not there yet, or cannot be reached, as opening it will tell
        return
    for files in _OPEN:
        if files.inode == inode and files.pid != os.getpid():
            raise UsageError(
                f"{path} was open in process {files.pid} when this one was forked from it, which SQLite does not "
                "survive. Start children with `spawn`, or close it before the fork"
            )


def inode_of(path: str) -> tuple[int, int]:
    """What tells two files apart, whatever they are called."""
    stat = os.stat(path)
    return stat.st_dev, stat.st_ino


def patiently(action: Callable[[], T], *, since: float | None = None) -> T:
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


def prepare(target: Target, settings: Settings | None, *, create: bool, now: int) -> None:
    """See that there is a frontier; anything else that is in the file is left untouched."""
    check_fork(target.path)
    with translated(target.path):
        found = _find(target)
        if found.holds(target):
            return
        found.check_room(target)
        if not create:
            where = f"named {target.schema} in" if target.named else "at"
            raise NotAFrontier(
                f"there is no frontier {where} {target.path}: check the name, or create one by adding to it"
            )
        connection = _connect(target.path)
        try:
            # Before WAL is switched on, so that the header of the file itself carries our mark from the start.
            patiently(partial(_create, connection, target, settings or Settings(partitions=1), now))
        finally:
            connection.close()


class _Found(NamedTuple):
    """What a file holds."""

    mark: int  # the application's, in the header
    names: set[str]  # of tables and indexes

    def holds(self, target: Target) -> bool:
        return target.is_among(self.names)

    def check_room(self, target: Target) -> None:
        """Raise NotAFrontier where a frontier that is not there must not be created either."""
        if not target.named and (self.names or self.mark not in (0, APPLICATION_ID)):
            raise NotAFrontier(
                f"{target.path} is a database of something else; it was left alone. Name another file, or add "
                "?schema=name to the URL for a frontier beside what is there"
            )
        if clashes := target.clashes(self.names):
            raise NotAFrontier(
                f"{target.path} has {', '.join(clashes)} already, which no frontier made; it was left alone. "
                f"Choose another name than schema={target.schema}"
            )


def _find(target: Target) -> _Found:
    """What is there, without leaving a trace."""
    try:
        if os.path.getsize(target.path) == 0:
            return _Found(0, set())
    except (FileNotFoundError, NotADirectoryError):
        return _Found(0, set())
    except OSError as error:  # it may well be there, behind a directory that is closed to this user
        raise StoreUnavailable(
            f"{target.path} cannot be reached: {error.strerror}. "
            "Check that this user may enter every directory on the way"
        ) from error
    return patiently(partial(_peek, target))


def _peek(target: Target) -> _Found:
    """Read the file as it lies there, where nobody is at work on it: `immutable` locks and writes nothing.

    The file is not read by hand, since closing it would drop the locks that this process holds on it through SQLite.
    """
    before = _traces(target.path)
    if not before.journal and not before.wal:
        try:
            found = _read(target, "mode=ro&immutable=1")
        except sqlite3.DatabaseError:
            if _traces(target.path) == before:
                raise
        else:
            if _traces(target.path) == before:
                return found
    # A journal means that somebody is changing the file or has crashed over it: that takes SQLite's recovery.
    return _read(target, "mode=rw" if before.journal else "mode=ro")


class _Traces(NamedTuple):
    """What changes when somebody writes."""

    journal: bool
    wal: bool
    size: int
    modified: int


def _traces(path: str) -> _Traces:
    stat = os.stat(path)
    return _Traces(os.path.exists(f"{path}-journal"), os.path.exists(f"{path}-wal"), stat.st_size, stat.st_mtime_ns)


def _read(target: Target, mode: str) -> _Found:
    with closing(
        sqlite3.connect(f"file:{quote(os.fsencode(target.path))}?{mode}", uri=True, isolation_level=None, timeout=0)
    ) as connection:
        return _contents(connection, target)


def _contents(connection: sqlite3.Connection, target: Target) -> _Found:
    (mark,) = connection.execute("PRAGMA application_id").fetchone()
    return _Found(mark, {name for (name,) in connection.execute(target.sql["names"])})


def _create(connection: sqlite3.Connection, target: Target, settings: Settings, now: int) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        found = _contents(connection, target)
        if not found.holds(target):  # otherwise another process was first
            found.check_room(target)
            if not target.named:
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            run_script(connection, target.tables())
            for migration in all_migrations():
                connection.execute(target.sql["record_migration"], {"name": migration.name, "applied_at": now})
            connection.execute(target.sql["insert_frontier"], {"format": FORMAT, **settings._asdict()})
            connection.executemany(target.sql["insert_partition"], [(number,) for number in range(settings.partitions)])
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
