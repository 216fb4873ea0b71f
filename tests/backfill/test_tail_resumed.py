"""A backfill that ended can be followed on later, and every row is still changed once."""

import asyncio

from swath import Stop
from swath.backfill.job import BackfillJob, open_frontier
from swath.backfill.settings import BackfillSettings
from tests.tables.conftest import Database, a_database, name, shared  # noqa: F401  fixtures

PATIENCE = 60.0
POLL_SECONDS = 0.05


async def backfill(database: Database, table: str, *, follow: bool) -> None:
    """To its end, or until no row is left to change."""
    settings = BackfillSettings(db=database.url, table=table, set="n = n + 1", workers=2, follow=follow)
    stop = Stop()
    async with BackfillJob.open(settings, stop=stop, report=print) as job, open_frontier(settings) as frontier:
        await job.start(frontier)
        running = asyncio.create_task(job.run(frontier))
        async with asyncio.timeout(PATIENCE):
            if follow:
                await all_changed(database, table)
                stop.request("test")
            await running


async def all_changed(database: Database, table: str) -> None:
    while True:
        if database.do(f"SELECT count(*) FROM {table} WHERE n = 0") == [(0,)]:
            return
        await asyncio.sleep(POLL_SECONDS)


async def test_again_and_again(a_database: Database, name: str) -> None:  # noqa: F811
    a_database.do(f"CREATE TABLE {name} (id integer PRIMARY KEY, n integer NOT NULL DEFAULT 0)")
    for number, follow in enumerate((False, True, False, True)):
        a_database.do(
            f"INSERT INTO {name} (id) WITH RECURSIVE s (g) AS (SELECT 1 UNION ALL SELECT g + 1 FROM s WHERE g < 10) "
            f"SELECT g + {10 * number} FROM s"
        )
        await backfill(a_database, name, follow=follow)
    assert a_database.do(f"SELECT n, count(*) FROM {name} GROUP BY n") == [(1, 40)]
