"""What a look at a slice costs the server: the slice's entries of the key's index, whatever the statistics say (F8)."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from swath.tables.postgres import BEGIN, BEGIN_READING, PostgresReader, PostgresTable
from tests.tables.conftest import Database, Open

KEYS = {"integer": "id integer", "composite": "a integer, b text", "backwards": "id integer"}
STATES = ["never analysed", "analysed when empty", "analysed"]


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("kind", list(KEYS))
async def test_a_slice_is_read_from_the_index(
    postgres_database: Database, name: str, opened: Open, monkeypatch: pytest.MonkeyPatch, kind: str, state: str
) -> None:
    columns = KEYS[kind]
    names = ", ".join(column.split()[0] + " DESC" * (kind == "backwards") for column in columns.split(", "))
    rows = "g % 7, 'k' || g" if kind == "composite" else "g"
    postgres_database.do(
        f"CREATE TABLE {name} ({columns}, v text DEFAULT repeat('x', 100))",
        *(f"ALTER TABLE {name} ALTER {column.split()[0]} SET NOT NULL" for column in columns.split(", ")),
        f"ALTER TABLE {name} SET (autovacuum_enabled = off)",
        f"CREATE UNIQUE INDEX ON {name} ({names})",
        f"ANALYZE {name}" if state == "analysed when empty" else "SELECT 1",
        f"INSERT INTO {name} SELECT {rows} FROM generate_series(1, 20000) AS g",
        f"VACUUM ANALYZE {name}" if state == "analysed" else "SELECT 1",
    )
    table = await opened(postgres_database, name, key=[column.split()[0] for column in columns.split(", ")])
    assert isinstance(table, PostgresTable)
    first = await table.find_slice_end(100)
    assert first is not None
    middle = await table.find_slice_end(5_000, after=first.key)
    assert middle is not None
    plans: list[dict[str, Any]] = []

    async def explained(statement: str, values: Any) -> Any:
        async with table.transaction() as connection:
            await connection.execute(BEGIN_READING.replace(b"BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY;", b""))
            analysed = f"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) {statement}"
            row = await (await connection.execute(analysed.encode(), values)).fetchone()
            assert row is not None
            plans.append(row[0][0]["Plan"])
            return await (await connection.execute(statement.encode(), values)).fetchone()

    monkeypatch.setattr(table, "_fetch_one", explained)
    await table.find_slice_end(100, after=middle.key)
    await table.find_slice_end(100, after=middle.key, upto=await table.find_last_key())
    await table.find_first_key(after=middle.key)
    await table.find_last_key(upto=middle.key)
    assert len(plans) == 5
    for plan in plans:
        kinds = {node["Node Type"] for node in nodes(plan)}
        assert kinds <= {"Aggregate", "Limit", "Index Only Scan", "Index Scan", "Subquery Scan", "Result"}, plan
        assert sum(node.get("Rows Removed by Filter", 0) for node in nodes(plan)) == 0
        assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 130


class Explaining:
    """A connection that has every SELECT explained, as it would run just then."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self.plans: list[dict[str, Any]] = []

    def execute(self, statement: bytes, values: Any = None) -> Any:
        if statement.startswith(b"SELECT"):
            row = self._connection.execute(b"EXPLAIN (FORMAT JSON) " + statement, values).fetchone()
            assert row is not None
            self.plans.append(row[0][0]["Plan"])
        return self._connection.execute(statement, values)


@pytest.mark.parametrize("begin", [BEGIN_READING, BEGIN], ids=["as it is read", "without its settings"])
async def test_rows_are_read_in_order_where_the_planner_would_rather_sort(
    postgres_database: Database, name: str, opened: Open, monkeypatch: pytest.MonkeyPatch, begin: bytes
) -> None:
    """Rows that lie in any order: the planner's own choice is to read more than the slice, and to sort it."""
    postgres_database.do(
        f"CREATE TABLE {name} (id integer PRIMARY KEY, v text DEFAULT repeat('x', 1000))",
        f"INSERT INTO {name} SELECT g FROM generate_series(1, 20000) AS g ORDER BY md5(g::text)",
        f"VACUUM ANALYZE {name}",
    )
    monkeypatch.setattr("swath.tables.postgres.BEGIN_READING", begin)
    table = await opened(postgres_database, name)
    assert isinstance(table, PostgresTable)
    with psycopg.connect(postgres_database.url, autocommit=True, options="-c work_mem=64MB") as connection:
        explaining: Any = Explaining(connection)
        found = PostgresReader(table, explaining).read_rows(20_000, after=("5000",), upto=("15000",))
    assert [row[0] for row in found.values] == list(range(5_001, 15_001))
    kinds = {node["Node Type"] for plan in explaining.plans for node in nodes(plan)}
    assert (kinds == {"Limit", "Index Scan"}) == (begin == BEGIN_READING), kinds
