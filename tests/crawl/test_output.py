"""The archive of a crawl beside the runner: what is committed of it was settled, also when a run fails (INV-5)."""

import asyncio
import errno
import gzip
import json
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from swath.core import events
from swath.core.errors import SwathError, UsageError
from swath.core.item import Item, Outcome
from swath.core.store import OutputMove, Settlement
from swath.crawl import workspace
from swath.crawl.archive import index
from swath.crawl.archive.output import CrawlOutput
from swath.crawl.archive.record import Capture
from swath.files.errors import OutputDamaged
from swath.runner.shutdown import Stop
from tests.bench import Bench, bench
from tests.recorder import PATIENCE


async def crawl(b: Bench, folder: Path, go_on: threading.Event | asyncio.Event, *, stop: Stop | None = None) -> None:
    """Cover a, then b, then c, with which the settlement of a may go on."""

    async def handler(item: Item) -> Outcome:
        if item.key == "c":
            go_on.set()
            await asyncio.Event().wait()
        return item.done(output=[Capture({"url": item.key}, None)])

    output = CrawlOutput(folder, unique="x_0", warc_size=None, about={})
    output.restore({})
    await b.frontier.add(["a", "b", "c"])
    try:
        await b.frontier.run(
            handler, workers=1, lease=60.0, timeout=None, grace=1.0, until="done", handle_signals=False,
            output=output, stop=stop,
        )  # fmt: skip
    finally:
        output.close()


async def listed(b: Bench, folder: Path) -> list[str]:
    """The pages in the committed part of the files."""
    return [
        json.loads(line)["url"]
        for name, length in (await b.frontier.outputs()).items()
        for line in gzip.decompress((folder / name).read_bytes()[:length]).splitlines()
    ]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
async def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """What it leaves in the file is not committed when there is room again."""
    write, room, asked, stop, loop = os.pwritev, threading.Event(), 0, Stop(), asyncio.get_running_loop()

    def full_once(descriptor: int, buffers: Sequence[bytes], offset: int) -> int:
        nonlocal asked
        asked += 1
        if asked == 1:
            room.wait(PATIENCE)
            os.pwrite(descriptor, b"some", offset)
            raise OSError(number, os.strerror(number))
        loop.call_soon_threadsafe(stop.request, "enough")
        return write(descriptor, buffers, offset)

    monkeypatch.setattr(os, "pwritev", full_once)
    async with bench() as b:
        await crawl(b, tmp_path, room, stop=stop)
        assert await listed(b, tmp_path) == ["a", "b"]
        assert [await b.state(key) for key in "abc"] == ["done", "done", "ready"]
        assert [f"--out {tmp_path} cannot be written to: {os.strerror(number)}. Make room"] == [
            event.reason for event in b.seen.of(events.Waiting)
        ]


@pytest.mark.parametrize("number", [errno.EIO, errno.EROFS])
async def test_a_disk_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """It ends the crawl. Nothing more is written, because nobody knows what is on the disk."""
    room = threading.Event()

    def fail(*_: object) -> int:
        room.wait(PATIENCE)
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "pwritev", fail)
    async with bench() as b:
        with pytest.raises(UsageError, match=f"--out {tmp_path} cannot be written to: {os.strerror(number)}$"):
            await crawl(b, tmp_path, room)
        assert await listed(b, tmp_path) == []
        assert [await b.state(key) for key in "abc"] == ["ready"] * 3
    assert workspace.list_outputs(tmp_path) == []


async def test_a_settlement_that_fails(tmp_path: Path) -> None:
    """What was written for it is not committed with the next one."""
    async with bench() as b:
        settle, go_on, failed = b.store.settle, asyncio.Event(), False

        async def fails_once(claim: object, settlement: Settlement, **options: object) -> object:
            nonlocal failed
            if not failed:
                failed = True
                await go_on.wait()
                raise SwathError("somebody has dropped a table")
            return await settle(claim, settlement, **options)  # type: ignore[arg-type]

        b.store.settle = fails_once  # type: ignore[assignment]
        with pytest.raises(SwathError, match="dropped a table"):
            await crawl(b, tmp_path, go_on)
        assert await listed(b, tmp_path) == []
        assert [await b.state(key) for key in "abc"] == ["claimed", "ready", "ready"]


async def test_a_settlement_whose_reply_nobody_waits_for(tmp_path: Path) -> None:
    """What it committed stays in the files, though the run ended at once, as after a second Ctrl-C."""
    async with bench() as b:
        settle, go_on, stop = b.store.settle, asyncio.Event(), Stop()

        async def commits_and_hangs(claim: object, settlement: Settlement, **options: object) -> object:
            await settle(claim, settlement, **options)  # type: ignore[arg-type]
            stop.abort(KeyboardInterrupt())
            return await asyncio.Event().wait()

        b.store.settle = commits_and_hangs  # type: ignore[assignment]
        with pytest.raises(KeyboardInterrupt):
            await crawl(b, tmp_path, go_on, stop=stop)
        assert await listed(b, tmp_path) == ["a"]
        assert await b.state("a") == "done"


def changed(data: bytes) -> bytes:
    return data[:20] + bytes(255 - byte for byte in data[20:30]) + data[30:]


@pytest.mark.parametrize(
    "damage",
    [
        lambda data, first: data[:first],  # of whole settlements
        lambda data, first: data[: first + 5],
        lambda data, first: changed(data),
        lambda data, first: b"x" + data[1:],
    ],
)
def test_a_list_of_pages_that_is_not_as_it_was_written_is_no_shorter_list(
    tmp_path: Path, damage: Callable[[bytes, int], bytes]
) -> None:
    output = CrawlOutput(tmp_path, unique="x_0", warc_size=None, about={})
    output.restore({})
    moves: list[OutputMove] = []
    for key in "ab":
        moves += output.write([[[Capture({"url": key}, None)]]])[0]
        output.keep()
    output.close()
    committed = {moves[0].name: moves[1].new}
    assert [page["url"] for page in index.read_pages(tmp_path, committed)] == ["a", "b"]
    path = tmp_path / moves[0].name
    path.write_bytes(damage(path.read_bytes(), moves[0].new))
    with pytest.raises(OutputDamaged, match=f"{path.name} is damaged"):
        list(index.read_pages(tmp_path, committed))
