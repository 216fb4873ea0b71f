"""Whether a change may be made twice, seen on rows that it changes."""

import psycopg
import pytest

from swath import UsageError
from swath.backfill.operations import SetOperation
from swath.backfill.preflight import check_statement, is_repeatable
from swath.worker_threads import WorkerThreads
from tests.tables.conftest import Database, Open, a_database, name, opened, shared  # noqa: F401  fixtures

CASES = {
    "pure": ("v = upper(w)", None, True),
    "counter": ("n = n + 1", None, False),
    "counter of late rows": ("n = n + 1", "id > 900", False),
    "guarded counter": ("n = n + 1", "n = 0", True),
    "of no row": ("n = n + 1", "id > 5000", True),
    "grows": ("v = coalesce(v, '') || 'x'", None, False),
}


@pytest.mark.parametrize("case", list(CASES))
async def test_repeatable(a_database: Database, name: str, opened: Open, case: str) -> None:  # noqa: F811
    changes, where, repeatable = CASES[case]
    a_database.do(
        f"CREATE TABLE {name} (id integer PRIMARY KEY, n integer NOT NULL DEFAULT 0, v text, w text DEFAULT 'a')",
        f"INSERT INTO {name} (id) WITH RECURSIVE s (g) AS (SELECT 1 UNION ALL SELECT g + 1 FROM s WHERE g < 1000) "
        "SELECT g FROM s",
    )
    table = await opened(a_database, name)
    threads = WorkerThreads()
    try:
        assert await is_repeatable(table, SetOperation(table, changes, where), threads, upto=None) is repeatable
    finally:
        threads.close()
    assert a_database.do(f"SELECT count(*), sum(n), count(v) FROM {name}") == [(1000, 0, 0)], "it was not rolled back"


async def test_what_is_not_a_number_stays_the_same(shared: str, name: str, opened: Open) -> None:  # noqa: F811
    database = Database(shared)
    database.do(
        f"CREATE TABLE {name} (id integer PRIMARY KEY, n integer, x double precision)",
        f"INSERT INTO {name} VALUES (1, 0, 'NaN')",
    )
    table = await opened(database, name)
    threads = WorkerThreads()
    try:
        assert await is_repeatable(table, SetOperation(table, "n = 5", None), threads, upto=None)
    finally:
        threads.close()


async def test_what_the_first_rows_refuse_is_said(a_database: Database, name: str, opened: Open) -> None:  # noqa: F811
    a_database.do(
        f"CREATE TABLE {name} (id integer PRIMARY KEY, n integer CHECK (n < 5))", f"INSERT INTO {name} VALUES (1, 0)"
    )
    table = await opened(a_database, name)
    threads = WorkerThreads()
    try:
        with pytest.raises(UsageError, match=r"rejects the statement: .*(?i:check constraint)"):
            await is_repeatable(table, SetOperation(table, "n = 5", None), threads, upto=None)
    finally:
        threads.close()


async def test_a_database_that_is_read_only_refuses(shared: str, name: str, opened: Open) -> None:  # noqa: F811
    Database(shared).do(f"CREATE TABLE {name} (id integer PRIMARY KEY, n integer)", f"INSERT INTO {name} VALUES (1, 0)")
    table = await opened(Database(f"{shared}&options=-cdefault_transaction_read_only%3Don"), name)
    with pytest.raises(UsageError, match="rejects the statement: cannot execute UPDATE in a read-only transaction"):
        await check_statement(table, SetOperation(table, "n = 5", None), ("1",))


async def test_rows_that_somebody_holds_cannot_be_tried(shared: str, name: str, opened: Open) -> None:  # noqa: F811
    database = Database(shared)
    database.do(f"CREATE TABLE {name} (id integer PRIMARY KEY, n integer)", f"INSERT INTO {name} VALUES (1, 0)")
    table = await opened(database, name)
    threads = WorkerThreads()
    try:
        with psycopg.connect(shared) as somebody:
            somebody.execute(f"UPDATE {name} SET n = 1".encode())
            with pytest.raises(UsageError, match=r"first rows of .*: canceling statement due to .* timeout.*--force"):
                await is_repeatable(table, SetOperation(table, "n = 5", None), threads, upto=None, seconds=0.1)
    finally:
        threads.close()
