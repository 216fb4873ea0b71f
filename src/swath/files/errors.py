"""Errors of output files, and the translation of file system errors into one-line messages."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from swath import OutputFull, SwathError, UsageError

_FULL = (errno.ENOSPC, errno.EDQUOT)


class OutputBusy(SwathError):
    """Another process writes to this directory or file."""


class OutputDamaged(SwathError):
    """A file is shorter than its committed length: another program has changed it."""


@contextmanager
def translate_write_errors(out: str | Path) -> Iterator[None]:
    """Raise OutputFull if the disk is full, and UsageError for any other OSError. Both name the output."""
    try:
        yield
    except FileExistsError as error:  # from mkdir
        raise UsageError(f"--out {out} is a file, not a directory: give another --out") from error
    except OSError as error:
        raise make_write_error(f"--out {out}", error) from error


def make_write_error(output: str, error: OSError) -> SwathError:
    """Return OutputFull if the disk is full, or else UsageError."""
    message = f"{output} cannot be written to: {error.strerror or error}"
    if error.errno not in _FULL:
        return UsageError(message)
    full = OutputFull(f"{message}. Make room")
    full.add_note("Then run the same command again to resume")  # for a command that ends with this error
    return full
