"""Progress that is true: the covered key never passes a row that is not changed."""

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from swath import Frontier
from swath.backfill.progress import Progress, read_progress, summarize
from swath.backfill.ranges import PlanStep, Slice
from swath.tables.table import Column
from tests.backfill.driving import SERIES, counts, ready, settings_of
from tests.tables.conftest import Database

# What happens to one item that is claimed.
Fate = st.sampled_from(["run", "run", "run", "overrun", "die", "release", "reopen"])
PLAYS = 12


async def check(database: Database, table: str, frontier: Frontier) -> Progress:
    """Everything up to the covered key is changed, and nothing twice."""
    now = await read_progress(frontier)
    assert now is not None
    if now.key is not None:
        (row,) = database.do(f"SELECT count(*) FROM {table} WHERE n = 0 AND id <= {int(now.key[0])}")
        assert row[0] == 0, f"{now.key} is said to be covered"
    assert set(counts(database, table)) <= {0, 1}
    return now


async def play(database: Database, table: str, size: int, batch: int, fates: list[str], seed: int) -> None:
    """Go through a table item by item; each meets a fate. Then all goes well, and all has to be covered."""
    database.do(
        f"CREATE TABLE {table} (id integer PRIMARY KEY, n integer NOT NULL DEFAULT 0)",
        f"INSERT INTO {table} (id) {SERIES.format(max(1, size))} SELECT g * g FROM s WHERE {size} > 0",
    )
    chance = random.Random(seed)
    given_settings = settings_of(database, table, batch=batch, workers=1)
    async with ready(given_settings, attempts=100) as (job, frontier, _, _, _):
        cover = job.make_handler(pause_reason=lambda: None)
        for fate in fates:
            if fate == "reopen":
                await frontier.reopen_dead()
                await check(database, table, frontier)
                continue
            claim = await frontier.claim(chance.randint(1, 3), lease=60)
            if claim is None:
                continue
            for item in chance.sample(claim.items, len(claim.items)):
                if fate == "die":
                    await claim.settle([item.dead(reason="fate")])
                elif fate == "release":
                    await claim.settle([item.release()])
                else:
                    # A size far below what was planned is what makes a slice end early, as an overrun does.
                    job.sizer.size = chance.randint(1, 3) if fate == "overrun" else batch
                    async with job.table.transaction() as connection:
                        outcome = await cover(item, connection)
                        committed = await claim._leased.stage(
                            item.partition, [claim._leased.encode(outcome)], connection
                        )
                    committed()
                await check(database, table, frontier)
        await frontier.reopen_dead()
        await asyncio.wait_for(job.run(frontier), 60)
        now = await check(database, table, frontier)
        assert now.complete
        assert now.key == now.upto
    assert set(counts(database, table)) <= {1}


@pytest.mark.parametrize("kind", ["postgresql", "sqlite"])
def test_the_covered_key_is_true_at_every_moment(
    kind: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    played = iter(range(10_000))

    @given(
        size=st.integers(0, 40),
        batch=st.integers(1, 15),
        fates=st.lists(Fate, max_size=25),
        seed=st.integers(0, 2**32),
    )
    @settings(
        max_examples=PLAYS, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )
    def plays(**given_values: Any) -> None:
        number = next(played)
        if kind == "sqlite":
            database = Database(f"sqlite:///{tmp_path_factory.mktemp('play')}/app.db")
            database.do("PRAGMA journal_mode = wal")
        else:
            database = Database(request.getfixturevalue("shared"))
        asyncio.run(play(database, f"{name}_{number}", **given_values))

    plays()


async def test_items_that_are_none_of_its_own_are_passed_over(tmp_path: Path, name: str) -> None:
    database = Database(f"sqlite:///{tmp_path}/app.db")
    database.do("PRAGMA journal_mode = wal", f"CREATE TABLE {name} (id integer PRIMARY KEY, n integer DEFAULT 0)")
    database.do(f"INSERT INTO {name} (id) VALUES (1)")
    async with ready(settings_of(database, name)) as (_, frontier, _, _, _):
        before = await read_progress(frontier)
        await frontier.add(["a stranger", "another"])
        claim = await frontier.claim(3, lease=60)
        assert claim is not None
        await claim.settle([item.dead(reason="fate") for item in claim.items if item.key == "another"])
        assert await read_progress(frontier) == before


TOLD: dict[str, Any] = {"upto": ["100"], "first_key": ["0"], "rows": 1_000, "text_key": False}


def a_slice(number: int, lo: int, hi: int) -> Slice:
    low = (str(lo),)
    return Slice(number, low, low, (str(hi),), 10, number * 10)


def test_the_lowest_open_slice_is_where_it_is() -> None:
    """By its number: one that was opened again stands behind the others, and keys are not ordered as texts are."""
    step = PlanStep(9, ("90",), ("100",), 10, 90)
    found = summarize(TOLD, [step, a_slice(7, 70, 80), a_slice(2, 9, 30)], [a_slice(5, 50, 60)])
    assert (found.key, found.rows, found.open, found.dead) == (("9",), 20, 2, 1)
    assert summarize(TOLD, [step], [a_slice(5, 50, 60)]).key == ("50",)
    assert summarize(TOLD, [step], []).key == ("90",)
    assert not summarize(TOLD, [], [a_slice(5, 50, 60)]).complete
    assert summarize(TOLD, [], []).complete


def test_rows_that_follow_the_end_have_no_share() -> None:
    """With --follow, nobody knows how many there will be: 100 % would say that the backfill is over."""
    told = TOLD | {"first_key": ["0"], "upto": ["100"]}
    assert summarize(told, [PlanStep(3, ("99",), ("100",), 10, 400)], []).share == pytest.approx(0.99)
    assert summarize(told, [PlanStep(3, ("150",), ("160",), 10, 400)], []).share is None


@pytest.mark.parametrize(
    ("first", "here", "last", "share"),
    [
        ("0", "25", "100", 0.25),
        (0, 25, 100, 0.25),
        ("2024-01-01 00:00:00+00", "2024-01-02 00:00:00+00", "2024-01-05 00:00:00+00", 0.25),
        ("00000000-0000-0000-0000-000000000000", "40000000-0000-0000-0000-000000000000",
         "ffffffff-ffff-ffff-ffff-ffffffffffff", 0.25),
        ("-infinity", "5", "100", None),
        ("a", "b", "c", None),
        ("0", "25", "infinity", None),
        ("0", "NaN", "100", None),
        ("7", "7", "7", None),
        ({"hex": "00"}, {"hex": "01"}, {"hex": "02"}, None),
    ],
)  # fmt: skip
def test_the_share_is_told_from_keys_that_interpolate(first: Any, here: Any, last: Any, share: float | None) -> None:
    """From others it is told by the rows, as planned and as estimated."""
    told = TOLD | {"first_key": [first], "upto": [last]}
    found = summarize(told, [PlanStep(3, (here,), (last,), 10, 400)], [])
    assert found.share == pytest.approx(0.4 if share is None else share, abs=0.01)
    assert summarize(told | {"rows": None}, [PlanStep(3, (here,), (last,), 10, 400)], []).share == (
        None if share is None else pytest.approx(share, abs=0.01)
    )


@pytest.mark.parametrize(
    ("first", "here", "last", "share"),
    [
        ("0", "25", "9", 0.4),
        ("2024-01-01", "2024-01-02", "2024-01-05", 0.25),
    ],
)
def test_texts_that_look_like_numbers_are_not_taken_for_them(first: str, here: str, last: str, share: float) -> None:
    told = TOLD | {"first_key": [first], "upto": [last], "text_key": True}
    assert summarize(told, [PlanStep(3, (here,), (last,), 10, 400)], []).share == pytest.approx(share, abs=0.01)


@pytest.mark.parametrize(
    ("type_", "is_text"),
    [
        ("text", True), ("character varying(9)", True), ("character(3)", True), ("citext", True), ("name", True),
        ("TEXT", True), ("VARCHAR(9)", True), ("bigint", False), ("INTEGER", False), ("uuid", False),
        ("timestamp with time zone", False), ("numeric(9,2)", False), ("", False),
    ],
)  # fmt: skip
def test_types_that_are_ordered_as_texts(type_: str, is_text: bool) -> None:
    assert Column("id", type_).is_text is is_text
