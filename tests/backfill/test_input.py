"""Whatever is wrong is said before anything is made."""

from typing import Any

import pytest

from swath import NotAFrontier, Stop, UsageError
from swath.backfill.job import BackfillJob, open_frontier
from tests.backfill.driving import SERIES, backfill, counts, ready, settings_of
from tests.tables.conftest import Database


@pytest.fixture
def table(a_database: Database, name: str) -> str:
    a_database.do(
        f"CREATE TABLE {name} (id integer PRIMARY KEY, n integer NOT NULL DEFAULT 0, other integer)",
        f"CREATE INDEX {name}_n ON {name} (n)",
        f"CREATE UNIQUE INDEX {name}_other ON {name} (other)",
        f"CREATE VIEW {name}_view AS SELECT * FROM {name}",
        f"INSERT INTO {name} (id) {SERIES.format(100)} SELECT g FROM s",
    )
    return name


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"table": "{}x"}, r"has no table .*Did you mean"),
        ({"table": "{}_view"}, "is a view"),
        ({"key": ("n",)}, "CREATE UNIQUE INDEX"),
        ({"key": ("other",)}, "NULL"),
        ({"key": ("idd",)}, "idd"),
        ({"set": "nonsense = 1"}, "rejects the statement: .*nonsense"),
        ({"set": "n = = 1"}, "rejects the statement: .*syntax"),
        ({"set": "n = n + 1, id = id + 1000"}, "--set changes id, part of the key of"),
        ({"where": "nonsense"}, "rejects the statement: .*nonsense"),
        ({"sql": "update nonsense set n = 1 where id between :lo and :hi"}, "rejects the statement: .*nonsense"),
        ({"sql": "update {} set n = 1 where id between :lo and :hi and"}, "rejects the statement"),
        ({"sql": "update {0} set n = 1 where id between :lo and :hi; delete from {0}"}, "(?i)one|multiple"),
        ({"first": ("many",)}, "many"),
        ({"first": ("1", "2")}, "1, 2 is not a key"),
        ({"first": ("50",), "last": ("10",)}, "--from 50 is after --to 10"),
        ({"run": "no_such_module:function"}, "no_such_module"),
        ({"run": "missing"}, "missing"),
    ],
    ids=str,
)
async def test_refused(a_database: Database, table: str, more: dict[str, Any], said: str) -> None:
    given = {name: value.format(table) if isinstance(value, str) else value for name, value in more.items()}
    settings = settings_of(a_database, given.pop("table", table), **given)
    with pytest.raises(UsageError, match=said):
        await backfill(settings)
    assert a_database.do(f"SELECT DISTINCT n FROM {table}") == [(0,)]
    with pytest.raises(NotAFrontier):
        async with open_frontier(settings, create=False):
            pass


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"set": "n = 1", "sql": "update t where id between :lo and :hi"}, "found --set and --sql"),
        ({"set": None}, "none of them"),
        ({"sql": "update t set n = 1"}, "lacks :lo and :hi"),
        ({"sql": "update t set n = 1 where id between :lo and :hi", "where": "n = 0"}, "--where works with"),
        ({"workers": 0}, "--workers 0"),
        ({"batch": 0}, "--batch 0"),
        ({"lease": 0.5}, "--lease 0.5 s is too short"),
        ({"target_time": 0.001}, "at least 10ms"),
        ({"follow": True, "last": ("5",)}, "--follow never ends"),
        ({"name": "No Name"}, "--name"),
    ],
    ids=str,
)
def test_settings(more: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        settings_of(Database("sqlite:///app.db"), "t", **more)


async def test_a_backfill_is_not_changed_while_it_goes_on(a_database: Database, table: str) -> None:
    async with ready(settings_of(a_database, table)):
        pass
    with pytest.raises(UsageError, match=r"was started with --set 'n = n \+ 1'.*--name"):
        async with ready(settings_of(a_database, table, set="n = n + 2")):
            pass
    async with ready(settings_of(a_database, table, set="n = n + 2", name="another")) as (_, _, start, _, _):
        assert not start.resumed
    async with ready(settings_of(a_database, table, workers=1, batch=7)) as (_, _, start, _, _):
        assert start.resumed


async def test_an_option_that_a_backfill_was_started_without_is_named(a_database: Database, table: str) -> None:
    sql = f"update {table} set n = 1 where id between :lo and :hi"
    async with ready(settings_of(a_database, table, set=None, sql=sql)):
        pass
    with pytest.raises(UsageError, match=r"was started with --sql 'update .*', without --set\. Repeat"):
        async with ready(settings_of(a_database, table)):
            pass


async def test_a_name_that_leads_to_another_table_is_another_backfill(server: Database, name: str) -> None:
    """Each tenant has a table of this name, and their search paths tell which one is meant."""
    tenants = []
    for schema in (f"{name}_a", f"{name}_b"):
        server.do(f"CREATE SCHEMA {schema}")
        tenants.append(Database(f"{server.url}{'&' if '?' in server.url else '?'}options=-csearch_path%3D{schema}"))
        tenants[-1].do(
            f"CREATE TABLE {name} (id integer PRIMARY KEY, n integer NOT NULL)", f"INSERT INTO {name} VALUES (1, 0)"
        )
    one, other = tenants
    await backfill(settings_of(one, name))
    with pytest.raises(UsageError, match=f"was started with --table '{name}_a.{name}'"):
        await backfill(settings_of(other, name))
    assert counts(one, name) == {1: 1}
    assert counts(other, name) == {0: 1}
    assert (await backfill(settings_of(one, f"{name}_a.{name}", name=f"swath_backfill_{name}"))).start.resumed


async def test_a_primary_key_that_became_another_one_is_another_backfill(server: Database, name: str) -> None:
    """What is covered is covered in the order of the key that it was started with."""
    server.do(
        f"CREATE TABLE {name} (id integer PRIMARY KEY, back integer NOT NULL UNIQUE, n integer NOT NULL DEFAULT 0)",
        f"INSERT INTO {name} (id, back) {SERIES.format(100)} SELECT g, 1000 - g FROM s",
    )
    async with ready(settings_of(server, name)):
        pass
    server.do(f"ALTER TABLE {name} DROP CONSTRAINT {name}_pkey, ADD PRIMARY KEY (back), ADD UNIQUE (id)")
    with pytest.raises(UsageError, match=r"was started with --key \['id'\]"):
        await backfill(settings_of(server, name))
    assert (await backfill(settings_of(server, name, key=("id",)))).start.resumed
    assert counts(server, name) == {1: 100}


async def test_a_row_that_is_locked_does_not_keep_it_from_beginning(server: Database, name: str) -> None:
    import psycopg

    server.do(f"CREATE TABLE {name} (id integer PRIMARY KEY, n integer)", f"INSERT INTO {name} VALUES (1, 0)")
    settings = settings_of(server, name, sql=f"UPDATE {name} SET n = 1 WHERE id BETWEEN :lo AND :hi")
    with psycopg.connect(server.url) as somebody:
        somebody.execute(f"SELECT FROM {name} FOR UPDATE".encode())
        async with BackfillJob.open(settings, stop=Stop(), report=print) as job:
            await job.check()


async def test_names_that_have_to_be_quoted(a_database: Database) -> None:
    """Nothing of a name is ever read as SQL."""
    table, key, column = 'odd "table" % %s', 'k"e%y', "n"
    quoted = '"' + table.replace('"', '""') + '"'
    a_database.do(
        f'CREATE TABLE {quoted} ("k""e%y" integer PRIMARY KEY, n integer DEFAULT 0, id integer, own text)',
        f'INSERT INTO {quoted} ("k""e%y") {SERIES.format(50)} SELECT g FROM s',
    )
    name = quoted if a_database.kind == "postgresql" else table
    for more in (
        {"set": "n = n + 1"},
        {"sql": f'UPDATE {quoted} SET n = n + 1 WHERE "k""e%y" BETWEEN :lo AND :hi'},
        {"run": "nothing"},
    ):
        found = await backfill(
            settings_of(a_database, name, key=(key,), batch=7, name=f"odd_{next(iter(more))}", **more)
        )
        assert found.progress.complete
        assert not found.dead
    assert a_database.do(f"SELECT DISTINCT {column} FROM {quoted}") == [(2,)]
