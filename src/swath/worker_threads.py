"""Threads for functions that block and may never return. They do not keep the process alive."""

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


class WorkerThreads:
    """Runs functions in threads, for one event loop. It starts a thread whenever none is idle."""

    def __init__(self) -> None:
        self._idle: list[_Thread] = []
        self._waiting: deque[Job] = deque()  # jobs that wait for a thread
        self._started = 0
        self._closed = False

    async def run(self, work: Callable[[], T]) -> T:
        """Run `work` in a thread and return its result. If cancelled, the thread continues until `work` returns."""
        result, error = await self.start(work)
        if error is not None:
            raise error
        return result  # type: ignore[return-value]  # it has returned

    def start(self, work: Callable[[], T]) -> "asyncio.Future[Returned[T]]":
        """Run `work` in a thread, and return a future of its result and its exception.

        The exception is part of the result, because a future refuses StopIteration, and KeyboardInterrupt would stop
        the loop.
        """
        loop = asyncio.get_running_loop()
        returned: asyncio.Future[Returned[T]] = loop.create_future()

        def job(thread: _Thread) -> bool:
            """Run `work` in the thread. Return False, which ends the thread, if the loop is closed."""
            result, error = None, None
            try:
                result = None if returned.cancelled() else work()  # cancelled while it waited for a thread
            except BaseException as raised:  # noqa: BLE001  `run` raises it in the loop
                error = raised
            try:
                loop.call_soon_threadsafe(report, thread, result, error)
            except RuntimeError:  # the loop is closed
                return False
            finally:
                del result, error
            return True

        def report(thread: _Thread, result: T | None, error: BaseException | None) -> None:
            self._reuse(thread)
            if not returned.done():
                returned.set_result((result, error))

        thread = self._idle.pop() if self._idle else self._start_thread()
        if thread is None:
            self._waiting.append(job)
        else:
            thread.jobs.put(job)
        return returned

    def _start_thread(self) -> "_Thread | None":
        """Start a thread. Return None if the system refuses one, so that work waits for an existing thread."""
        try:
            thread = _Thread()
        except RuntimeError as error:
            if not self._started:
                raise
            if not self._waiting:
                log.warning("cannot start more than %d threads (%s): work waits for a free one", self._started, error)
            return None
        self._started += 1
        return thread

    def _reuse(self, thread: "_Thread") -> None:
        if self._waiting:
            thread.jobs.put(self._waiting.popleft())
        elif self._closed:
            thread.jobs.put(None)
        else:
            self._idle.append(thread)

    def close(self) -> None:
        """End idle threads now and busy ones when they return. Work that waits for a thread is not started."""
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
            del job  # so that the objects it refers to can be freed while the thread is idle
