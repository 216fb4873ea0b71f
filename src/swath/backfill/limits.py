"""How long a slice may hold its locks, and what the errors of a database mean for a slice."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

FACTOR = 1.5  # of the target time: what is left of twice that is for the settlement
LEAST = 0.05  # seconds
BY_INDEX = "SET LOCAL enable_seqscan = off"  # stale statistics would have every slice read the whole table


class Interrupted(Exception):
    """A statement in SQLite took too long."""


Errors = tuple[type[Exception], ...]
OVERRUN: Errors = (Interrupted,)  # to be tried with fewer rows
REFUSED: Errors = (sqlite3.DataError, sqlite3.IntegrityError)  # the same rows would be refused again
GONE: Errors = ()  # the database is not there, and waiting helps
_ANY: Errors = ()

try:
    import psycopg
    from psycopg import errors as pg

    OVERRUN += (pg.QueryCanceled, pg.DeadlockDetected, pg.SerializationFailure, pg.LockNotAvailable)
    REFUSED += (pg.DataError, pg.IntegrityError, pg.ProgrammingError, pg.NotSupportedError)
    GONE += (pg.OperationalError, pg.InterfaceError)
    _ANY += (psycopg.Error,)
except ImportError:
    pass  # without it there are only tables in SQLite


@asynccontextmanager
async def attempt(connection: Any, target: float) -> AsyncIterator[None]:
    """A part of the transaction that is undone when it raises, with the locks it took: also when it takes too long."""
    seconds = max(LEAST, FACTOR * target)
    if isinstance(connection, sqlite3.Connection):
        try:
            with _interrupted_after(connection, seconds):
                yield
        except sqlite3.Error as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK TO attempt")
            else:  # SQLite undoes all of the transaction that an interrupted change is in; nothing was written before
                await asyncio.to_thread(connection.execute, "BEGIN IMMEDIATE")
            if error.sqlite_errorname == "SQLITE_INTERRUPT":
                raise Interrupted("it took longer than the time limit of a slice") from error
            raise
        return
    milliseconds = int(seconds * 1_000)
    await _run(
        connection,
        f"SET LOCAL statement_timeout = {milliseconds}; SET LOCAL lock_timeout = {milliseconds}; "
        f"{BY_INDEX}; SAVEPOINT attempt",
    )
    try:
        yield
    except _ANY:
        if not connection.closed:
            await _run(connection, "ROLLBACK TO SAVEPOINT attempt")
        raise
    # The settlement has limits of its own.
    await _run(connection, "SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0")


async def _run(connection: Any, statement: str) -> None:
    answer = connection.execute(statement.encode())
    if hasattr(answer, "__await__"):
        await answer


@contextmanager
def _interrupted_after(connection: sqlite3.Connection, seconds: float) -> Iterator[None]:
    """Interrupt what runs on a connection after a while."""
    timer = threading.Timer(seconds, connection.interrupt)
    timer.daemon = True
    connection.execute("SAVEPOINT attempt")
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
