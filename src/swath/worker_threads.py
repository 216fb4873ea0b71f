"""Threads for work that blocks and may never return: the end of the process does not wait for them."""

import asyncio
import logging
import queue
import threading
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import TypeVar

log = logging.getLogger("swath")

T = TypeVar("T")
Returned = tuple[T | None, BaseException | None]
Job = Callable[["_Thread"], bool]

_NUMBERS = count(1)


class Threads:
    """As many threads as there is work at once, or as this process may have. Used by one event loop."""

    def __init__(self) -> None:
        self._idle: list[_Thread] = []
        self._waiting: deque[Job] = deque()  # for a thread
        self._started = 0
        self._closed = False

    async def run(self, work: Callable[[], T]) -> T:
        """Run `work` in a thread. Cancelled, it leaves the thread to itself until it returns."""
        result, error = await self.start(work)
        if error is not None:
            raise error
        return result  # type: ignore[return-value]  # it has returned

    def start(self, work: Callable[[], T]) -> "asyncio.Future[Returned[T]]":
        """Run `work` in a thread, and tell what it returned or raised. That is no exception of the future's own: some
        a future refuses (StopIteration), and some would end the loop.
        """
        loop = asyncio.get_running_loop()
        returned: asyncio.Future[Returned[T]] = loop.create_future()

        def job(thread: _Thread) -> bool:
            """In the thread. Whether anybody is left to hear of it."""
            result, error = None, None
            try:
                result = None if returned.cancelled() else work()  # while it waited for a thread
            except BaseException as raised:  # noqa: BLE001  it is raised again where the work is awaited
                error = raised
            try:
                loop.call_soon_threadsafe(report, thread, result, error)
            except RuntimeError:  # the loop is closed
                return False
            finally:
                del result, error
            return True

        def report(thread: _Thread, result: T | None, error: BaseException | None) -> None:
            self._rest(thread)
            if not returned.done():
                returned.set_result((result, error))

        thread = self._idle.pop() if self._idle else self._another()
        if thread is None:
            self._waiting.append(job)
        else:
            thread.jobs.put(job)
        return returned

    def _another(self) -> "_Thread | None":
        """A new thread; None where there cannot be more of them, and work has to wait for those there are."""
        try:
            thread = _Thread()
        except RuntimeError as error:
            if not self._started:
                raise
            if not self._waiting:
                log.warning("there cannot be more threads than %d (%s): work waits for them", self._started, error)
            return None
        self._started += 1
        return thread

    def _rest(self, thread: "_Thread") -> None:
        if self._waiting:
            thread.jobs.put(self._waiting.popleft())
        elif self._closed:
            thread.jobs.put(None)
        else:
            self._idle.append(thread)

    def close(self) -> None:
        """Let the idle ones end, and the others when they are through. What waits for one is not begun."""
        self._closed = True
        self._waiting.clear()
        for thread in self._idle:
            thread.jobs.put(None)
        self._idle.clear()


class _Thread(threading.Thread):
    def __init__(self) -> None:
        super().__init__(name=f"swath-thread-{next(_NUMBERS)}", daemon=True)
        self.jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self.start()

    def run(self) -> None:
        while (job := self.jobs.get()) is not None:
            if not job(self):
                return
            del job  # and with it what it worked on
