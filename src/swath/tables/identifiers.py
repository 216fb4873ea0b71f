"""Names of tables and columns: quote them, look them up, suggest the nearest one for a typo."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from swath import UsageError
from swath.tables.table import Column


def quote_identifier(*parts: str) -> str:
    """Quote an SQL identifier. Several parts are joined with dots, as in "schema"."table"."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in parts)


def suggest_name(name: str, known: Iterable[str]) -> str:
    """Return " Did you mean …?" for the nearest known name, or an empty string."""
    folded = {other.lower(): other for other in known}
    found = get_close_matches(name.lower(), folded, n=1, cutoff=0.6)
    return f" Did you mean {folded[found[0]]}?" if found else ""


def find_columns(names: Sequence[str], columns: Sequence[Column], *, table: str) -> tuple[Column, ...]:
    """Return the columns with these names. Prefer an exact match over one that differs in case."""
    chosen: list[Column] = []
    for name in names:
        found = [column for column in columns if column.name == name]
        found = found or [column for column in columns if column.name.lower() == name.lower()]
        if len(found) != 1:
            hint = suggest_name(name, (column.name for column in columns))
            raise UsageError(f"{table} has no column {name!r}.{hint}")
        if found[0] in chosen:
            raise UsageError(f"column {name!r} occurs twice in the key of {table}")
        chosen.append(found[0])
    return tuple(chosen)
