"""Retry store calls while the store cannot be reached or is full, and writes of the output while its disk is full."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from swath.core import events
from swath.core.clock import lease_clock
from swath.core.errors import LeaseLost, OutputFull, StoreFull, StoreUnavailable, UsageError
from swath.runner.run_state import Outage

log = logging.getLogger("swath.runner")

FIRST_PAUSE = 0.1  # seconds
LONGEST_PAUSE = 5.0
UNAVAILABLE = (StoreUnavailable, StoreFull)
WRITE_OUTPUT = "write output"  # an operation that is not the store's
ESSENTIAL = {"claim", "settle"}  # a run cannot continue while these operations fail, even if others succeed

Answer = TypeVar("Answer")


async def retry_while_unavailable(call: Callable[[], Awaitable[Answer]]) -> Answer:
    """Call until the store can be reached and has room, and return the answer.

    Use it in handlers that call the frontier: their item should not fail because the store is unavailable. It retries
    without a time limit; if the outage is longer than the lease, `run` cancels the handler.
    """

    async def pause(attempt: int, error: Exception) -> None:
        await asyncio.sleep(choose_pause(attempt))

    return await _retry(call, pause)


async def _retry(call: Callable[[], Awaitable[Answer]], pause: Callable[[int, Exception], Awaitable[None]]) -> Answer:
    attempt = 0
    while True:
        attempt += 1
        try:
            return await call()
        except UNAVAILABLE as error:
            await pause(attempt, error)


def choose_pause(attempt: int) -> float:
    """Return the seconds to wait after a failed attempt: exponential, with jitter."""
    longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(attempt - 1, 10))
    return random.uniform(longest / 2, longest)


class StoreRetry:
    """Retries the store's operations for one run, and reports each outage once when it begins and once when it ends."""

    def __init__(self, emit: Callable[[events.Event], None]) -> None:
        self._emit = emit
        self._began: float | None = None
        self._error = ""  # the latest
        self._calls: dict[object, float] = {}  # when the calls began that were not answered yet
        self._full: set[str] = set()  # operations that failed because a disk is full
        self._failing: set[str] = set()  # essential operations that failed
        self._recovered = asyncio.Event()

    async def call(self, operation: str, call: Callable[[], Awaitable[Answer]]) -> Answer:
        """Call until the store answers. LeaseLost and UsageError are answers too."""

        async def pause(attempt: int, error: Exception) -> None:
            await self.wait(self.note_failure(operation, error, attempt=attempt))

        begun = self.note_begin()
        try:
            answer = await _retry(call, pause)
        except (LeaseLost, UsageError):
            self.note_success(operation)
            raise
        finally:
            self.note_end(begun)
        self.note_success(operation)
        return answer

    @property
    def outage(self) -> Outage | None:
        """The outage that has been reported, until the store answers again."""
        return None if self._began is None else Outage(self._error, self._began, bool(self._full))

    @property
    def unanswered_since(self) -> float | None:
        """When the oldest call that has no answer yet was sent. Any thread may read this."""
        return next(iter(self._calls.copy().values()), None)

    def note_begin(self) -> object:
        """Note that a call was sent. Pass the result to `note_end`."""
        begun = object()
        self._calls[begun] = lease_clock()
        return begun

    def note_end(self, begun: object) -> None:
        del self._calls[begun]

    def note_failure(self, operation: str, error: Exception, *, attempt: int = 1) -> float:
        """Note that an operation failed, and return how many seconds to wait."""
        pause = choose_pause(attempt)
        if isinstance(error, StoreFull | OutputFull):
            self._full.add(operation)
        if operation in ESSENTIAL:
            self._failing.add(operation)
        self._error = str(error)
        if self._began is None:
            self._began = lease_clock()
            missing = "room" if isinstance(error, OutputFull) else "the store"
            log.warning("waiting for %s: %s", missing, error, extra=events.AS_EVENT)
            self._emit(events.Waiting(str(error), pause))
        return pause

    def note_success(self, operation: str) -> None:
        """Note that an operation succeeded. The outage is over once no operation fails.

        While some operations succeed, others may still fail: a full store has room for small writes, and a locked file
        can be read.
        """
        self._full.discard(operation)
        self._failing.discard(operation)
        if self._began is None or self._full:
            return
        self.wake()  # the outage may be over, so waiting calls retry
        if self._failing:
            return
        seconds = lease_clock() - self._began
        self._began = None
        ended = "there is room" if operation == WRITE_OUTPUT else "the store answers"
        log.warning("%s again after %.1f s", ended, seconds, extra=events.AS_EVENT)
        self._emit(events.Reached(seconds))

    def wake(self) -> None:
        """End all waits, so that their callers try again now."""
        self._recovered.set()
        self._recovered = asyncio.Event()

    async def wait(self, seconds: float) -> None:
        """Return after `seconds`, or as soon as an operation succeeds."""
        try:
            async with asyncio.timeout(seconds):
                await self._recovered.wait()
        except TimeoutError:
            return
