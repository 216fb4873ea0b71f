"""The log of an SQLite file is copied beside the writer: it stays short, nothing is lost, and nobody depends on it."""

import asyncio
import itertools
import multiprocessing
import os
import random
import signal
import sqlite3
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from multiprocessing.queues import Queue
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import pytest

from swath.backends.sqlite import SqliteStore
from swath.backends.sqlite.add import add
from swath.backends.sqlite.state import Session
from swath.backends.sqlite.wal_checkpointer import WalCheckpointer
from swath.core.store import EncodedItem

SPAWN = multiprocessing.get_context("spawn")
PATIENCE = 60.0


def new(number: int) -> EncodedItem:
    return EncodedItem(0, b"%20d" % number, f"lane {number % 7}", 3, str(number), None, None, 1)


def size_of(path: Path) -> int:
    return path.stat().st_size


def items_in(path: Path, how: str = "mode=ro") -> int:
    with closing(sqlite3.connect(f"file:{path}?{how}", uri=True)) as connection:
        count: int = connection.execute("SELECT count(*) FROM swath_item").fetchone()[0]
        return count


def test_the_log_is_copied_while_nobody_has_to_wait_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swath.backends.sqlite.wal_limiter.WalLimiter._truncate", lambda *_: None)
    path = tmp_path / "work.db"

    async def main() -> None:
        store = await SqliteStore.open(str(path))
        await store.add([new(number) for number in range(20_000)])
        await asyncio.to_thread(wait_for_copy)
        await store.close()

    def wait_for_copy() -> None:
        deadline = time.monotonic() + PATIENCE
        while not copied():
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def copied() -> bool:
        try:
            return items_in(path, "immutable=1") == 20_000  # which is to look at the file without its log
        except sqlite3.DatabaseError:
            return False  # in the middle of it

    asyncio.run(main())


def test_the_log_stays_short_although_each_checkpoint_misses_the_last_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit that finds a long log copies the rest of it, so that the next commit restarts the log."""
    path, log, limit = tmp_path / "work.db", tmp_path / "work.db-wal", 2_000_000
    monkeypatch.setattr("swath.backends.sqlite.wal_limiter.WAL_BYTES", limit)
    monkeypatch.setattr("swath.backends.sqlite.wal_limiter.WAL_SHARE", 0.0)
    monkeypatch.setattr(WalCheckpointer, "checkpoint", lambda _: None)  # the test runs the checkpoints
    lengths: list[int] = []
    checkpoints: list[tuple[int, int, int]] = []  # whether it was blocked, pages in the log, pages copied

    async def main() -> None:
        store = await SqliteStore.open(str(path), synchronous="normal")

        def checkpoint_and_add(session: Session, items: Sequence[EncodedItem]) -> int:
            # Inside the transaction: as if a writer without a pause had begun its next commit during the checkpoint.
            checkpoints.append(checkpointer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone())
            return add(session, items)

        with closing(sqlite3.connect(path, check_same_thread=False)) as checkpointer:
            for start in range(0, 10_000, 20):
                items = [new(number) for number in range(start, start + 20)]
                await store._writer.submit(partial(checkpoint_and_add, items=items))
                lengths.append(size_of(log))
        await store.close()

    asyncio.run(main())
    assert items_in(path) == 10_000
    assert all((blocked, copied) == (0, length) for blocked, length, copied in checkpoints)
    assert max(lengths) < 0.9 * limit, "no commit restarted the log"


def test_one_copy_does_not_follow_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a slow disk there would never be a moment for a commit to begin the log anew."""
    begun: SimpleQueue[int] = SimpleQueue()
    go_on = threading.Semaphore(0)

    class Slow(sqlite3.Connection):
        def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
            begun.put(1)
            assert go_on.acquire(timeout=PATIENCE)
            return super().execute(statement, *values)

    path = str(tmp_path / "work.db")
    monkeypatch.setattr("swath.backends.sqlite.wal_checkpointer.connect", lambda _: sqlite3.connect(path, factory=Slow))
    checkpointer = WalCheckpointer(path)
    checkpointer.checkpoint()
    begun.get(timeout=PATIENCE)
    for _ in range(5):
        checkpointer.checkpoint()
    go_on.release()
    with pytest.raises(Empty):
        begun.get(timeout=0.5)
    checkpointer.checkpoint()
    begun.get(timeout=PATIENCE)
    go_on.release()
    checkpointer.close()


@pytest.mark.parametrize("fails", ["thread", "connection"])
def test_a_store_works_without_a_copier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str) -> None:
    monkeypatch.setattr("swath.backends.sqlite.wal_limiter.WAL_BYTES", 500_000)
    path = tmp_path / "work.db"

    async def main() -> None:
        store = await SqliteStore.open(str(path))

        def refuse(*_: object) -> None:
            raise (RuntimeError if fails == "thread" else sqlite3.OperationalError)(f"no {fails}")

        with monkeypatch.context() as patch:
            if fails == "thread":
                patch.setattr(threading.Thread, "start", refuse)
            else:
                patch.setattr("swath.backends.sqlite.wal_checkpointer.connect", refuse)
            for number in range(200):
                await store.add([new(number)])
            assert size_of(tmp_path / "work.db-wal") < 1_000_000
        await store.close()

    asyncio.run(main())
    assert items_in(path) == 200


def add_without_end(path: str, added: "Queue[int]") -> None:
    """In a child: items of which each is told after its commit."""

    async def main() -> None:
        store = await SqliteStore.open(path)
        (last,) = store._writer._connection.execute("SELECT coalesce(max(position), 0) FROM swath_item").fetchone()
        for number in itertools.count(last):
            await store.add([new(number)])
            added.put(number)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("swath.backends.sqlite.wal_limiter.WAL_BYTES", 80_000)  # so that there is always a checkpoint
        asyncio.run(main())


def test_what_was_added_outlives_a_kill_in_the_middle_of_a_copy(tmp_path: Path) -> None:
    path, chance, told = tmp_path / "work.db", random.Random(7), -1
    for _ in range(4):
        added: Queue[int] = SPAWN.Queue()
        process = SPAWN.Process(target=add_without_end, args=(str(path), added), daemon=True)
        process.start()
        told = added.get(timeout=PATIENCE)
        time.sleep(chance.uniform(0.1, 0.6))
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join(PATIENCE)
        while not added.empty():
            told = added.get(timeout=PATIENCE)
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert items_in(path) >= told + 1

    async def check() -> None:
        store = await SqliteStore.open(str(path))
        assert list((await store.status()).partitions) == list(await store.recount())
        await store.close()

    asyncio.run(check())
    assert told > 0
