"""`transaction()` of the SQLite store when a caller ends it early, is cancelled, or finds the file locked."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest
import pytest_asyncio

from swath.backends.sqlite import SqliteStore
from swath.backends.sqlite.transactions import IDLE_CONNECTIONS
from swath.core.errors import StoreUnavailable, WrongTransaction
from swath.core.lane import hash_key, locate_lane
from swath.core.store import EncodedItem, Settings
from tests.recorder import PATIENCE


@pytest_asyncio.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(str(tmp_path / "work.db"), settings=Settings(1), synchronous="normal")
    yield store
    await store.close()


def _item(key: str) -> EncodedItem:
    return EncodedItem(0, hash_key(key) + locate_lane("a", 1)[1], "a", 3, key, None, None, 1)


async def _commit_inside(store: SqliteStore) -> None:
    async with store.transaction() as connection:
        connection.execute("COMMIT")


async def _lock_elsewhere(store: SqliteStore) -> None:
    """Raise what a sink raises when another connection of its own finds the file locked."""
    async with store.transaction():
        with closing(sqlite3.connect(store.path, timeout=0)) as other:
            other.execute("BEGIN IMMEDIATE")


async def test_a_transaction_that_ended_inside_its_block_is_an_error(store: SqliteStore) -> None:
    with pytest.raises(WrongTransaction, match="ended before its block"):
        await _commit_inside(store)
    assert await store.add([_item("a")]) == 1


async def test_a_locked_file_inside_the_block_is_store_unavailable(store: SqliteStore) -> None:
    with pytest.raises(StoreUnavailable):
        await _lock_elsewhere(store)
    assert await store.add([_item("a")]) == 1


async def test_a_caller_cancelled_while_it_waits_for_the_lock_leaves_the_file_free(store: SqliteStore) -> None:
    async with store.transaction() as connection:
        connection.execute("CREATE TABLE mine (name TEXT)")
        waiting = asyncio.ensure_future(_commit_inside(store))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert await store.add([_item("a")]) == 1


async def test_a_caller_cancelled_inside_the_block_rolls_back(store: SqliteStore) -> None:
    inside = asyncio.Event()

    async def write() -> None:
        async with store.transaction() as connection:
            connection.execute("CREATE TABLE mine (name TEXT)")
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.ensure_future(write())
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with store.transaction() as connection:
        assert connection.execute("SELECT name FROM sqlite_master WHERE name = 'mine'").fetchall() == []


async def test_a_transaction_resets_how_the_caller_before_read_rows(store: SqliteStore) -> None:
    async with store.transaction() as connection:
        connection.row_factory = sqlite3.Row
    async with store.transaction() as connection:
        assert connection.row_factory is None


async def test_a_committed_transaction_wakes_a_waiting_worker(store: SqliteStore) -> None:
    waiting = asyncio.ensure_future(store.wait(60))
    await asyncio.sleep(0)
    async with store.transaction():
        pass
    async with asyncio.timeout(10):
        await waiting


async def test_a_store_keeps_few_idle_connections_and_closes_them(store: SqliteStore) -> None:
    """Each has a thread of its own."""

    async def wait_for_threads(count: int) -> None:
        name = f"swath transaction on {store.path}"
        async with asyncio.timeout(PATIENCE):
            while sum(name in thread.name for thread in threading.enumerate()) != count:  # noqa: ASYNC110
                await asyncio.sleep(0.001)

    async def change() -> None:
        async with store.transaction() as connection:
            connection.execute("SELECT 1")

    await asyncio.gather(*(change() for _ in range(IDLE_CONNECTIONS + 3)))
    await wait_for_threads(IDLE_CONNECTIONS)
    async with store.transaction():
        await store.close()
        await wait_for_threads(1)
    await wait_for_threads(0)
