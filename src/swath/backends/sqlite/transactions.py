"""Transactions that the store opens for a caller, each on a connection of its own to the frontier's file.

The caller writes its own rows on such a connection and settles with `settle(connection=…)`: both commit together
(INV-5). It does not get the writer's connection: a caller that ends the transaction early, or changes how rows are
read, then harms only its own connection.
"""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeVar

from swath.backends.sqlite.connection import connect, retry_while_busy
from swath.backends.sqlite.errors import TEMPORARY, get_primary_code, translate_error, translate_errors
from swath.backends.sqlite.open_files import OpenFiles
from swath.backends.sqlite.wal_limiter import WalLimiter
from swath.backends.sqlite.write_queue import WriteQueue
from swath.core.errors import WrongTransaction

T = TypeVar("T")

IDLE_CONNECTIONS = 2  # kept open for the next transaction


class Transactions:
    """Opens transactions on one file, and keeps a few idle connections for the next ones."""

    def __init__(
        self, path: str, *, files: OpenFiles, limiter: WalLimiter, synchronous: str, on_commit: Callable[[], None]
    ) -> None:
        self._path = path
        self._files = files
        self._limiter = limiter
        self._synchronous = synchronous
        self._on_commit = on_commit
        self._lock = threading.Lock()
        self._idle: list[_TransactionConnection] = []
        self._closed = False

    @asynccontextmanager
    async def open(self) -> AsyncIterator[sqlite3.Connection]:
        """Begin a transaction. Commit it when the block ends; roll it back when the block raises."""
        transaction = self._take_connection()
        reusable = False
        try:
            connection = await transaction.run(transaction.begin)
            try:
                yield connection
            except BaseException as error:
                await transaction.run(transaction.roll_back)
                reusable = True
                if isinstance(error, sqlite3.Error) and get_primary_code(error) in TEMPORARY:
                    raise translate_error(error, self._path) from error
                raise
            await transaction.run(transaction.commit)
            reusable = True
        finally:
            self._return_connection(transaction, reusable)
        self._on_commit()

    def _take_connection(self) -> "_TransactionConnection":
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return _TransactionConnection(
            self._path, files=self._files, limiter=self._limiter, synchronous=self._synchronous
        )

    def _return_connection(self, transaction: "_TransactionConnection", reusable: bool) -> None:
        with self._lock:
            if reusable and not self._closed and len(self._idle) < IDLE_CONNECTIONS:
                self._idle.append(transaction)
                return
        transaction.close()

    def close(self) -> None:
        """Close the idle connections. A connection in use closes when its transaction ends."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for transaction in idle:
            transaction.close()


class _TransactionConnection:
    """One connection with its own thread, so that waiting for a lock blocks no other transaction and no event loop.

    Actions run in the order of their submission, even if their caller was cancelled.
    """

    def __init__(self, path: str, *, files: OpenFiles, limiter: WalLimiter, synchronous: str) -> None:
        self._path = path
        self._files = files
        self._limiter = limiter
        self._synchronous = synchronous
        self._connection: sqlite3.Connection | None = None
        self._queue = WriteQueue(f"{path}-turn")
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"swath transaction on {path}")

    async def run(self, action: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, action)

    def close(self) -> None:
        """Roll back and close the connection once the thread has finished its actions."""
        self._thread.submit(self._close)
        self._thread.shutdown(wait=False)

    # The methods below run in the thread.

    def begin(self) -> sqlite3.Connection:
        with translate_errors(self._path):
            if self._connection is None:
                self._connection = self._limiter.adopt(connect(self._path, synchronous=self._synchronous))
            connection = self._connection
            connection.isolation_level, connection.row_factory, connection.text_factory = None, None, str
            self._queue.acquire()
            try:
                retry_while_busy(partial(connection.execute, "BEGIN IMMEDIATE"))
                self._files.check()
            except BaseException:
                self.roll_back()
                raise
            return connection

    def commit(self) -> None:
        assert self._connection is not None
        try:
            with translate_errors(self._path):
                if not self._connection.in_transaction:
                    raise WrongTransaction(
                        "the transaction ended before its block did. `transaction()` commits when the block ends and "
                        "rolls back when it raises: do not call commit() or rollback() on its connection"
                    )
                self._files.check()  # before and after, as in the writer: a commit into a removed log is lost
                self._connection.execute("COMMIT")
                self._files.check()
            if self._limiter.is_due():
                self._limiter.shorten(self._connection)
        finally:
            self.roll_back()

    def roll_back(self) -> None:
        """Roll back uncommitted changes and release the write lock."""
        try:
            if self._connection is not None and self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        finally:
            self._queue.release()

    def _close(self) -> None:
        try:
            self.roll_back()
        finally:
            self._queue.close()
            if self._connection is not None:
                self._connection.close()
