"""How long a slice may hold its locks, and what the errors of a database mean for a slice."""

import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
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
        with _Interrupt(connection, seconds):
            yield
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


class _Interrupt:
    """Interrupts what runs on a connection after a while, and undoes it."""

    def __init__(self, connection: sqlite3.Connection, seconds: float) -> None:
        self._connection = connection
        self._timer = threading.Timer(seconds, connection.interrupt)
        self._timer.daemon = True

    def __enter__(self) -> None:
        self._connection.execute("SAVEPOINT attempt")
        self._timer.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._timer.cancel()
        if isinstance(error, sqlite3.Error):
            self._connection.execute("ROLLBACK TO attempt")
            if error.sqlite_errorname == "SQLITE_INTERRUPT":
                raise Interrupted("it took longer than the time limit of a slice") from error
