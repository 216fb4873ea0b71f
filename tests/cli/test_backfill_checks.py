"""What `swath backfill` itself refuses before it changes anything, and what ends it, by its exit code."""

import time
from contextlib import suppress
from pathlib import Path
from sqlite3 import OperationalError

import pytest

from tests.cli.conftest import TIMEOUT, run_swath
from tests.cli.running import running
from tests.tables.conftest import Database

ROWS = 500
# About 2 ms per row, so that there is time to rename the table
SLOWLY = {
    "postgresql": "n = n + 1 + length(pg_sleep(0.002)::text)",
    "sqlite": "n = n + 1 + 0 * length(hex(randomblob(400000)))",
}


@pytest.fixture(params=["postgresql", "sqlite"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    """Somebody's database with a table, its counters at 0."""
    if request.param == "sqlite":
        app = Database(f"sqlite:///{tmp_path}/app.db")
        app.do("PRAGMA journal_mode = wal")
    else:
        app = Database(request.getfixturevalue("database"))
    app.do(
        "CREATE TABLE users (id integer PRIMARY KEY, n integer NOT NULL DEFAULT 0)",
        f"INSERT INTO users (id) WITH RECURSIVE s (g) AS (SELECT 1 UNION ALL SELECT g + 1 FROM s WHERE g < {ROWS}) "
        "SELECT g FROM s",
    )
    return app


def list_tables(app: Database) -> list[str]:
    catalog = "sqlite_schema WHERE type = 'table'" if app.kind == "sqlite" else "pg_class WHERE relkind = 'r'"
    column = "name" if app.kind == "sqlite" else "relname"
    return sorted(name for (name,) in app.do(f"SELECT {column} FROM {catalog}"))


REFUSED = {
    "sets the key": (("--set", "id = id + 1000"), "--set changes id, part of the key of users"),
    "fails": (("--set", "n = nonsense(n)"), "rejects the statement: "),
    "sql that fails": (("--sql", "update nothing set n = 1 where id between :lo and :hi"), "rejects the statement: "),
    "not repeatable": (("--set", "n = n + 1", "--store", "sqlite:///{tmp_path}/apart.db"), "is not repeatable: "),
    "end before start": (("--set", "n = 1", "--from", "9", "--to", "3"), "--from 9 is after --to 3"),
}


@pytest.mark.parametrize("case", list(REFUSED))
@pytest.mark.parametrize("dry", [False, True], ids=["run", "dry run"])
def test_the_command_refuses_what_would_fail_later(app: Database, tmp_path: Path, case: str, dry: bool) -> None:
    given, said = REFUSED[case]
    words = [word.format(tmp_path=tmp_path) for word in given]
    before = list_tables(app)
    refused = run_swath("backfill", "--db", app.url, "--table", "users", *words, *(["--dry-run"] if dry else []))
    assert (refused.code, refused.out) == (2, "")
    assert said in refused.err
    assert refused.err.count("\n") == 1
    assert app.do("SELECT min(id), max(id), sum(n) FROM users") == [(1, ROWS, 0)]
    assert list_tables(app) == before
    assert not (tmp_path / "apart.db").exists()


def test_a_table_renamed_under_a_backfill_ends_it_at_once(app: Database) -> None:
    given = ("backfill", "--db", app.url, "--table", "users", "--set", SLOWLY[app.kind], "--target-time", "10ms")
    with running(*given, "--batch", "1", "--workers", "1", "--json") as backfill:
        backfill.says('"event": "start"')
        rename(app, "users", "people")
        assert backfill.ends() == 2
    assert "the table changed while the backfill ran: " in backfill.text
    assert "run the same command again to resume" in backfill.text
    assert "Traceback" not in backfill.text
    (covered,) = app.do("SELECT count(*) FROM people WHERE n = 1")
    assert covered < (ROWS,)
    rename(app, "people", "users")
    assert run_swath(*given).code == 0
    assert app.do("SELECT n, count(*) FROM users GROUP BY n") == [(1, ROWS)]


def rename(app: Database, before: str, after: str) -> None:
    ends_at = time.monotonic() + TIMEOUT
    while time.monotonic() < ends_at:
        with suppress(OperationalError):  # another process writes
            app.do(f"ALTER TABLE {before} RENAME TO {after}")
            return
    raise AssertionError("the database was always busy")
