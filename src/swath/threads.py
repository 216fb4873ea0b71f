"""Threads for work that blocks and may never return: the end of the process does not wait for them."""

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
Job = tuple[Callable[[], Any], "asyncio.Future[Any]"]


class Threads:
    """As many threads as there is work at once. Belongs to the event loop's thread."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._idle: list[_Thread] = []

    async def run(self, work: Callable[[], T]) -> T:
        """Run `work` in a thread. Cancelled, it leaves the thread to itself until it returns."""
        thread = self._idle.pop() if self._idle else _Thread(self)
        future: asyncio.Future[T] = self._loop.create_future()
        thread.jobs.put((work, future))
        return await future

    def close(self) -> None:
        """Let the idle ones end."""
        for thread in self._idle:
            thread.jobs.put(None)
        self._idle.clear()

    def report(
        self, thread: "_Thread", future: "asyncio.Future[Any]", result: Any, error: BaseException | None
    ) -> bool:
        """Called in the thread when its work is over; whether anybody is left to hear of it."""
        try:
            self._loop.call_soon_threadsafe(self._reported, thread, future, result, error)
        except RuntimeError:  # the loop is closed
            return False
        return True

    def _reported(
        self, thread: "_Thread", future: "asyncio.Future[Any]", result: Any, error: BaseException | None
    ) -> None:
        self._idle.append(thread)
        if future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)


class _Thread(threading.Thread):
    def __init__(self, owner: Threads) -> None:
        super().__init__(name="swath-thread", daemon=True)
        self.jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._owner = owner
        self.start()

    def run(self) -> None:
        while (job := self.jobs.get()) is not None:
            work, future = job
            result, error = None, None
            try:
                result = work()
            except BaseException as raised:  # noqa: BLE001  it is raised again where the work is awaited
                error = raised
            if not self._owner.report(self, future, result, error):
                return
            del job, work, future, result, error
