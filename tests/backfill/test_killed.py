"""Exactly once, whoever dies: workers at any moment, the server under them."""

import random
import subprocess
import time
from collections.abc import Sequence

from swath.backfill.settings import BackfillSettings
from tests.backfill.driving import backfill, counts, end, processes, running, settings_of, wait
from tests.conftest import StartPostgres
from tests.tables.conftest import Database

ROWS, FEW = 3_000, 1_200
SLOWLY = "n = n + 1 + length(pg_sleep(0.0005)::text)"  # so that a slice is there to be killed in


def fill(database: Database, name: str, rows: int = ROWS) -> None:
    if database.kind == "postgresql":
        series = f"SELECT g * g FROM generate_series(1, {rows}) AS g"
    else:
        series = f"WITH RECURSIVE s (g) AS (SELECT 1 UNION ALL SELECT g + 1 FROM s WHERE g < {rows}) SELECT g FROM s"
    database.do(
        f"CREATE TABLE {name} (id bigint PRIMARY KEY, n integer NOT NULL DEFAULT 0)",
        f"INSERT INTO {name} (id) {series}",
    )


def covered(database: Database, name: str) -> int:
    (row,) = database.do(f"SELECT count(*) FROM {name} WHERE n > 0")
    return int(row[0])


def kill(
    database: Database,
    settings: BackfillSettings,
    crew: "Sequence[subprocess.Popen[str]]",
    chance: random.Random,
    *,
    most: int = ROWS // 12,
) -> int:
    """Kill processes one after the other, each when some more rows are covered; how many were alive."""
    killed = 0
    for process in crew:
        wanted = covered(database, settings.table) + chance.randint(1, most)
        wait(lambda p=process, w=wanted: p.poll() is not None or covered(database, settings.table) >= w)  # type: ignore[misc]
        time.sleep(chance.random() * 0.03)
        killed += process.poll() is None
        process.kill()
    return killed


def test_a_process_that_is_killed_again_and_again(server: Database, name: str, seed: int) -> None:
    fill(server, name)
    settings = settings_of(server, name, set=SLOWLY, batch=50, workers=2, target_time=0.05)
    chance = random.Random(seed)
    for _ in range(2):
        with processes(1, settings) as crew:
            assert kill(server, settings, crew, chance) == 1
    with processes(1, settings) as (last,):
        end(last)
    assert counts(server, name) == {1: ROWS}


def test_eight_processes_of_which_most_are_killed(server: Database, name: str, seed: int) -> None:
    fill(server, name, FEW)
    settings = settings_of(server, name, set=SLOWLY, batch=20, workers=1, target_time=0.02)
    with processes(8, settings) as crew:
        assert kill(server, settings, crew[:6], random.Random(seed), most=FEW // 12) > 1
        for process in crew[6:]:
            end(process)
    assert counts(server, name) == {1: FEW}


def test_workers_on_sqlite_that_are_killed(file: Database, name: str, seed: int) -> None:
    fill(file, name)
    settings = settings_of(file, name, batch=5, workers=2, target_time=0.01)
    with processes(2, settings) as (doomed, last):
        kill(file, settings, [doomed], random.Random(seed))
        end(last)
    assert counts(file, name) == {1: ROWS}


def test_with_a_store_elsewhere_it_is_at_least_once(server: Database, name: str, seed: int, tmp_path: object) -> None:
    fill(server, name)
    store = f"sqlite:///{tmp_path}/progress.db"
    settings = settings_of(server, name, set=SLOWLY, batch=50, workers=2, target_time=0.05, store=store, force=True)
    with processes(2, settings) as (doomed, last):
        kill(server, settings, [doomed], random.Random(seed))
        end(last)
    found = counts(server, name)
    assert found.keys() <= {1, 2}
    assert sum(found.values()) == ROWS


async def test_the_server_is_killed_under_it(start_postgres: StartPostgres, seed: int) -> None:
    """And comes back: it goes on, and goes on to look at the server's health."""
    server = start_postgres()
    database = Database(server.dsn())
    fill(database, "t")
    database.do("CREATE TABLE lag (seconds float)", "INSERT INTO lag VALUES (0)")
    settings = settings_of(
        database, "t", set=SLOWLY, batch=50, target_time=0.05, workers=3, max_lag=1.0, lag_query="TABLE lag"
    )
    chance = random.Random(seed)
    async with running(settings) as job:
        for _ in range(2):
            before = covered(database, "t")
            more = chance.randint(100, 800)
            await job.until(lambda b=before, m=more: job.job.stats.rows >= min(b + m, ROWS - 400))  # type: ignore[misc]
            server.stop("immediate")
            server.start()
        database.do("UPDATE lag SET seconds = 7")
        await job.until(lambda: any("7.0 s behind" in words for words in job.said))
        database.do("UPDATE lag SET seconds = 0")
        await job.finished()
    assert counts(database, "t") == {1: ROWS}
    again = await backfill(settings)
    assert again.progress.complete
    assert again.job.stats.rows == 0
