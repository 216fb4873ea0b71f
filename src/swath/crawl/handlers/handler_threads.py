"""HandlerThreads: run plain handlers in one thread as long as they are quick, and in more threads when they block.

Passing one call to a thread and its result back takes two switches between threads, which cost more than most handlers.
So one thread makes the calls that have come together, and the event loop takes their results together. If a call has
waited for `HELP_SECONDS`, other threads help; their number doubles until no call waits for so long.
"""

import asyncio
import logging
import queue
import threading
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Final

log = logging.getLogger("swath.crawl")

HELP_SECONDS: Final = 0.02
MAX_WAITING: Final = 32  # calls that wait, for a thread or for the loop to take their results

_NUMBERS = count(1)


class HandlerCall:
    """A call in a thread. `future` gets None, or the exception that the call has raised.

    A caller that stops waiting sets `on_late_return`, which is called when the call returns after all.
    """

    __slots__ = ("error", "future", "has_returned", "on_late_return", "work")

    def __init__(self, work: Callable[[], None], future: "asyncio.Future[BaseException | None]") -> None:
        self.work: Callable[[], None] | None = work
        self.future: Final = future
        self.error: BaseException | None = None
        self.has_returned = False
        self.on_late_return: Callable[[], None] | None = None


class HandlerThreads:
    """Runs the calls of one event loop. The threads do not keep the process alive."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # for the fields until the blank line
        self._calls: deque[HandlerCall] = deque()
        self._returned: list[HandlerCall] = []
        self._idle: list[_Thread] = []
        self._busy = 0
        self._is_closed = False

        self._head: HandlerCall | None = None  # first in the queue when a thread was last asked to help
        self._pending = 0  # calls that were started, and whose result the loop has not taken
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._is_warned = False
        self._loop: asyncio.AbstractEventLoop | None = None

    async def wait_for_room(self) -> None:
        """Wait while `MAX_WAITING` calls wait, for a thread or for the loop. Those that run do not count."""
        while self._get_room() <= 0:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                self._admit()  # another one in its place
                raise

    def _get_room(self) -> int:
        return MAX_WAITING - self._pending + self._busy

    def _admit(self) -> None:
        """End the wait of as many callers as there is room for."""
        room = self._get_room()
        while room > 0 and self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                room -= 1

    def start(self, work: Callable[[], None]) -> HandlerCall:
        """Run `work` in a thread. Cancelling the future does not stop it, unless it has not begun."""
        loop = self._loop = asyncio.get_running_loop()
        call = HandlerCall(work, loop.create_future())
        self._pending += 1
        with self._lock:
            self._calls.append(call)
            is_idle = not self._busy
        if is_idle:
            self._wake_threads(1)
        elif self._timer is None:
            self._watch(call)
        return call

    def _watch(self, head: HandlerCall) -> None:
        assert self._loop is not None
        self._head = head
        self._timer = self._loop.call_later(HELP_SECONDS, self._help)

    def _help(self) -> None:
        """Wake more threads if a call has waited for `HELP_SECONDS`."""
        self._timer = None
        with self._lock:
            waiting, busy = len(self._calls), self._busy
            head = self._calls[0] if waiting else None
        if head is self._head and head is not None:
            self._wake_threads(min(waiting, max(busy, 1)))
        if head is not None:
            self._watch(head)
        else:
            self._head = None
        self._admit()

    def _wake_threads(self, number: int) -> None:
        for _ in range(number):
            with self._lock:
                thread = self._idle.pop() if self._idle else None
                self._busy += 1
            if thread is not None:
                thread.wake.put(True)
            elif not self._start_thread():
                return

    def _start_thread(self) -> bool:
        """Start a thread. Return False if the system refuses it, so that the calls wait for an existing one."""
        try:
            _Thread(self._run)
        except RuntimeError as error:
            with self._lock:
                self._busy -= 1
                if not self._busy:
                    self._pending -= len(self._calls)
                    self._calls.clear()
                    raise
            if not self._is_warned:
                self._is_warned = True
                log.warning("cannot start more threads (%s): handlers wait for a free one", error)
            return False
        return True

    def _run(self, thread: "_Thread") -> None:
        """Make calls, in a thread, until no more are wanted."""
        call: HandlerCall | None = None
        while True:
            with self._lock:
                is_first = False
                if call is not None:
                    is_first = not self._returned
                    self._returned.append(call)
                call = self._calls.popleft() if self._calls else None
                if call is None:
                    self._busy -= 1
                    if not self._is_closed:
                        self._idle.append(thread)
                is_closed = self._is_closed
            if is_first and not self._report():
                return
            if call is None:
                if is_closed or not thread.wake.get():
                    return
                continue
            try:
                if not call.future.done() and call.work is not None:
                    call.work()
            except BaseException as raised:  # noqa: BLE001  the caller raises it in the loop
                call.error = raised
            call.work = None  # its objects can be freed

    def _report(self) -> bool:
        """Let the loop take the results. Return False if the loop is closed."""
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(self._deliver)
        except RuntimeError:
            return False
        return True

    def _deliver(self) -> None:
        with self._lock:
            returned, self._returned = self._returned, []
        self._pending -= len(returned)
        for call in returned:
            call.has_returned = True
            if call.on_late_return is not None:
                call.on_late_return()
            if not call.future.done():
                call.future.set_result(call.error)
        self._admit()

    def close(self) -> None:
        """End idle threads now and busy ones when they return. Calls that have not begun are not made."""
        with self._lock:
            self._is_closed = True
            self._calls.clear()
            idle, self._idle = self._idle, []
        if self._timer is not None:
            self._timer.cancel()
        for thread in idle:
            thread.wake.put(False)


class _Thread(threading.Thread):
    def __init__(self, work: "Callable[[_Thread], None]") -> None:
        super().__init__(name=f"swath-handler-{next(_NUMBERS)}", daemon=True)
        self.wake: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._work = work
        self.start()

    def run(self) -> None:
        self._work(self)
