"""Errors of output files, and the translation of file system errors into one-line messages."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from swath import SwathError, UsageError


class OutputBusy(SwathError):
    """Another process writes to this directory or file."""


class OutputDamaged(SwathError):
    """A file is shorter than its committed length: another program has changed it."""


@contextmanager
def translate_write_errors(out: str | Path) -> Iterator[None]:
    """Raise UsageError with the name of the output for any OSError, such as a full disk."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"--out {out} cannot be written to: {error.strerror or error}") from error
