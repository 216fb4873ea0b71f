"""Patient: what a visit asks of the frontier, asked again while the store cannot be reached.

A store that is away says nothing about the page. If it stays away for longer than the lease, the runner ends the visit.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from swath import Frontier, NewItems, StoreFull, StoreUnavailable

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0

T = TypeVar("T")


class Patient:
    """A frontier whose answers may take as long as an outage."""

    def __init__(self, frontier: Frontier) -> None:
        self._frontier = frontier

    async def facts(self, keys: Iterable[str]) -> dict[str, Any]:
        wanted = list(keys)
        return await _outlast(lambda: self._frontier.facts(wanted))

    async def learn(self, facts: Mapping[str, Any]) -> None:
        await _outlast(lambda: self._frontier.learn(facts))

    async def add(self, items: NewItems) -> int:
        return await _outlast(lambda: self._frontier.add(items))

    async def limit(self, lane: str, *, min_interval: float) -> None:
        await _outlast(lambda: self._frontier.limit(lane, min_interval=min_interval))

    async def block(
        self, lane: str, *, until: datetime | None = None, seconds: float | None = None, at_least: bool = False
    ) -> None:
        await _outlast(lambda: self._frontier.block(lane, until=until, seconds=seconds, at_least=at_least))

    async def blocked_until(self, lane: str) -> datetime | None:
        found = await _outlast(lambda: self._frontier.lane(lane))
        return None if found is None else found.blocked_until


async def _outlast(ask: Callable[[], Awaitable[T]]) -> T:
    pause = FIRST_PAUSE
    while True:
        try:
            return await ask()
        except (StoreUnavailable, StoreFull):
            await asyncio.sleep(pause)
            pause = min(LONGEST_PAUSE, 2 * pause)
