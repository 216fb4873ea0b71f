"""One table, in PostgreSQL or in SQLite."""

import secrets
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest
import pytest_asyncio

from swath.tables.canonical.form import ColumnForm
from swath.tables.canonical.pairing import choose_forms
from swath.tables.open import open_table
from swath.tables.table import Table
from tests.conftest import Server, fresh_database

Open = Callable[..., Awaitable[Table]]


async def build_forms(table: Table, names: Sequence[str]) -> list[ColumnForm]:
    """The forms of columns that are compared with columns of the same types."""
    types = await table.find_types()
    return [choose_forms(name, types[name], types[name], loose=(), is_key=False)[0] for name in names]


class Database:
    """Somebody's database, to make tables in."""

    def __init__(self, url: str) -> None:
        self.url = url

    @property
    def kind(self) -> str:
        return self.url.partition(":")[0]

    def do(self, *statements: str) -> list[Any]:
        """Run statements, and return what the last one says."""
        rows: list[Any] = []
        if self.kind == "postgresql":
            with psycopg.connect(self.url, autocommit=True) as connection:
                for statement in statements:
                    cursor = connection.execute(statement.encode())
                    rows = cursor.fetchall() if cursor.description else []
        else:
            with sqlite3.connect(self.url.removeprefix("sqlite:///"), isolation_level=None) as file:
                for statement in statements:
                    rows = file.execute(statement).fetchall()
            file.close()
        return rows


@pytest.fixture(scope="module")
def shared(postgres: Server) -> Iterator[str]:
    with fresh_database(postgres) as url:
        yield url


@pytest.fixture
def postgres_database(shared: str) -> Database:
    """A database that the tests of a module share."""
    return Database(shared)


@pytest.fixture(params=["postgresql", "sqlite"])
def a_database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    if request.param == "sqlite":
        database = Database(f"sqlite:///{tmp_path}/app.db")
        database.do("PRAGMA journal_mode = wal")
        return database
    return Database(request.getfixturevalue("shared"))


@pytest.fixture
def name() -> str:
    """A name for a table that no other test has."""
    return f"t{secrets.token_hex(6)}"


@pytest_asyncio.fixture
async def opened() -> AsyncIterator[Open]:
    """Opens tables and closes them afterwards."""
    tables: list[Table] = []

    async def opening(database: Database, name: str, **options: Any) -> Table:
        tables.append(await open_table(database.url, name, **options))
        return tables[-1]

    yield opening
    for table in tables:
        await table.close()
