"""Trial: what is tried on a table before a backfill begins, in transactions that are rolled back."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from swath.backfill import timeouts
from swath.backfill.operations import Change, fetch
from swath.core.errors import UsageError
from swath.tables.table import Fragment, Key, Table
from swath.worker_threads import Threads

SAMPLES = (20, 400, 8_000)  # rows: more if nothing is changed among few
TRIAL_SECONDS = 1.0
SAMPLE_SECONDS = 20.0


_REFUSED: timeouts.Errors = (
    *timeouts.REFUSED,
    *timeouts.WRONG_STATE,
    sqlite3.OperationalError,
    sqlite3.ProgrammingError,
)


class _RollBack(Exception):
    """The end of a trial."""


@contextmanager
def _trial(table: Table) -> Iterator[None]:
    """UsageError with what the database says where it refuses."""
    try:
        yield
    except _RollBack:
        pass
    except _REFUSED as error:
        raise UsageError(f"{table.label} refuses the statement: {_said(error)}") from error


def _said(error: Exception) -> str:
    return getattr(getattr(error, "diag", None), "message_primary", None) or str(error)


async def check_statement(table: Table, change: Change, sample: Key) -> None:
    """Whether the database takes the statement at all; UsageError with what it says if not."""
    try:
        with _trial(table):
            async with table.transaction() as connection:
                async with timeouts.attempt(connection, TRIAL_SECONDS):
                    await change.attempt(connection, sample)
                raise _RollBack
    except timeouts.OVERRUN:
        pass  # somebody may have locked the row


async def is_repeatable(
    table: Table, change: Change, threads: Threads, *, upto: Key | None, seconds: float = SAMPLE_SECONDS
) -> bool:
    """Whether a second run over the same rows changes nothing more, seen on a sample."""
    changed, same = 0, True
    for size in SAMPLES:
        end = await table.find_slice_end(size, upto=upto)
        if end is None or changed:
            break
        try:
            with _trial(table):
                async with table.transaction() as connection:
                    async with timeouts.attempt(connection, seconds):
                        changed = await change.apply(connection, after=None, upto=end.key)
                        once = await _rows(table, connection, None, end.key, threads)
                        await change.apply(connection, after=None, upto=end.key)
                        same = once == await _rows(table, connection, None, end.key, threads)
                    raise _RollBack
        except timeouts.OVERRUN as error:
            raise UsageError(
                f"{table.label} cannot try the statement on its first rows: {_said(error)}. Try again when nobody "
                "holds them, or insist with --force"
            ) from error
    return same


async def first_plan(table: Table, statement: Fragment) -> list[str]:
    """How the database would run a statement."""
    explain = "EXPLAIN " if table.kind == "postgresql" else "EXPLAIN QUERY PLAN "
    async with table.transaction() as connection:
        if isinstance(connection, sqlite3.Connection):
            return [str(row[-1]) for row in connection.execute(explain + statement.sql, statement.values)]
        await connection.execute(timeouts.BY_INDEX.encode())
        rows = await (await connection.execute((explain + statement.sql).encode(), statement.values)).fetchall()
        return [row[0] for row in rows]


async def _rows(table: Table, connection: Any, after: Key | None, upto: Key, threads: Threads) -> list[str]:
    """As texts, since NaN is no NaN."""
    within = table.build_slice_condition(after=after, upto=upto)
    name = table.description.quoted.replace("%", "%%") if table.kind == "postgresql" else table.description.quoted
    rows = await fetch(connection, Fragment(f"SELECT * FROM {name} WHERE {within.sql}", within.values), threads)
    return sorted(map(repr, rows))
