"""`frontier.drop`: which items it chooses, and that none of them is missed while workers go on."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

import swath
from swath import Item
from swath.core import events
from swath.core.store import ADD_CHUNK, RowPage
from tests.bench import Bench, bench


async def list_states(b: Bench, *keys: str) -> dict[str, str]:
    return {key: await b.state(key) for key in keys}


async def test_drop_chooses_by_key_lane_and_function() -> None:
    async with bench(partitions=4) as b:
        items = [Item(f"k{n}", lane=f"lane {n % 3}", payload=n, priority=n % 8) for n in range(12)]
        assert await b.frontier.add(items) == 12
        assert await b.frontier.drop("k0") == 1
        assert await b.frontier.drop(["k0", "k1", "nobody"], lane="lane 1") == 1
        assert await b.frontier.drop(["k2", "k5"], where=lambda item: item.payload == 5) == 1
        assert await b.frontier.drop(lane="lane 0", where=lambda item: item.key != "k3") == 2
        assert await b.frontier.drop(lane="lane 0", reason="enough of it") == 1
        assert await b.frontier.drop(where=lambda item: (item.priority, item.lane) == (7, "lane 1")) == 1
        assert await b.frontier.drop(lane="no such lane") == 0
        assert await b.frontier.lane("no such lane") is None
        done = {item.key: item.result async for item in b.frontier.results()}
        assert done.keys() == {"k0", "k1", "k5", "k3", "k6", "k9", "k7"}
        assert done["k3"] == {"dropped": "enough of it"}
        assert done["k0"] == {"dropped": "by frontier.drop()"}
        assert [event.items for event in b.seen.of(events.Dropped)] == [1, 1, 1, 2, 1, 1, 0]
        assert (await b.frontier.check()).ok


async def test_drop_refuses_to_drop_everything_by_accident() -> None:
    async with bench() as b:
        await b.frontier.add("a")
        wrong: Sequence[dict[str, Any]] = [{}, {"keys": None}, {"lane": ""}, {"keys": [7]}, {"keys": "a", "lane": 7}]
        for options in wrong:
            with pytest.raises(swath.UsageError):
                await b.frontier.drop(**options)
        assert await b.state("a") == "ready"
        assert await b.frontier.drop([]) == 0


async def test_drop_leaves_items_in_flight_to_their_workers() -> None:
    async with bench() as b:
        await b.frontier.add(Item(f"k{n}", lane="lane") for n in range(6))
        claim = await b.frontier.claim(4)
        assert claim is not None
        retried, revisited, flying, released = claim.items
        await claim.settle([retried.retry(after=60), revisited.done(revisit_after=60)])
        assert await b.frontier.drop(lane="lane") == 4
        assert await list_states(b, *(f"k{n}" for n in range(6))) == {
            "k0": "done",
            "k1": "done",
            "k2": "claimed",
            "k3": "claimed",
            "k4": "done",
            "k5": "done",
        }
        await claim.settle([flying.done(), released.release()])
        assert await b.frontier.drop("k2") == 0
        assert await b.frontier.drop("k3") == 1
        assert (await b.frontier.status()).visits == 2


async def test_dropped_items_are_explained_and_re_opened() -> None:
    async with bench() as b:
        await b.frontier.add(Item(f"k{n}", lane="lane") for n in range(4))
        claim = await b.frontier.claim(1)
        assert claim is not None
        await claim.settle([item.done(result={"status": 200}) for item in claim.items])
        assert await b.frontier.drop(lane="lane", reason="not wanted\nany more") == 3
        b.clock.advance(180)
        assert (await b.frontier.explain("k1")).sentence == "k1 was dropped 3 min ago: not wanted\nany more."
        assert (await b.frontier.explain("k0")).sentence.startswith("k0 was done 3 min ago with ")
        assert await b.frontier.reopen_done("k3", result_key="dropped") == 1
        assert await b.frontier.reopen_done(result_key="dropped") == 2
        assert await list_states(b, "k0", "k1", "k2", "k3") == {
            "k0": "done",
            "k1": "ready",
            "k2": "ready",
            "k3": "ready",
        }


async def test_drop_in_a_lane_looks_until_it_finds_nothing() -> None:
    """A delayed item that becomes ready after the ready items were listed is not in the first listing."""
    async with bench() as b:
        await b.frontier.add([Item("early", lane="lane"), Item("late", lane="lane")])

        def hide_one(page: RowPage) -> RowPage:
            first = b.faults.calls["items"] == 1
            return page._replace(rows=[row for row in page.rows if not (first and row.key == "late")])

        b.faults.changed["items"] = hide_one
        assert await b.frontier.drop(lane="lane") == 2
        assert b.faults.calls["items"] == 9  # three states, three times


async def test_drop_by_key_looks_again_if_the_item_moved() -> None:
    """A revisit gets a new position when it becomes ready."""
    async with bench() as b:
        await b.frontier.add("a")
        claim = await b.frontier.claim()
        assert claim is not None
        await claim.settle([claim.items[0].done(revisit_after=1)])
        gate = b.faults.held_up["drop"] = asyncio.Event()
        dropping = asyncio.create_task(b.frontier.drop("a"))
        await b.faults.saw("drop")
        b.clock.advance(2)
        claim = await b.frontier.claim()
        assert claim is not None
        await claim.settle([claim.items[0].release()])
        gate.set()
        assert await dropping == 1
        assert await b.state("a") == "done"


async def test_pending_lists_a_lane_and_revisits() -> None:
    async with bench(partitions=2) as b:
        await b.frontier.add(Item(f"k{n}", lane=f"lane {n % 2}", payload=[n]) for n in range(ADD_CHUNK * 2 + 10))
        claim = await b.frontier.claim(2)
        assert claim is not None
        await claim.settle([item.done(revisit_after=60) for item in claim.items])
        everything = [item async for item in b.frontier.pending(revisits=True)]
        assert len(everything) == ADD_CHUNK * 2 + 10
        assert sum(item.revisit for item in everything) == 2
        assert len([item async for item in b.frontier.pending()]) == ADD_CHUNK * 2 + 8
        for revisits in (False, True):
            lane = [item async for item in b.frontier.pending(lane="lane 1", revisits=revisits)]
            wanted = [item for item in everything if item.lane == "lane 1" and (revisits or not item.revisit)]
            assert sorted(lane, key=lambda item: item.position) == wanted
        assert [item async for item in b.frontier.pending(lane="unknown")] == []
        assert isinstance(everything[0], swath.PendingItem)


async def test_drop_sends_one_page_at_a_time() -> None:
    async with bench() as b:
        await b.frontier.add(Item(f"k{n}", lane="lane") for n in range(ADD_CHUNK * 2 + 1))
        assert await b.frontier.drop(lane="lane") == ADD_CHUNK * 2 + 1
        assert b.faults.calls["drop"] == 3
        assert (await b.frontier.status()).checkpoints[0].position == ADD_CHUNK * 2 + 1
