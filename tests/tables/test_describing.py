"""Which tables and keys are taken, and what is said of the others."""

from pathlib import Path

import pytest

from swath import StoreUnavailable, UsageError
from swath.tables.open import open_table
from tests.tables.conftest import Database, Open, build_forms

REFUSED_BY_POSTGRES = {
    "view": ("CREATE VIEW {t} AS SELECT 1 AS id", "id", "is a view"),
    "materialized view": ("CREATE MATERIALIZED VIEW {t} AS SELECT 1 AS id", "id", "is a materialized view"),
    "no unique index": (
        "CREATE TABLE {t} (id integer NOT NULL)",
        "id",
        'CREATE UNIQUE INDEX CONCURRENTLY "{t}_id_key" ON "public"."{t}" ("id")',
    ),
    "not unique": ("CREATE TABLE {t} (id integer NOT NULL); CREATE INDEX ON {t} (id)", "id", "is not unique"),
    "partial": (
        "CREATE TABLE {t} (id integer NOT NULL); CREATE UNIQUE INDEX ON {t} (id) WHERE id > 0",
        "id",
        "partial",
    ),
    "expression": (
        "CREATE TABLE {t} (id integer NOT NULL); CREATE UNIQUE INDEX ON {t} (abs(id))",
        "id",
        "no unique index",
    ),
    "nullable": (
        "CREATE TABLE {t} (id integer UNIQUE)",
        "id",
        'ALTER TABLE "public"."{t}" ALTER COLUMN "id" SET NOT NULL',
    ),
    "other collation": (
        'CREATE TABLE {t} (id text COLLATE "POSIX" NOT NULL); CREATE UNIQUE INDEX ON {t} (id COLLATE "C")',
        "id",
        "orders the columns differently",
    ),
    "mixed directions": (
        "CREATE TABLE {t} (a integer NOT NULL, b integer NOT NULL); CREATE UNIQUE INDEX ON {t} (a, b DESC)",
        "a,b",
        "orders the columns differently",
    ),
    "other order": ("CREATE TABLE {t} (a integer, b integer, PRIMARY KEY (b, a))", "a,b", "in this order"),
    "more columns": ("CREATE TABLE {t} (a integer, b integer, PRIMARY KEY (a, b))", "a", "on exactly (a)"),
    "hash": (
        "CREATE TABLE {t} (id integer NOT NULL); CREATE INDEX ON {t} USING hash (id)",
        "id",
        "is not unique",
    ),
    "no such column": ("CREATE TABLE {t} (user_id integer PRIMARY KEY)", "userid", "Did you mean user_id?"),
    "a column twice": ("CREATE TABLE {t} (id integer PRIMARY KEY)", "id,ID", "twice"),
    "inheritance": (
        "CREATE TABLE {t} (id integer PRIMARY KEY); CREATE TABLE {t}_child () INHERITS ({t})",
        "id",
        "inherit from it",
    ),
}
REFUSED_BY_SQLITE = {
    "view": ("CREATE VIEW {t} AS SELECT 1 AS id", "id", "is a view"),
    "no unique index": (
        "CREATE TABLE {t} (id INTEGER NOT NULL)",
        "id",
        'CREATE UNIQUE INDEX "{t}_id_key" ON "{t}" ("id")',
    ),
    "nullable": ("CREATE TABLE {t} (id INTEGER UNIQUE)", "id", "may be NULL"),
    "null": ("CREATE TABLE {t} (id TEXT PRIMARY KEY); INSERT INTO {t} VALUES (NULL)", "id", "is NULL in some rows"),
    "other collation": (
        "CREATE TABLE {t} (id TEXT NOT NULL); CREATE UNIQUE INDEX {t}i ON {t} (id COLLATE NOCASE)",
        "id",
        "no unique index",
    ),
    "partial": (
        "CREATE TABLE {t} (id INTEGER NOT NULL); CREATE UNIQUE INDEX {t}i ON {t} (id) WHERE id > 0",
        "id",
        "no unique index",
    ),
    "no such column": ("CREATE TABLE {t} (user_id INTEGER PRIMARY KEY)", "userid", "Did you mean user_id?"),
}


async def refused(database: Database, name: str, *, made: str, key: str, said: str) -> None:
    database.do(*made.replace("{t}", name).split("; "))
    with pytest.raises(UsageError) as refusal:
        await open_table(database.url, name, key=key.split(","))
    assert said.replace("{t}", name) in str(refusal.value)


@pytest.mark.parametrize("case", list(REFUSED_BY_POSTGRES))
async def test_postgres_refuses(postgres_database: Database, name: str, case: str) -> None:
    made, key, said = REFUSED_BY_POSTGRES[case]
    await refused(postgres_database, name, made=made, key=key, said=said)


@pytest.mark.parametrize("case", list(REFUSED_BY_SQLITE))
async def test_sqlite_refuses(tmp_path: Path, name: str, case: str) -> None:
    made, key, said = REFUSED_BY_SQLITE[case]
    await refused(Database(f"sqlite:///{tmp_path}/app.db"), name, made=made, key=key, said=said)


async def test_an_index_that_was_not_built_to_its_end(postgres_database: Database, name: str) -> None:
    postgres_database.do(
        f"CREATE TABLE {name} (id integer NOT NULL)", f"CREATE UNIQUE INDEX {name}i ON {name} (id)",
        f"UPDATE pg_index SET indisvalid = false WHERE indexrelid = '{name}i'::regclass",
    )  # fmt: skip
    with pytest.raises(UsageError, match="is not valid"):
        await open_table(postgres_database.url, name, key=["id"])


async def test_no_such_table(a_database: Database, name: str) -> None:
    a_database.do(f"CREATE TABLE {name}_customers (id integer PRIMARY KEY)")
    with pytest.raises(UsageError, match=f"Did you mean {name}_customers"):
        await open_table(a_database.url, f"{name}_custmers")


async def test_no_primary_key(a_database: Database, name: str) -> None:
    a_database.do(f"CREATE TABLE {name} (id integer NOT NULL)")
    with pytest.raises(UsageError, match="--key"):
        await open_table(a_database.url, name)


async def test_no_such_database(tmp_path: Path, postgres_database: Database) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        await open_table(f"sqlite:///{tmp_path}/none.db", "t")
    with pytest.raises(UsageError, match="is not the URL of a database"):
        await open_table("mysql://u:secret@host/db", "t")
    nowhere = postgres_database.url.replace("swath_test_", "no_such_")
    with pytest.raises(StoreUnavailable, match="no_such_"):
        await open_table(nowhere, "t")


@pytest.mark.parametrize("bad", ["a b", 'a"', "", "a.b.c.d"])
async def test_what_is_no_name(postgres_database: Database, bad: str) -> None:
    with pytest.raises(UsageError, match=r"no table|is not a table name"):
        await open_table(postgres_database.url, bad)


async def test_names_are_quoted(a_database: Database, name: str, opened: Open) -> None:
    """Whatever is in them: case, spaces, quotes, percent signs, words of SQL."""
    key, other = 'Sel"ect %s ;', "From"
    quoted = key.replace('"', '""')
    a_database.do(
        f'CREATE TABLE "{name} T%" ("{quoted}" integer, "{other}" integer NOT NULL, PRIMARY KEY ("{quoted}"))',
        f'INSERT INTO "{name} T%" VALUES (1, 2), (3, 4), (5, 6)',
    )
    given = f'"{name} T%"' if a_database.kind == "postgresql" else f"{name} T%"
    table = await opened(a_database, given)
    assert table.description.key_names == (key,)
    assert [record.row for record in await table.fetch_slice()] == [{key: n, other: n + 1} for n in (1, 3, 5)]
    end = await table.find_slice_end(2)
    assert end is not None
    assert end.rows == 2
    assert (await table.digest_slice(await build_forms(table, [key, other]))).rows == 3
    assert len(await table.fetch_keys([end.key])) == 1


async def test_a_schema_can_be_named(postgres_database: Database, name: str, opened: Open) -> None:
    postgres_database.do(f"CREATE SCHEMA {name}", f"CREATE TABLE {name}.t (id integer PRIMARY KEY)")
    assert (await opened(postgres_database, f"{name}.t")).description.name == f"{name}.t"


async def test_an_index_backwards_serves(postgres_database: Database, name: str, opened: Open) -> None:
    postgres_database.do(
        f"CREATE TABLE {name} (a integer NOT NULL, b integer NOT NULL, c text)",
        f"CREATE UNIQUE INDEX ON {name} (a DESC, b DESC) INCLUDE (c)",
        f"INSERT INTO {name} VALUES (1, 1), (1, 2), (2, 1)",
    )
    table = await opened(postgres_database, name, key=["a", "b"])
    assert [record.key for record in await table.fetch_slice()] == [("1", "1"), ("1", "2"), ("2", "1")]


@pytest.mark.parametrize("texts", [["x"], ["1", "2"], [""], ["99999999999999999999999"]])
async def test_what_is_no_key(a_database: Database, name: str, opened: Open, texts: list[str]) -> None:
    a_database.do(f"CREATE TABLE {name} (id integer PRIMARY KEY)")
    table = await opened(a_database, name)
    if a_database.kind == "sqlite" and texts[0].startswith("9"):
        return  # SQLite compares with numbers that it does not hold
    with pytest.raises(UsageError, match="is no"):
        await table.parse_key(texts)


async def test_keys_are_read_as_the_database_reads_them(a_database: Database, name: str, opened: Open) -> None:
    a_database.do(f"CREATE TABLE {name} (a integer, b text, PRIMARY KEY (a, b))")
    table = await opened(a_database, name)
    assert [str(value) for value in await table.parse_key([" 07", " x"])] == ["7", " x"]


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        ("DATETIME", "2024-01-02", "2024-01-02"),
        ("DATE", "20240102", 20240102),
        ("UUID", "-a", "-a"),
        ("REAL", "2", 2),
        ("", "beef", "beef"),
    ],
)
async def test_sqlite_keeps_the_texts_of_types_that_it_does_not_have(
    tmp_path: Path, name: str, opened: Open, type_: str, text: str, value: object
) -> None:
    database = Database(f"sqlite:///{tmp_path}/app.db")
    database.do(f"CREATE TABLE {name} (id {type_} PRIMARY KEY)", f"INSERT INTO {name} VALUES ('{text}')")
    table = await opened(database, name)
    assert await table.parse_key([text]) == await table.find_first_key() == (value,)


@pytest.mark.parametrize("type_", ["INTEGER", "REAL", "DECIMAL(9, 2)"])
async def test_sqlite_has_no_texts_among_numbers(tmp_path: Path, name: str, opened: Open, type_: str) -> None:
    database = Database(f"sqlite:///{tmp_path}/app.db")
    database.do(f"CREATE TABLE {name} (id {type_} PRIMARY KEY)")
    table = await opened(database, name)
    for text in ("2024-01-02", "nan"):
        with pytest.raises(UsageError, match="is not a value for id"):
            await table.parse_key([text])


@pytest.mark.parametrize("type_", ["", "INTEGER", "REAL", "NUMERIC"])
async def test_sqlite_compares_numbers_of_any_size(tmp_path: Path, name: str, opened: Open, type_: str) -> None:
    database = Database(f"sqlite:///{tmp_path}/app.db")
    database.do(f"CREATE TABLE {name} (id {type_} PRIMARY KEY)", f"INSERT INTO {name} VALUES (9), (10), (11)")
    table = await opened(database, name)
    assert await table.find_first_key(after=await table.parse_key(["9"])) == (10,)
    assert await table.find_last_key(upto=await table.parse_key(["99999999999999999999999"])) == (11,)
    assert await table.find_first_key(after=await table.parse_key(["-99999999999999999999999"])) == (9,)
    assert await table.find_first_key(after=await table.parse_key(["9.5"])) == (10,)
    assert await table.find_first_key(after=await table.parse_key(["-0.5"])) == (9,)


async def test_sqlite_orders_by_the_index_that_serves(tmp_path: Path, name: str, opened: Open) -> None:
    database = Database(f"sqlite:///{tmp_path}/app.db")
    database.do(
        f"CREATE TABLE {name} (id TEXT NOT NULL)",
        f"CREATE UNIQUE INDEX {name}_1 ON {name} (id COLLATE NOCASE)",
        f"CREATE UNIQUE INDEX {name}_2 ON {name} (id)",
        f"CREATE UNIQUE INDEX {name}_3 ON {name} (id COLLATE NOCASE)",
    )
    table = await opened(database, name, key=["id"])
    assert table.description.key[0].collation == "BINARY"
    assert await table.is_after(("b",), ("C",))


async def test_a_column_that_is_not_null_for_new_rows_only_is_no_key(
    postgres_database: Database, name: str, opened: Open
) -> None:
    """PostgreSQL has it since 18; in older ones the column may simply be NULL."""
    not_valid = f"ALTER TABLE {name} ADD CONSTRAINT {name}_id NOT NULL id NOT VALID"
    postgres_database.do(
        f"CREATE TABLE {name} (id integer UNIQUE)",
        f"INSERT INTO {name} VALUES (1), (NULL)",
        f"DO $$BEGIN IF current_setting('server_version_num')::integer >= 180000 THEN {not_valid}; END IF; END$$",
    )
    with pytest.raises(UsageError, match=f'ALTER TABLE "public"."{name}" ALTER COLUMN "id" SET NOT NULL'):
        await opened(postgres_database, name, key=["id"])
    postgres_database.do(f"DELETE FROM {name} WHERE id IS NULL", f"ALTER TABLE {name} ALTER COLUMN id SET NOT NULL")
    assert (await opened(postgres_database, name, key=["id"])).description.key_names == ("id",)
