"""Listener: wakes waiting tasks, at once after changes by this process and through LISTEN after those of others.

A notification is only a hint. A task that gets none, for example behind a pooler, claims again when its timeout ends.
"""

import asyncio
import contextlib
import logging

import psycopg

from swath.backends.postgres.connections import connect
from swath.backends.postgres.location import PostgresLocation
from swath.backends.postgres.statements import CHANNEL

log = logging.getLogger("swath")

RETRY_SECONDS = 30.0


class Listener:
    """Listens on its own connection, from the first `wait` on."""

    def __init__(self, location: PostgresLocation) -> None:
        self._location = location
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def wait(self, seconds: float) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._listen(), name="swath listener")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._woken.wait()

    def wake(self) -> None:
        """Wake the tasks that are waiting now."""
        self._woken.set()
        self._woken = asyncio.Event()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _listen(self) -> None:
        while True:
            try:
                connection = await connect(self._location.dsn)
                async with connection:
                    await connection.execute(f"LISTEN {CHANNEL}".encode())
                    async for note in connection.notifies():
                        if note.payload == self._location.schema:
                            self.wake()
            except psycopg.Error as error:
                log.debug("not listening to %s: %s", self._location.display_url, error)
            await asyncio.sleep(RETRY_SECONDS)
