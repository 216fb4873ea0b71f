"""Python lists as PostgreSQL array literals: one text a column is much cheaper to send than a value a row."""

from collections.abc import Iterable, Sequence


def text_array(values: Sequence[str | None]) -> str:
    """A text[] literal. All null is empty: `unnest` fills up shorter arrays with null."""
    if all(value is None for value in values):
        return "{}"
    if None in values:
        return "{" + ",".join("NULL" if value is None else _quoted(value) for value in values) + "}"
    joined = "\0".join(values)  # type: ignore[arg-type]  # NUL is in no text that reaches a store
    if "\\" in joined or '"' in joined:
        joined = joined.replace("\\", "\\\\").replace('"', '\\"')
    return '{"' + joined.replace("\0", '","') + '"}'


def number_array(values: Sequence[int | None], *, default: int | None = None) -> str:
    """A literal of any array of whole numbers. Nothing but the default is empty, as with texts."""
    if all(value == default for value in values):
        return "{}"
    return "{" + ",".join("NULL" if value is None else str(value) for value in values) + "}"


def boolean_array(values: Iterable[bool]) -> str:
    return "{" + ",".join("t" if value else "f" for value in values) + "}"


def bytes_array(values: Iterable[bytes | None]) -> str:
    """A bytea[] literal, in hex."""
    return "{" + ",".join("NULL" if value is None else f'"\\\\x{value.hex()}"' for value in values) + "}"


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
