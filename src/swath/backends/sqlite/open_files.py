"""The files of frontiers that this process has open: whether they were replaced, or inherited by a fork."""

import os
from contextlib import suppress

from swath.core.errors import NotAFrontier, UsageError


class OpenFiles:
    """The inodes of a frontier's file, its -wal and its -shm, as they were when the store opened."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._inodes = self._read_inodes()
        self.inode = self._inodes[0]
        self.pid = os.getpid()
        _OPEN.append(self)

    def release(self) -> None:
        """Remove the files from the list of open files, because the store is closed."""
        with suppress(ValueError):  # it was released before
            _OPEN.remove(self)

    def _read_inodes(self) -> tuple[tuple[int, int], ...]:
        return read_inode(self._path), read_inode(f"{self._path}-wal"), read_inode(f"{self._path}-shm")

    def check(self) -> None:
        """Raise NotAFrontier if a file was removed or replaced.

        SQLite would write into a removed file without an error. A log also disappears if this process opens and closes
        the database file without SQLite: closing it drops the locks, so that another process takes the file for unused.
        """
        try:
            same = self._read_inodes() == self._inodes
        except OSError:
            same = False
        if not same:
            raise NotAFrontier(
                f"{self._path} or its -wal or -shm was removed or replaced while this process had it open. This "
                "process stops writing. Ensure that only SQLite opens the file, and start again"
            )


_OPEN: list[OpenFiles] = []  # after a fork, also the files of the parent process


def check_fork(path: str) -> None:
    """Raise UsageError if the parent process had the file open at the fork.

    SQLite would mistake the parent's locks for its own. The next process to close the file would remove the log, with
    commits that the child has confirmed.
    """
    try:
        inode = read_inode(path)
    except OSError:  # it does not exist yet, or cannot be reached: opening it reports which
        return
    for files in _OPEN:
        if files.inode == inode and files.pid != os.getpid():
            raise UsageError(
                f"{path} was open in process {files.pid} when this one was forked from it, which SQLite does not "
                "support. Start children with `spawn`, or close it before the fork"
            )


def read_inode(path: str) -> tuple[int, int]:
    """Return the device and inode of a file, which identify it under any name."""
    stat = os.stat(path)
    return stat.st_dev, stat.st_ino
