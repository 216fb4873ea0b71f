"""The items of a stream that wait for its caller: how many there may be, and when pages are fetched again."""

import asyncio
from collections.abc import Coroutine

import pytest

from swath.crawl import stream as stream_module
from swath.crawl.archive.record import ItemLine
from swath.crawl.stream import Backlog


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_module, "MAX_ITEMS", 4)
    monkeypatch.setattr(stream_module, "MAX_BYTES", 100)


async def fill(backlog: Backlog, *sizes: int) -> None:
    backlog.add([ItemLine("Book", b"x" * size) for size in sizes])
    await asyncio.sleep(0)  # the items are added in the loop


async def settles(coroutine: Coroutine[None, None, object]) -> asyncio.Task[object]:
    """Start a coroutine, and let it come as far as it can."""
    task = asyncio.create_task(coroutine)
    for _ in range(5):
        await asyncio.sleep(0)
    return task


async def is_waiting(task: asyncio.Task[object]) -> bool:
    for _ in range(5):
        await asyncio.sleep(0)
    return not task.done()


async def test_it_is_full_with_many_items_or_many_bytes() -> None:
    for sizes, full in (((1, 1, 1), False), ((1, 1, 1, 1), True), ((99,), False), ((100,), True), ((50, 50), True)):
        backlog = Backlog()
        assert not backlog.is_full
        await fill(backlog, *sizes)
        assert backlog.is_full == full


async def test_there_is_room_when_half_of_the_items_and_of_the_bytes_are_taken() -> None:
    backlog = Backlog()
    await fill(backlog, 1, 1, 1, 1)
    waiting = await settles(backlog.wait_for_room())
    await backlog.get()
    assert await is_waiting(waiting), "three are left"
    await backlog.get()
    assert not await is_waiting(waiting)


async def test_large_items_keep_the_room_until_half_of_their_bytes_are_taken() -> None:
    backlog = Backlog()
    await fill(backlog, 30, 20, 1, 50)
    waiting = await settles(backlog.wait_for_room())
    await backlog.get()
    await backlog.get()
    assert await is_waiting(waiting), "51 bytes are left, in two items"
    await backlog.get()
    assert not await is_waiting(waiting)
    assert not backlog.is_full


async def test_room_is_looked_for_again_after_some_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_module, "ROOM_SECONDS", 0.0)
    backlog = Backlog()
    await fill(backlog, 100)
    async with asyncio.timeout(60):
        await backlog.wait_for_room()
    assert backlog.is_full


async def test_items_come_in_order_and_then_the_end() -> None:
    backlog = Backlog()
    first = await settles(backlog.get())
    backlog.add([])
    assert await is_waiting(first)
    await fill(backlog, 1, 2, 3)
    assert await first == ItemLine("Book", b"x")
    backlog.close()
    assert [await backlog.get() for _ in range(3)] == [
        ItemLine("Book", b"xx"), ItemLine("Book", b"xxx"), None,
    ]  # fmt: skip
    await backlog.wait_for_room()  # returns at once


async def test_the_end_wakes_those_who_wait() -> None:
    backlog = Backlog()
    item, room = await settles(backlog.get()), await settles(backlog.wait_for_room())
    backlog.close()
    async with asyncio.timeout(60):
        assert await item is None
        await room
