"""The lifespan of a crawl: what handlers share in a process, from before its first page until after its last one."""

import asyncio
import inspect
import logging
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, Final, NoReturn

from swath import SwathError, UsageError
from swath.crawl.handlers.errors import LifespanFailed
from swath.crawl.handlers.failures import format_message, format_trace, is_for_the_run

log = logging.getLogger("swath.crawl")

CLOSE_SECONDS: Final = 10.0  # for a lifespan to close what it opened
CANCEL_SECONDS: Final = 1.0  # for one that was cancelled because it took longer
BLOCKED_SECONDS: Final = 5.0  # after both, for one that blocks the event loop

LifespanFunction = Callable[..., AbstractAsyncContextManager[Any]]  # takes the crawler, or nothing
OpenState = Callable[[], AbstractAsyncContextManager[Any]]


def bind_lifespan(function: LifespanFunction, crawler: object) -> OpenState:
    """Return a function that opens the lifespan. Raise UsageError if the function cannot be one."""
    if not callable(function):
        raise UsageError(f"lifespan={function!r:.100}: pass a function with @asynccontextmanager")
    if inspect.isasyncgenfunction(function) or inspect.iscoroutinefunction(function):
        raise UsageError(f"lifespan={getattr(function, '__name__', function)}: decorate it with @asynccontextmanager")
    signature = inspect.signature(function)
    for arguments in ((), (crawler,)):
        try:
            signature.bind(*arguments)
        except TypeError:
            continue
        return lambda: function(*arguments)
    raise UsageError(f"lifespan={getattr(function, '__name__', function)}{signature}: it takes the crawler, or nothing")


class Lifespan:
    """An open lifespan. One task opens and closes it, which task groups and timeouts within it need."""

    def __init__(
        self, open_state: OpenState, *, name: str, on_failure: Callable[[], None], owns_process: bool = False
    ) -> None:
        """`on_failure` is called if the lifespan fails before it is closed, such as in a task group of its own.

        With `owns_process`, the process exits if the lifespan blocks the event loop while it is closed.
        """
        loop = asyncio.get_running_loop()
        self.hangs = False  # it was not closed in time, so threads of it may keep the process alive
        self._owns_process = owns_process
        self.failure: str | None = None  # why it failed after it was opened
        self._open_state = open_state
        self._name = name
        self._on_failure = on_failure
        self._opened: asyncio.Future[Any] = loop.create_future()
        self._closing = asyncio.Event()
        self._task = loop.create_task(self._serve())

    async def _serve(self) -> None:
        try:
            async with self._open_state() as state:
                self._opened.set_result(state)
                await self._closing.wait()
        except BaseException as error:
            if is_for_the_run(error):
                raise
            message = f"the lifespan of {self._name} failed{self._describe_moment()}: {_describe(error)}"
            if self.failure is not None:
                return
            log.warning("%s", format_trace(error).rstrip())
            if not self._opened.done():
                self._opened.set_exception(LifespanFailed(message))
                return
            self._fail(message)
        else:
            if not self._closing.is_set():  # it has suppressed the cancellation by its own task group
                self._fail(f"the lifespan of {self._name} ended{self._describe_moment()}")

    def _describe_moment(self) -> str:
        if not self._opened.done():
            return " before the first page"
        return " when it was closed" if self._closing.is_set() else " during the crawl"

    def _fail(self, message: str) -> None:
        self.failure = message
        log.error("%s", message)
        if not self._closing.is_set():
            self._on_failure()

    async def open(self) -> Any:
        """Return what the lifespan yields. Raise LifespanFailed if it fails."""
        try:
            await asyncio.wait([self._opened, self._task], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await self._cancel()
            raise
        if not self._opened.done():
            raise LifespanFailed(f"the lifespan of {self._name} was cancelled before the first page")
        return self._opened.result()

    async def close(self) -> None:
        """Close the lifespan. If it takes too long, cancel it; if it ignores that, leave it behind."""
        watchdog = threading.Timer(CLOSE_SECONDS + CANCEL_SECONDS + BLOCKED_SECONDS, self._leave_blocked)
        watchdog.daemon = True
        if self._owns_process:
            watchdog.start()
        self._closing.set()
        await asyncio.wait([self._task], timeout=CLOSE_SECONDS)
        watchdog.cancel()
        if not self._task.done():
            self.hangs = True
            self._fail(f"the lifespan of {self._name} was not closed within {CLOSE_SECONDS:g} s: it was cancelled")
            await self._cancel()

    def _leave_blocked(self) -> None:
        log.error("the lifespan of %s blocks the process: it exits. Every page that was handled is settled", self._name)
        leave_process(1)

    async def _cancel(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task], timeout=CANCEL_SECONDS)
        if not self._task.done():  # otherwise the end of the event loop would wait for it
            asyncio.tasks._unregister_task(self._task)  # the hook that asyncio documents for task implementations
            self._task._log_destroy_pending = False  # type: ignore[attr-defined]


def leave_process(code: int) -> NoReturn:
    """Exit without waiting for threads, which the end of the event loop and of the interpreter would do."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


@asynccontextmanager
async def open_lifespan(
    open_state: OpenState | None, *, name: str, on_failure: Callable[[], None] = lambda: None
) -> AsyncIterator[Any]:
    """Open the lifespan of a crawler, if it has one, and yield its state.

    Raise LifespanFailed if it fails when it is opened, or, after the block, if it has failed later.
    """
    if open_state is None:
        yield None
        return
    lifespan = Lifespan(open_state, name=name, on_failure=on_failure)
    state = await lifespan.open()
    try:
        yield state
    finally:
        await lifespan.close()
    if lifespan.failure is not None:
        raise LifespanFailed(lifespan.failure)


def _describe(error: BaseException) -> str:
    if isinstance(error, SwathError):
        return f"{error}"
    return format_message(error)
