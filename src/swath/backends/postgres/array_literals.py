"""Python lists as PostgreSQL array literals: one text a column is much cheaper to send than a value a row."""

from collections.abc import Iterable, Sequence


def text_array(values: Sequence[str | None]) -> str:
    """A text[] literal. All null is empty: `unnest` fills up shorter arrays with null."""
    missing = values.count(None)
    if missing == len(values):
        return "{}"
    if missing:
        return "{" + ",".join("NULL" if value is None else _quoted(value) for value in values) + "}"
    joined = "\0".join(values)  # type: ignore[arg-type]  # NUL is in no text that reaches a store
    if "\\" in joined or '"' in joined:
        joined = joined.replace("\\", "\\\\").replace('"', '\\"')
    return '{"' + joined.replace("\0", '","') + '"}'


def number_array(values: Sequence[int | None], *, default: int | None = None) -> str:
    """A literal of any array of whole numbers. Nothing but the default is empty, as with texts."""
    if values.count(default) == len(values):
        return "{}"
    # As Python writes a list, which is much faster than to write one number after the other.
    return "{" + str(list(values))[1:-1].replace("None", "NULL") + "}"


def boolean_array(values: Iterable[bool]) -> str:
    return "{" + ",".join("t" if value else "f" for value in values) + "}"


def bytes_array(values: Sequence[bytes | None]) -> str:
    """A bytea[] literal, in hex."""
    if None in values or not values:
        return "{" + ",".join("NULL" if value is None else f'"\\\\x{value.hex()}"' for value in values) + "}"
    return '{"\\\\x' + '","\\\\x'.join([value.hex() for value in values]) + '"}'  # type: ignore[union-attr]


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
