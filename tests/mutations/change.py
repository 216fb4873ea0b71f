"""One change of a source text."""

from typing import NamedTuple


class Change(NamedTuple):
    """Replace `text[start:end]`, which begins on `line`, by `new`."""

    kind: str
    line: int
    start: int
    end: int
    new: str
