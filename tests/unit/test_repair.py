"""`frontier.repair`: what it accepts, what commits with it, and what it refuses."""

from typing import Any

import pytest

import swath
from swath import DeadItem, InvalidOutcome, Item, OutputMove
from swath.core import events
from tests.bench import Bench, bench


async def kill(b: Bench, *items: Item | str) -> dict[str, DeadItem]:
    """Add items that die at once."""
    await b.frontier.add(items)
    claim = await b.frontier.claim()
    assert claim is not None
    await claim.settle([item.dead(reason="handler: bug", error="trace") for item in claim.items])
    return {dead.key: dead async for dead in b.frontier.dead()}


async def test_repair_commits_outcomes_with_all_that_belongs_to_them() -> None:
    async with bench() as b:
        dead = await kill(b, Item("a", payload={"n": 1}), "b", "c")
        assert dead["a"].item.payload == {"n": 1}
        outcomes: list[Any] = [
            dead["a"].item.done(
                result={"ok": 1}, discovered=["new", "b"], facts={"f": [1]}, counters={"n": 2}, lane_counters={"m": 3}
            ),
            dead["b"].item.dead(reason="handler: other", error="x", counters={"n": 1}),
        ]
        await b.frontier.repair(outcomes, outputs=[OutputMove("items", 0, 7)])
        assert [await b.state(key) for key in ("a", "b", "c", "new")] == ["done", "dead", "dead", "ready"]
        assert [(one.reason, one.error, one.attempts) async for one in b.frontier.dead("b")] == [
            ("handler: other", "x", 2)
        ]
        assert [one.key async for one in b.frontier.dead(["c", "a", "nobody", "b"])] == ["c", "b"]
        assert [(item.key, item.result) async for item in b.frontier.results()] == [("a", {"ok": 1})]
        assert await b.frontier.facts("f") == {"f": [1]}
        assert await b.frontier.counters() == {"n": 3}
        assert await b.frontier.outputs() == {"items": 7}
        (event,) = b.seen.of(events.Repaired)
        assert (event.partition, event.done, event.died, event.discovered) == (0, 1, 1, 2)
        assert (await b.frontier.check()).ok


async def test_repair_settles_each_partition_by_itself() -> None:
    async with bench(partitions=4) as b:
        dead = await kill(b, *(Item(f"k{n}", lane=f"lane{n}") for n in range(8)))
        outcomes = [one.item.done() for one in dead.values()]
        with pytest.raises(InvalidOutcome, match="repair each partition separately"):
            await b.frontier.repair(outcomes, outputs=[OutputMove("items", 0, 7)])
        await b.frontier.repair(outcomes)
        assert (await b.frontier.status()).done == 8
        assert len(b.seen.of(events.Repaired)) == len({one.partition for one in dead.values()}) > 1
        await b.frontier.repair([])


async def test_repair_refuses_what_is_not_dead_any_more() -> None:
    async with bench() as b:
        dead = await kill(b, "a", "b")
        await b.frontier.reopen("b")
        with pytest.raises(InvalidOutcome, match="1 of the 2 items to repair are dead"):
            await b.frontier.repair([one.item.done() for one in dead.values()])
        assert await b.state("a") == "dead"


async def test_repair_refuses_outcomes_that_it_cannot_commit() -> None:
    async with bench() as b:
        item = (await kill(b, "a"))["a"].item
        wrong: list[tuple[Any, str]] = [
            (item.retry(), "use item.done"),
            (item.release(), "use item.done"),
            (None, "use item.done"),
            (item.done(revisit_after=1), "a repair is not a visit"),
            (item.done(output=b"x"), "an output or rows"),
            (item.done(rows=[1]), "an output or rows"),
            (item.dead(reason="x", output=b"x"), "an output or rows"),
            (Item("a").done(), "has no position"),
        ]
        for outcome, message in wrong:
            with pytest.raises(InvalidOutcome, match=message):
                await b.frontier.repair([outcome])
        with pytest.raises(swath.UsageError):
            await b.frontier.repair([item.done(discovered=[""])])
        assert await b.state("a") == "dead"
