"""A page of a listing reads a bounded part of a frontier of 200,000 items, whatever the planner believes."""

import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from typing import Any

import pytest
import pytest_asyncio

from swath.backends.postgres.calls import BY_INDEX
from swath.backends.postgres.connections import AsyncConnection, connect
from swath.backends.postgres.statements import QUERIES
from swath.backends.sqlite.create import create_tables
from swath.backends.sqlite.location import SqliteLocation
from swath.core.store import LISTING_START, Settings
from tests.postgres.site import Site

pytestmark = pytest.mark.asyncio(loop_scope="module")

ITEMS = 200_000
LANES = 20_000
CLAIMS = ITEMS // 100
LIMIT = 100
EXAMINED = 1_000
EXPLAIN = "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON)"
STATES = ("ready", "delayed", "claimed", "done", "dead")
FILTERED = [None, "lane 7", "lane 19999", "unknown"]

# The rows of each table, from the numbers n of a table `s`.
POSTGRES = {
    "lane (number, partition, name)": "n, 0, 'lane ' || n",
    "item (place, position, span, lane, partition, rank, attempts, key)": "n, n, 1, {lane}, 0, 9, 0, 'key ' || n",
    "delayed (due_at, position, span, lane, partition, priority, attempts, revisit, key)": (
        "n, n, 1, {lane}, 0, 3, 0, mod(n, 2) = 0, 'key ' || n"
    ),
    "claimed (position, fence, span, lane, partition, priority, attempts, key)": (
        "n, n / 100, 1, {lane}, 0, 3, 0, 'key ' || n"
    ),
    "claim (fence, token, expires_at, partitions, worker)": "n, n, 1, '{{0}}', 'w'",
    "done (position, settled_at, span, lane, partition, priority, key)": "n, 1, 1, {lane}, 0, 3, 'key ' || n",
    "dead (position, settled_at, span, lane, partition, priority, attempts, key, reason)": (
        "n, 1, 1, {lane}, 0, 3, 1, 'key ' || n, 'why'"
    ),
}
SQLITE = {
    "lane (partition, number, name)": "0, n, 'lane ' || n",
    "item (partition, lane, rank, place, position, hash, key, span, attempts)": "0, {lane}, 9, n, n, x'', 'key', 1, 0",
    "delayed (partition, position, lane, priority, hash, key, span, attempts, due_at, revisit)": (
        "0, n, {lane}, 3, x'', 'key', 1, 0, n, n % 2"
    ),
    "claimed (partition, fence, position, lane, priority, hash, key, span, attempts)": (
        "0, n / 100, n, {lane}, 3, x'', 'key', 1, 0"
    ),
    "claim (fence, token, worker, expires_at)": "n, n, 'w', 1",
    "hold (fence, partition, expires_at, held)": "n, 0, 1, 100",
    "done (partition, position, lane, priority, hash, key, span, settled_at)": "0, n, {lane}, 3, x'', 'key', 1, 1",
    "dead (partition, position, lane, priority, hash, key, span, attempts, settled_at)": (
        "0, n, {lane}, 3, x'', 'key', 1, 1, 1"
    ),
}
COUNTS = {"lane": LANES, "claim": CLAIMS, "hold": CLAIMS}  # of the other tables: ITEMS
# What the planner believes: nothing yet, that every table is empty, the truth.
STATISTICS = {
    "none": "SELECT",
    "empty": "UPDATE pg_class SET reltuples = 0, relpages = 1 "
    "WHERE relnamespace = '{schema}'::regnamespace AND relkind IN ('r', 'i')",
    "true": "ANALYZE",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(database: str) -> AsyncIterator[Site]:
    site = Site(database)
    await site.trial(settings=Settings(1))
    for columns, rows in POSTGRES.items():
        table = columns.partition(" ")[0]
        await site.sql(f"ALTER TABLE {{schema}}.{table} SET (autovacuum_enabled = off)")
        values = rows.format(lane=f"mod(n, {LANES}) + 1")
        numbers = f"generate_series(1, {COUNTS.get(table, ITEMS)}) AS s(n)"
        await site.sql(f"INSERT INTO {{schema}}.{columns} SELECT {values} FROM {numbers}")
    await site.sql("UPDATE {schema}.partition_state SET claims = ARRAY(SELECT fence FROM {schema}.claim)")
    yield site
    await site.close()


async def run(connection: AsyncConnection, explain: str, where: dict[str, Any]) -> dict[str, Any]:
    """Return the plan of a query, run with the settings that a listing has."""
    async with connection.transaction():
        await connection.execute(BY_INDEX)
        ((report,),) = await (await connection.execute(explain, where, prepare=True)).fetchall()
    plan: dict[str, Any] = report[0]["Plan"]
    return plan


async def test_a_page_reads_a_bounded_part(site: Site) -> None:
    """Each examined item costs its own row, its index entry and the name of its lane."""
    connection = await connect(site.location.dsn)
    for statistics in STATISTICS.values():
        await site.sql(statistics)
        for mode in ("force_custom_plan", "force_generic_plan"):
            await connection.execute(f"SET plan_cache_mode TO {mode}".encode())
            for state in STATES:
                for lane in FILTERED:
                    await check_page(site, connection, state, lane, (statistics, mode))
            explain = site.location.fill(f"{EXPLAIN} {QUERIES['claims']}")
            plan = await run(connection, explain, {"after": CLAIMS - 10, "limit": LIMIT})
            assert (plan["Actual Rows"], count_blocks(plan) <= 200) == (10, True), (statistics, mode)
    await connection.close()


async def check_page(
    site: Site, connection: AsyncConnection, state: str, lane: str | None, how: tuple[str, str]
) -> None:
    name = f"list_{state}" if state != "ready" or lane is None else "list_ready_of_lane"
    examined = LIMIT if lane is None else EXAMINED
    partition, first, second = LISTING_START if lane is None else (0, -1, -1)
    where = {
        "partition": partition, "first": first, "second": second, "lane": lane, "result_text": None,
        "last_partition": 1 if lane is None else 0, "examined": examined, "limit": LIMIT,
    }  # fmt: skip
    plan = await run(connection, site.location.fill(f"{EXPLAIN} {QUERIES[name]}"), where)
    assert count_blocks(plan) <= 8 * examined + 40, (name, lane, how)
    assert "'Seq Scan'" not in str(plan), (name, lane, how)


def count_blocks(plan: dict[str, Any]) -> int:
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


class Steps:
    """Counts the steps of SQLite's virtual machine."""

    def __init__(self, connection: sqlite3.Connection, location: SqliteLocation) -> None:
        self._connection, self._location, self._count = connection, location, 0

    def _step(self) -> int:
        self._count += 1
        return 0

    def read(self, name: str, rows: int, **where: object) -> int:
        """Read rows of a statement, and return how many steps that took."""
        self._count = 0
        self._connection.set_progress_handler(self._step, 1)
        cursor = self._connection.execute(self._location.sql[name], where)
        assert len(cursor.fetchmany(rows)) == rows
        cursor.close()
        self._connection.set_progress_handler(None, 0)
        return self._count


@pytest.fixture(scope="module")
def sqlite() -> Iterator[Steps]:
    location = SqliteLocation.of("work.db")
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        create_tables(connection, location, Settings(1), 0)
        for columns, rows in SQLITE.items():
            numbers = "WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < ?)"
            values = rows.format(lane=f"n % {LANES} + 1")
            count = COUNTS.get(columns.partition(" ")[0], ITEMS)
            connection.execute(f"INSERT INTO swath_{columns} {numbers} SELECT {values} FROM s", (count,))
        yield Steps(connection, location)


async def test_a_page_of_sqlite_stops_when_it_is_full(sqlite: Steps) -> None:
    """A page of 100 items costs the same at the end as at the beginning."""
    for state in STATES:
        end = CLAIMS - 10 if state == "claimed" else ITEMS - 1_000
        for first in (-1, end):
            for lane in (None, "lane 7"):
                rows = LIMIT if lane is None else EXAMINED
                where = {"partition": 0, "first": first, "second": -1, "lane": lane, "result_text": None}
                steps = sqlite.read(f"list_{state}", min(rows, 990), last_partition=0, examined=10_000, **where)
                assert steps <= 60 * rows, (state, first, lane)
    place = {"partition": 0, "first": -1, "second": -1}
    assert sqlite.read("list_ready_of_lane", ITEMS // LANES, lane="lane 19999", examined=10_000, **place) <= 60 * LIMIT
    assert sqlite.read("list_claims", 10, after=CLAIMS - 10, limit=LIMIT) <= 60 * LIMIT
