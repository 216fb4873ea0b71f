"""The statements that go through a table by its key, as texts: the same for every database but for how names and values
are written."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from swath.tables.table import Column, Description, Fragment, Key


class Dialect(NamedTuple):
    """How a driver wants names and values written."""

    name: Callable[[str], str]
    placeholder: Callable[[Column], str]
    bound: Callable[[Any], Any]  # a value of a key, as the driver takes it


def key_list(about: Description, dialect: Dialect, *, of: str = "", descending: bool = False) -> str:
    """The key's columns. With the table's alias `of`: by a bare name, ORDER BY takes a column of the result before one
    of the table, and there keys are texts."""
    prefix = f"{of}." if of else ""
    return ", ".join(prefix + dialect.name(name) + " DESC" * descending for name in about.key_names)


def literal(about: Description, key: Key, dialect: Dialect) -> Fragment:
    """A key as a list of values."""
    if len(key) != len(about.key):
        raise ValueError(f"{key!r} is no key of {about.name}: it has the columns {', '.join(about.key_names)}")
    return Fragment(", ".join(map(dialect.placeholder, about.key)), tuple(map(dialect.bound, key)))


def within(about: Description, dialect: Dialect, *, first: Key | None, after: Key | None, upto: Key | None) -> Fragment:
    """The condition that a row is in the slice (after, upto], in the database's own order. `first` is where the table
    begins."""
    conditions: list[str] = []
    values: tuple[Any, ...] = ()
    begin = (">=", first) if after is None else (">", after)
    for comparison, key in (begin, ("<=", upto)):
        if key is not None:
            one = literal(about, key, dialect)
            conditions.append(f"({key_list(about, dialect)}) {comparison} ({one.sql})")
            values += one.values
    return Fragment(" AND ".join(conditions) or "true", values)


def among(about: Description, keys: Sequence[Key], dialect: Dialect) -> Fragment:
    """The condition that a row has one of some keys."""
    literals = [literal(about, key, dialect) for key in keys]
    listed = ", ".join(f"({one.sql})" for one in literals)
    values = tuple(value for one in literals for value in one.values)
    return Fragment(f"({key_list(about, dialect)}) IN (VALUES {listed})", values)
