"""A real Store whose calls can be made to fail, hang, or lose their reply: what a network does to one."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

from swath.core.errors import StoreUnavailable
from swath.core.store import Store
from tests.recorder import PATIENCE


class Faults:
    """Stands between a frontier and its store. Everything goes through until told otherwise."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.failing: dict[str, Callable[[], Exception]] = {}  # by the name of the move
        self.losing: dict[str, int] = {}  # so many replies are lost after the move took effect
        self.held_up: dict[str, asyncio.Event] = {}  # the move waits for this before it is made
        self.changed: dict[str, Callable[[Any], Any]] = {}  # what to make of the reply
        self.calls: dict[str, int] = {}
        self._called = asyncio.Event()

    @property
    def as_store(self) -> Store:
        return cast(Store, self)

    def fail(self, *moves: str, error: type[Exception] = StoreUnavailable) -> None:
        for move in moves:
            self.failing[move] = lambda: error("the test pulled the plug")

    def go_away(self) -> None:
        self.fail("add", "claim", "renew", "settle", "signal", "status", "lanes")

    def come_back(self) -> None:
        self.failing.clear()

    async def saw(self, move: str, count: int = 1) -> None:
        """Wait until a move was asked for so many times, counted from the beginning."""
        async with asyncio.timeout(PATIENCE):
            while self.calls.get(move, 0) < count:
                self._called.clear()
                await self._called.wait()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not asyncio.iscoroutinefunction(found):
            return found

        async def call(*args: Any, **options: Any) -> Any:
            self.calls[name] = self.calls.get(name, 0) + 1
            self._called.set()
            if name in self.held_up:
                await self.held_up[name].wait()
            if name in self.failing:
                error = self.failing[name]()
                raise error
            reply = await found(*args, **options)
            if self.losing.get(name):
                self.losing[name] -= 1
                raise StoreUnavailable("the reply was lost on its way")
            return self.changed[name](reply) if name in self.changed else reply

        return call
