"""How long a slice may hold its locks, and what the errors of a database mean for a slice."""

import asyncio
import inspect
import sqlite3
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

FACTOR = 1.5  # of the target time: what is left of twice that is for the settlement
LEAST = 0.05  # seconds
BY_INDEX = "SET LOCAL enable_seqscan = off"  # stale statistics would have every slice read the whole table


class Interrupted(Exception):
    """A statement in SQLite or a handler took too long."""


Errors = tuple[type[Exception], ...]
OVERRUN: Errors = (Interrupted,)  # to be tried with fewer rows
REFUSED: Errors = (sqlite3.DataError, sqlite3.IntegrityError)  # the same rows would be refused again
GONE: Errors = ()  # the database is not there, and waiting helps

try:
    from psycopg import errors as pg

    OVERRUN += (pg.QueryCanceled, pg.DeadlockDetected, pg.SerializationFailure, pg.LockNotAvailable)
    REFUSED += (pg.DataError, pg.IntegrityError, pg.ProgrammingError, pg.NotSupportedError)
    GONE += (pg.OperationalError, pg.InterfaceError)
except ImportError:
    pass  # without it there are only tables in SQLite


def allowed(target: float) -> float:
    """Seconds that a slice may take before it is made smaller."""
    return max(LEAST, FACTOR * target)


@asynccontextmanager
async def attempt(connection: Any, target: float) -> AsyncIterator[None]:
    """A part of the transaction that is undone when it raises, with the locks it took: also when it takes too long."""
    seconds = allowed(target)
    if isinstance(connection, sqlite3.Connection):
        try:
            with _interrupted_after(connection, seconds):
                yield
        except Exception as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK TO attempt")
            else:  # SQLite undoes all of the transaction that an interrupted change is in; nothing was written before
                await asyncio.to_thread(connection.execute, "BEGIN IMMEDIATE")
            if getattr(error, "sqlite_errorname", None) == "SQLITE_INTERRUPT":
                raise Interrupted("it took longer than the time limit of a slice") from error
            raise
        return
    milliseconds = int(seconds * 1_000)
    await _run(
        connection,
        f"SET LOCAL statement_timeout = {milliseconds}; SET LOCAL lock_timeout = {milliseconds}; "
        f"{BY_INDEX}; SAVEPOINT attempt",
    )
    # The settlement has limits of its own.
    unlimited = "SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0"
    try:
        yield
        await _run(connection, unlimited)
    except Exception:
        if not connection.closed:
            await _run(connection, f"ROLLBACK TO SAVEPOINT attempt; {unlimited}")
        raise


async def _run(connection: Any, statement: str) -> None:
    if inspect.iscoroutinefunction(connection.execute):
        await connection.execute(statement.encode())
    else:
        await asyncio.to_thread(connection.execute, statement.encode())


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
