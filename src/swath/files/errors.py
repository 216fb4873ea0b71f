"""Errors of output files, and the translation of file system errors into one-line messages."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from swath import SwathError, UsageError

_FULL = (errno.ENOSPC, errno.EDQUOT)


class OutputBusy(SwathError):
    """Another process writes to this directory or file."""


class OutputDamaged(SwathError):
    """A file is shorter than its committed length: another program has changed it."""


@contextmanager
def translate_write_errors(out: str | Path) -> Iterator[None]:
    """Raise UsageError with the name of the output for any OSError, such as a full disk."""
    try:
        yield
    except FileExistsError as error:  # from mkdir
        raise UsageError(f"--out {out} is a file, not a directory: give another --out") from error
    except OSError as error:
        room = ". Make room, and run the same command again to resume" if error.errno in _FULL else ""
        raise UsageError(f"--out {out} cannot be written to: {error.strerror or error}{room}") from error
