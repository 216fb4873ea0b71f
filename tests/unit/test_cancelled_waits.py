"""Whoever waits and is cancelled ends, also when what it waits for happens at the same moment."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from swath.backends.memory import MemoryStore
from swath.backends.postgres.location import PostgresLocation
from swath.backends.postgres.notify import Listener
from swath.backends.sqlite.store import _wait_for_event
from swath.core.errors import StoreUnavailable
from swath.core.store import Settings
from swath.runner.store_retry import StoreRetry
from tests.bench import bench
from tests.unit.test_runner_outages import Gate
from tests.unit.test_runner_stopping import start

LONG = 60.0

Wait = Callable[[float], Awaitable[None]]
Wake = Callable[[], None]


async def steps(number: int) -> None:
    """Let everybody go on by so many steps of the loop."""
    for _ in range(number):
        await asyncio.sleep(0)


@asynccontextmanager
async def in_an_outage() -> AsyncIterator[tuple[Wait, Wake]]:
    retry = StoreRetry(lambda _: None)
    retry.note_failure("claim", StoreUnavailable("away"))
    yield retry.wait, lambda: retry.note_success("claim")


@asynccontextmanager
async def in_memory() -> AsyncIterator[tuple[Wait, Wake]]:
    store = MemoryStore(Settings(partitions=1))
    yield store.wait, store._wake


@asynccontextmanager
async def in_sqlite() -> AsyncIterator[tuple[Wait, Wake]]:
    event = asyncio.Event()
    yield lambda seconds: _wait_for_event(event, seconds), event.set


@asynccontextmanager
async def in_postgres() -> AsyncIterator[tuple[Wait, Wake]]:
    listener = Listener(
        PostgresLocation.parse("postgresql://127.0.0.1:1/nowhere")
    )  # the wake-ups are those of this process
    yield listener.wait, listener.wake
    await listener.close()


@pytest.mark.parametrize("late", range(5))
@pytest.mark.parametrize("waits", [in_an_outage, in_memory, in_sqlite, in_postgres])
async def test_a_wait_that_is_over_when_it_is_cancelled(
    waits: Callable[[], AbstractAsyncContextManager[tuple[Wait, Wake]]], late: int
) -> None:
    async with waits() as (wait, wake):
        waiting = asyncio.ensure_future(wait(LONG))
        await steps(5)
        assert not waiting.done()
        wake()
        await steps(late)
        cancelled = waiting.cancel()
        await asyncio.wait([waiting], timeout=10)
        assert waiting.cancelled() == cancelled


@pytest.mark.parametrize("late", range(10))
async def test_a_stop_that_is_over_when_it_is_cancelled(late: int) -> None:
    gate = Gate()
    async with bench() as b:
        await b.frontier.add(["a"])
        running, stop = await start(b, gate)
        await gate.started.wait()
        stop.request("SIGTERM")
        await steps(20)
        gate.open.set()
        await steps(late)
        cancelled = running.cancel()
        await asyncio.wait([running], timeout=10)
        assert running.cancelled() == cancelled
