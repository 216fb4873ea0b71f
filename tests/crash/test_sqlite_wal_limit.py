"""The log of an SQLite file stays in proportion to the database, whoever writes and reads."""

import asyncio
import logging
import multiprocessing
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from swath.backends.sqlite import SqliteStore, wal_limiter
from swath.backends.sqlite.wal_limiter import get_wal_limit
from swath.core.store import EncodedItem

SPAWN = multiprocessing.get_context("spawn")
PATIENCE = 60.0
COMMITS = 600  # about 30 MB of log
TRANSACTION_BYTES = 200_000  # of the largest transaction here, except where a test says otherwise


@pytest.fixture
def patient_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine, a read of some milliseconds may take longer than a commit waits for it."""
    monkeypatch.setattr(wal_limiter, "READER_MILLISECONDS", 20_000)


def new(number: int, payload: str | None = None) -> EncodedItem:
    return EncodedItem(0, b"%20d" % number, f"lane {number % 7}", 3, str(number), payload, None, 1)


class Sizes:
    """The sizes of a file and of its log."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.largest = 0

    @property
    def log(self) -> int:
        return Path(f"{self.path}-wal").stat().st_size

    @property
    def limit(self) -> int:
        return get_wal_limit(self.path.stat().st_size) + TRANSACTION_BYTES

    def note(self) -> None:
        self.largest = max(self.largest, self.log)


@pytest.fixture
def sizes(tmp_path: Path) -> Sizes:
    return Sizes(tmp_path / "work.db")


async def add_in_small_commits(store: SqliteStore, sizes: Sizes, *, start: int = 0, commits: int = COMMITS) -> None:
    for number in range(start, start + commits):
        await store.add([new(number)])
        sizes.note()


def test_the_limit_is_a_share_of_the_database() -> None:
    assert [get_wal_limit(size * 1_000_000) for size in (0, 4, 100, 10_000)] == [
        4_000_000,
        5_000_000,
        29_000_000,
        64_000_000,
    ]


async def test_many_small_commits_leave_a_short_log(sizes: Sizes) -> None:
    store = await SqliteStore.open(str(sizes.path), synchronous="normal")
    await add_in_small_commits(store, sizes)
    assert 2_000_000 < sizes.largest < sizes.limit
    await store.close()
    with pytest.raises(FileNotFoundError):
        assert sizes.log


async def test_the_log_of_a_large_commit_is_truncated_at_once(sizes: Sizes) -> None:
    store = await SqliteStore.open(str(sizes.path))
    await store.add([new(number, "x" * 2_000) for number in range(10_000)])
    await store.learn([])  # `add` is answered before the log is truncated
    assert sizes.log < sizes.limit < sizes.path.stat().st_size
    await store.close()


async def test_transactions_of_callers_leave_a_short_log(sizes: Sizes) -> None:
    store = await SqliteStore.open(str(sizes.path), synchronous="normal")
    async with store.transaction() as connection:
        connection.execute("CREATE TABLE mine (id INTEGER PRIMARY KEY, text TEXT)")
    for _ in range(200):
        async with store.transaction() as connection:
            connection.execute("INSERT INTO mine (text) VALUES (?)", ["x" * 100_000])
        sizes.note()
    assert sizes.largest < sizes.limit
    await store.close()


def add_in_a_process(path: str, start: int) -> None:
    wal_limiter.READER_MILLISECONDS = 20_000

    async def main() -> None:
        store = await SqliteStore.open(path, synchronous="normal")
        await add_in_small_commits(store, Sizes(Path(path)), start=start)
        await store.close()

    asyncio.run(main())


@pytest.mark.usefixtures("patient_commits")
async def test_several_processes_share_one_limit(sizes: Sizes) -> None:
    store = await SqliteStore.open(str(sizes.path), synchronous="normal")
    others = [SPAWN.Process(target=add_in_a_process, args=(str(sizes.path), 1_000 * n)) for n in (1, 2)]
    for process in others:
        process.start()
    number = 10_000
    while any(process.is_alive() for process in others):
        await add_in_small_commits(store, sizes, start=number, commits=1)
        number += 1
    assert [process.exitcode for process in others] == [0, 0]
    assert (await store.status()).partitions[0].ready == 2 * COMMITS + number - 10_000
    await store.close()
    assert sizes.largest < sizes.limit


@pytest.mark.usefixtures("patient_commits")
async def test_short_reads_do_not_keep_the_log_long(sizes: Sizes) -> None:
    """A reader begins its next transaction soon after the last one."""
    store = await SqliteStore.open(str(sizes.path), synchronous="normal")
    ended = threading.Event()

    def read() -> None:
        with closing(sqlite3.connect(sizes.path, isolation_level=None, timeout=30)) as connection:
            while not ended.is_set():
                connection.execute("BEGIN")
                connection.execute("SELECT count(*) FROM swath_item").fetchone()
                ended.wait(0.01)
                connection.execute("COMMIT")
                ended.wait(0.001)

    thread = threading.Thread(target=read)
    thread.start()
    await add_in_small_commits(store, sizes, commits=2 * COMMITS)
    ended.set()
    await asyncio.to_thread(thread.join)
    await store.close()
    assert sizes.largest < sizes.limit


@contextmanager
def reading(path: Path) -> Iterator[int]:
    """Another process has a read transaction open. Yield its id."""
    program = (
        "import sqlite3, sys\n"
        "connection = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "connection.execute('BEGIN')\n"
        "connection.execute('SELECT * FROM swath_item').fetchone()\n"
        "print('reads', flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "reads\n"
        yield process.pid
        process.communicate()


async def test_a_reader_that_keeps_the_log_long_is_named(
    sizes: Sizes, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swath.backends.sqlite.wal_limiter.READER_MILLISECONDS", 1)
    store = await SqliteStore.open(str(sizes.path), synchronous="normal")
    await store.add([new(-1)])
    with reading(sizes.path) as pid, caplog.at_level(logging.WARNING, "swath.sqlite"):
        await add_in_small_commits(store, sizes)
        assert sizes.log > 2 * sizes.limit
    messages = [record.getMessage() for record in caplog.records if record.name == "swath.sqlite"]
    assert 1 <= len(messages) <= 3, "one for each time that the log doubles"
    assert f"process {pid} has a read transaction open" in messages[0]
    await add_in_small_commits(store, sizes, start=COMMITS)
    assert sizes.log < sizes.limit, "the reader has ended"
    await store.close()


async def test_the_log_of_a_killed_process_is_shortened(sizes: Sizes) -> None:
    program = (
        "import os, sqlite3, sys\n"
        "connection = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "connection.execute('PRAGMA wal_autocheckpoint = 0')\n"
        "for number in range(20):\n"
        "    connection.execute('INSERT INTO swath_fact VALUES (?, ?)', [f'{number}', 'x' * 1_000_000])\n"
        "os.kill(os.getpid(), 9)\n"
    )
    await (await SqliteStore.open(str(sizes.path))).close()
    killed = await asyncio.create_subprocess_exec(sys.executable, "-c", program, str(sizes.path))
    assert (await killed.wait(), sizes.log > 20_000_000) == (-9, True)
    store = await SqliteStore.open(str(sizes.path))
    await store.add([new(1)])
    await store.learn([])
    assert sizes.log < sizes.limit
    await store.close()
