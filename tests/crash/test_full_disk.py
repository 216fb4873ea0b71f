"""A full disk stops a run, loses nothing, and the run continues when there is room, also after a kill."""

import errno
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import swath
from swath.backends.sqlite.errors import translate_error
from swath.core.errors import StoreFull, StoreUnavailable, SwathError
from tests.small_disk import MEGABYTE, SmallDisk, mount_small_disk

ITEMS = 400
TIMEOUT = 60.0

RUN = """
import asyncio, sys, swath

async def main():
    monitor, full = swath.RunMonitor(), False

    async def handler(item):
        return item.done(result="x" * 5_000, discovered=[f"{item.key}.1"] if "." not in item.key else [])

    async def show():
        while not any(state.name == "disk full" for state in monitor.states):
            await asyncio.sleep(0.01)
        print("disk full", flush=True)

    async with swath.open(sys.argv[1]) as frontier:
        showing = asyncio.create_task(show())
        print("running", flush=True)
        await frontier.run(handler, monitor=monitor, lease=2.0)
        showing.cancel()
        print("then", monitor.states, flush=True)

asyncio.run(main())
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with mount_small_disk(tmp_path / "disk") as disk:
        yield disk


@contextmanager
def running(url: str) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen([sys.executable, "-c", RUN, url], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "running\n"
        yield process


async def fill_frontier(url: str) -> None:
    async with swath.open(url) as frontier:
        await frontier.add(str(number) for number in range(ITEMS))


async def check_finished(url: str) -> None:
    async with swath.open(url) as frontier:
        status = await frontier.status()
        assert (status.done, status.ready, status.claimed, status.dead) == (2 * ITEMS, 0, 0, 0)


@pytest.mark.parametrize("killed", [False, True])
async def test_a_run_on_a_full_disk_waits_and_finishes(disk: SmallDisk, killed: bool) -> None:
    url = f"sqlite:///{disk.path}/work.db?synchronous=normal"
    await fill_frontier(url)
    disk.fill(leave=MEGABYTE)
    with running(url) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "disk full\n"
        if killed:
            process.send_signal(signal.SIGKILL)
            process.wait()
            with running(url) as process:
                assert process.stdout is not None
                assert process.stdout.readline() == "disk full\n"
                disk.clear()
                out, _ = process.communicate(timeout=TIMEOUT)
        else:
            disk.clear()
            out, _ = process.communicate(timeout=TIMEOUT)
    assert out == "then ()\n"
    await check_finished(url)


async def test_a_long_log_makes_room_for_what_follows(disk: SmallDisk) -> None:
    """The log has many versions of pages that the database has room for."""
    url = f"sqlite:///{disk.path}/work.db"
    async with swath.open(url) as frontier:
        await frontier.add(["a"])
        store = frontier._store
        for number in range(60):
            await frontier.add([f"{number}"])
        disk.fill()
        refused = None
        while refused is None:
            number += 1
            try:
                await frontier.add([f"{number}"])
            except StoreFull:
                refused = f"{number}"
        assert await frontier.add([refused]) == 1
        assert [*(await store.status()).partitions] == [*await store.recount()]


def ask(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "swath", *words], capture_output=True, text=True, check=False, timeout=TIMEOUT
    )


async def test_commands_that_read_work_on_a_full_disk(disk: SmallDisk) -> None:
    url = f"sqlite:///{disk.path}/work.db?synchronous=normal"
    await fill_frontier(url)
    disk.fill(leave=MEGABYTE)
    with running(url) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "disk full\n"
        status = ask("status", url, "--json")
        explained = ask("explain", "7", "--store", url)
        process.send_signal(signal.SIGKILL)
    assert (status.returncode, json.loads(status.stdout)["dead"], status.stderr) == (0, 0, "")
    assert (explained.returncode, explained.stderr) == (0, "")
    again = ask("status", url, "--json")
    assert (again.returncode, again.stderr) == (0, "")


async def test_a_file_that_cannot_be_opened_on_a_full_disk_says_so(disk: SmallDisk) -> None:
    """SQLite needs two files beside the database, which do not exist after a clean end."""
    url = f"sqlite:///{disk.path}/work.db"
    await fill_frontier(url)
    disk.fill()
    status = ask("status", url)
    assert (status.returncode, status.stdout) == (3, "")
    assert "work.db could not be written: No space left on device; nothing was changed. Make room" in status.stderr
    disk.clear()
    assert ask("status", url).returncode == 0


def make_error(name: str) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorname = name
    return error


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("SQLITE_FULL", StoreFull, "the disk is full"),
        ("SQLITE_IOERR_SHMSIZE", StoreFull, "No space left on device"),
        ("SQLITE_IOERR", StoreFull, "No space left on device"),
        ("SQLITE_CANTOPEN", StoreFull, "No space left on device"),
        ("SQLITE_IOERR_FSYNC", SwathError, "could not be synced to disk"),
    ],
)
def test_errors_on_a_full_disk(disk: SmallDisk, name: str, kind: type[SwathError], message: str) -> None:
    disk.fill()
    translated = translate_error(make_error(name), f"{disk.path}/work.db")
    assert type(translated) is kind
    assert message in str(translated)
    assert os.listdir(disk.path) == ["ballast"]


@pytest.mark.parametrize("name", ["SQLITE_IOERR_WRITE", "SQLITE_CANTOPEN", "SQLITE_READONLY"])
def test_errors_on_a_file_system_that_is_read_only(tmp_path: Path, name: str) -> None:
    with mount_small_disk(tmp_path / "disk", read_only=True) as disk:
        translated = translate_error(make_error(name), f"{disk.path}/work.db")
    assert type(translated) is StoreUnavailable
    assert "is on a file system that is mounted read-only" in str(translated)


def test_a_write_that_failed_for_another_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    error = make_error("SQLITE_IOERR_WRITE")
    assert type(translate_error(error, f"{tmp_path}/work.db")) is StoreFull, "such as a limit for the size of a file"
    monkeypatch.setattr("swath.backends.sqlite.errors.find_write_error", lambda _: errno.EIO)
    assert type(translate_error(error, f"{tmp_path}/work.db")) is StoreUnavailable
