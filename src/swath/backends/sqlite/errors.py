"""Translate the errors of SQLite to swath's own.

SQLite reports a full disk as SQLITE_FULL only if a write failed with ENOSPC. A quota (EDQUOT), a limit for the size of
files (EFBIG) and a failing disk (EIO) are all SQLITE_IOERR_WRITE, and the system's error number is not in Python's
exception. So a small write to the same directory finds out which one it is.
"""

import errno
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from swath.core.errors import InvalidItem, NotAFrontier, StoreFull, StoreUnavailable, SwathError

BUSY = {"SQLITE_BUSY", "SQLITE_LOCKED"}
TEMPORARY = BUSY | {
    "SQLITE_FULL",
    "SQLITE_IOERR",
    "SQLITE_CANTOPEN",
    "SQLITE_READONLY",
}  # waiting helps, or free disk space does
FULL = {"SQLITE_FULL", "SQLITE_IOERR_SHMSIZE", "SQLITE_IOERR_WRITE"}
MAY_NOT_WRITE = {"SQLITE_IOERR", "SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_PERM"}
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
PROBE_BYTES = 65_536  # more than SQLite needs to open a file


def is_busy(error: sqlite3.Error) -> bool:
    """Return whether another connection holds a lock, so that waiting helps."""
    return get_primary_code(error) in BUSY


def means_full_disk(error: sqlite3.Error) -> bool:
    """Return whether there is probably no room for the file to grow."""
    return _get_name(error) in FULL


def _get_name(error: sqlite3.Error) -> str:
    return getattr(error, "sqlite_errorname", "")


def get_primary_code(error: sqlite3.Error) -> str:
    """Return the primary result code: SQLITE_BUSY for SQLITE_BUSY_SNAPSHOT."""
    return "_".join(_get_name(error).split("_")[:2])


@contextmanager
def translate_errors(path: str) -> Iterator[None]:
    """Raise every error of the driver as a SwathError, with the driver's error as its cause."""
    try:
        yield
    except sqlite3.Error as error:
        raise translate_error(error, path) from error


def translate_error(error: sqlite3.Error, path: str) -> SwathError:
    """Return the SwathError for an error of SQLite. Its message says what to do."""
    code = get_primary_code(error)
    cause = find_write_error(path) if code in MAY_NOT_WRITE else 0
    match code:
        case "SQLITE_BUSY" | "SQLITE_LOCKED":
            return StoreUnavailable(f"{path} was locked by another process for longer than the time limit: try again")
        case "SQLITE_FULL":
            return StoreFull(f"{path}: the disk is full; nothing was changed. Make room and try again")
        # The system may have discarded what it could not write, also of earlier commits, so do not commit again.
        case "SQLITE_IOERR" if _get_name(error) in {"SQLITE_IOERR_FSYNC", "SQLITE_IOERR_DIR_FSYNC"}:
            return SwathError(f"{path} could not be synced to disk ({error}). Check the disk, then start again")
        case _ if cause in NO_ROOM:
            return StoreFull(
                f"{path} could not be written: {os.strerror(cause)}; nothing was changed. Make room and try again"
            )
        case _ if cause == errno.EROFS:
            return StoreUnavailable(
                f"{path} is on a file system that is mounted read-only; nothing was changed. The kernel does that to a "
                "damaged file system too: see `dmesg`"
            )
        case "SQLITE_IOERR" if means_full_disk(error) and not cause:
            return StoreFull(
                f"{path} could not be written: the disk is full, or a quota or file size limit is reached; "
                "nothing was changed. Make room and try again"
            )
        case "SQLITE_NOTADB":
            return NotAFrontier(f"{path} is not an SQLite database; nothing was changed. Name another file")
        case "SQLITE_CANTOPEN":
            return StoreUnavailable(_explain_open_failure(path))
        case "SQLITE_READONLY" | "SQLITE_PERM":
            return StoreUnavailable(
                f"{path} cannot be written by this user: the file and its directory must both be writable"
            )
        case "SQLITE_CORRUPT":
            return SwathError(f"{path} is damaged ({error}): restore it from a backup")
        # A dropped or edited table, or a bug in swath: waiting does not help.
        case "SQLITE_ERROR" | "SQLITE_CONSTRAINT" | "SQLITE_MISMATCH":
            return SwathError(f"{path} refused a statement: {error}. Has something else changed its tables?")
        case "SQLITE_TOOBIG":
            return InvalidItem("a key, payload or result is larger than SQLite can hold (1 GB)")
        case _:
            return StoreUnavailable(f"{path}: {error} ({_get_name(error) or type(error).__name__})")


def _explain_open_failure(path: str) -> str:
    directory = os.path.dirname(path)
    if not os.path.isdir(directory):
        return f"{path} cannot be opened: the directory {directory} does not exist. Create it first"
    return f"{path} cannot be opened: check that this user may read and write it and its directory"


def find_write_error(path: str) -> int:
    """Write a small file without a name beside the database. Return the error number; 0 if that succeeded."""
    try:
        with tempfile.TemporaryFile(dir=os.path.dirname(path)) as file:
            file.write(bytes(PROBE_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return error.errno or 0
    return 0
