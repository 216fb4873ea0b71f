"""The time limit of a slice, and what database errors mean for it."""

import asyncio
import inspect
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from swath.tables.sqlite import call_interruptibly

FACTOR = 1.5  # time limit of a slice, in multiples of the target time; leaves half a target time for the settlement
MIN_SECONDS = 0.05
FORCE_INDEX = "SET LOCAL enable_seqscan = off"  # with stale statistics, every slice would read the whole table


class TimedOut(Exception):
    """A statement in SQLite, or a handler, exceeded its time limit."""


Errors = tuple[type[Exception], ...]
OVERRUN: Errors = (TimedOut,)  # retry with fewer rows
REJECTED: Errors = (sqlite3.DataError, sqlite3.IntegrityError)  # a retry would fail the same way
INVALID: Errors = (sqlite3.OperationalError,)  # the statement is wrong, or a name in it; for SQLite also others
WRONG_STATE: Errors = ()  # not possible in this transaction, such as a write in a read-only one
UNAVAILABLE: Errors = ()  # no connection to the database; wait and retry

try:
    from psycopg import errors as pg

    OVERRUN += (pg.QueryCanceled, pg.DeadlockDetected, pg.SerializationFailure, pg.LockNotAvailable)
    REJECTED += (pg.DataError, pg.IntegrityError, pg.ProgrammingError, pg.NotSupportedError)
    INVALID += (pg.ProgrammingError,)
    WRONG_STATE += (pg.InternalError,)
    UNAVAILABLE += (pg.OperationalError, pg.InterfaceError)
except ImportError:
    pass  # without psycopg, all tables are in SQLite


def get_time_limit(target: float) -> float:
    """Return how many seconds a slice may take before it is retried with fewer rows."""
    return max(MIN_SECONDS, FACTOR * target)


def is_interrupt(error: Exception) -> bool:
    """Return whether SQLite ended a statement because of an interrupt."""
    return getattr(error, "sqlite_errorname", None) == "SQLITE_INTERRUPT"


@asynccontextmanager
async def attempt(connection: Any, target: float) -> AsyncIterator[None]:
    """Run a part of the transaction with a time limit. If it raises, undo it and release its locks."""
    seconds = get_time_limit(target)
    if isinstance(connection, sqlite3.Connection):
        async with _attempt_in_sqlite(connection, seconds):
            yield
        return
    milliseconds = int(seconds * 1_000)
    await _execute(
        connection,
        f"SET LOCAL statement_timeout = {milliseconds}; SET LOCAL lock_timeout = {milliseconds}; "
        # A handler may compute for as long as --timeout allows, even if the role has a shorter limit.
        f"SET LOCAL idle_in_transaction_session_timeout = 0; {FORCE_INDEX}; SAVEPOINT attempt",
    )
    # The settlement has its own limits.
    unlimited = "SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0"
    try:
        yield
        # Check deferred constraints now. At the commit, a violation would look like a failed settlement.
        await _execute(connection, f"SET CONSTRAINTS ALL IMMEDIATE; {unlimited}")
    except Exception:
        if not connection.closed:
            await _execute(connection, f"ROLLBACK TO SAVEPOINT attempt; {unlimited}")
        raise


async def _execute(connection: Any, statement: str) -> None:
    if inspect.iscoroutinefunction(connection.execute):
        await connection.execute(statement.encode())
    else:
        await asyncio.to_thread(connection.execute, statement.encode())


@asynccontextmanager
async def _attempt_in_sqlite(connection: sqlite3.Connection, seconds: float) -> AsyncIterator[None]:
    """Interrupt the connection after `seconds`, since SQLite has no statement timeout.

    SQLite rolls back the whole transaction when it interrupts a write. In that case, begin another one.
    """
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
        if is_interrupt(error):
            raise TimedOut(f"the slice exceeded its time limit of {seconds:g} s") from error
        raise
    finally:
        timer.cancel()
