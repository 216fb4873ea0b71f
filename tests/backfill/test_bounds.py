"""--from and --to are both part of what is changed, and nothing else is."""

from typing import Any

import pytest

from swath import Stop
from swath.backfill.job import BackfillJob, open_frontier
from swath.backfill.settings import BackfillSettings
from tests.tables.conftest import Database, a_database, name, shared  # noqa: F401  fixtures


@pytest.mark.parametrize("how", ["set", "sql"])
async def test_both_ends_are_part_of_it(a_database: Database, name: str, how: str) -> None:  # noqa: F811
    """Also rows that come while it runs: those below --from and above --to are left alone."""
    a_database.do(
        f"CREATE TABLE {name} (id integer PRIMARY KEY, n integer NOT NULL DEFAULT 0)",
        f"INSERT INTO {name} (id) VALUES (1), (5), (10), (11), (20), (21), (25)",
    )
    changes: dict[str, Any] = {"set": "n = n + 1"}
    if how == "sql":
        changes = {"sql": f"update {name} set n = n + 1 where id between :lo and :hi"}
    settings = BackfillSettings(db=a_database.url, table=name, first=("10",), last=("20",), workers=2, **changes)
    async with BackfillJob.open(settings, stop=Stop(), report=print) as job:
        await job.check()
        async with open_frontier(settings) as frontier:
            await job.start(frontier)
            a_database.do(f"INSERT INTO {name} (id) VALUES (7), (9), (15), (22)")
            summary = await job.run(frontier)
    assert summary.stopped_by == "done"
    changed = a_database.do(f"SELECT id FROM {name} WHERE n = 1 ORDER BY id")
    assert [key for (key,) in changed] == [10, 11, 15, 20]
    assert a_database.do(f"SELECT max(n) FROM {name}") == [(1,)]
