"""ColumnForm: how to read a column as canonical texts."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

Change = Callable[[str], str]  # of a canonical text


class ColumnForm(NamedTuple):
    """An expression for the canonical text of a column, and what Python changes in it.

    In one database, two columns have the same changes, so equal expressions mean equal values.
    """

    sql: str
    changes: tuple[Change, ...] = ()
    is_plain: bool = False  # never has control characters


def finish_rows(forms: Sequence[ColumnForm], rows: Iterable[Sequence[str | None]]) -> Iterable[tuple[str | None, ...]]:
    """Apply the changes of each column to rows of expressions."""
    changed = [(position, form.changes) for position, form in enumerate(forms) if form.changes]
    for row in rows:
        values = list(row)
        for position, changes in changed:
            if (text := values[position]) is not None:
                for change in changes:
                    text = change(text)
                values[position] = text
        yield tuple(values)
