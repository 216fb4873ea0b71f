"""FactBatcher: read and write facts for many pages in few transactions."""

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any

from swath import Frontier, retry_while_unavailable

BATCH_SECONDS = 0.005  # how long a request waits for others to join its batch
MAX_BATCH = 500  # keys read in one transaction


class FactBatcher:
    """The facts of a frontier, read and written by many tasks of one event loop."""

    def __init__(self, frontier: Frontier) -> None:
        self._frontier = frontier
        self._readers: dict[str, list[asyncio.Future[Any]]] = {}
        self._read_timer: asyncio.TimerHandle | None = None
        self._unwritten: dict[str, Any] = {}
        self._written: asyncio.Future[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def get(self, key: str) -> Any:
        """Return the fact under a key, or None."""
        return await self._request(key)

    async def get_all(self, *keys: str) -> list[Any]:
        """Return the facts under several keys, in the same order, with None for those that do not exist."""
        return await asyncio.gather(*map(self._request, keys))

    def _request(self, key: str) -> asyncio.Future[Any]:
        """Add a key to the next read."""
        loop = asyncio.get_running_loop()
        reply = loop.create_future()
        readers = self._readers.get(key)
        if readers is not None:
            readers.append(reply)
            return reply
        self._readers[key] = [reply]
        if len(self._readers) >= MAX_BATCH:
            self._start_read()
        elif self._read_timer is None:
            self._read_timer = loop.call_later(BATCH_SECONDS, self._start_read)
        return reply

    def _start_read(self) -> None:
        if self._read_timer is not None:
            self._read_timer.cancel()
            self._read_timer = None
        readers, self._readers = self._readers, {}
        self._start(self._read(readers))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _read(self, readers: dict[str, list[asyncio.Future[Any]]]) -> None:
        try:
            found = await retry_while_unavailable(lambda: self._frontier.facts(list(readers)))
        except Exception as error:  # noqa: BLE001  every waiting task handles it
            for futures in readers.values():
                for future in futures:
                    if not future.done():
                        future.set_exception(error)
        else:
            for key, futures in readers.items():
                fact = found.get(key)
                for future in futures:
                    if not future.done():
                        future.set_result(fact)

    async def learn(self, facts: Mapping[str, Any]) -> None:
        """Write facts, and return when they are committed."""
        loop = asyncio.get_running_loop()
        self._unwritten.update(facts)
        if self._written is None:
            self._written = loop.create_future()
            loop.call_later(BATCH_SECONDS, self._start_write)
        await asyncio.shield(self._written)

    def _start_write(self) -> None:
        assert self._written is not None
        self._start(self._write(self._unwritten, self._written))
        self._unwritten, self._written = {}, None

    async def _write(self, facts: dict[str, Any], written: asyncio.Future[None]) -> None:
        try:
            await retry_while_unavailable(lambda: self._frontier.learn(facts))
        except Exception as error:  # noqa: BLE001  every waiting task handles it
            written.set_exception(error)
            written.exception()
        else:
            written.set_result(None)
