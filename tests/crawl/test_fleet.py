"""The processes of a crawl as their parent sees them: real processes that do as the test says."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

import swath
from swath import RunState, StoreFull, Summary, SwathError
from swath.crawl import fleet
from swath.crawl.fleet import Fleet
from swath.crawl.settings import CrawlSettings
from swath.logs.entries import ProcessFailed
from swath.runner.shutdown import Stop
from tests.recorder import PATIENCE, Recorder

FULL = RunState("disk full", "no space left", 5.0)
PACING = RunState("pacing", "2 pages in lanes that are not ready", 1.0)


def fail_or_idle(settings: CrawlSettings, number: int, pipe: Connection) -> None:
    """In process 0, fail because of a full disk. In the others, idle until the parent requests a stop."""
    if number == 0:
        pipe.send(("stats", ({"in_flight": 0}, [FULL], [])))
        pipe.send(("failure", (StoreFull, "the disk is full")))
    else:
        pipe.send(("stats", ({"in_flight": number}, [PACING], [])))
        pipe.send(("summary", Summary(1, 0, 0, 0, 0, 0, 0, 1.0, pipe.recv())))


def ignore_stop(settings: CrawlSettings, number: int, pipe: Connection) -> None:
    """Run on whatever the parent requests."""
    pipe.send(("stats", ({"in_flight": 1}, [], [])))
    while pipe.poll(PATIENCE):
        pipe.recv()


@asynccontextmanager
async def run_fleet(
    path: Path, stop: Stop, seen: Callable[[Fleet], bool], observer: Recorder | None = None
) -> AsyncIterator[tuple[Fleet, "asyncio.Task[Summary]"]]:
    """Run two processes until the parent has seen what the test waits for."""
    async with swath.open("memory:") as frontier, asyncio.timeout(3 * PATIENCE):
        crawl = Fleet(CrawlSettings(out=str(path), processes=2), frontier, stop, observer=observer)
        running = asyncio.create_task(crawl.run())
        try:
            while not seen(crawl):  # noqa: ASYNC110  its children report through a pipe
                await asyncio.sleep(0.01)
            yield crawl, running
        finally:
            running.cancel()


async def test_a_failed_process_no_longer_says_why_the_crawl_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet, "_run_child", fail_or_idle)
    stop = Stop()

    def failed(crawl: Fleet) -> bool:
        return crawl.in_flight == 1 and any(child.failure for child in crawl._children)

    seen = Recorder()
    async with run_fleet(tmp_path, stop, failed, seen) as (crawl, running):
        assert crawl.states == [PACING]
        assert await seen.saw(ProcessFailed) == [ProcessFailed("process 0: the disk is full")]
        stop.request("SIGTERM")
        summary = await running
    assert (summary.done, summary.stopped_by) == (1, "SIGTERM")
    assert crawl.failures == ["process 0: the disk is full"]


async def test_an_abort_ends_processes_that_do_not_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "_run_child", ignore_stop)
    stop = Stop()
    async with run_fleet(tmp_path, stop, lambda crawl: crawl.in_flight == 2) as (crawl, running):
        stop.request("SIGTERM")
        stop.abort(SwathError("a second signal"))
        with pytest.raises(SwathError, match="a second signal"):
            await running
    assert [child._process.exitcode for child in crawl._children] == [-signal.SIGKILL, -signal.SIGKILL]
