"""Transactions of a table, in the event loop and in threads: committed at the end, rolled back after an error."""

import inspect
from typing import Any

import psycopg
import pytest

from tests.tables.conftest import Database, Open

pytestmark = pytest.mark.parametrize("how", ["transaction", "blocking_transaction"])


async def execute(connection: Any, statement: str) -> None:
    done = connection.execute(statement)
    if inspect.isawaitable(done):
        await done


async def test_an_error_rolls_back_and_leaves_no_session(
    a_database: Database, name: str, opened: Open, how: str
) -> None:
    a_database.do(f"CREATE TABLE {name} (id INTEGER PRIMARY KEY)", f"INSERT INTO {name} VALUES (1)")
    table = await opened(a_database, name)

    async def fail() -> Any:
        async with getattr(table, how)() as connection:
            await execute(connection, f"DELETE FROM {name}")
            used.append(connection)
            raise KeyError

    used: list[Any] = []
    with pytest.raises(KeyError):
        await fail()
    a_database.do(f"UPDATE {name} SET id = 2")  # no lock is held
    assert [tuple(row) for row in a_database.do(f"SELECT id FROM {name}")] == [(2,)]
    if isinstance(used[0], psycopg.Connection):
        assert used[0].closed


async def test_a_transaction_commits_at_its_end(a_database: Database, name: str, opened: Open, how: str) -> None:
    a_database.do(f"CREATE TABLE {name} (id INTEGER PRIMARY KEY)")
    table = await opened(a_database, name)
    for number in (1, 2):
        async with getattr(table, how)() as connection:
            await execute(connection, f"INSERT INTO {name} VALUES ({number})")
            assert a_database.do(f"SELECT count(*) FROM {name}")[0][0] == number - 1
        if isinstance(connection, psycopg.Connection):
            assert connection.closed
    assert a_database.do(f"SELECT count(*) FROM {name}")[0][0] == 2
