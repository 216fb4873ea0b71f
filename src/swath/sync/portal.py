"""Portal: an event loop in a thread of its own, and the ways for other threads to call into it."""

import asyncio
import contextvars
import inspect
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator
from concurrent.futures import CancelledError, Future, wait
from contextlib import closing, contextmanager, nullcontext
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from swath.core.encoding import encode_item
from swath.core.errors import UsageError, WrongTransaction
from swath.core.item import Item, Outcome
from swath.core.store import EncodedItem
from swath.frontier import ADD_BUFFER, ADD_BYTES, Frontier, NewItem
from swath.runner.run import Summary
from swath.runner.shutdown import Stop, stop_on_signals
from swath.worker_threads import Threads

Answer = TypeVar("Answer")

Handler = Callable[[Item], Outcome | None]

PAGE = 100  # values of an async iterator fetched with one call
SIGNAL_SECONDS = 0.2  # that a signal may have to wait for a thread that waits
CLOSE_SECONDS = 5.0  # that closing may take before the thread is left to itself

CLOSED = "this frontier is closed: open it again"


class Portal:
    """Runs coroutines for other threads, until it is closed."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._closed = False
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._run, name="swath.sync", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    @property
    def closed(self) -> bool:
        """Whether there is nothing left to close: in a child that came by a fork, it is not this process's."""
        return self._closed or os.getpid() != self._pid

    def call(self, coroutine: Coroutine[Any, Any, Answer]) -> Answer:
        """Run a coroutine to its end and return what it returns."""
        future = self._start(coroutine)
        try:
            return self._result(future)
        except BaseException:
            future.cancel()  # where it was this thread that was interrupted
            raise

    def _start(self, coroutine: Coroutine[Any, Any, Answer]) -> "Future[Answer]":
        self._check(coroutine)
        try:
            return asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except RuntimeError:  # the loop was closed just now
            coroutine.close()
            raise UsageError(CLOSED) from None

    def _check(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        if (wrong := self._wrong()) is not None:
            coroutine.close()
            raise UsageError(wrong)

    def _wrong(self) -> str | None:
        """Why it cannot be called, if it cannot."""
        if os.getpid() != self._pid:
            return (
                f"this frontier was opened by process {self._pid} and came to process {os.getpid()} by a fork, which "
                "its thread does not survive. Open it in the child, and start children with `spawn`"
            )
        if self._closed:
            return CLOSED
        if threading.current_thread() is self._thread:
            return "an observer of swath.sync cannot call the frontier back: hand what it saw to another thread"
        return None

    def _result(self, future: "Future[Answer]") -> Answer:
        """What a future comes to. A signal that arrives just before the wait does not end it, so it is never a long
        one."""
        try:
            while not future.done():
                try:
                    return future.result(SIGNAL_SECONDS)
                except TimeoutError:
                    if not future.done() and not self._thread.is_alive():
                        raise UsageError(CLOSED) from None  # the loop was closed before it came to this
            return future.result()  # it came just now, or is that error
        except CancelledError:
            if self._closed:
                raise UsageError(CLOSED) from None
            raise

    def close(self) -> None:
        """End the loop and its thread. A thread that does not end in time is left behind; it keeps no process alive."""
        if not self.closed:
            self._closed = True
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(CLOSE_SECONDS)

    # what differs between threads and tasks

    async def open(self, opening: Awaitable[Answer]) -> Answer:
        return await opening

    def iterate(self, values: AsyncIterator[Answer]) -> Iterator[Answer]:
        """The values of an async iterator, a page at a time."""

        async def page() -> list[Answer]:
            found = []
            async for value in values:
                found.append(value)
                if len(found) == PAGE:
                    break
            return found

        while found := self.call(page()):
            yield from found

    async def encode(
        self, frontier: Frontier, items: NewItem | Iterable[NewItem], drop_known: bool
    ) -> list[EncodedItem]:
        """Encode on the event loop's thread, which owns the set of known keys."""
        return frontier.encode(items, drop_known=drop_known)

    def add(self, frontier: Frontier, items: NewItem | Iterable[NewItem]) -> int:
        """An iterable may block, or belong to a thread: it is drawn from in the caller's."""
        if isinstance(items, Item | EncodedItem | str):
            return self.call(frontier.add(items))
        if not hasattr(items, "__iter__"):
            raise UsageError(f"{items!r} is neither an item, nor a key, nor an iterable of them")
        source, added = iter(items), 0
        while part := _drawn(source, frontier._store.settings.partitions):
            try:
                added += self.call(frontier.add(part))
            except UsageError as error:
                error.added += added
                raise
        return added

    def step(self, coroutine: Coroutine[Any, Any, Answer]) -> Answer:
        """Run a coroutine that waits for nobody in the calling thread, to which its connection belongs.

        The loop stands still meanwhile, so that it looks to everything else like a step of the loop's own.
        """
        self._check(coroutine)
        with closing(coroutine), self._parked():
            try:
                coroutine.send(None)
            except StopIteration as end:
                answer: Answer = end.value
                return answer
            coroutine.close()  # while the loop stands still, which it may have to do with
        raise WrongTransaction(
            "the settlement had to wait, which it cannot do in your transaction: give it a psycopg.Connection or "
            "sqlite3.Connection (not an async one), and settle a claim from one thread at a time"
        )

    @contextmanager
    def _parked(self) -> Iterator[None]:
        parked, go_on = threading.Event(), threading.Event()

        def park() -> None:
            parked.set()
            go_on.wait()

        try:
            self._loop.call_soon_threadsafe(park)
            parked.wait()
            yield
        finally:
            go_on.set()  # also where this thread was interrupted while it waited: the loop comes to `park` later

    def run(
        self, frontier: Frontier, handler: Handler, *, workers: int, handle_signals: bool, **options: Any
    ) -> Summary:
        """`runner.run` with a plain function. Signals reach the main thread only, so it passes them on."""
        if not callable(handler):
            raise UsageError(f"{handler!r} cannot be called: a handler is a function that takes an item")
        if inspect.iscoroutinefunction(handler):
            raise UsageError(
                f"{handler!r} is async: define it with `def`, or use the frontier of swath.open, which takes async ones"
            )
        stop = Stop()
        signals = stop_on_signals(stop, self._loop, in_loop_thread=False) if handle_signals else nullcontext()
        with closing(Threads()) as threads, signals:
            visit = _in_threads(handler, threads)
            running = frontier.run(visit, workers=workers, handle_signals=False, stop=stop, **options)
            self._check(running)
            future = self._start(_carried(running))
            try:
                summary, ended_by = self._result(future)
            except BaseException as error:
                if not future.done() and self._thread.is_alive():
                    self._interrupt(stop, error, future)
                raise
        if ended_by is not None:
            raise ended_by
        assert summary is not None
        return summary

    def _interrupt(self, stop: Stop, error: BaseException, future: "Future[Any]") -> None:
        """This thread is not to wait any more: for a clean stop yes, if none was asked for yet, but for no more."""
        if stop.reason is not None:
            self._loop.call_soon_threadsafe(stop.abort, error)
        else:
            self._loop.call_soon_threadsafe(stop.request, type(error).__name__)
            wait([future])


def _drawn(source: Iterator[NewItem], partitions: int) -> list[NewItem]:
    """The next items, as many as are held in memory at a time. One that is wrong is the last: `add` says so."""
    drawn: list[NewItem] = []
    size = 0
    for item in islice(source, ADD_BUFFER):
        try:
            new = encode_item(item, partitions)
        except UsageError:
            return [*drawn, item]
        drawn.append(new)
        size += len(new.payload or "")
        if size >= ADD_BYTES:
            break
    return drawn


def _in_threads(handler: Handler, threads: Threads) -> Callable[[Item], Awaitable[Outcome | None]]:
    """A plain function as a handler. Each call has a copy of the caller's context."""
    context = contextvars.copy_context()

    async def visit(item: Item) -> Outcome | None:
        """A thread cannot be cancelled: its item is not free before it is through."""
        returned = threads.start(partial(context.copy().run, handler, item))
        while not returned.done():
            try:
                await asyncio.shield(returned)
            except asyncio.CancelledError:
                continue
        outcome, error = returned.result()
        if error is not None:
            raise error
        return outcome

    return visit


async def _carried(run: Coroutine[Any, Any, Answer]) -> tuple[Answer | None, BaseException | None]:
    """What is to end the process ends a loop that it is raised in: it is carried to the caller instead."""
    try:
        return await run, None
    except (KeyboardInterrupt, SystemExit) as error:
        return None, error
