"""A small pool of connections, each borrowed for one transaction.

No state is kept in a session, so the server can be behind a pooler in transaction mode.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import psycopg

from swath.core.errors import UsageError

# Per process, for any number of workers. More than settling and adding use at the same time: when all of those wait for
# locked partitions, a connection remains to renew leases.
MAX_CONNECTIONS = 8
CONNECT_TIMEOUT = 10
# Detect within half a minute that a server vanished, as in a failover. With its defaults, TCP takes 15 minutes or,
# while it waits for a reply, two hours. The URL can override these values.
KEEPALIVE = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 4, "tcp_user_timeout": 30_000}

AsyncConnection = psycopg.AsyncConnection[tuple[Any, ...]]


class Connections:
    """Lends connections in autocommit mode, so that one call of a function is one transaction."""

    def __init__(self, connect: Callable[[], Awaitable[AsyncConnection]]) -> None:
        self._make_connection = connect
        self._free = asyncio.Semaphore(MAX_CONNECTIONS)
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
            # After a cancellation or inside a statement, the state of the session is unknown.
            idle = connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
            sound = error is None or (isinstance(error, Exception) and idle)
            if sound and not connection.closed and not self._closed:
                self._idle.append(connection)
            else:
                self.broken += 1
                await connection.close()
                await self._close_idle()  # they have probably broken, too
        finally:
            self._free.release()

    @property
    def is_inherited(self) -> bool:
        """Whether the connections belong to a parent process. A child must not write to the sockets of its parent."""
        return os.getpid() != self._pid

    def check_process(self) -> None:
        if self.is_inherited:
            raise UsageError(
                f"process {self._pid} opened this frontier; process {os.getpid()} inherited it by a fork and cannot "
                "use its connections. Open the frontier in the child, and start children with `spawn`"
            )

    async def _connect(self) -> AsyncConnection:
        connection = await self._make_connection()
        # A pooler may reuse a session that listens. Without a handler, psycopg would collect its notifications.
        connection.add_notify_handler(_discard)
        return connection

    async def close(self) -> None:
        self._closed = True
        await self._close_idle()

    async def _close_idle(self) -> None:
        while self._idle:
            await self._idle.pop().close()


class _Loan(AbstractAsyncContextManager[AsyncConnection]):
    """A borrowed connection. Each call has one; a generator-based context manager would cost twice as much."""

    __slots__ = ("_connection", "_connections")

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def __aenter__(self) -> AsyncConnection:
        self._connection = await self._connections.borrow()
        return self._connection

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        await self._connections.give_back(self._connection, error)


def _discard(note: psycopg.Notify) -> None:
    """Ignore a notification: only a Listener needs it."""


async def connect(dsn: str) -> AsyncConnection:
    """Connect in autocommit mode, with swath's timeouts."""
    given = psycopg.conninfo.conninfo_to_dict(dsn)
    keepalive: dict[str, Any] = {name: value for name, value in KEEPALIVE.items() if name not in given}
    return await psycopg.AsyncConnection.connect(
        dsn,
        **keepalive,
        autocommit=True,
        prepare_threshold=None,
        connect_timeout=CONNECT_TIMEOUT,
        application_name="swath",
        client_encoding="UTF8",  # overrides the URL, the role and the database, because texts may contain any character
    )
