"""Portal: an event loop in its own thread, and functions with which other threads call into it."""

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
from swath.core.validation import show
from swath.frontier import ADD_BUFFER, ADD_BYTES, Frontier, NewItem
from swath.runner.run import Summary
from swath.runner.shutdown import Stop, stop_on_signals
from swath.worker_threads import WorkerThreads

Answer = TypeVar("Answer")

Handler = Callable[[Item], Outcome | None]

PAGE = 100  # values of an async iterator that one call fetches
SIGNAL_SECONDS = 0.2  # a waiting thread handles signals this often
CLOSE_SECONDS = 5.0  # how long to wait for the thread to end

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
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    @property
    def closed(self) -> bool:
        """Whether the portal is closed, or belongs to the parent process of a fork."""
        return self._closed or os.getpid() != self._pid

    def call(self, coroutine: Coroutine[Any, Any, Answer]) -> Answer:
        """Run a coroutine and return its result."""
        future = self._start(coroutine)
        try:
            return self._result(future)
        except BaseException:
            future.cancel()  # if this thread was interrupted
            raise

    def _start(self, coroutine: Coroutine[Any, Any, Answer]) -> "Future[Answer]":
        self._check(coroutine)
        try:
            return asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except RuntimeError:  # the loop was closed just now
            coroutine.close()
            raise UsageError(CLOSED) from None

    def _check(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        if (problem := self._find_problem()) is not None:
            coroutine.close()
            raise UsageError(problem)

    def _find_problem(self) -> str | None:
        """Return why this thread cannot call the portal, or None."""
        if os.getpid() != self._pid:
            return (
                f"process {self._pid} opened this frontier; process {os.getpid()} inherited it by a fork, which its "
                "thread did not survive. Open the frontier in the child process, or start children with `spawn`"
            )
        if self._closed:
            return CLOSED
        if threading.current_thread() is self._thread:
            return "an observer of swath.sync cannot call the frontier: pass the event to another thread"
        return None

    def _result(self, future: "Future[Answer]") -> Answer:
        """Return the result of a future.

        A signal that arrives just before a wait does not interrupt it, so each wait is short.
        """
        try:
            while not future.done():
                try:
                    return future.result(SIGNAL_SECONDS)
                except TimeoutError:
                    if not future.done() and not self._thread.is_alive():
                        raise UsageError(CLOSED) from None  # the loop ended before it ran the coroutine
            return future.result()  # the result arrived just now, or the coroutine itself raised TimeoutError
        except CancelledError:
            if self._closed:
                raise UsageError(CLOSED) from None
            raise

    def close(self) -> None:
        """End the loop and its thread. A thread that does not end in time does not keep the process alive."""
        if not self.closed:
            self._closed = True
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(CLOSE_SECONDS)

    # Calls that need more than `call`

    async def open(self, opening: Awaitable[Answer]) -> Answer:
        return await opening

    def iterate(self, values: AsyncIterator[Answer]) -> Iterator[Answer]:
        """Iterate over an async iterator, a page at a time."""

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
        """Encode items in the event loop's thread, which owns the set of known keys."""
        return frontier.encode(items, drop_known=drop_known)

    def add(self, frontier: Frontier, items: NewItem | Iterable[NewItem]) -> int:
        """Add items. Iterate over them in the calling thread: the iterable may block, or belong to that thread."""
        if isinstance(items, Item | EncodedItem | str):
            return self.call(frontier.add(items))
        if not hasattr(items, "__iter__"):
            raise UsageError(f"{show(items)} is not an item, a key or an iterable of them")
        source, added = iter(items), 0
        while part := _take_items(source, frontier._store.settings.partitions):
            try:
                added += self.call(frontier.add(part))
            except UsageError as error:
                error.added += added
                raise
        return added

    def step(self, coroutine: Coroutine[Any, Any, Answer]) -> Answer:
        """Run a coroutine that never waits, in the calling thread, because its connection belongs to that thread.

        The loop is suspended, so to all other tasks this looks like one step of the loop.
        """
        self._check(coroutine)
        with closing(coroutine), self._suspend_loop():
            try:
                coroutine.send(None)
            except StopIteration as end:
                answer: Answer = end.value
                return answer
            coroutine.close()  # while the loop is suspended: closing may touch its objects
        raise WrongTransaction(
            "the settlement had to wait, which is not possible in your transaction: pass a psycopg.Connection or "
            "sqlite3.Connection (not an async one), and settle a claim from one thread at a time"
        )

    @contextmanager
    def _suspend_loop(self) -> Iterator[None]:
        suspended, resume = threading.Event(), threading.Event()

        def suspend() -> None:
            suspended.set()
            resume.wait()

        try:
            self._loop.call_soon_threadsafe(suspend)
            suspended.wait()
            yield
        finally:
            resume.set()  # even if this thread was interrupted: the loop may reach `suspend` later

    def run(
        self, frontier: Frontier, handler: Handler, *, workers: int, handle_signals: bool, **options: Any
    ) -> Summary:
        """Run a plain function as a handler. If called in the main thread, pass its signals to the run."""
        if not callable(handler):
            raise UsageError(f"{handler!r} cannot be called: pass a function that takes an item")
        if inspect.iscoroutinefunction(handler):
            raise UsageError(
                f"{handler!r} is async: define it with `def`, or use swath.open, which takes async handlers"
            )
        stop = Stop()
        signals = stop_on_signals(stop, self._loop, in_loop_thread=False) if handle_signals else nullcontext()
        with closing(WorkerThreads()) as threads, signals:
            visit = _make_async(handler, threads)
            running = frontier.run(visit, workers=workers, handle_signals=False, stop=stop, **options)
            self._check(running)
            future = self._start(_return_exit(running))
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
        """Stop the run because this thread was interrupted: cleanly, or at once if a stop was requested before."""
        if stop.reason is not None:
            self._loop.call_soon_threadsafe(stop.abort, error)
        else:
            self._loop.call_soon_threadsafe(stop.request, type(error).__name__)
            wait([future])


def _take_items(source: Iterator[NewItem], partitions: int) -> list[NewItem]:
    """Return the next items, up to the limits of memory. Stop after an invalid item, so that `add` raises for it."""
    taken: list[NewItem] = []
    size = 0
    for item in islice(source, ADD_BUFFER):
        try:
            new = encode_item(item, partitions)
        except UsageError:
            return [*taken, item]
        taken.append(new)
        size += len(new.payload or "")
        if size >= ADD_BYTES:
            break
    return taken


def _make_async(handler: Handler, threads: WorkerThreads) -> Callable[[Item], Awaitable[Outcome | None]]:
    """Make an async handler from a plain function. Each call has a copy of the caller's context."""
    context = contextvars.copy_context()

    async def visit(item: Item) -> Outcome | None:
        """Wait until the thread returns, even after a cancellation: it cannot be cancelled and still uses the item."""
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


async def _return_exit(run: Coroutine[Any, Any, Answer]) -> tuple[Answer | None, BaseException | None]:
    """Return KeyboardInterrupt and SystemExit as values: raised inside the loop, they would stop the loop."""
    try:
        return await run, None
    except (KeyboardInterrupt, SystemExit) as error:
        return None, error
