"""Health: what speaks against going on at full speed, as the database itself and the user say."""

import asyncio
import os
import sqlite3
from typing import Any, NamedTuple

from swath.backfill import timeouts
from swath.core.errors import StoreUnavailable, UsageError
from swath.tables.table import Table

# The greatest lag of any stand-by that streams from here, in seconds. One that has caught up has none.
LAG = "SELECT coalesce(max(extract(epoch FROM replay_lag)), 0) FROM pg_stat_replication"
_ACTIVE = b"""
SELECT count(*), pg_has_role('pg_read_all_stats', 'USAGE') FROM pg_stat_activity
WHERE state = 'active' AND backend_type = 'client backend' AND application_name <> 'swath' AND pid <> pg_backend_pid()
"""
# Sessions that wait for a lock which one of ours holds, as far as any role may see.
_BLOCKED = b"""
SELECT count(DISTINCT l.pid) FROM pg_locks AS l JOIN pg_stat_activity AS w ON w.pid = l.pid
WHERE NOT l.granted AND w.application_name <> 'swath' AND EXISTS (
    SELECT FROM pg_stat_activity AS h WHERE h.application_name = 'swath' AND h.pid = ANY(pg_blocking_pids(w.pid)))
"""
SLOW = 5.0  # times the best time for a row


class Complaint(NamedTuple):
    """Why to go slower, or to stand still."""

    pause: bool
    why: str


class Health:
    """Looks at the database."""

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

    async def look(self, *, slowdown: float) -> Complaint | None:
        """The gravest reason to hold back; None when there is none."""
        if self._pause_file is not None and await asyncio.to_thread(os.path.exists, self._pause_file):
            return Complaint(True, f"{self._pause_file} is there")
        if self._lag_query is not None or self._table.kind == "postgresql":
            try:
                async with self._table.transaction() as connection:
                    if (complaint := await self._database(connection)) is not None:
                        return complaint
            except (*timeouts.REFUSED, *timeouts.WRONG_STATE) as error:
                raise UsageError(f"--lag-query {self._lag_query!r} is refused: {str(error).strip()}") from error
            except timeouts.GONE as error:
                raise StoreUnavailable(f"{self._table.label} is gone: {error}") from error
        if slowdown > SLOW:
            return Complaint(False, f"a row takes {slowdown:.1f} times as long as it did at best")
        return None

    async def _database(self, connection: Any) -> Complaint | None:
        if self._max_lag is not None and (self._lag_query is not None or self._table.kind == "postgresql"):
            lag = await self._lag(connection)
            if lag > self._max_lag:
                return Complaint(True, f"a stand-by is {lag:.1f} s behind, and {self._max_lag:g} s are allowed")
        if self._table.kind == "sqlite":
            return None
        if self._max_active is not None:
            active, allowed = await (await connection.execute(_ACTIVE)).fetchone()
            if not allowed:
                raise UsageError(
                    "--max-active: this role may not see what the sessions of others do: GRANT pg_read_all_stats to it"
                )
            if active > self._max_active:
                return Complaint(
                    True, f"{active} other session{'s are' if active > 1 else ' is'} active, {self._max_active} allowed"
                )
        (blocked,) = await (await connection.execute(_BLOCKED)).fetchone()
        if blocked:
            return Complaint(False, f"{blocked} session{'s wait' if blocked > 1 else ' waits'} for locks of ours")
        return None

    async def _lag(self, connection: Any) -> float:
        """In seconds, by the user's own query if there is one."""
        if self._table.kind == "sqlite":
            try:
                row = connection.execute(self._lag_query).fetchone()
            except (sqlite3.Error, sqlite3.Warning) as error:
                raise UsageError(f"--lag-query {self._lag_query!r} is refused: {error}") from error
        else:
            row = await (await connection.execute((self._lag_query or LAG).encode())).fetchone()
        try:
            return float(row[0] or 0.0)
        except (TypeError, ValueError, IndexError) as error:
            raise UsageError(f"--lag-query gave {row!r}: it has to give one number of seconds") from error
