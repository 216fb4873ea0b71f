"""Listings of items, claims and lanes, on a store in memory."""

import pytest

import swath
from swath import DeadItem, DoneItem, Item, PendingItem
from swath.core.store import ADD_CHUNK
from tests.bench import Bench, bench


async def claim(b: Bench, limit: int = 100) -> swath.Claim:
    found = await b.frontier.claim(limit, lease=30)
    assert found is not None
    return found


async def test_items_come_page_by_page_with_a_cursor() -> None:
    async with bench(partitions=3) as b:
        await b.frontier.add(Item(f"key{n}", lane=f"lane {n % 4}", payload={"n": n}) for n in range(10))
        found: list[str] = []
        after: str | None = None
        while True:
            page = await b.frontier.items(state="ready", after=after, limit=3)
            assert len(page.items) <= 3
            for item in page.items:
                assert isinstance(item, PendingItem)
                assert (item.state, item.payload, item.claim, item.due_at) == (
                    "ready",
                    {"n": int(item.key[3:])},
                    None,
                    None,
                )
            found += [item.key for item in page.items]
            if (after := page.after) is None:
                break
        assert sorted(found) == sorted(f"key{n}" for n in range(10))
        lane = await b.frontier.items(state="ready", lane="lane 2")
        assert ([item.key for item in lane.items], lane.after) == (["key2", "key6"], None)
        assert (await b.frontier.items(state="dead")).items == []


async def test_items_have_the_type_of_their_state() -> None:
    async with bench() as b:
        await b.frontier.add(["done", "dead", "retried", "claimed"])
        held = await claim(b)
        one = {item.key: item for item in held.items}
        await held.settle(
            [
                one["done"].done(result=[1]),
                one["dead"].dead(reason="gone"),
                one["retried"].retry(after=60, reason="busy"),
            ]
        )
        (done,) = (await b.frontier.items(state="done")).items
        (dead,) = (await b.frontier.items(state="dead")).items
        (delayed,) = (await b.frontier.items(state="delayed")).items
        (claimed,) = (await b.frontier.items(state="claimed")).items
        assert isinstance(done, DoneItem)
        assert isinstance(dead, DeadItem)
        assert isinstance(delayed, PendingItem)
        assert isinstance(claimed, PendingItem)
        assert (done.state, done.result, dead.state, dead.reason) == ("done", [1], "dead", "gone")
        assert delayed.due_at is not None
        assert ((delayed.due_at - done.settled_at).total_seconds(), delayed.reason) == (60, "busy")
        (info,) = [info async for info in b.frontier.claims()]
        assert (info.claim, info.items, info.worker) == (claimed.claim, 1, b.frontier.worker)


@pytest.mark.parametrize(
    "wrong",
    [
        {"state": "inbox"},
        {"state": 7},
        {"limit": 0},
        {"limit": 10_001},
        {"limit": True},
        {"lane": ""},
        {"after": "x"},
        {"after": 7},
        {"after": "1/2"},
        {"after": f"0/{2**63}/0"},
        {"after": "٣/1/0"},
    ],
)
async def test_items_refuses_what_is_no_listing(wrong: dict[str, object]) -> None:
    async with bench() as b:
        options: dict[str, object] = {"state": "ready"}
        with pytest.raises(swath.UsageError):
            await b.frontier.items(**options | wrong)  # type: ignore[arg-type]


async def test_claims_say_how_long_their_lease_lasts() -> None:
    async with bench() as b:
        assert [info async for info in b.frontier.claims()] == []
        await b.frontier.add(["a", "b", "c"])
        first = await claim(b, 1)
        b.clock.advance(20)
        await claim(b, 2)
        infos = [info async for info in b.frontier.claims()]
        assert [(round(info.lease_left), info.items) for info in infos] == [(10, 1), (30, 2)]
        b.clock.advance(15)
        assert [round(info.lease_left) async for info in b.frontier.claims()] == [-5, 15]
        await first.settle([first.items[0].done()])
        assert [info.items async for info in b.frontier.claims()] == [2]


async def test_lanes_are_ranked_by_what_waits_or_by_when_they_are_ready() -> None:
    async with bench(partitions=2) as b:
        for name, count in (("few", 1), ("many", 5), ("some", 3), ("paused", 9)):
            await b.frontier.add(Item(f"{name}{n}", lane=name) for n in range(count))
        await b.frontier.limit("empty", concurrency=1)
        await b.frontier.pause("paused")
        for seconds, lane in ((30, "many"), (20, "some"), (10, "few")):
            await b.frontier.block(lane, seconds=seconds)
        ranking = await b.frontier.rank_lanes(by="waiting", limit=3)
        assert [lane.lane for lane in ranking.lanes] == ["paused", "many", "some"]
        assert (ranking.examined, ranking.complete) == (5, True)
        ranking = await b.frontier.rank_lanes(by="ready", limit=2)
        assert [lane.lane for lane in ranking.lanes] == ["few", "some"]
        ranking = await b.frontier.rank_lanes(by="waiting", where=lambda lane: not lane.paused)
        assert [lane.lane for lane in ranking.lanes] == ["many", "some", "few"]
        for wrong in ({"by": "name"}, {"limit": 0}):
            with pytest.raises(swath.InvalidSetting):
                await b.frontier.rank_lanes(**{"by": "ready"} | wrong)


async def test_a_ranking_says_how_many_lanes_it_examined_in_its_time() -> None:
    async with bench() as b:
        await b.frontier.add(Item(f"key{n}", lane=f"lane {n}") for n in range(ADD_CHUNK + 5))
        ranking = await b.frontier.rank_lanes(by="waiting", limit=2, seconds=0)
        assert (len(ranking.lanes), ranking.examined, ranking.complete) == (2, ADD_CHUNK, False)
        ranking = await b.frontier.rank_lanes(by="waiting", limit=2, seconds=1_000)
        assert (ranking.examined, ranking.complete) == (ADD_CHUNK + 5, True)
