"""LoadSignals: reasons to slow down or pause, from the database, the user's query and the pause file."""

import asyncio
import os
import sqlite3
from typing import Any, NamedTuple

from swath import StoreUnavailable, UsageError
from swath.backfill import timeouts
from swath.tables.table import Table

# The greatest replay lag of the server's standbys, in seconds. It is null for a standby that has caught up.
LAG = "SELECT coalesce(max(extract(epoch FROM replay_lag)), 0) FROM pg_stat_replication"
_COUNT_ACTIVE = b"""
SELECT count(*), pg_has_role('pg_read_all_stats', 'USAGE') FROM pg_stat_activity
WHERE state = 'active' AND backend_type = 'client backend' AND application_name <> 'swath' AND pid <> pg_backend_pid()
"""
# Sessions that wait for a lock of a backfill. Every role may see them.
_COUNT_BLOCKED = b"""
SELECT count(DISTINCT l.pid) FROM pg_locks AS l JOIN pg_stat_activity AS w ON w.pid = l.pid
WHERE NOT l.granted AND w.application_name <> 'swath' AND EXISTS (
    SELECT FROM pg_stat_activity AS h WHERE h.application_name = 'swath' AND h.pid = ANY(pg_blocking_pids(w.pid)))
"""
MAX_SLOWDOWN = 5.0  # times the best time per row


class Overload(NamedTuple):
    """A reason to pause, or else to slow down."""

    pause: bool
    reason: str

    def describe(self) -> str:
        return "paused" if self.pause else "slowed down"


class LoadSignals:
    """Checks everything that can slow down a backfill."""

    def __init__(
        self,
        table: Table,
        *,
        max_lag: float | None,
        lag_query: str | None,
        max_active: int | None,
        pause_file: str | None,
    ) -> None:
        self._table = table
        self._max_lag = max_lag
        self._lag_query = lag_query
        self._max_active = max_active
        self._pause_file = pause_file

    async def check(self, *, slowdown: float) -> Overload | None:
        """Return the most serious overload, or None."""
        if self._pause_file is not None and await asyncio.to_thread(os.path.exists, self._pause_file):
            return Overload(True, f"the pause file {self._pause_file} exists")
        if self._lag_query is not None or self._table.kind == "postgresql":
            try:
                async with self._table.transaction() as connection:
                    if (overload := await self._check_database(connection)) is not None:
                        return overload
            except (*timeouts.REJECTED, *timeouts.WRONG_STATE) as error:
                message = str(error).strip()
                raise UsageError(f"the database rejected --lag-query {self._lag_query!r}: {message}") from error
            except timeouts.UNAVAILABLE as error:
                raise StoreUnavailable(f"lost the connection to {self._table.label}: {error}") from error
        if slowdown > MAX_SLOWDOWN:
            return Overload(False, f"a row takes {slowdown:.1f} times as long as in the fastest slice")
        return None

    async def _check_database(self, connection: Any) -> Overload | None:
        if self._max_lag is not None and (self._lag_query is not None or self._table.kind == "postgresql"):
            lag = await self._read_lag(connection)
            if lag > self._max_lag:
                return Overload(True, f"a standby is {lag:.1f} s behind; --max-lag is {self._max_lag:g} s")
        if self._table.kind == "sqlite":
            return None
        if self._max_active is not None:
            active, allowed = await (await connection.execute(_COUNT_ACTIVE)).fetchone()
            if not allowed:
                raise UsageError(
                    "--max-active: this role may not see the sessions of other roles. Grant it pg_read_all_stats"
                )
            if active > self._max_active:
                return Overload(
                    True,
                    f"{active} other session{'s are' if active > 1 else ' is'} active; "
                    f"--max-active is {self._max_active}",
                )
        (blocked,) = await (await connection.execute(_COUNT_BLOCKED)).fetchone()
        if blocked:
            return Overload(
                False, f"{blocked} session{'s wait' if blocked > 1 else ' waits'} for locks of this backfill"
            )
        return None

    async def _read_lag(self, connection: Any) -> float:
        """Return the lag in seconds, from the user's query if there is one."""
        if self._table.kind == "sqlite":
            try:
                row = connection.execute(self._lag_query).fetchone()
            except (sqlite3.Error, sqlite3.Warning) as error:
                raise UsageError(f"the database rejected --lag-query {self._lag_query!r}: {error}") from error
        else:
            row = await (await connection.execute((self._lag_query or LAG).encode())).fetchone()
        try:
            return float(row[0] or 0.0)
        except (TypeError, ValueError, IndexError) as error:
            raise UsageError(f"--lag-query returned {row!r}. It must return one number of seconds") from error
