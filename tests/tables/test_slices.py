"""A table in slices: every row in exactly one, in the database's own order, whatever the key."""

import asyncio
import locale
import sqlite3
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest

from swath import StoreUnavailable
from swath.tables.table import Key, Table
from tests.locales import german
from tests.tables.conftest import Database, Open, build_forms

# What a key can be: its columns, and a statement that fills the table with some hundred rows in no order.
POSTGRES = {
    "integer": ("id integer", "SELECT (g * 7919) % 500 - 250 FROM generate_series(1, 499) AS g"),
    "holes": (
        "id bigint",
        "SELECT g FROM generate_series(1, 200) AS g UNION ALL SELECT 9e15::bigint + g FROM generate_series(1, 99) AS g",
    ),
    "uuid": ("id uuid", "SELECT md5(g::text)::uuid FROM generate_series(1, 400) AS g"),
    "text": (
        "id text",
        """SELECT s || g FROM unnest(ARRAY['', 'a', 'A', 'ä', 'z', 'Z', '''', '%s', '%', ',', 'ß', '"']) AS s,
        generate_series(1, 20) AS g""",
    ),
    "timestamptz": (
        "id timestamptz",
        """SELECT '2024-03-31 00:30+00'::timestamptz + g * interval '7 minutes 1.000001 seconds'
        FROM generate_series(-200, 200) AS g UNION ALL SELECT 'infinity' UNION ALL SELECT '0044-03-15 BC'""",
    ),
    "interval": ("id interval", "SELECT g * interval '-1 day 2 hours' FROM generate_series(-99, 99) AS g"),
    "float": ("id float8", "SELECT g / 3e0 FROM generate_series(-99, 99) AS g UNION ALL SELECT 'NaN'"),
    "bytea": ("id bytea", "SELECT decode(md5(g::text), 'hex') FROM generate_series(1, 99) AS g"),
    "array": ("id integer[]", "SELECT ARRAY[g % 10, g] FROM generate_series(1, 99) AS g"),
    "domain": ("id pairs", "SELECT ARRAY[g % 10, g] FROM generate_series(1, 99) AS g"),
    "composite": (
        "tenant text, day date, n integer",
        "SELECT 't' || g % 3, '2024-01-01'::date + g % 7, g FROM generate_series(1, 400) AS g",
    ),
}
SQLITE = {
    "integer": ("id INTEGER", "SELECT (value * 7919) % 500 - 250 FROM s"),
    "text": ("id TEXT COLLATE NOCASE", "SELECT 'a' || value FROM s UNION ALL SELECT 'B' || value FROM s"),
    "blob": ("id BLOB", "SELECT CAST('b' || value AS BLOB) FROM s"),
    "mixed": ("id", "SELECT value FROM s UNION ALL SELECT 't' || value FROM s UNION ALL SELECT value + 0.5 FROM s"),
    "real": ("id REAL", "SELECT value / 7.0 - 9 FROM s UNION ALL VALUES (9e999), (-9e999)"),
    "composite": ("tenant TEXT, n INTEGER", "SELECT 't' || value % 3, value FROM s"),
}
SERIES = "WITH RECURSIVE s (value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM s WHERE value < 499)"


def as_json_can_hold_it(value: Any) -> Any:
    if value in (float("inf"), float("-inf")):
        return {"real": str(value)}
    return {"hex": value.hex()} if isinstance(value, bytes) else value


async def gone_through(table: Table, size: int) -> list[list[Key]]:
    """The keys of every slice, as `records` finds them there."""
    found: list[list[Key]] = []
    after, upto = None, await table.find_last_key()
    while (end := await table.find_slice_end(size, after=after, upto=upto)) is not None:
        records = await table.fetch_slice(after=after, upto=end.key)
        assert len(records) == end.rows
        assert records[-1].key == end.key
        found.append([record.key for record in records])
        after = end.key
    return found


async def check(table: Table, in_order: list[Any]) -> None:
    everything = [record.key for record in await table.fetch_slice()]
    assert [key if len(key) > 1 else key[0] for key in everything] == in_order
    for size in (19, 100, 10_000):
        found = await gone_through(table, size)
        assert [key for keys in found for key in keys] == everything
        assert {len(keys) for keys in found[:-1]} <= {size}
    assert await table.find_first_key() == everything[0]
    assert await table.find_last_key() == everything[-1]
    assert await table.find_first_key(after=everything[3]) == everything[4]
    assert await table.find_last_key(upto=everything[3]) == everything[3]
    assert await table.find_first_key(after=everything[-1]) is None
    assert await table.find_slice_end(5, after=everything[5], upto=everything[5]) is None
    assert await table.is_after(everything[4], everything[3])
    assert not await table.is_after(everything[3], everything[4])
    assert not await table.is_after(everything[4], everything[4])
    some = [everything[9], everything[2]]
    assert [record.key for record in await table.fetch_keys(some)] == some[::-1]
    assert await table.fetch_keys([]) == []


@pytest.mark.parametrize("kind", list(POSTGRES))
async def test_postgres(postgres_database: Database, name: str, opened: Open, kind: str) -> None:
    columns, rows = POSTGRES[kind]
    names = ", ".join(column.split()[0] for column in columns.split(", "))
    postgres_database.do(
        f"ALTER DATABASE {postgres_database.url.rpartition('/')[2].partition('?')[0]} SET timezone = 'Europe/Berlin'",
        "DROP DOMAIN IF EXISTS pairs CASCADE",
        "CREATE DOMAIN pairs AS integer[]",
        f"CREATE TABLE {name} ({columns}, v integer DEFAULT 1, PRIMARY KEY ({names}))",
        f"INSERT INTO {name} {rows} ON CONFLICT DO NOTHING",
    )
    texts = ", ".join(f"CAST(t.{column} AS text)" for column in names.split(", "))
    order = ", ".join(f"t.{column}" for column in names.split(", "))
    in_order = postgres_database.do("SET timezone = 'UTC'", f"SELECT {texts} FROM {name} AS t ORDER BY {order}")
    await check(await opened(postgres_database, name), [row if len(row) > 1 else row[0] for row in in_order])


@pytest.mark.parametrize("kind", list(SQLITE))
async def test_sqlite(tmp_path: Any, name: str, opened: Open, kind: str) -> None:
    database = Database(f"sqlite:///{tmp_path}/app.db")
    columns, rows = SQLITE[kind]
    names = ", ".join(column.split()[0] for column in columns.split(", "))
    database.do(
        f"CREATE TABLE {name} ({columns}, v INTEGER DEFAULT 1, PRIMARY KEY ({names}))",
        f"INSERT OR IGNORE INTO {name} ({names}) {SERIES} {rows}",
    )
    in_order = [
        tuple(map(as_json_can_hold_it, row)) for row in database.do(f"SELECT {names} FROM {name} ORDER BY {names}")
    ]
    await check(await opened(database, name), [row if len(row) > 1 else row[0] for row in in_order])


async def test_text_in_a_collation_of_its_own(postgres_database: Database, name: str, opened: Open) -> None:
    """The order is the column's, which is neither the database's (C here) nor Python's."""
    words = ["Zebra", "apfel", "Äpfel", "Apfel", "zebra", "öl", "Ofen", "a-b", "ab", "a b", "ß", "ss", "éa", "eb"]
    rows = ", ".join(f"('{word}{number}')" for word in words for number in range(9))
    postgres_database.do(
        f"CREATE COLLATION IF NOT EXISTS german (provider = libc, locale = '{german()}')",
        f"CREATE TABLE {name} (word text COLLATE german PRIMARY KEY)",
        f"INSERT INTO {name} VALUES {rows}",
    )
    table = await opened(postgres_database, name)
    in_order = [word for (word,) in postgres_database.do(f"SELECT word FROM {name} ORDER BY word")]
    assert in_order != sorted(in_order), "the collation orders as bytes do: the test proves nothing"
    before = locale.setlocale(locale.LC_COLLATE)
    try:
        locale.setlocale(locale.LC_COLLATE, german())
        assert sorted(in_order, key=locale.strxfrm) == in_order
    finally:
        locale.setlocale(locale.LC_COLLATE, before)
    await check(table, in_order)


async def test_rows_inserted_between_slices_belong_to_one(a_database: Database, name: str, opened: Open) -> None:
    a_database.do(
        f"CREATE TABLE {name} (id integer PRIMARY KEY)",
        f"INSERT INTO {name} VALUES (10), (20), (30), (40)",
    )
    table = await opened(a_database, name)
    first = await table.find_slice_end(2)
    assert first is not None
    second = await table.find_slice_end(2, after=first.key)
    assert second is not None
    a_database.do(f"INSERT INTO {name} VALUES (5), (15), (25), (35), (45)")
    one = [record.row["id"] for record in await table.fetch_slice(upto=first.key)]
    two = [record.row["id"] for record in await table.fetch_slice(after=first.key, upto=second.key)]
    three = [record.row["id"] for record in await table.fetch_slice(after=second.key)]
    assert (one, two, three) == ([5, 10, 15, 20], [25, 30, 35, 40], [45])


async def test_what_python_has_no_value_for_is_a_text(postgres_database: Database, name: str, opened: Open) -> None:
    postgres_database.do(
        f"CREATE TABLE {name} (id integer PRIMARY KEY, day date, at timestamp, then_at timestamptz)",
        f"INSERT INTO {name} VALUES (1, 'infinity', '-infinity', '0044-03-15 00:00+00 BC'), "
        "(2, '2024-01-01', '2024-01-01 01:02:03', '2024-01-01 01:02:03+01')",
    )
    one, two = await (await opened(postgres_database, name)).fetch_slice()
    assert list(one.row.values()) == [1, "infinity", "-infinity", "0044-03-15 00:00:00+00 BC"]
    assert two.row["day"] == date(2024, 1, 1)
    assert two.row["then_at"] == datetime(2024, 1, 1, 0, 2, 3, tzinfo=UTC)


async def test_partitions_are_one_table(postgres_database: Database, name: str, opened: Open) -> None:
    postgres_database.do(
        f"CREATE TABLE {name} (id integer PRIMARY KEY) PARTITION BY HASH (id)",
        *(f"CREATE TABLE {name}_{n} PARTITION OF {name} FOR VALUES WITH (MODULUS 3, REMAINDER {n})" for n in range(3)),
        f"INSERT INTO {name} SELECT generate_series(1, 300)",
    )
    table = await opened(postgres_database, name)
    found = await gone_through(table, 40)
    assert [int(key[0]) for keys in found for key in keys] == list(range(1, 301))


async def test_digests(a_database: Database, name: str, opened: Open) -> None:
    """Equal rows have equal digests in another table, too; a changed, missing or exchanged value shows."""
    filled = "VALUES (1, 'a', NULL), (2, 'b', ''), (3, NULL, 'a')"
    for table_name in (name, f"{name}b"):
        a_database.do(
            f"CREATE TABLE {table_name} (id integer PRIMARY KEY, v text, w text)", f"INSERT INTO {table_name} {filled}"
        )
    one, other = await opened(a_database, name), await opened(a_database, f"{name}b")
    forms = await build_forms(one, ("id", "v", "w"))
    digest = await one.digest_slice(forms)
    assert digest.rows == 3
    assert digest == await other.digest_slice(forms)
    assert await one.digest_slice(forms, after=await one.find_last_key()) == await other.digest_slice(
        forms, after=await one.find_last_key()
    )
    for change in (
        "UPDATE {} SET w = 'x' WHERE id = 2",
        "UPDATE {} SET v = 'a', w = NULL WHERE id = 3",
        "UPDATE {} SET w = NULL WHERE id = 2",
        "DELETE FROM {} WHERE id = 1",
        "UPDATE {} SET id = 4 WHERE id = 1",
    ):
        a_database.do(change.format(f"{name}b"))
        assert await other.digest_slice(forms) != digest
        a_database.do(f"DELETE FROM {name}b", f"INSERT INTO {name}b {filled}")


async def test_estimates(a_database: Database, name: str, opened: Open) -> None:
    """Never analysed, and near enough."""
    a_database.do(f"CREATE TABLE {name} (id integer PRIMARY KEY)", f"INSERT INTO {name} {SERIES} SELECT value FROM s")
    table = await opened(a_database, name)
    estimate = await table.estimate_rows()
    assert estimate is not None
    assert 250 <= estimate <= 5_000


async def test_transactions_commit_or_roll_back(a_database: Database, name: str, opened: Open) -> None:
    a_database.do(f"CREATE TABLE {name} (id integer PRIMARY KEY)")
    table = await opened(a_database, name)
    for number, error in ((1, None), (2, KeyError), (3, None)):
        try:
            async with table.transaction() as connection:
                done = connection.execute(f"INSERT INTO {name} VALUES ({number})")
                if a_database.kind == "postgresql":
                    await done
                if error is not None:
                    raise error
        except KeyError:
            pass
    assert a_database.do(f"SELECT id FROM {name} ORDER BY id") == [(1,), (3,)]


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("time", "24:00:00"),
        ("timetz", "24:00:00+02"),
        ("interval", "170000000 years"),
        ("json", "9" * 5_000),
        ("jsonb", "9" * 5_000),
    ],
)
async def test_values_that_psycopg_cannot_make_are_texts(
    postgres_database: Database, name: str, opened: Open, type_: str, value: str
) -> None:
    """They would make their whole slice unreadable."""
    postgres_database.do(
        f"CREATE TABLE {name} (id integer PRIMARY KEY, value {type_})",
        f"INSERT INTO {name} VALUES (1, '{value}'), (2, NULL)",
    )
    one, two = await (await opened(postgres_database, name)).fetch_slice()
    assert (one.row["value"], two.row["value"]) == (value, None)


async def test_a_time_limit_of_the_role_ends_no_slice(shared: str, name: str, opened: Open) -> None:
    """It would do so each time that the slice is asked for."""
    database = Database(shared)
    database.do(f"CREATE TABLE {name} (id integer PRIMARY KEY)", f"INSERT INTO {name} VALUES (1), (2)")
    table = await opened(Database(f"{shared}&options=-cstatement_timeout%3D200"), name)
    with psycopg.connect(shared) as somebody:
        somebody.execute(f"LOCK TABLE {name}".encode())
        looking = asyncio.create_task(table.find_slice_end(10))
        waiting = "SELECT 1 FROM pg_locks WHERE NOT granted"
        while not looking.done() and not await asyncio.to_thread(database.do, waiting):
            pass
        await asyncio.to_thread(somebody.execute, "SELECT pg_sleep(0.5)")
    assert await looking == (("2",), 2)


async def test_a_file_that_somebody_has_to_himself_is_waited_for(
    tmp_path: Path, name: str, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swath.tables.sqlite.BUSY_TIMEOUT_SECONDS", 0.05)
    database = Database(f"sqlite:///{tmp_path}/app.db")
    database.do(f"CREATE TABLE {name} (id INTEGER PRIMARY KEY)", f"INSERT INTO {name} VALUES (1)")
    table = await opened(database, name)
    reader = table.open_reader()
    somebody = sqlite3.connect(tmp_path / "app.db", isolation_level=None)
    somebody.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StoreUnavailable, match="locked"):
        await table.find_slice_end(1)
    with pytest.raises(StoreUnavailable, match="locked"):
        reader.read_rows(1)
    somebody.close()
    assert await table.find_slice_end(1) == ((1,), 1)
    assert reader.read_rows(1).values == [(1,)]
    reader.close()
