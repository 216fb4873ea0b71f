"""Messages that name a few of many: at the limit they name all, and above it they say how many more there are."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing

import pytest

from swath import HandlerError, SchemaError
from swath.backends.sqlite.format import check_tables
from swath.backends.sqlite.location import SqliteLocation
from swath.cli import store_argument
from swath.cli.run_view import MAX_KINDS, list_error_rows


def name_missing(count: int) -> str:
    """The message about a frontier that lacks some indexes."""
    location = SqliteLocation.of(":memory:", "swath")
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(location.create_script())
        check_tables(connection, location)
        query = "SELECT name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL ORDER BY name LIMIT ?"
        names = [name for (name,) in connection.execute(query, [count])]
        assert len(names) == count
        for name in names:
            connection.execute(f"DROP INDEX {name}")
        with pytest.raises(SchemaError) as raised:
            check_tables(connection, location)
    return str(raised.value).partition(": ")[2].partition(" is missing")[0]


def test_missing_tables() -> None:
    assert name_missing(3).count(", ") == 2
    assert " more" not in name_missing(3)
    assert name_missing(4).endswith(" and 1 more")
    assert name_missing(4).count(", ") == 2


def join(names: Iterator[str] | Sequence[str]) -> str:
    return store_argument._join(names)


def test_frontiers() -> None:
    names = [f"{number}" for number in range(store_argument.MAX_SHOWN + 2)]
    assert join(names[:-2]) == ", ".join(names[:-2])
    assert join(iter(names)) == ", ".join(names[:-2]) + " and 2 more"


def test_errors_of_a_handler() -> None:
    errors = [HandlerError(f"E{number}", None, 1, "key") for number in range(MAX_KINDS + 2)]
    ((_, all_of_them),) = list_error_rows(errors[:-2])
    ((_, some),) = list_error_rows(errors)
    assert "more" not in all_of_them
    assert some == f"{all_of_them}; and 2 more kinds"
