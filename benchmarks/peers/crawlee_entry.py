# mypy: ignore-errors
"""Crawlee's request queue on its SQL storage client, fetched and marked by a few tasks, as its crawlers do."""

import asyncio
import time
from datetime import timedelta

from crawlee.configuration import Configuration
from crawlee.storage_clients import SqlStorageClient
from crawlee.storages import RequestQueue

ADD_BATCH = 1_000
TASKS = 10  # 1 and 30 made no difference


class Contestant:
    def __init__(self, connection_string: str) -> None:
        self._connection_string = connection_string
        self._done = 0

    async def open(self) -> None:
        self._client = SqlStorageClient(connection_string=self._connection_string)
        self._queue = await RequestQueue.open(
            name="bench", storage_client=self._client, configuration=Configuration(purge_on_start=False)
        )

    async def add(self, items) -> None:
        await self._queue.add_requests(
            [link.key for link in items],
            batch_size=ADD_BATCH,
            wait_time_between_batches=timedelta(0),  # a second by default
            wait_for_all_requests_to_be_added=True,
        )

    async def work(self, limit: float) -> int:
        end = time.monotonic() + limit
        await asyncio.gather(*(self._work(end) for _ in range(TASKS)))
        return self._done

    async def _work(self, end: float) -> None:
        while time.monotonic() < end and (request := await self._queue.fetch_next_request()) is not None:
            await self._queue.mark_request_as_handled(request)
            self._done += 1

    async def close(self) -> None:
        await self._client.close()


def contestant(at: str, variant: str) -> Contestant:
    return Contestant(at)
