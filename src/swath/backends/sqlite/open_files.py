"""The files of frontiers that this process has open: whether they were replaced, or inherited by a fork."""

import os
from contextlib import suppress

from swath.core.errors import NotAFrontier, UsageError


class OpenFiles:
    """The file of a frontier, its log and the locks of both, as they were when they were opened."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._inodes = self._read_ready_times()
        self.inode = self._inodes[0]
        self.pid = os.getpid()
        _OPEN.append(self)

    def release(self) -> None:
        """They are closed."""
        with suppress(ValueError):  # for the second time
            _OPEN.remove(self)

    def _read_ready_times(self) -> tuple[tuple[int, int], ...]:
        return read_inode(self._path), read_inode(f"{self._path}-wal"), read_inode(f"{self._path}-shm")

    def check(self) -> None:
        """SQLite goes on to write into files that are gone, and tells nobody. A log also goes when a process closes the
        file by hand, and with it the locks that say that it is in use."""
        try:
            same = self._read_ready_times() == self._inodes
        except OSError:
            same = False
        if not same:
            raise NotAFrontier(
                f"{self._path} or its -wal or -shm was removed or replaced while this process had it open: nothing "
                "more is written to it. See that nothing but SQLite opens it, and start again"
            )


_OPEN: list[OpenFiles] = []  # also those of the process that this one was forked from


def check_fork(path: str) -> None:
    """After a fork SQLite takes the locks of the parent for its own. Whoever closes the file next would take itself for
    the last, and remove the log from under the child, with what that has confirmed."""
    try:
        inode = read_inode(path)
    except OSError:  # it is not there yet, or cannot be reached, as opening it will tell
        return
    for files in _OPEN:
        if files.inode == inode and files.pid != os.getpid():
            raise UsageError(
                f"{path} was open in process {files.pid} when this one was forked from it, which SQLite does not "
                "survive. Start children with `spawn`, or close it before the fork"
            )


def read_inode(path: str) -> tuple[int, int]:
    """What tells two files apart, whatever they are called."""
    stat = os.stat(path)
    return stat.st_dev, stat.st_ino
