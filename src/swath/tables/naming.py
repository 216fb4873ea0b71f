"""Names in SQL and in messages: quoted, and the nearest one where somebody mistyped."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from swath.core.errors import UsageError
from swath.tables.table import Column


def quoted(*parts: str) -> str:
    """A name as an SQL identifier, of several parts where it has a schema."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in parts)


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint at the name that was probably meant, to end a message with."""
    folded = {other.lower(): other for other in known}
    found = get_close_matches(name.lower(), folded, n=1, cutoff=0.6)
    return f" Did you mean {folded[found[0]]}?" if found else ""


def named_columns(names: Sequence[str], columns: Sequence[Column], *, table: str) -> tuple[Column, ...]:
    """The columns that somebody named, as SQL would understand it: exactly, or else whatever the case."""
    chosen: list[Column] = []
    for name in names:
        found = [column for column in columns if column.name == name]
        found = found or [column for column in columns if column.name.lower() == name.lower()]
        if len(found) != 1:
            hint = nearest(name, (column.name for column in columns))
            raise UsageError(f"{table} has no column {name!r}.{hint}")
        if found[0] in chosen:
            raise UsageError(f"column {name!r} is named twice in the key of {table}")
        chosen.append(found[0])
    return tuple(chosen)
