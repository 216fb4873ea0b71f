"""Definition: what a table was when a job began, to notice changes that make the job's progress wrong.

A job remembers how far it has come as a key. That means nothing if the keys have another order now, or if the table
is another one with the same name.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from swath import UsageError


class TableChanged(UsageError):
    """The table is not what it was when the job began. The message says what changed."""


class Identity(NamedTuple):
    """Tells a table from another one with the same name. Comparable only within a database."""

    database: str
    table: str


class KeyColumn(NamedTuple):
    """What determines the order of a key column."""

    name: str
    type: str
    collation: str | None  # with the version of its library; None for types without one


@dataclass(frozen=True, slots=True)
class Definition:
    """A table's identity, the order of its key, and the types of all its columns."""

    identity: Identity | None  # None: the database cannot tell
    key: tuple[KeyColumn, ...]
    columns: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        """Return what `parse_definition` needs. Columns outside the key may change between runs."""
        identity = None if self.identity is None else self.identity._asdict()
        return {"identity": identity, "key": [column._asdict() for column in self.key]}


def parse_definition(data: Mapping[str, Any]) -> Definition:
    identity = None if data["identity"] is None else Identity(**data["identity"])
    return Definition(identity, tuple(KeyColumn(**column) for column in data["key"]), {})


def describe_change(name: str, before: Definition, now: Definition) -> str | None:
    """Return what makes progress from `before` wrong, or None. `name` is that of the table."""
    one, other = before.identity, now.identity
    if one is not None and other is not None and one.database == other.database and one.table != other.table:
        return f"{name} is another table: it was dropped and created again, or another one got its name"
    current = {column.name: column for column in now.key}
    for column in before.key:
        found = current.get(column.name)
        if found is None:
            return f"{name} has no column {column.name} any more, which was part of the key"
        if column.type != found.type:
            return _describe_difference(name, column.name, "type", column.type, found.type)
        if column.collation != found.collation:
            return _describe_difference(name, column.name, "collation", column.collation, found.collation)
    return None


def require_unchanged(name: str, before: Definition, now: Definition, *, columns: bool) -> None:
    """Raise TableChanged if progress from `before` is wrong now. With `columns`, compare all columns."""
    change = describe_change(name, before, now)
    if change is None and columns:
        change = _describe_column_change(name, before.columns, now.columns)
    if change is not None:
        raise TableChanged(change)


def _describe_column_change(name: str, before: Mapping[str, str], now: Mapping[str, str]) -> str | None:
    for column, type_ in before.items():
        if column not in now:
            return f"{name} has no column {column} any more"
        if now[column] != type_:
            return _describe_difference(name, column, "type", type_, now[column])
    return None


def _describe_difference(name: str, column: str, what: str, before: str | None, now: str | None) -> str:
    return f"the {what} of {name}.{column} was {before or 'none'} and is now {now or 'none'}"
