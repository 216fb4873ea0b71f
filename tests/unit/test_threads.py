"""WorkerThreads: results and exceptions arrive, and idle threads end."""

import asyncio
import gc
import threading
import weakref

import pytest

from swath.worker_threads import WorkerThreads


def raising(error: BaseException) -> None:
    raise error


async def test_what_is_returned_or_raised_arrives() -> None:
    threads = WorkerThreads()
    assert await threads.run(lambda: 7) == 7
    with pytest.raises(ValueError, match="no"):
        await threads.run(lambda: raising(ValueError("no")))
    with pytest.raises(RuntimeError, match="StopIteration"):  # as `next` raises it, and no future will hold it
        async with asyncio.timeout(10):
            await threads.run(lambda: next(iter(())))
    _, error = await threads.start(lambda: raising(SystemExit(3)))
    assert isinstance(error, SystemExit)
    threads.close()


async def test_a_thread_is_used_again_and_ends_when_closed() -> None:
    threads = WorkerThreads()
    first = await threads.run(threading.current_thread)
    assert await threads.run(threading.current_thread) is first
    go_on = threading.Event()
    long = threads.start(lambda: (go_on.wait(30), threading.current_thread())[1])
    threads.close()
    go_on.set()
    second, _ = await long
    assert second is first
    await asyncio.to_thread(first.join, 30)
    assert not first.is_alive(), "it was busy when the others were let go"


async def test_an_idle_thread_keeps_nothing_of_its_work() -> None:
    class Thing:
        pass

    threads = WorkerThreads()
    thing = Thing()
    seen = weakref.ref(thing)
    assert await threads.run(lambda thing=thing: thing is not None)  # type: ignore[misc]
    del thing
    await threads.run(lambda: None)
    gc.collect()
    assert seen() is None
    threads.close()


async def test_work_waits_where_there_cannot_be_more_threads(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As in a container that may have so many processes: it is no fault of the work's."""
    start = threading.Thread.start
    started: list[threading.Thread] = []

    def start_three(thread: threading.Thread) -> None:
        if len(started) == 3:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_three)
    threads = WorkerThreads()
    async with asyncio.timeout(20):
        used = await asyncio.gather(*(threads.run(threading.current_thread) for _ in range(20)))
    assert set(used) == set(started)
    assert caplog.text.count("cannot start more than 3 threads") == 1, "one warning, not one per piece of work"
    threads.close()


async def test_without_any_thread_nothing_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading.Thread, "start", lambda thread: raising(RuntimeError("can't start new thread")))
    with pytest.raises(RuntimeError, match="start new thread"):
        await WorkerThreads().run(lambda: None)


async def test_work_that_waits_for_a_thread_is_not_started_after_closing(monkeypatch: pytest.MonkeyPatch) -> None:
    threads, go_on, started = WorkerThreads(), threading.Event(), list[str]()
    running = threads.start(lambda: go_on.wait(30))

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    waiting = threads.start(lambda: started.append("too late"))
    threads.close()
    go_on.set()
    await running
    monkeypatch.undo()
    done, _ = await asyncio.wait([waiting], timeout=0.1)
    assert (done, started) == (set(), [])
