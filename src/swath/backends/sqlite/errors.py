"""Translate the errors of SQLite to swath's own."""

import os
import sqlite3
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


def is_busy(error: sqlite3.Error) -> bool:
    """Return whether another connection holds a lock, so that waiting helps."""
    return get_primary_code(error) in BUSY


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
    match get_primary_code(error):
        case "SQLITE_BUSY" | "SQLITE_LOCKED":
            return StoreUnavailable(f"{path} was locked by another process for longer than the time limit: try again")
        case "SQLITE_FULL":
            return StoreFull(f"{path}: the disk is full; nothing was changed. Make room and try again")
        case "SQLITE_IOERR" if _get_name(error) in {"SQLITE_IOERR_WRITE", "SQLITE_IOERR_SHMSIZE"}:
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
