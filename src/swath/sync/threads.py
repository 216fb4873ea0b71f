"""Threads: a plain function as a handler."""

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable
from types import TracebackType
from typing import NamedTuple, Self

from swath.core.item import Item, Outcome


class _Visit(NamedTuple):
    item: Item
    context: contextvars.Context
    answer: Callable[[Outcome | None, BaseException | None], None]


class Threads:
    """Calls a function in as many threads as it is called at once.

    The threads are daemons: a function that never returns keeps no process alive. Each call has a copy of the context
    in which this was made.
    """

    def __init__(self, function: Callable[[Item], Outcome | None]) -> None:
        self._function = function
        self._context = contextvars.copy_context()
        self._visits: queue.SimpleQueue[_Visit | None] = queue.SimpleQueue()
        self._threads = 0
        self._busy = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for _ in range(self._threads):
            self._visits.put(None)

    async def visit(self, item: Item) -> Outcome | None:
        """The handler. A thread cannot be cancelled: its item is not free before it is through."""
        loop = asyncio.get_running_loop()
        returned: asyncio.Future[tuple[Outcome | None, BaseException | None]] = loop.create_future()

        def settle(outcome: Outcome | None, error: BaseException | None) -> None:
            if not returned.done():
                returned.set_result((outcome, error))

        def answer(outcome: Outcome | None, error: BaseException | None) -> None:
            try:
                loop.call_soon_threadsafe(settle, outcome, error)
            except RuntimeError:
                return  # the loop is closed: nobody wants to know any more

        self._busy += 1
        if self._busy > self._threads:
            self._threads += 1
            threading.Thread(target=self._work, name=f"swath worker {self._threads}", daemon=True).start()
        self._visits.put(_Visit(item, self._context.copy(), answer))
        try:
            while not returned.done():
                try:
                    await asyncio.shield(returned)
                except asyncio.CancelledError:
                    continue
        finally:
            self._busy -= 1
        outcome, error = returned.result()
        if error is not None:
            raise error
        return outcome

    def _work(self) -> None:
        while (visit := self._visits.get()) is not None:
            try:
                visit.answer(visit.context.run(self._function, visit.item), None)
            except BaseException as error:  # noqa: BLE001  it is raised where the handler was called
                visit.answer(None, error)
