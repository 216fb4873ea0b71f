"""Ways to hand a PostgresStore its connections: a test decides which one a move runs on, and when it commits."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import cycle
from typing import Any

import psycopg

from swath.backends.postgres.connections import AsyncConnection, Connections, connect

# What a session keeps from one transaction to the next.
LEFT_BEHIND = """
SELECT
    ARRAY(SELECT name || '=' || setting FROM pg_settings WHERE source = 'session' ORDER BY name),
    ARRAY(SELECT name FROM pg_prepared_statements),
    ARRAY(SELECT objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()),
    ARRAY(SELECT relname FROM pg_class WHERE relpersistence = 't'),
    ARRAY(SELECT pg_listening_channels()),
    ARRAY(SELECT name FROM pg_cursors WHERE name <> '')
"""


class Pinned(Connections):
    """Lends one connection again and again. Where a transaction is open on it, every move runs inside, uncommitted."""

    def __init__(self, connection: AsyncConnection) -> None:
        super().__init__(_none)
        self.connection = connection

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[AsyncConnection]:
        yield self.connection

    async def close(self) -> None:
        await self.connection.close()


class Pooler(Connections):
    """A pooler in transaction mode: every transaction gets another connection, and what one leaves behind shows."""

    def __init__(self, connections: Sequence[AsyncConnection]) -> None:
        super().__init__(_none)
        self._all = connections
        self._next = cycle(connections)
        self._clean: dict[int, tuple[Any, ...]] = {}
        self.lent: list[int] = []

    @classmethod
    async def of(cls, dsn: str, *, size: int) -> "Pooler":
        pooler = cls([await connect(dsn) for _ in range(size)])
        for connection in pooler._all:
            pooler._clean[connection.info.backend_pid] = await left_behind(connection)
        return pooler

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[AsyncConnection]:
        connection = next(self._next)
        self.lent.append(connection.info.backend_pid)
        try:
            yield connection
        finally:
            assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE

    async def close(self) -> None:
        for connection in self._all:
            assert await left_behind(connection) == self._clean[connection.info.backend_pid]
            await connection.close()


class HeldBack(Connections):
    """Lends as ever. The answer of the next move reaches whoever asked only when `let_go` is called."""

    def __init__(self, dsn: str) -> None:
        super().__init__(lambda: connect(dsn))
        self.answered = asyncio.Event()
        self._hold: asyncio.Event | None = None
        self._let_go = asyncio.Event()

    def hold_next(self) -> None:
        self._hold = self._let_go

    def let_go(self) -> None:
        self._let_go.set()

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[AsyncConnection]:
        async with super().lend() as connection:
            yield connection
        if (hold := self._hold) is not None:
            self._hold = None
            self.answered.set()
            await hold.wait()


class Losing(Connections):
    """Lends as ever. Once `meanwhile` is set, the answer of a move is lost on its way: it took effect, that is called,
    and the connection is gone."""

    def __init__(self, dsn: str) -> None:
        super().__init__(lambda: connect(dsn))
        self.meanwhile: Callable[[], Awaitable[object]] | None = None

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[AsyncConnection]:
        async with super().lend() as connection:
            yield connection
            if (meanwhile := self.meanwhile) is not None:
                self.meanwhile = None
                await meanwhile()
                await connection.close()
                raise psycopg.OperationalError("the connection is lost")


async def left_behind(connection: AsyncConnection) -> tuple[Any, ...]:
    row = await (await connection.execute(LEFT_BEHIND)).fetchone()
    assert row is not None
    return row


async def _none() -> AsyncConnection:
    raise AssertionError("this pool makes no connections of its own")
