"""How long a slice may hold its locks, and what the errors of a database mean for a slice."""

import asyncio
import inspect
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from swath.tables.sqlite import call_interruptibly

FACTOR = 1.5  # of the target time: what is left of twice that is for the settlement
LEAST = 0.05  # seconds
BY_INDEX = "SET LOCAL enable_seqscan = off"  # stale statistics would have every slice read the whole table


class Interrupted(Exception):
    """A statement in SQLite or a handler took too long."""


Errors = tuple[type[Exception], ...]
OVERRUN: Errors = (Interrupted,)  # to be tried with fewer rows
REFUSED: Errors = (sqlite3.DataError, sqlite3.IntegrityError)  # the same rows would be refused again
WRONG_STATE: Errors = ()  # the transaction cannot do that, such as write where all is read-only
GONE: Errors = ()  # the database is not there, and waiting helps

try:
    from psycopg import errors as pg

    OVERRUN += (pg.QueryCanceled, pg.DeadlockDetected, pg.SerializationFailure, pg.LockNotAvailable)
    REFUSED += (pg.DataError, pg.IntegrityError, pg.ProgrammingError, pg.NotSupportedError)
    WRONG_STATE += (pg.InternalError,)
    GONE += (pg.OperationalError, pg.InterfaceError)
except ImportError:
    pass  # without it there are only tables in SQLite


def allowed(target: float) -> float:
    """Seconds that a slice may take before it is made smaller."""
    return max(LEAST, FACTOR * target)


def was_interrupted(error: Exception) -> bool:
    """Whether a statement in SQLite was ended because it took too long."""
    return getattr(error, "sqlite_errorname", None) == "SQLITE_INTERRUPT"


@asynccontextmanager
async def attempt(connection: Any, target: float) -> AsyncIterator[None]:
    """A part of the transaction that is undone when it raises, with the locks it took: also when it takes too long."""
    seconds = allowed(target)
    if isinstance(connection, sqlite3.Connection):
        async with _attempt_in_file(connection, seconds):
            yield
        return
    milliseconds = int(seconds * 1_000)
    await _run(
        connection,
        f"SET LOCAL statement_timeout = {milliseconds}; SET LOCAL lock_timeout = {milliseconds}; "
        # A handler may think for as long as --timeout, whatever the role has for a limit.
        f"SET LOCAL idle_in_transaction_session_timeout = 0; {BY_INDEX}; SAVEPOINT attempt",
    )
    # The settlement has limits of its own.
    unlimited = "SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0"
    try:
        yield
        # What is checked at the commit would be refused there, where nobody can tell the slice from its settlement.
        await _run(connection, f"SET CONSTRAINTS ALL IMMEDIATE; {unlimited}")
    except Exception:
        if not connection.closed:
            await _run(connection, f"ROLLBACK TO SAVEPOINT attempt; {unlimited}")
        raise


async def _run(connection: Any, statement: str) -> None:
    if inspect.iscoroutinefunction(connection.execute):
        await connection.execute(statement.encode())
    else:
        await asyncio.to_thread(connection.execute, statement.encode())


@asynccontextmanager
async def _attempt_in_file(connection: sqlite3.Connection, seconds: float) -> AsyncIterator[None]:
    """SQLite has no time limit for a statement, so it is interrupted; one that writes is rolled back then with the
    whole of its transaction, and another is begun."""
    connection.execute("SAVEPOINT attempt")
    timer = threading.Timer(seconds, connection.interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield
    except Exception as error:
        timer.cancel()
        if connection.in_transaction:
            connection.execute("ROLLBACK TO attempt")
        else:
            await call_interruptibly(connection, connection.execute, "BEGIN IMMEDIATE")
        if was_interrupted(error):
            raise Interrupted("it took longer than the time limit of a slice") from error
        raise
    finally:
        timer.cancel()
