"""swath, through `add` and `run`."""

import asyncio
from collections.abc import Sequence

import swath
from benchmarks.work import Link
from swath.core.item import Item

WORKERS = 500


class Swath:
    def __init__(self, url: str, *, concurrency: int) -> None:
        self._url = url
        self._concurrency = concurrency

    async def open(self) -> None:
        self._frontier = await swath.open(self._url, concurrency=self._concurrency)

    async def add(self, items: Sequence[Link]) -> None:
        await self._frontier.add(Item(*link) for link in items)

    async def work(self, limit: float) -> int:
        try:
            async with asyncio.timeout(limit):
                await self._frontier.run(_nothing, workers=WORKERS, handle_signals=False)
        except TimeoutError:
            pass
        return (await self._frontier.status()).done

    async def close(self) -> None:
        await self._frontier.close()


def contestant(at: str, variant: str) -> Swath:
    return Swath(at, concurrency=1 if variant == "one" else None)


async def _nothing(item: Item) -> None:
    """A handler for which every item is done."""
