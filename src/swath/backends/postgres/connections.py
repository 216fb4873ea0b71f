"""A handful of connections, each borrowed for one transaction. No state is kept in a session, so a pooler in
transaction mode may stand in between."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import psycopg

from swath.core.errors import UsageError

# Of one process, whatever its workers. More than it settles and adds at once: while those wait for partitions that
# somebody holds, leases are renewed all the same.
MOST = 8
CONNECT_TIMEOUT = 10
# A server that is gone without a word, as in a fail-over, is noticed within half a minute. By itself TCP would take a
# quarter of an hour or, while a reply is awaited, two hours. The URL may say otherwise.
KEEPALIVE = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 4, "tcp_user_timeout": 30_000}

AsyncConnection = psycopg.AsyncConnection[tuple[Any, ...]]


class Connections:
    """Lends connections in autocommit mode, so that one call of a function is one transaction."""

    def __init__(self, connect: Callable[[], Awaitable[AsyncConnection]]) -> None:
        self._make = connect
        self._free = asyncio.Semaphore(MOST)
        self._idle: list[AsyncConnection] = []
        self._closed = False
        self._pid = os.getpid()
        self.broken = 0  # connections that failed in use

    def lend(self) -> AbstractAsyncContextManager[AsyncConnection]:
        return _Loan(self)

    async def borrow(self) -> AsyncConnection:
        self.check_process()
        await self._free.acquire()
        try:
            if self._closed:
                raise UsageError("this frontier was closed: open it again")
            return self._idle.pop() if self._idle else await self._connect()
        except BaseException:
            self._free.release()
            raise

    async def give_back(self, connection: AsyncConnection, error: BaseException | None) -> None:
        try:
            # After a cancellation or in the middle of a statement, what the session does is not known.
            idle = connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
            sound = error is None or (isinstance(error, Exception) and idle)
            if sound and not connection.closed and not self._closed:
                self._idle.append(connection)
            else:
                self.broken += 1
                await connection.close()
                await self._drop_idle()  # what ended this one has ended them too
        finally:
            self._free.release()

    @property
    def forked(self) -> bool:
        """Whether they are another process's, on whose sockets a child would talk in between."""
        return os.getpid() != self._pid

    def check_process(self) -> None:
        if self.forked:
            raise UsageError(
                f"this frontier was opened by process {self._pid} and came to process {os.getpid()} by a fork, which "
                "its connections do not survive. Open it in the child, and start children with `spawn`"
            )

    async def _connect(self) -> AsyncConnection:
        connection = await self._make()
        # A pooler may lend us the session in which a listener of somebody's once listened. What nobody handles is kept.
        connection.add_notify_handler(_drop)
        return connection

    async def close(self) -> None:
        self._closed = True
        await self._drop_idle()

    async def _drop_idle(self) -> None:
        while self._idle:
            await self._idle.pop().close()


class _Loan(AbstractAsyncContextManager[AsyncConnection]):
    """A connection from its borrowing to its return. Every move has one, and a generator would cost twice as much."""

    __slots__ = ("_connection", "_connections")

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def __aenter__(self) -> AsyncConnection:
        self._connection = await self._connections.borrow()
        return self._connection

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        await self._connections.give_back(self._connection, error)


def _drop(note: psycopg.Notify) -> None:
    """Only a listener wants it."""


async def connect(dsn: str) -> AsyncConnection:
    given = psycopg.conninfo.conninfo_to_dict(dsn)
    keepalive: dict[str, Any] = {name: value for name, value in KEEPALIVE.items() if name not in given}
    return await psycopg.AsyncConnection.connect(
        dsn,
        **keepalive,
        autocommit=True,
        prepare_threshold=None,
        connect_timeout=CONNECT_TIMEOUT,
        application_name="swath",
        client_encoding="UTF8",  # whatever the URL, the role or the database says: texts are any Unicode
    )
