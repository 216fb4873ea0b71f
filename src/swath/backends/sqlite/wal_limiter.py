"""WalLimiter: keeps the write-ahead log in proportion to the database.

At half the limit, a thread copies the log into the database. A commit after that copies the little that was written
meanwhile, so that the log restarts at its beginning: after the reply to a claim, if one comes soon. If the log reaches
the limit all the same, a commit waits for the thread, and a moment for readers, and truncates the file. Only a longer
read transaction keeps the log long.
"""

import logging
import os
import sqlite3
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from swath.backends.sqlite.connection import WAL_BYTES
from swath.backends.sqlite.wal_checkpointer import WalCheckpointer
from swath.backends.sqlite.wal_file import WalFile

log = logging.getLogger("swath.sqlite")

WAL_SHARE = 0.25  # of the database, in addition to WAL_BYTES
MAX_WAL_BYTES = 64_000_000
CHECKPOINT_POLL_SECONDS = 0.002
READER_MILLISECONDS = 500  # how long a commit waits for readers when the log has reached its limit

_READ_LOCKS = range(124, 128)  # bytes of the -shm: locked by a transaction that reads from the log


class WalLimiter:
    """One limiter for all connections of a store that write. They call it while they hold the write turn."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._closed = False
        self._log = WalFile(f"{path}-wal")
        self._checkpointer = WalCheckpointer(path)
        self._asked = False  # whether the thread was asked to copy the log since it was last copied completely
        self._next = 0  # frames in the log at which to act
        self._wait_at = 0  # frames in the log at which a commit waits
        self._limit = get_wal_limit(os.stat(path).st_size)  # bytes

    def adopt(self, connection: sqlite3.Connection) -> sqlite3.Connection:
        """Checkpoint on behalf of a connection from now on, instead of SQLite."""
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection.execute(f"PRAGMA journal_size_limit = {self._limit}")
        return connection

    def is_due(self, *, postpone: bool = False) -> bool:
        """Return whether the log is to be shortened. Ask after each commit.

        With `postpone`, leave what a commit has to copy itself to a later one, as long as the log is not too long.
        """
        with self._lock:
            if self._closed:
                return False
            if self._log.read_header():
                self._begin_log()
            if self._log.has_frame(self._next):
                return not (postpone and self._asked) or self._log.has_frame(3 * self._wait_at // 4)
            return False

    def shorten(self, connection: sqlite3.Connection) -> None:
        """Shorten the log, with a connection that has no transaction."""
        with self._lock:
            if not self._closed:
                try:
                    self._shorten(connection)
                except (sqlite3.Error, OSError):  # a full disk or a removed file, say: the next transaction reports it
                    self._next += self._log.count_frames(self._limit // 8)

    def make_room(self, connection: sqlite3.Connection) -> None:
        """Truncate the log if everything in it fits into the database. Call it when the disk is full."""
        with self._lock, suppress(sqlite3.Error):
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._checkpointer.close()
            self._log.close()

    def _begin_log(self) -> None:
        self._asked = False
        self._wait_at = self._log.count_frames(self._limit)
        self._next = self._log.count_frames(self._limit // 2)

    def _shorten(self, connection: sqlite3.Connection) -> None:
        if self._log.has_frame(self._wait_at):
            self._checkpointer.wait()
            self._truncate(connection)
        elif self._checkpointer.is_running:
            return
        elif not self._asked:
            self._asked = True
            self._checkpointer.checkpoint()
        else:
            self._asked = False
            _, frames, _ = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            # The next commit restarts the log, unless somebody reads from it. Then try again when it is longer.
            self._next = min(max(frames, self._next) + self._log.count_frames(self._limit // 8), self._wait_at)
            self._update_limit(connection)

    def _truncate(self, connection: sqlite3.Connection) -> None:
        connection.execute(f"PRAGMA busy_timeout = {READER_MILLISECONDS}")
        try:
            deadline = time.monotonic() + READER_MILLISECONDS / 1_000
            while True:
                busy, frames, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                if frames >= 0 or time.monotonic() > deadline:
                    break
                time.sleep(CHECKPOINT_POLL_SECONDS)  # another process runs a checkpoint, which SQLite does not wait for
        finally:
            connection.execute("PRAGMA busy_timeout = 0")
        if busy:
            warned = self._wait_at > self._log.count_frames(self._limit)
            self._next = max(frames, self._wait_at) + self._log.count_frames(self._limit // 2)
            self._wait_at = 2 * max(frames, self._wait_at)
            if warned:
                self._warn()
        self._update_limit(connection)

    def _update_limit(self, connection: sqlite3.Connection) -> None:
        limit = get_wal_limit(os.stat(self._path).st_size)
        if limit != self._limit:
            self._limit = limit
            connection.execute(f"PRAGMA journal_size_limit = {limit}")

    def _warn(self) -> None:
        size, database = os.stat(f"{self._path}-wal").st_size, os.stat(self._path).st_size
        readers = find_readers(f"{self._path}-shm")
        who = f"process {', '.join(map(str, readers))} has" if readers else "another connection has"
        log.warning(
            "the write-ahead log %s-wal has grown to %d MB, beside a database of %d MB: %s a read transaction open, "
            "and SQLite can shorten the log only when it ends. End that transaction, or that program",
            self._path,
            size // 1_000_000,
            database // 1_000_000,
            who,
        )


def get_wal_limit(database_bytes: int) -> int:
    """Return how many bytes the log of a database may have, apart from one transaction."""
    return min(MAX_WAL_BYTES, WAL_BYTES + int(WAL_SHARE * database_bytes))


def find_readers(shm: str) -> list[int]:
    """Return the processes that read from the log, if the system lists its locks."""
    try:
        stat = os.stat(shm)
        device = f"{os.major(stat.st_dev):02x}:{os.minor(stat.st_dev):02x}:{stat.st_ino}"
        lines = [line.split() for line in Path("/proc/locks").read_text(encoding="ascii").splitlines()]
    except OSError:
        return []
    return sorted({int(line[4]) for line in lines if len(line) == 8 and line[5] == device and _reads_log(line)})


def _reads_log(line: Sequence[str]) -> bool:
    """Return whether a line of /proc/locks is a lock like `7: POSIX ADVISORY READ 4711 fe:00:1234 124 124`."""
    kind, process, first, last = line[3], line[4], line[6], line[7]
    if kind != "READ" or not (process.isdigit() and first.isdigit() and last.isdigit()):
        return False  # the process is 0 or -1 outside of this container
    return int(process) > 0 and int(first) < _READ_LOCKS.stop and int(last) >= _READ_LOCKS.start
