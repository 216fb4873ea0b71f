"""LogFile: append lines to a file that other processes append to, that may be rotated, and whose disk may be full."""

import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path

from swath import UsageError

STDERR_DESCRIPTOR = 2
FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK


class LogFile:
    """A file, or standard error if `path` is None. Any thread may write.

    Each line is one `write` to a file that was opened to append, so lines of several processes do not mix.
    """

    def __init__(self, path: Path | None, *, format_gap: Callable[[int], bytes], report: Callable[[str], None]) -> None:
        """`format_gap` returns the line that says how many are missing; `report` gets one message for each outage."""
        self._path = path
        self._format_gap = format_gap
        self._report = report
        self._lock = threading.RLock()  # reporting an outage may log a line
        self._missing = 0
        self._is_torn = False  # whether the last line was written in part
        if path is None:
            self._file, self._identity = STDERR_DESCRIPTOR, (0, 0)
            return
        try:
            self._file, self._identity = _open(path)
        except OSError as error:
            raise UsageError(f"--log-file {path}: {error.strerror or error}") from error
        if stat.S_ISFIFO(os.fstat(self._file).st_mode):
            os.close(self._file)
            raise UsageError(f"--log-file {path} is a pipe: give a regular file, or - for standard error")

    def write(self, line: bytes) -> None:
        """Append a line. If that fails, count it as missing: the log must not end the run."""
        with self._lock:
            try:
                self._reopen_if_rotated()
                if self._missing:
                    self._append(self._format_gap(self._missing))
                    self._missing = 0
                self._append(line)
            except OSError as error:
                self._missing += 1
                if self._missing == 1:
                    name = "standard error" if self._path is None else str(self._path)
                    self._report(
                        f"cannot write the log to {name}: {error.strerror or error}. The run continues, and the log "
                        "will say how many lines are missing"
                    )

    def _append(self, line: bytes) -> None:
        data = b"\n" + line if self._is_torn else line
        written = os.write(self._file, data)
        self._is_torn = written < len(data)
        if self._is_torn:  # the disk became full; writing the rest says so
            os.write(self._file, data[written:])
            self._is_torn = False

    def _reopen_if_rotated(self) -> None:
        if self._path is None:
            return
        try:
            found = os.stat(self._path)
            if (found.st_dev, found.st_ino) == self._identity:
                return
        except FileNotFoundError:
            pass
        try:
            file, identity = _open(self._path)
        except OSError:
            return  # until it can be opened again, append to the file that was renamed
        os.close(self._file)
        self._file, self._identity, self._is_torn = file, identity, False

    def close(self) -> None:
        with self._lock:
            if self._path is not None:
                os.close(self._file)


def _open(path: Path) -> tuple[int, tuple[int, int]]:
    """Open a file to append to it, and return its descriptor and its identity."""
    file = os.open(path, FLAGS, 0o666)
    found = os.fstat(file)
    return file, (found.st_dev, found.st_ino)
