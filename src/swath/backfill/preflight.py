"""Checks of the statement before a backfill starts, in transactions that are rolled back."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from swath import UsageError
from swath.backfill import timeouts
from swath.backfill.operations import Operation, fetch
from swath.tables.table import Fragment, Key, Table
from swath.worker_threads import WorkerThreads

SAMPLE_ROWS = (20, 400, 8_000)  # take a larger sample if the statement changes nothing in a smaller one
CHECK_SECONDS = 1.0
SAMPLE_SECONDS = 20.0


_REJECTED: timeouts.Errors = (
    *timeouts.REJECTED,
    *timeouts.WRONG_STATE,
    sqlite3.OperationalError,
    sqlite3.ProgrammingError,
)


class _RollBack(Exception):
    """Raised at the end of a check to roll back its transaction."""


@contextmanager
def _translate_rejections(table: Table) -> Iterator[None]:
    """Turn the database's errors about the statement into UsageError."""
    try:
        yield
    except _RollBack:
        pass
    except _REJECTED as error:
        raise UsageError(f"{table.label} rejects the statement: {_get_message(error)}") from error


def _get_message(error: Exception) -> str:
    return getattr(getattr(error, "diag", None), "message_primary", None) or str(error)


async def check_statement(table: Table, operation: Operation, sample: Key) -> None:
    """Raise UsageError if the database rejects the statement."""
    try:
        with _translate_rejections(table):
            async with table.transaction() as connection:
                async with timeouts.attempt(connection, CHECK_SECONDS):
                    await operation.attempt(connection, sample)
                raise _RollBack
    except timeouts.OVERRUN:
        pass  # another session may have locked the row


async def is_repeatable(
    table: Table, operation: Operation, threads: WorkerThreads, *, upto: Key | None, seconds: float = SAMPLE_SECONDS
) -> bool:
    """Return whether a second run over a sample of rows changes nothing more."""
    changed, same = 0, True
    for size in SAMPLE_ROWS:
        end = await table.find_slice_end(size, upto=upto)
        if end is None or changed:
            break
        try:
            with _translate_rejections(table):
                async with table.transaction() as connection:
                    async with timeouts.attempt(connection, seconds):
                        changed = await operation.apply(connection, after=None, upto=end.key)
                        once = await _read_rows(table, connection, None, end.key, threads)
                        await operation.apply(connection, after=None, upto=end.key)
                        same = once == await _read_rows(table, connection, None, end.key, threads)
                    raise _RollBack
        except timeouts.OVERRUN as error:
            raise UsageError(
                f"cannot try the statement on the first rows of {table.label}: {_get_message(error)}. Try again when "
                "no other session holds locks on them, or skip this check with --force"
            ) from error
    return same


async def explain_statement(table: Table, statement: Fragment) -> list[str]:
    """Return the database's query plan for a statement."""
    explain = "EXPLAIN " if table.kind == "postgresql" else "EXPLAIN QUERY PLAN "
    async with table.transaction() as connection:
        if isinstance(connection, sqlite3.Connection):
            return [str(row[-1]) for row in connection.execute(explain + statement.sql, statement.values)]
        await connection.execute(timeouts.FORCE_INDEX.encode())
        rows = await (await connection.execute((explain + statement.sql).encode(), statement.values)).fetchall()
        return [row[0] for row in rows]


async def _read_rows(table: Table, connection: Any, after: Key | None, upto: Key, threads: WorkerThreads) -> list[str]:
    """Return rows as text: NaN does not equal NaN."""
    within = table.build_slice_condition(after=after, upto=upto)
    quoted = table.description.quoted
    name = quoted.replace("%", "%%") if table.kind == "postgresql" else quoted
    rows = await fetch(connection, Fragment(f"SELECT * FROM {name} WHERE {within.sql}", within.values), threads)
    return sorted(map(repr, rows))
