"""Retry calls of the frontier while the store is unavailable."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from swath import StoreFull, StoreUnavailable

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0

T = TypeVar("T")


async def retry_while_unavailable(call: Callable[[], Awaitable[T]]) -> T:
    """Repeat a call until the store can be reached and has room.

    A store that is away says nothing about the page. If it stays away for longer than the lease, the runner cancels the
    handler.
    """
    pause = FIRST_PAUSE
    while True:
        try:
            return await call()
        except (StoreUnavailable, StoreFull):
            await asyncio.sleep(pause)
            pause = min(LONGEST_PAUSE, 2 * pause)
