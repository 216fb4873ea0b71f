"""`swath.delete`: it deletes a frontier and nothing else, on both stores."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

import swath
from swath import InvalidStoreURL, MissingExtra, NotAFrontier, StoreUnavailable, UsageError

Execute = Callable[[str], list[Any]]


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database that may hold other tables as well."""
    return f"sqlite:///{tmp_path}/app.db" if request.param == "sqlite" else request.getfixturevalue("database")


@pytest.fixture
def url(database_url: str) -> str:
    """A frontier beside the tables of an application."""
    return add_schema(database_url, "jobs")


@pytest.fixture
def execute(database_url: str, tmp_path: Path) -> Execute:
    def execute(statement: str) -> list[Any]:
        if database_url.startswith("sqlite"):
            with closing(sqlite3.connect(tmp_path / "app.db", isolation_level=None)) as file:
                return file.execute(statement).fetchall()
        with psycopg.connect(database_url, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    return execute


def add_schema(url: str, name: str) -> str:
    return f"{url}{'&' if '?' in url else '?'}schema={name}"


async def fill(url: str) -> None:
    async with swath.open(url) as frontier:
        await frontier.add(["a", "b"])
        await frontier.learn({"fact": 1})


async def test_a_deleted_frontier_is_gone_and_can_be_created_again(url: str) -> None:
    await fill(url)
    await swath.delete(url)
    with pytest.raises(NotAFrontier):
        await swath.open(url, create=False)
    with pytest.raises(NotAFrontier):
        await swath.delete(url)
    async with swath.open(url, partitions=1) as frontier:
        status = await frontier.status()
        assert (status.waiting, status.begun, await frontier.facts(["fact"])) == (0, False, {})
        assert await frontier.add("a") == 1


async def test_tables_that_are_not_of_the_frontier_stay(url: str, database_url: str, execute: Execute) -> None:
    name = "jobs_other" if url.startswith("sqlite") else "jobs.other"
    neighbour = add_schema(database_url, "jobs_2")
    await fill(url)
    await fill(neighbour)
    execute(f"CREATE TABLE {name} (id integer)")
    execute(f"INSERT INTO {name} VALUES (1)")
    await swath.delete(url)
    assert [tuple(row) for row in execute(f"SELECT id FROM {name}")] == [(1,)]
    async with swath.open(neighbour, create=False) as frontier:
        assert (await frontier.status()).ready == 2


async def test_a_frontier_that_a_worker_uses_is_not_deleted(url: str) -> None:
    await fill(url)
    async with swath.open(url, worker="that-one") as frontier:
        claim = await frontier.claim(lease=60)
        assert claim is not None
        with pytest.raises(StoreUnavailable, match=r"is in use: worker that-one holds 2 of its items until .* UTC"):
            await swath.delete(url)
        await claim.settle([item.done() for item in claim.items])
    await swath.delete(url)


async def test_the_claims_of_a_dead_worker_do_not_matter_when_their_lease_has_ended(url: str, execute: Execute) -> None:
    await fill(url)
    async with swath.open(url) as frontier:
        assert await frontier.claim(lease=60) is not None
    execute(f"UPDATE {'jobs_claim' if url.startswith('sqlite') else 'jobs.claim'} SET expires_at = 1")
    await swath.delete(url)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_a_file_that_holds_nothing_else_is_removed(database_url: str, tmp_path: Path) -> None:
    await fill(database_url)
    async with swath.open(database_url):
        with pytest.raises(StoreUnavailable, match="is open in another process"):
            await swath.delete(database_url)
    assert await _read_ready(database_url) == 2
    (tmp_path / "app.db.bak").touch()
    await swath.delete(database_url)
    assert list_names(tmp_path) == ["app.db.bak"]


def list_names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


async def _read_ready(url: str) -> int:
    async with swath.open(url, create=False) as frontier:
        return (await frontier.status()).ready


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_a_file_with_a_table_of_the_user_stays(database_url: str, execute: Execute) -> None:
    await fill(database_url)
    execute("CREATE TABLE mine (id integer)")
    await swath.delete(database_url)
    assert [row[0] for row in execute("SELECT name FROM sqlite_master")] == ["mine"]


async def test_a_database_of_something_else_is_refused(url: str, database_url: str, execute: Execute) -> None:
    execute("CREATE TABLE mine (id integer)")
    for wrong in (url, database_url):
        with pytest.raises(NotAFrontier):
            await swath.delete(wrong)
    assert execute("SELECT count(*) FROM mine")


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
async def test_a_frontier_that_a_view_needs_is_not_deleted(url: str, execute: Execute) -> None:
    await fill(url)
    execute("CREATE VIEW dead AS SELECT key FROM jobs.dead")
    with pytest.raises(UsageError, match=r"something else needs it: view dead depends on table jobs\.dead"):
        await swath.delete(url)
    assert await _read_ready(url) == 2


async def test_a_url_that_no_store_has_is_refused() -> None:
    for wrong, kind in {"memory:": UsageError, "nothing": InvalidStoreURL, "mongo://x": InvalidStoreURL}.items():
        with pytest.raises((kind, MissingExtra)):
            await swath.delete(wrong)
