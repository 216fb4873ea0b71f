"""`swath backfill` as its user gives it."""

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from swath.backfill.progress import Progress
from swath.cli.backfill_view import estimate_seconds_left
from tests.cli.conftest import add, look, run_swath
from tests.tables.conftest import Database


@pytest.fixture
def app(database: str) -> Database:
    """Somebody's database with a table of a thousand rows, their counters at 0."""
    app = Database(database)
    app.do(
        "CREATE TABLE users (id integer PRIMARY KEY, n integer NOT NULL DEFAULT 0)",
        "INSERT INTO users (id) WITH RECURSIVE s (g) AS (SELECT 1 UNION ALL SELECT g + 1 FROM s WHERE g < 1000) "
        "SELECT g FROM s",
    )
    return app


def counters(app: Database) -> list[tuple[int, int]]:
    return [tuple(row) for row in app.do("SELECT n, count(*) FROM users GROUP BY n ORDER BY n")]


def test_from_a_dry_run_to_the_end(app: Database) -> None:
    """Nothing at first, then every row once, and never again; `swath status` tells from elsewhere."""
    given = ("backfill", "--db", app.url, "--table", "users", "--set", "n = n + 1", "--from", "11")
    dry = run_swath(*given, "--dry-run").facts()
    assert (dry["key"].split()[0], dry["up to"], dry["each row"]) == ("id", "1000", "exactly once")
    assert dry["first slice"] == "990 rows up to 1000"
    assert counters(app) == [(0, 1000)]
    assert app.do("SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'swath%'") == [(0,)], "it made a frontier"
    done = run_swath(*given)
    assert done.code == 0
    assert "the backfill of users by id starts; it ends at id 1000\n" in done.err
    facts = done.facts()
    assert "990 processed" in facts["rows"]
    assert "the longest took" in facts["slices"]
    assert counters(app) == [(0, 10), (1, 990)]
    told = run_swath("status", "--store", dry["store"], "--json").json()["backfill"]
    assert (told["table"], told["complete"], told["dead"], told["share"]) == ("users", True, 0, 1.0)
    assert (told["key"], told["covered"], told["upto"]) == (["id"], ["1000"], ["1000"])
    assert run_swath("status", "--store", dry["store"]).facts()["covered"] == "every row, up to 1000"
    again = run_swath(*given)
    assert again.code == 0
    assert "complete" in again.err
    assert again.facts()["rows"] == "0 processed, 0 changed by this run"
    assert "slices" not in again.facts()
    assert counters(app) == [(0, 10), (1, 990)]


def test_the_rate_in_the_summary_is_rows_divided_by_time(app: Database) -> None:
    run = run_swath("backfill", "--db", app.url, "--table", "users", "--set", "n = n + 1", "--json")
    summary = json.loads(run.out.splitlines()[-1])
    assert summary["rate"] == pytest.approx(summary["rows"] / summary["seconds"])


@pytest.fixture
def stranger(app: Database) -> Iterator[str]:
    """The database as a role sees it that may not read the table."""
    app.do("CREATE ROLE stranger LOGIN")
    yield app.url.replace("postgres@", "stranger@")
    app.do("DROP OWNED BY stranger", "DROP ROLE stranger")


def test_a_table_that_may_not_be_read_is_refused_at_once(stranger: str, tmp_path: Path) -> None:
    backfill = run_swath("backfill", "--db", stranger, "--table", "users", "--set", "n = n + 1")
    scan = run_swath("scan", "--source", f"{stranger}#users", "--check", "json:dumps", "--out", f"{tmp_path}/f.jsonl")
    for refused in (backfill, scan):
        assert refused.code == 2
        assert "permission denied for table users. Grant it SELECT on the table" in refused.err
        assert refused.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_refuses_what_the_run_would(app: Database) -> None:
    given = ("backfill", "--db", app.url, "--table", "users", "--set")
    assert run_swath(*given, "n = n + 1").code == 0
    for more in ((), ("--dry-run",)):
        refused = run_swath(*given, "n = n + 2", *more)
        assert refused.code == 2
        assert "is complete; it was started with --set 'n = n + 1'. Start another one with a new --name" in refused.err
    assert run_swath(*given, "n = n + 1", "--dry-run").facts()["covered"] == "up to 1000, by an earlier run"


def test_a_dry_run_in_json_has_all_of_the_plan(app: Database) -> None:
    given = ("backfill", "--db", app.url, "--table", "users", "--set", "n = n + 1", "--dry-run")
    plan = run_swath(*given, "--json").json()["plan"].split("\n")
    assert len(plan) > 1
    assert plan == [line.split("\t", 1)[1] for line in run_swath(*given).out.splitlines()[-len(plan) :]]


@pytest.mark.parametrize(
    ("db", "most", "said"),
    [("postgresql://127.0.0.1:1/x", "-5", "use 0 or more"), ("sqlite:///app.db", "5", "SQLite cannot count")],
    ids=["too few", "nobody counts"],
)
def test_a_number_of_sessions_that_cannot_be_kept_to(db: str, most: str, said: str) -> None:
    refused = run_swath("backfill", "--db", db, "--table", "t", "--set", "n = 1", "--max-active", most)
    assert refused.code == 2
    assert said in refused.err


@pytest.mark.parametrize("command", ["backfill", "scan"])
def test_a_frontier_of_other_work_is_left_as_it_is(url: str, tmp_path: Path, command: str) -> None:
    table = f"sqlite:///{tmp_path}/app.db"
    connection = sqlite3.connect(tmp_path / "app.db")
    connection.executescript("CREATE TABLE users (id INTEGER PRIMARY KEY, n INTEGER); INSERT INTO users VALUES (1, 0)")
    connection.close()
    add(url, "a", partitions=1, max_attempts=9)
    there = set(tmp_path.iterdir())
    given = {
        "backfill": ("--db", table, "--table", "users", "--set", "n = 1"),
        "scan": ("--source", f"{table}#users", "--check", "json:dumps", "--out", f"{tmp_path}/findings.jsonl"),
    }
    refused = run_swath(command, *given[command], "--store", url)
    assert refused.code == 2
    assert refused.err.count("\n") == 1
    assert f"holds work that is not a {command}" in refused.err
    assert set(tmp_path.iterdir()) == there
    assert (look(url).ready, look(url).max_attempts) == (1, 9)
    assert run_swath("status", "--store", url).code == 0


@pytest.mark.parametrize(("rows", "left"), [(0, None), (50, 45.0)])
def test_the_time_left_is_unknown_before_the_first_slice_is_covered(rows: int, left: float | None) -> None:
    """The key moves within a slice that was shortened, but the count of rows does not."""
    job: Any = SimpleNamespace(stats=SimpleNamespace(rate=10.0))
    progress = Progress({}, (100,), (1_000,), rows, open=5, dead=0, complete=False, share=0.1)
    assert estimate_seconds_left(job, progress) == left
