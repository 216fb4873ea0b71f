"""A frontier in a schema of its own, and the hands that a test needs around it: an onlooker, a lock holder, a worker
whose transaction stays open."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from swath.backends.postgres import PostgresStore
from swath.backends.postgres.connections import AsyncConnection, Connections, connect
from swath.backends.postgres.location import PostgresLocation
from swath.backends.postgres.statements import FUNCTIONS
from swath.conformance.trial import Trial
from swath.core.clock import Clock, ManualClock
from swath.core.store import Settings
from tests.postgres.lending import Pinned
from tests.recorder import PATIENCE

POLL_SECONDS = 0.01


@dataclass
class Site:
    url: str
    clock: ManualClock = field(default_factory=ManualClock)
    opened: list[PostgresStore] = field(default_factory=list)
    connections: list[AsyncConnection] = field(default_factory=list)

    @property
    def location(self) -> PostgresLocation:
        return PostgresLocation.parse(self.url)

    async def store(
        self,
        settings: Settings | None = None,
        *,
        partitions: int = 1,
        clock: Clock | None = None,
        connections: Connections | None = None,
    ) -> PostgresStore:
        """Time is the test's own unless another clock is given."""
        settings = settings or Settings(partitions)
        store = await PostgresStore.open(
            self.url, settings=settings, clock=clock or self.clock, connections=connections
        )
        self.opened.append(store)
        return store

    async def trial(self, **options: Any) -> Trial:
        return Trial(await self.store(**options), self.clock, count(len(self.opened) * 1_000))

    async def connect(self) -> AsyncConnection:
        """A connection of the test's own."""
        connection = await connect(self.location.dsn)
        self.connections.append(connection)
        return connection

    async def sql(self, statement: str, *arguments: object) -> list[Any]:
        """Run a statement on a new connection. `{set}` is the end of the names of the stored functions."""
        async with await connect(self.location.dsn) as connection:
            cursor = await connection.execute(self.location.fill(FUNCTIONS.fill(statement)), arguments)
            return await cursor.fetchall() if cursor.description else []

    @asynccontextmanager
    async def held_open(self) -> AsyncIterator[tuple[Trial, AsyncConnection]]:
        """A worker all of whose moves are in one transaction, which the test ends."""
        connection = await self.connect()
        trial = await self.trial(connections=Pinned(connection))
        await connection.execute("BEGIN")
        yield trial, connection
        if not connection.closed:
            await connection.rollback()

    async def lock(self, partition: int) -> AsyncConnection:
        """Somebody who holds a partition until the connection commits."""
        connection = await self.connect()
        await connection.execute("BEGIN")
        await connection.execute(
            self.location.fill("SELECT 1 FROM {schema}.partition WHERE partition = %s FOR UPDATE"), (partition,)
        )
        return connection

    async def waiting(self, backends: int = 1) -> None:
        """Wait until so many sessions of this database wait for a lock."""
        async with asyncio.timeout(PATIENCE), await connect(self.location.dsn) as onlooker:
            while True:
                cursor = await onlooker.execute(
                    "SELECT count(*) FROM pg_stat_activity "
                    "WHERE datname = current_database() AND wait_event_type = 'Lock' AND state = 'active'"
                )
                if await cursor.fetchone() == (backends,):
                    return
                await asyncio.sleep(POLL_SECONDS)

    async def close(self) -> None:
        for store in self.opened:
            await store.close()
        for connection in self.connections:
            await connection.close()
