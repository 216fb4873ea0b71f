"""Every row exactly once, whatever the key is, in the database's own order."""

import asyncio

import pytest

from tests.backfill.driving import SERIES, backfill, counts, ready, running, settings_of
from tests.locales import german
from tests.tables.conftest import Database

TURNS = 40  # of what comes and goes: on a busy machine, more would come than is changed

# The columns of a key, and a statement that gives keys.
KEYS = {
    "holes": (
        "id bigint",
        """SELECT g * 1000 FROM generate_series(-20000, 20000) AS g
        UNION SELECT 5000000 + g FROM generate_series(1, 40000) AS g UNION SELECT 9e18::bigint - g
        FROM generate_series(1, 100) AS g""",
    ),
    "integer": ("id integer", "SELECT (g * 7919) % 20011 - 2147483648 FROM generate_series(1, 20010) AS g"),
    "uuid": ("id uuid", "SELECT md5(g::text)::uuid FROM generate_series(1, 20000) AS g"),
    "composite": (
        "tenant text, day date, number integer",
        """SELECT 't' || g % 3, '2024-01-01'::date + CASE WHEN g % 100 = 0 THEN g % 30 ELSE 7 END, g
        FROM generate_series(1, 20000) AS g""",
    ),
    "timestamptz": (
        "id timestamptz",
        """SELECT '2024-10-27 00:30+00'::timestamptz + g * interval '13.000001 seconds'
        FROM generate_series(-5000, 5000) AS g UNION ALL SELECT unnest('{infinity,-infinity}'::timestamptz[])""",
    ),
    "numeric": (
        "id numeric",
        "SELECT g / 7.0 FROM generate_series(-5000, 5000) AS g UNION SELECT unnest('{NaN,Infinity,1e300}'::numeric[])",
    ),
    "german": (
        "id text COLLATE german",
        """SELECT word || g FROM unnest('{zebra,Zebra,Äpfel,apfel,öl,ofen,ß,ss,a-b,ab,"a b",%s,"",éa}'::text[]) AS word,
        generate_series(1, 900) AS g""",
    ),
}


@pytest.mark.parametrize("kind", list(KEYS))
async def test_postgres(server: Database, name: str, kind: str) -> None:
    columns, rows = KEYS[kind]
    key = ", ".join(column.split()[0] for column in columns.split(", "))
    server.do(
        f"CREATE COLLATION IF NOT EXISTS german (provider = libc, locale = '{german()}')",
        f"CREATE TABLE {name} ({columns}, n integer NOT NULL DEFAULT 0, PRIMARY KEY ({key}))",
        f"INSERT INTO {name} ({key}) {rows}",
    )
    before = counts(server, name)
    found = await backfill(settings_of(server, name, batch=300, target_time=0.1, workers=3))
    assert counts(server, name) == {1: before[0]}
    assert found.job.stats.changed == before[0]
    assert found.job.stats.slices > 3
    assert found.progress.complete
    assert found.progress.key == found.start.progress.upto
    assert not found.dead


SQLITE_KEYS = {
    "integer": ("id INTEGER", "SELECT (g * 7919) % 10007 - 5000 FROM s"),
    "nocase": ("id TEXT COLLATE NOCASE", "SELECT CASE WHEN g % 2 THEN 'a' ELSE 'B' END || g FROM s"),
    "mixed": (
        "id NOT NULL",
        "SELECT CASE g % 3 WHEN 0 THEN g WHEN 1 THEN 't' || g ELSE CAST('b' || g AS BLOB) END FROM s",
    ),
    "real": ("id REAL", "SELECT CASE g WHEN 1 THEN -9e999 WHEN 5000 THEN 9e999 ELSE g / 7.0 - 300 END FROM s"),
    "composite": ("tenant TEXT, number INTEGER", "SELECT 't' || (g % 3), g FROM s"),
}


@pytest.mark.parametrize("kind", list(SQLITE_KEYS))
async def test_sqlite(file: Database, name: str, kind: str) -> None:
    columns, rows = SQLITE_KEYS[kind]
    key = ", ".join(column.split()[0] for column in columns.split(", "))
    file.do(
        f"CREATE TABLE {name} ({columns}, n INTEGER NOT NULL DEFAULT 0, PRIMARY KEY ({key}))",
        f"INSERT INTO {name} ({key}) {SERIES.format(5_000)} {rows}",
    )
    found = await backfill(settings_of(file, name, batch=300, target_time=0.1, workers=3))
    assert found.job.exactly_once
    assert counts(file, name) == {1: 5_000}
    assert found.progress.complete


async def test_every_row_of_a_hundred_thousand(server: Database, name: str) -> None:
    """With a condition, of which the rule names a fifth."""
    server.do(
        f"CREATE TABLE {name} (id bigint PRIMARY KEY, n integer NOT NULL DEFAULT 0)",
        f"INSERT INTO {name} (id) SELECT g * 3 FROM generate_series(1, 100000) AS g",
    )
    found = await backfill(settings_of(server, name, set="n = n + 1 -- 100%", where="id % 5 = 0 -- a fifth"))
    assert server.do(f"SELECT n, id % 5 = 0, count(*) FROM {name} GROUP BY 1, 2 ORDER BY 1") == [
        (0, False, 80_000),
        (1, True, 20_000),
    ]
    assert (found.job.stats.rows, found.job.stats.changed) == (100_000, 20_000)
    assert found.progress.rows == found.start.progress.about["rows"]


async def test_keys_come_and_go_while_it_runs(server: Database, name: str) -> None:
    """What was there all the time is changed once; what came below the bound at most once, what came above it never."""
    server.do(
        f"CREATE TABLE {name} (id bigint PRIMARY KEY, n integer NOT NULL DEFAULT 0, late boolean DEFAULT false)",
        f"INSERT INTO {name} (id) SELECT g * 10 FROM generate_series(1, 8000) AS g",
    )
    settings = settings_of(server, name, batch=50, target_time=0.02, workers=3)
    turn = 0
    async with running(settings) as job:
        while turn < TURNS and not job.ended.done():
            turn += 1
            await asyncio.to_thread(
                server.do,
                f"DELETE FROM {name} WHERE id % 70 = 0 AND id % 13 = {turn % 13}",
                f"""INSERT INTO {name} (id, late) SELECT 1 + floor(random() * 80000)::bigint, true
                FROM generate_series(1, 300) ON CONFLICT DO NOTHING""",
                f"INSERT INTO {name} (id, late) SELECT 80000 + max(id), true FROM {name}",
            )
        await job.finished()
        assert turn > 1, "it was over before anything came or went"
        assert server.do(f"SELECT DISTINCT n FROM {name} WHERE NOT late") == [(1,)]
        assert server.do(f"SELECT max(n) FROM {name} WHERE late AND id <= 80000") in ([(0,)], [(1,)])
        assert server.do(f"SELECT DISTINCT n FROM {name} WHERE id > 80000") == [(0,)]


@pytest.mark.parametrize(
    ("bounds", "changed"),
    [
        ({"first": ("30",)}, (30, 100)),
        ({"last": ("30",)}, (1, 30)),
        ({"first": ("10",), "last": ("5000",)}, (10, 100)),
        ({"first": ("-5",), "last": ("55",)}, (1, 55)),
        ({"first": ("100",)}, (100, 100)),
        ({"first": ("5000",)}, None),
        ({"last": ("-5000",)}, None),
    ],
    ids=str,
)
async def test_bounds(
    a_database: Database, name: str, bounds: dict[str, tuple[str]], changed: tuple[int, int] | None
) -> None:
    a_database.do(
        f"CREATE TABLE {name} (id integer PRIMARY KEY, n integer NOT NULL DEFAULT 0)",
        f"INSERT INTO {name} (id) {SERIES.format(100)} SELECT g FROM s",
    )
    found = await backfill(settings_of(a_database, name, batch=7, **bounds), attempts=1)
    assert not found.dead
    assert found.progress.complete
    low, high = changed or (0, -1)
    assert a_database.do(f"SELECT min(id), max(id), count(*) FROM {name} WHERE n = 1") == [
        (low or None, high if changed else None, high - low + 1)
    ]
    assert set(counts(a_database, name)) <= {0, 1}


async def test_an_empty_table_is_covered(a_database: Database, name: str) -> None:
    a_database.do(f"CREATE TABLE {name} (id integer PRIMARY KEY, n integer)")
    found = await backfill(settings_of(a_database, name))
    assert found.progress.complete
    assert found.progress.key is None


async def test_it_is_planned_as_it_goes(server: Database, name: str) -> None:
    """However big the table, few slices are waiting."""
    server.do(
        f"CREATE TABLE {name} (id integer PRIMARY KEY, n integer NOT NULL DEFAULT 0)",
        f"INSERT INTO {name} (id) SELECT g FROM generate_series(1, 3000) AS g",
    )
    async with ready(settings_of(server, name, batch=1, workers=1)) as (job, frontier, _, stop, _):
        ended = asyncio.create_task(job.run(frontier))
        most = 0
        while server.do(f"SELECT count(*) FROM {name} WHERE n = 1") < [(300,)]:
            most = max(most, (await frontier.status()).waiting)
        stop.request("enough")
        await ended
        assert 1 < most <= 40


async def test_a_statement_of_ones_own_over_several_columns(a_database: Database, name: str) -> None:
    """Both ends of every slice are part of it, and it is part of no other."""
    a_database.do(
        f"CREATE TABLE {name} (a text, b integer, n integer NOT NULL DEFAULT 0, PRIMARY KEY (a, b))",
        f"INSERT INTO {name} (a, b) {SERIES.format(1_000)} SELECT 't' || (g % 3), g FROM s",
    )
    sql = f"UPDATE {name} SET n = n + 1 WHERE (a, b) >= (:lo) AND (a, b) <= (:hi) AND a <> ':lo' -- 100%"
    found = await backfill(settings_of(a_database, name, sql=sql, batch=70, workers=3))
    assert counts(a_database, name) == {1: 1_000}
    assert found.job.stats.changed == 1_000
    assert found.progress.complete


async def test_a_statement_of_ones_own_over_a_slice_without_rows(a_database: Database, name: str) -> None:
    """They were deleted after the slice was planned. It is done, without a call of the statement."""
    a_database.do(
        f"CREATE TABLE {name} (id integer PRIMARY KEY, n integer NOT NULL DEFAULT 0)",
        f"INSERT INTO {name} (id) {SERIES.format(60)} SELECT g FROM s",
    )
    sql = f"UPDATE {name} SET n = n + 1 WHERE id BETWEEN :lo AND :hi"
    async with ready(settings_of(a_database, name, sql=sql, batch=10, workers=1)) as (job, frontier, _, _, _):
        claim = await frontier.claim(1)
        assert claim is not None
        plan = job.make_handler(pause_reason=lambda: None)
        async with job.table.transaction() as connection:
            outcome = await plan(claim.items[0], connection)
        await claim.settle([outcome])
        a_database.do(f"DELETE FROM {name} WHERE id BETWEEN 21 AND 30")
        summary = await asyncio.wait_for(job.run(frontier), 20)
        assert summary.done >= 6
        assert (job.stats.changed, job.monitor.errors) == (50, ())
    assert counts(a_database, name) == {1: 50}
