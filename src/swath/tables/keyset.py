"""SQL that pages through a table by its key. A dialect supplies how names and values are written."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from swath.tables.table import Column, Description, Fragment, Key


class Dialect(NamedTuple):
    """How a driver writes names and values."""

    quote: Callable[[str], str]
    placeholder: Callable[[Column], str]
    bind: Callable[[Any], Any]  # a value of a key -> the value that the driver takes


def list_key_columns(description: Description, dialect: Dialect, *, of: str = "", descending: bool = False) -> str:
    """Return the key's columns, separated by commas.

    Pass the table's alias as `of` if the result has columns of the same name: ORDER BY prefers a column of the result
    over one of the table, and in the result keys are text.
    """
    prefix = f"{of}." if of else ""
    return ", ".join(prefix + dialect.quote(name) + " DESC" * descending for name in description.key_names)


def build_key_values(description: Description, key: Key, dialect: Dialect) -> Fragment:
    """Return a key as a list of bound values."""
    if len(key) != len(description.key):
        columns = ", ".join(description.key_names)
        raise ValueError(f"{key!r} is not a key of {description.name}, whose key columns are {columns}")
    return Fragment(", ".join(map(dialect.placeholder, description.key)), tuple(map(dialect.bind, key)))


def build_slice_condition(
    description: Description, dialect: Dialect, *, lower_bound: Key | None, after: Key | None, upto: Key | None
) -> Fragment:
    """Return the condition for rows in the slice (after, upto], in the database's own order.

    If `after` is None, the slice starts at `lower_bound`, inclusive.
    """
    conditions: list[str] = []
    values: tuple[Any, ...] = ()
    start = (">=", lower_bound) if after is None else (">", after)
    for comparison, key in (start, ("<=", upto)):
        if key is not None:
            bound = build_key_values(description, key, dialect)
            conditions.append(f"({list_key_columns(description, dialect)}) {comparison} ({bound.sql})")
            values += bound.values
    return Fragment(" AND ".join(conditions) or "true", values)


def build_keys_condition(description: Description, keys: Sequence[Key], dialect: Dialect) -> Fragment:
    """Return the condition for rows that have one of these keys."""
    rows = [build_key_values(description, key, dialect) for key in keys]
    listed = ", ".join(f"({row.sql})" for row in rows)
    values = tuple(value for row in rows for value in row.values)
    return Fragment(f"({list_key_columns(description, dialect)}) IN (VALUES {listed})", values)
