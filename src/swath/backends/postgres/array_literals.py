"""Write Python lists as PostgreSQL array literals: sending one text per column is cheaper than one value per row."""

from collections.abc import Iterable, Sequence


def text_array(values: Sequence[str | None]) -> str:
    """Write a text[] literal. If all values are None, write an empty array: `unnest` pads shorter arrays with null."""
    missing = values.count(None)
    if missing == len(values):
        return "{}"
    if missing:
        return "{" + ",".join("NULL" if value is None else _quote(value) for value in values) + "}"
    joined = "\0".join(values)  # type: ignore[arg-type]  # texts never contain NUL
    if "\\" in joined or '"' in joined:
        joined = joined.replace("\\", "\\\\").replace('"', '\\"')
    return '{"' + joined.replace("\0", '","') + '"}'


def number_array(values: Sequence[int | None], *, default: int | None = None) -> str:
    """Write a literal of an integer array. If all values are the default, write an empty array."""
    if values.count(default) == len(values):
        return "{}"
    # Formatting the list as a whole is much faster than formatting number by number.
    return "{" + str(list(values))[1:-1].replace("None", "NULL") + "}"


def boolean_array(values: Iterable[bool]) -> str:
    """Write a boolean[] literal."""
    return "{" + ",".join("t" if value else "f" for value in values) + "}"


def bytes_array(values: Sequence[bytes | None]) -> str:
    """Write a bytea[] literal, in hex."""
    if None in values or not values:
        return "{" + ",".join("NULL" if value is None else f'"\\\\x{value.hex()}"' for value in values) + "}"
    return '{"\\\\x' + '","\\\\x'.join([value.hex() for value in values]) + '"}'  # type: ignore[union-attr]


def _quote(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
