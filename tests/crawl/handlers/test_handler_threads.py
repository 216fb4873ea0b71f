"""HandlerThreads: quick calls share a thread, and a call that blocks does not hold up the others."""

import asyncio
import gc
import threading
import weakref
from collections.abc import AsyncIterator, Callable

import pytest

from swath.crawl.handlers.handler_threads import MAX_WAITING, HandlerCall, HandlerThreads

SECONDS = 60


@pytest.fixture
async def threads() -> AsyncIterator[HandlerThreads]:
    made = HandlerThreads()
    yield made
    made.close()


def wait_for(event: threading.Event | threading.Barrier) -> Callable[[], None]:
    def work() -> None:
        event.wait(SECONDS)  # a barrier raises if it is broken
        assert not isinstance(event, threading.Event) or event.is_set()

    return work


async def finish(*calls: HandlerCall) -> list[BaseException | None]:
    async with asyncio.timeout(SECONDS):
        return await asyncio.gather(*(call.future for call in calls))


async def test_exceptions_arrive(threads: HandlerThreads) -> None:
    def fail() -> None:
        raise ValueError("no")

    def end() -> None:
        raise SystemExit(3)

    done, failed, ended = await finish(*(threads.start(work) for work in (lambda: None, fail, end)))
    assert (done, type(failed), type(ended)) == (None, ValueError, SystemExit)


async def test_quick_calls_share_a_thread(threads: HandlerThreads) -> None:
    used: list[threading.Thread] = []
    for _ in range(3):
        await finish(*(threads.start(lambda: used.append(threading.current_thread())) for _ in range(100)))
    assert len(used) == 300
    assert used[0] is not threading.current_thread()
    assert len(set(used)) <= 3, "a loaded machine may make some of the calls wait"


async def test_calls_that_block_get_threads_of_their_own(threads: HandlerThreads) -> None:
    """Each waits for all others, so they return only if all run at the same time."""
    together = threading.Barrier(40)
    calls = [threads.start(wait_for(together)) for _ in range(40)]
    assert await finish(*calls) == [None] * 40


async def test_a_call_that_blocks_does_not_hold_up_later_ones(threads: HandlerThreads) -> None:
    go_on = threading.Event()
    blocked = threads.start(wait_for(go_on))
    for _ in range(5):
        await finish(*(threads.start(lambda: None) for _ in range(10)))
    assert not blocked.future.done()
    go_on.set()
    assert await finish(blocked) == [None]


async def test_an_abandoned_call_says_when_it_returns(threads: HandlerThreads) -> None:
    go_on, late = threading.Event(), asyncio.Event()
    call = threads.start(wait_for(go_on))
    never = threads.start(lambda: pytest.fail("it was cancelled before it began"))
    never.future.cancel()
    call.future.cancel()
    call.on_late_return = late.set
    go_on.set()
    async with asyncio.timeout(SECONDS):
        await late.wait()
    assert call.has_returned
    await finish(threads.start(lambda: None))  # after the one that was not made
    assert never.error is None


async def test_an_idle_thread_keeps_nothing_of_its_call(threads: HandlerThreads) -> None:
    class Thing:
        pass

    thing = Thing()
    seen = weakref.ref(thing)
    call = threads.start(lambda thing=thing: None)  # type: ignore[misc]
    del thing
    await finish(call)
    gc.collect()
    assert seen() is None


async def test_threads_end_when_they_are_closed(threads: HandlerThreads) -> None:
    used: list[threading.Thread] = []
    begun, go_on = threading.Event(), threading.Event()

    def work() -> None:
        used.append(threading.current_thread())
        begun.set()
        assert go_on.wait(SECONDS)

    busy = threads.start(work)
    assert await asyncio.to_thread(begun.wait, SECONDS)
    await finish(threads.start(lambda: used.append(threading.current_thread())))
    threads.close()
    go_on.set()
    assert await finish(busy) == [None]
    assert len(set(used)) == 2
    for thread in used:
        await asyncio.to_thread(thread.join, SECONDS)
        assert not thread.is_alive()


async def test_calls_wait_if_the_system_refuses_more_threads(
    threads: HandlerThreads, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    start = threading.Thread.start
    started: list[threading.Thread] = []
    refused = threading.Event()

    def start_two(thread: threading.Thread) -> None:
        if len(started) == 2:
            refused.set()
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_two)
    calls = [threads.start(wait_for(refused)) for _ in range(10)]
    assert await finish(*calls) == [None] * 10
    assert caplog.text.count("cannot start more threads") == 1


async def test_a_crawl_without_any_thread_fails(threads: HandlerThreads, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start"):
            threads.start(lambda: pytest.fail("its caller has given up"))
    assert await finish(threads.start(lambda: None)) == [None]


async def test_there_is_room_until_many_calls_wait(threads: HandlerThreads) -> None:
    """A caller that waits for room goes on when threads have taken calls from the queue, although none has returned."""
    go_on = threading.Event()
    calls = [threads.start(wait_for(go_on)) for _ in range(MAX_WAITING)]
    async with asyncio.timeout(SECONDS):
        await threads.wait_for_room()  # one of them runs
        calls += [threads.start(wait_for(go_on)) for _ in range(MAX_WAITING)]
        late = [asyncio.create_task(threads.wait_for_room()) for _ in range(3)]
        await asyncio.sleep(0)
        assert not any(one.done() for one in late)
        late[0].cancel()
        await asyncio.gather(*late[1:])
    go_on.set()
    assert await finish(*calls) == [None] * len(calls)


async def test_a_caller_that_was_let_in_and_cancelled_leaves_its_place_to_the_next(threads: HandlerThreads) -> None:
    go_on = threading.Event()
    calls = [threads.start(wait_for(go_on)) for _ in range(MAX_WAITING + 1)]
    waiting = [asyncio.create_task(threads.wait_for_room()) for _ in range(MAX_WAITING + 5)]
    async with asyncio.timeout(SECONDS):
        await asyncio.sleep(0)
        go_on.set()
        await finish(*calls)  # lets MAX_WAITING of them in, which have not run yet
        for one in waiting[:MAX_WAITING]:
            one.cancel()
        assert await asyncio.gather(*waiting[MAX_WAITING:]) == [None] * 5


async def test_calls_that_returned_wait_until_the_loop_takes_their_results(threads: HandlerThreads) -> None:
    """INV-9: their pages are in memory until then."""
    last = threading.Event()
    calls = [threads.start(lambda: None) for _ in range(MAX_WAITING)]
    calls.append(threads.start(last.set))
    assert last.wait(SECONDS)  # the loop stands still: no call waits for a thread, and no result was taken
    waiting = threads.wait_for_room()
    assert waiting.send(None) is not None  # it waits for a future
    waiting.close()
    await finish(*calls)
    async with asyncio.timeout(SECONDS):
        await threads.wait_for_room()
