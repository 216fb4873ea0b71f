"""Outage: how the runner bears a store that cannot be reached or is full."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from swath.core import events
from swath.core.clock import lease_clock
from swath.core.errors import LeaseLost, StoreFull, StoreUnavailable, UsageError

log = logging.getLogger("swath.runner")

FIRST_PAUSE = 0.1  # seconds
LONGEST_PAUSE = 5.0
WAIT_FOR_IT = (StoreUnavailable, StoreFull)
WORK = {"claim", "settle"}  # without which nothing goes on, though other calls may be answered

Answer = TypeVar("Answer")


class Outage:
    """Told of every call's success and failure, it says once when an outage begins and once when it is over."""

    def __init__(self, emit: Callable[[events.Event], None]) -> None:
        self._emit = emit
        self._began: float | None = None
        self._no_room_to: set[str] = set()
        self._cannot: set[str] = set()  # of WORK
        self._over = asyncio.Event()

    def failed(self, to: str, error: Exception, *, tries: int = 1) -> float:
        """Take note that the store failed to do something; return for how many seconds to wait."""
        longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(tries - 1, 10))
        pause = random.uniform(longest / 2, longest)
        if isinstance(error, StoreFull):
            self._no_room_to.add(to)
        if to in WORK:
            self._cannot.add(to)
        if self._began is None:
            self._began = lease_clock()
            log.warning("waiting for the store: %s", error)
            self._emit(events.Waiting(str(error), pause))
        return pause

    def worked(self, to: str) -> None:
        """A call went through, so the store can be reached. One that is full may still have room for other things, and
        a file that somebody has locked can still be read."""
        self._no_room_to.discard(to)
        self._cannot.discard(to)
        if self._began is None or self._no_room_to:
            return
        self._over.set()  # perhaps: whoever waits tries again
        self._over = asyncio.Event()
        if self._cannot:
            return
        seconds = lease_clock() - self._began
        self._began = None
        log.warning("the store answers again, after %.1f s", seconds)
        self._emit(events.Reached(seconds))

    async def wait(self, seconds: float) -> None:
        """Return after `seconds`, or as soon as the outage is over."""
        try:
            async with asyncio.timeout(seconds):
                await self._over.wait()
        except TimeoutError:
            return

    async def outlast(self, to: str, call: Callable[[], Awaitable[Answer]]) -> Answer:
        """Call until the store answers, whatever the answer is."""
        tries = 0
        while True:
            tries += 1
            try:
                answer = await call()
            except WAIT_FOR_IT as error:
                await self.wait(self.failed(to, error, tries=tries))
            except (LeaseLost, UsageError):
                self.worked(to)  # no is an answer, too
                raise
            else:
                self.worked(to)
                return answer
