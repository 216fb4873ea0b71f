"""Measure what a call costs the server: rows and index entries read, sequential scans, buffers, temporary files.

Nothing is timed. The store is used unchanged: EXPLAIN runs each call as `INSERT … SELECT * FROM function(…)` into a
temporary table, and the reply is read from that table.
"""

from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from swath.backends.postgres.connections import AsyncConnection
from tests.postgres.lending import Pinned

SMALL = {"frontier", "partition", "migration"}  # as many rows as there are partitions, at most

# Of an index, `returned` counts the entries that scans met, dead ones included; of a table, what sequential scans read.
READ = """
SELECT
    c.relname, c.relkind = 'i' AS index, pg_stat_get_xact_numscans(c.oid) AS scans,
    pg_stat_get_xact_tuples_returned(c.oid) AS returned, pg_stat_get_xact_tuples_fetched(c.oid) AS fetched,
    pg_stat_get_xact_tuples_inserted(c.oid) * (SELECT count(*) FROM pg_index WHERE indrelid = c.oid) AS inserted
FROM pg_class AS c
WHERE c.relnamespace = %s::regnamespace AND c.relkind IN ('r', 'i')
"""


@dataclass(slots=True)
class Cost:
    """Of one move, or of several together."""

    sequential: Counter[str] = field(default_factory=Counter)  # scans, by table
    fetched: Counter[str] = field(default_factory=Counter)  # rows read, by table
    probes: Counter[str] = field(default_factory=Counter)  # index scans, by index; by table, index entries inserted
    entries: Counter[str] = field(default_factory=Counter)  # index entries met, by index
    buffers: int = 0
    temporary: int = 0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(
            self.sequential + other.sequential,
            self.fetched + other.fetched,
            self.probes + other.probes,
            self.entries + other.entries,
            self.buffers + other.buffers,
            self.temporary + other.temporary,
        )


class Metered(Pinned):
    """Lends one connection that takes the measure of every move that goes through it."""

    def __init__(self, connection: AsyncConnection, *, schema: str) -> None:
        super().__init__(connection)
        self.costs: list[Cost] = []
        self._schema = schema
        self._meter = _Meter(self)

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[AsyncConnection]:
        yield self._meter  # type: ignore[misc]  # as much of a connection as a store needs

    def take(self) -> Cost:
        """What was measured since the last time."""
        total = sum(self.costs, Cost())
        self.costs.clear()
        return total

    async def read(self) -> Mapping[str, Sequence[int]]:
        rows = await (await self.connection.execute(READ, (self._schema,))).fetchall()
        return {name: counts for name, *counts in rows}


class _Meter:
    def __init__(self, metered: Metered) -> None:
        self._metered = metered

    def transaction(self) -> Any:
        return self._metered.connection.transaction()

    async def execute(self, statement: str | bytes, arguments: Any = None, *, binary: bool = False) -> Any:
        connection = self._metered.connection
        if isinstance(statement, bytes) or not statement.startswith("SELECT * FROM ") or "(" not in statement:
            # a query, or the check of a function's columns
            return await connection.execute(statement, arguments, binary=binary)
        reply = await self._reply_table(statement, arguments)
        async with connection.transaction():
            before = await self._metered.read()
            explain = f"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) INSERT INTO {reply} {statement}"
            cursor = await connection.execute(explain.encode(), arguments)
            row = await cursor.fetchone()
            after = await self._metered.read()
            assert row is not None
            self._metered.costs.append(_cost(before, after, row[0][0]["Plan"]))
            return await connection.execute(f"DELETE FROM {reply} RETURNING *".encode(), binary=binary)

    async def _reply_table(self, statement: str, arguments: Any) -> str:
        """A temporary table with the columns of the reply, made once."""
        name = statement.split("(", 1)[0].rsplit(".", 1)[1].strip('" ')
        reply = f"reply_{name}"
        create = f"CREATE TEMPORARY TABLE IF NOT EXISTS {reply} AS {statement} WITH NO DATA"
        await self._metered.connection.execute(create.encode(), arguments)
        return f"pg_temp.{reply}"


def _cost(before: Mapping[str, Sequence[int]], after: Mapping[str, Sequence[int]], plan: Mapping[str, int]) -> Cost:
    cost = Cost(
        buffers=plan["Shared Hit Blocks"] + plan["Shared Read Blocks"],
        temporary=plan["Temp Read Blocks"] + plan["Temp Written Blocks"],
    )
    for name, (index, *counts) in after.items():
        scans, returned, fetched, inserted = (now - then for now, then in zip(counts, before[name][1:], strict=True))
        if index:
            cost.probes[name] += scans
            cost.entries[name] += returned
        else:
            cost.sequential[name] += scans
            cost.fetched[name] += returned + fetched
            cost.probes[name] += inserted
    return cost
