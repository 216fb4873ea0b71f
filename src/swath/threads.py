"""Threads for work that blocks and may never return: the end of the process does not wait for them."""

import asyncio
import queue
import threading
from collections.abc import Callable
from itertools import count
from typing import TypeVar

T = TypeVar("T")
Returned = tuple[T | None, BaseException | None]
Job = Callable[[], bool]

_NUMBERS = count(1)


class Threads:
    """As many threads as there is work at once. Used by one event loop."""

    def __init__(self) -> None:
        self._idle: list[_Thread] = []
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
        thread = self._idle.pop() if self._idle else _Thread()

        def job() -> bool:
            """In the thread. Whether anybody is left to hear of it."""
            result, error = None, None
            try:
                result = work()
            except BaseException as raised:  # noqa: BLE001  it is raised again where the work is awaited
                error = raised
            try:
                loop.call_soon_threadsafe(report, result, error)
            except RuntimeError:  # the loop is closed
                return False
            finally:
                del result, error
            return True

        def report(result: T | None, error: BaseException | None) -> None:
            self._rest(thread)
            if not returned.done():
                returned.set_result((result, error))

        thread.jobs.put(job)
        return returned

    def _rest(self, thread: "_Thread") -> None:
        if self._closed:
            thread.jobs.put(None)
        else:
            self._idle.append(thread)

    def close(self) -> None:
        """Let the idle ones end, and the others when they are through."""
        self._closed = True
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
            if not job():
                return
            del job  # and with it what it worked on
