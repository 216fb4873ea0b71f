"""Tables to fill, in PostgreSQL and in SQLite, and seeds."""

import os
import secrets
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Server, fresh_database
from tests.tables.conftest import Database

SEED = int(os.environ.get("SWATH_SEED", "4"))


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """A number that differs from test to test and follows from SWATH_SEED."""
    print(f"SWATH_SEED={SEED} repeats this")
    return zlib.crc32(request.node.name.encode()) ^ SEED


@pytest.fixture(scope="module")
def shared(postgres: Server) -> Iterator[str]:
    with fresh_database(postgres) as url:
        yield url


@pytest.fixture
def server(shared: str) -> Database:
    """A PostgreSQL database that the tests of a module share."""
    return Database(shared)


@pytest.fixture
def file(tmp_path: Path) -> Database:
    """An SQLite file."""
    database = Database(f"sqlite:///{tmp_path}/app.db")
    database.do("PRAGMA journal_mode = wal")
    return database


@pytest.fixture(params=["postgresql", "sqlite"])
def a_database(request: pytest.FixtureRequest) -> Database:
    database: Database = request.getfixturevalue("server" if request.param == "postgresql" else "file")
    return database


@pytest.fixture
def name() -> str:
    """A name for a table that no other test has."""
    return f"t{secrets.token_hex(6)}"
