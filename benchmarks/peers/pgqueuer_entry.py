# mypy: ignore-errors
"""PgQueuer over asyncpg, its faster driver, on uvloop, as its own command runs it."""

import asyncio
from datetime import timedelta

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.queries import Queries
from pgqueuer.types import QueueExecutionMode

ENTRYPOINT = "page"
ENQUEUE_BATCH = 1_000
BATCH = 100  # its default of 10 is several times slower, 500 no faster
run = uvloop.run


class Contestant:
    def __init__(self, dsn: str, *, dedupe: bool) -> None:
        self._dsn = dsn
        self._dedupe = dedupe
        self._done = 0

    async def open(self) -> None:
        self._connection = await asyncpg.connect(self._dsn)
        self._queue = PgQueuer.from_asyncpg_connection(self._connection)
        self._queries = Queries.from_asyncpg_connection(self._connection)
        await self._queries.install()
        self._queue.entrypoint(ENTRYPOINT)(self._handle)

    async def add(self, items) -> None:
        for start in range(0, len(items), ENQUEUE_BATCH):
            batch = items[start : start + ENQUEUE_BATCH]
            await self._queries.enqueue(
                [ENTRYPOINT] * len(batch),
                [link.key.encode() for link in batch],
                [0] * len(batch),
                dedupe_key=[link.key for link in batch] if self._dedupe else None,
                on_conflict="skip" if self._dedupe else "raise",
            )

    async def work(self, limit: float) -> int:
        loop = asyncio.get_running_loop()
        alarm = loop.call_later(limit, self._queue.shutdown.set)
        # Drained, it looks once more before it ends: this is how long it waits for that.
        await self._queue.run(
            batch_size=BATCH, mode=QueueExecutionMode.drain, dequeue_timeout=timedelta(milliseconds=50)
        )
        alarm.cancel()
        return self._done

    async def _handle(self, job) -> None:
        self._done += 1

    async def close(self) -> None:
        await self._connection.close()


def contestant(at: str, variant: str) -> Contestant:
    return Contestant(at, dedupe=variant == "dedupe")
