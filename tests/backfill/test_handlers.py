"""Python handlers: rows, a transaction to write in, and whatever they do wrong."""

from typing import Any

import pytest

from swath.backfill.progress import read_progress
from tests.backfill import handlers
from tests.backfill.driving import SERIES, Backfilled, backfill, counts, ready, settings_of
from tests.tables.conftest import Database

ROWS = handlers.LAST
BATCH = 10
POISONED = range(11, 21)  # the slice with the row that the handlers stumble over


def fill(database: Database, name: str) -> None:
    database.do(
        f"CREATE TABLE {name} (id integer PRIMARY KEY, n integer NOT NULL DEFAULT 0, own text DEFAULT '{name}')",
        f"INSERT INTO {name} (id) {SERIES.format(ROWS)} SELECT g FROM s",
    )


async def backfilled(database: Database, name: str, handler: str, **more: Any) -> Backfilled:
    fill(database, name)
    return await backfill(
        settings_of(database, name, run=handler, batch=BATCH, **{"workers": 2, "target_time": 0.5, **more}), attempts=1
    )


@pytest.mark.parametrize("handler", ["counting", "counting_plainly"])
async def test_rows_and_a_transaction(a_database: Database, name: str, handler: str) -> None:
    found = await backfilled(a_database, name, handler, where="id % 2 = 0")
    assert a_database.do(f"SELECT n, id % 2, count(*) FROM {name} GROUP BY 1, 2 ORDER BY 1") == [(0, 1, 30), (1, 0, 30)]
    assert found.job.stats.changed == 30
    assert found.progress.complete


@pytest.mark.parametrize(
    ("handler", "said"),
    [
        ("raising", "ValueError: 13 is bad luck"),
        ("raising_plainly", "ValueError: 13 is bad luck"),
        ("nonsense", "returned 'fine'"),
        ("nonsense_plainly", "returned -1"),
        ("committing", "commit"),
        ("committing_plainly", "commit"),
        ("losing_another_server", "OperationalError: another server is gone"),
    ],
)
async def test_what_goes_wrong_is_a_dead_letter_and_the_rest_goes_on(
    a_database: Database, name: str, handler: str, said: str
) -> None:
    found = await backfilled(a_database, name, handler)
    (dead,) = found.dead
    assert said in dead.reason
    payload = dead.payload
    assert (int(payload["lo"][0]), int(payload["hi"][0])) == (POISONED[0] - 1, POISONED[-1])
    assert "Traceback" in dead.error
    assert not found.progress.complete
    assert found.progress.dead == 1
    assert found.progress.key is not None
    assert int(found.progress.key[0]) == POISONED[0] - 1
    assert a_database.do(f"SELECT id FROM {name} WHERE n = 0 ORDER BY id") == [(id_,) for id_ in POISONED]
    assert counts(a_database, name) == {0: len(POISONED), 1: ROWS - len(POISONED)}


@pytest.mark.parametrize("handler", ["swallowing", "swallowing_plainly"])
async def test_nothing_is_written_after_sqlite_has_rolled_back(file: Database, name: str, handler: str) -> None:
    """Which it does by itself, such as with a statement that writes and takes too long."""
    found = await backfilled(file, name, handler)
    (dead,) = found.dead
    assert "rolled back the transaction" in dead.reason
    changed = counts(file, name)
    assert changed.keys() == {0, 1}
    assert changed[1] >= ROWS - len(POISONED)


async def test_dead_slices_are_done_again_when_they_are_reopened(a_database: Database, name: str) -> None:
    found = await backfilled(a_database, name, "raising")
    a_database.do(f"UPDATE {name} SET id = 1013 WHERE id = 13")
    async with ready(found.job.settings) as (job, frontier, start, _, _):
        assert start.resumed
        assert await frontier.reopen_dead() == 1
        reopened = await read_progress(frontier)
        assert reopened is not None
        assert reopened.key == found.progress.key
        await job.run(frontier)
        now = await read_progress(frontier)
    assert now is not None
    assert now.complete
    assert a_database.do(f"SELECT id FROM {name} WHERE n <> 1") == [(1013,)]  # beyond the bound now


@pytest.mark.parametrize("handler", ["hanging_forever", "hanging_plainly"])
async def test_one_that_hangs_is_given_up_and_holds_nothing(a_database: Database, name: str, handler: str) -> None:
    """Also one in a thread, which nobody can end: what it wrote is rolled back, and it writes nothing any more."""
    handlers.FOREVER.clear()
    handlers.woken.clear()
    found = await backfilled(a_database, name, handler, timeout=3.0, workers=1, target_time=5.0)
    (dead,) = found.dead
    assert "timed out" in dead.reason
    assert handlers.woken.is_set() is (handler == "hanging_plainly")
    a_database.do(*(["SET lock_timeout = '5s'"] if a_database.kind == "postgresql" else []), f"UPDATE {name} SET n = n")
    assert counts(a_database, name) == {0: len(POISONED), 1: ROWS - len(POISONED)}


async def test_one_that_is_slow_gets_smaller_slices(a_database: Database, name: str) -> None:
    """A slice of ten rows would take twenty times the target time."""
    fill(a_database, name)
    found = await backfill(settings_of(a_database, name, run="slow", batch=30, workers=2, target_time=0.06))
    assert counts(a_database, name) == {1: ROWS}
    assert found.job.sizer.size < BATCH
    assert found.job.stats.overruns["timeout"] > 0
    assert not found.dead


@pytest.mark.parametrize("handler", ["slow_in_sqlite", "slow_in_sqlite_plainly"])
async def test_one_whose_statement_is_interrupted_gets_smaller_slices(file: Database, name: str, handler: str) -> None:
    """What SQLite raises in the handler then is no fault of the handler's, and the same rows would take as long."""
    fill(file, name)
    settings = settings_of(file, name, run=handler, batch=ROWS, workers=1, target_time=0.2)
    found = await backfill(settings, attempts=1)
    assert not found.dead
    assert counts(file, name) == {1: ROWS}
    assert found.job.stats.overruns["timeout"] > 0


async def test_one_that_thinks_for_longer_than_its_role_may_is_let_to(server: Database, name: str) -> None:
    """The server would end its session, which looks as if the server were gone."""
    fill(server, name)
    hasty = Database(f"{server.url}&options=-cidle_in_transaction_session_timeout%3D100")
    found = await backfill(settings_of(hasty, name, run="very_slow", last=("3",), batch=3, workers=1, target_time=5.0))
    assert found.progress.complete
    assert counts(server, name) == {0: ROWS - 3, 1: 3}


async def test_one_that_needs_long_for_a_row_is_let_to(a_database: Database, name: str) -> None:
    """Less than one row cannot be tried."""
    fill(a_database, name)
    settings = settings_of(a_database, name, run="very_slow", batch=2, target_time=0.01, last=("3",))
    found = await backfill(settings, attempts=1)
    assert not found.dead
    assert counts(a_database, name) == {0: ROWS - 3, 1: 3}
