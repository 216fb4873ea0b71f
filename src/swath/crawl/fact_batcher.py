"""Lookup: facts asked for and told, gathered from many visits into few transactions."""

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any

from swath.crawl.patient import Patient

GATHER_SECONDS = 0.005
GATHERED = 500  # keys asked for at once


class Lookup:
    """What the fleet knows, asked for by many tasks at a time. Belongs to one event loop."""

    def __init__(self, frontier: Patient) -> None:
        self._frontier = frontier
        self._waiting: dict[str, list[asyncio.Future[Any]]] = {}
        self._telling: dict[str, Any] = {}
        self._told: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._asking: set[asyncio.Task[None]] = set()

    async def fact(self, key: str) -> Any:
        """What is known of a key; None when nothing is."""
        loop = asyncio.get_running_loop()
        answer = loop.create_future()
        others = self._waiting.get(key)
        if others is not None:
            others.append(answer)
            return await answer
        self._waiting[key] = [answer]
        if len(self._waiting) >= GATHERED:
            self._ask()
        elif self._timer is None:
            self._timer = loop.call_later(GATHER_SECONDS, self._ask)
        return await answer

    def _ask(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, {}
        self._start(self._answer(waiting))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def _answer(self, waiting: dict[str, list[asyncio.Future[Any]]]) -> None:
        try:
            found = await self._frontier.facts(waiting)
        except Exception as error:  # noqa: BLE001  it is each waiting visit's to handle
            for futures in waiting.values():
                for future in futures:
                    if not future.done():
                        future.set_exception(error)
        else:
            for key, futures in waiting.items():
                fact = found.get(key)
                for future in futures:
                    if not future.done():
                        future.set_result(fact)

    async def learn(self, facts: Mapping[str, Any]) -> None:
        """Let the fleet know; return when it does."""
        loop = asyncio.get_running_loop()
        self._telling.update(facts)
        if self._told is None:
            self._told = loop.create_future()
            loop.call_later(GATHER_SECONDS, self._tell)
        await asyncio.shield(self._told)

    def _tell(self) -> None:
        assert self._told is not None
        self._start(self._teach(self._telling, self._told))
        self._telling, self._told = {}, None

    async def _teach(self, facts: dict[str, Any], told: asyncio.Future[None]) -> None:
        try:
            await self._frontier.learn(facts)
        except Exception as error:  # noqa: BLE001  it is each waiting visit's to handle
            told.set_exception(error)
            told.exception()
        else:
            told.set_result(None)
