"""Whether a change may be made twice, seen on rows that it changes."""

import pytest

from swath.backfill.change import SetChange
from swath.backfill.trial import is_repeatable
from swath.threads import Threads
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
    threads = Threads()
    try:
        assert await is_repeatable(table, SetChange(table, changes, where), threads, upto=None) is repeatable
    finally:
        threads.close()
    assert a_database.do(f"SELECT count(*), sum(n), count(v) FROM {name}") == [(1000, 0, 0)], "it was not rolled back"
