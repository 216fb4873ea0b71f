"""Writing: what keeps an output from being written is said in one line."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from swath.core.errors import UsageError


@contextmanager
def translate_write_errors(out: str | Path) -> Iterator[None]:
    """A full disk, or whatever else the system refuses, is a UsageError that names the output."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"--out {out} cannot be written to: {error.strerror or error}") from error
