"""`Frontier.check_keys` on stores that somebody damaged with SQL."""

import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

import swath
from swath import Frontier, Item
from swath.core.key_check import MAX_MISMATCHES
from swath.core.store import ADD_CHUNK, RowPage
from tests.bench import bench

# Each fault: what it does to the store, and what the check must say.
COLUMNS = "position, lane, partition, priority, key, span"
FAULTS = {
    "lost": ("DELETE FROM {dead} WHERE key = 'dead'", ["is known, and its item is in no place"]),
    "lost claimed": ("DELETE FROM {claimed} WHERE key = 'claimed'", ["is known, and its item is in no place"]),
    "in two states": (
        "INSERT INTO {done} (" + COLUMNS + ", settled_at{hash}) SELECT " + COLUMNS + ", 1{hash} FROM {delayed} "
        "WHERE key = 'delayed'",
        ["is in two places: delayed and done"],
    ),
    "two positions": (
        "INSERT INTO {done} ("
        + COLUMNS
        + ", settled_at{hash}) SELECT 999, lane, partition, priority, key, span, 1{hash} "
        "FROM {done} WHERE key = 'done'",
        ["'done' of lane 'x' is done at position 999, and its key is at position "],
    ),
    "not known": (
        "UPDATE {done} SET key = 'other' WHERE key = 'done'",
        ["'other' of lane 'x' is done at position ", "and its key is not known"],
    ),
}


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/work.db"
    return str(request.getfixturevalue("database"))


async def fill(frontier: Frontier) -> None:
    """An item in every state, one of which was re-opened, and revisited."""
    await frontier.add([Item(key, lane="x") for key in ("done", "dead", "delayed", "claimed", "again", "revisit")])
    claim = await frontier.claim(lease=600)
    assert claim is not None
    one = {item.key: item for item in claim.items}
    await claim.settle(
        [
            one["done"].done(),
            one["dead"].dead(reason="gone"),
            one["delayed"].retry(after=60),
            one["again"].done(),
            one["revisit"].done(revisit_after=600),
        ]
    )
    assert await frontier.reopen("again") == 1
    await frontier.add([Item("ready", lane="x"), Item("ready", lane="y")])


def damage(url: str, statement: str) -> None:
    tables = ("item", "delayed", "claimed", "done", "dead")
    if url.startswith("sqlite"):
        names = {table: f"swath_{table}" for table in tables} | {"hash": ", hash"}
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection, connection:
            assert connection.execute(statement.format(**names)).rowcount == 1
    else:
        names = {table: f"swath.{table}" for table in tables} | {"hash": ""}
        with psycopg.connect(url) as database:
            assert database.execute(statement.format(**names).encode()).rowcount == 1


async def test_a_sound_store_has_every_key_in_one_place(any_store: str) -> None:
    async with swath.open(any_store) as frontier:
        await fill(frontier)
        report = await frontier.check_keys()
        assert (report.mismatches, report.examined, report.after) == ([], 16, None)


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_key_that_is_in_no_place_or_in_two_is_found(database_url: str, fault: str) -> None:
    statement, expected = FAULTS[fault]
    async with swath.open(database_url) as frontier:
        await fill(frontier)
        damage(database_url, statement)
        texts = " ".join(found.text for found in (await frontier.check_keys()).mismatches)
        assert all(part in texts for part in expected), texts


async def test_a_check_continues_where_it_stopped() -> None:
    async with bench(partitions=2) as b:
        await b.frontier.add(Item(f"key{n}", lane=f"lane {n % 5}") for n in range(2 * ADD_CHUNK + 5))
        lost = b.store._partitions[0].seen.popitem()[1]
        after, examined, texts, steps = None, 0, list[str](), 0
        while True:
            report = await b.frontier.check_keys(after=after, seconds=0)
            examined, steps = examined + report.examined, steps + 1
            texts += [found.text for found in report.mismatches]
            if (after := report.after) is None:
                break
        assert examined == 2 * (2 * ADD_CHUNK + 5) - 1
        assert steps == 10  # three of known keys, three of ready items, and one for each other state
        assert len(texts) == 1
        assert f"{lost.key!r} of lane" in texts[0]
        for wrong in ("", "known", "known:1/x", "lost:1/2/3", "ready:x", 7):
            with pytest.raises(swath.InvalidSetting):
                await b.frontier.check_keys(after=wrong)  # type: ignore[arg-type]


async def test_a_badly_damaged_store_does_not_fill_the_memory() -> None:
    async with bench() as b:
        await b.frontier.add(f"key{n}" for n in range(3 * ADD_CHUNK))
        b.store._partitions[0].seen.clear()
        report = await b.frontier.check_keys()
        assert MAX_MISMATCHES <= len(report.mismatches) < MAX_MISMATCHES + ADD_CHUNK
        assert report.after is not None


async def test_an_item_that_moves_during_the_check_is_no_mismatch() -> None:
    async with bench() as b:
        await b.frontier.add("a")
        claim = await b.frontier.claim()
        assert claim is not None
        await claim.settle([claim.items[0].done()])

        def move(positions: list[int]) -> list[int]:
            return [position + 1 for position in positions]

        async def check() -> list[str]:
            return [found.text for found in (await b.frontier.check_keys()).mismatches]

        b.faults.changed["find_positions"] = move
        assert len(await check()) == 1  # the item stays where it is
        before = b.faults.calls["find_positions"]

        def hide(page: RowPage) -> RowPage:
            """The item is gone when it is read again, after its position was looked up."""
            return page._replace(rows=[]) if b.faults.calls["find_positions"] > before else page

        b.faults.changed["items"] = hide
        assert await check() == []
