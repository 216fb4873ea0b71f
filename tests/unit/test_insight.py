"""What `explain` says, sentence by sentence, on the clock of the test: it begins at 13:46:40 on 12 January 1970."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import NamedTuple

import pytest_asyncio

import swath
from swath import Claim, Frontier, Item
from swath.core.clock import ManualClock, as_datetime
from swath.core.store import AHEAD_LIMIT


class Desk(NamedTuple):
    """A frontier to ask, and its clock."""

    frontier: Frontier
    clock: ManualClock

    async def says(self, key: str, *, lane: str | None = None) -> str:
        explanation = await self.frontier.explain(key, lane=lane)
        assert str(explanation) == explanation.sentence
        return explanation.sentence

    async def claim(self, limit: int = 100, *, lease: float = 60) -> Claim:
        claim = await self.frontier.claim(limit, lease=lease)
        assert claim is not None
        return claim


@pytest_asyncio.fixture
async def desk(any_store: str) -> AsyncIterator[Desk]:
    clock = ManualClock()
    async with swath.open(any_store, partitions=1, worker="wanda", clock=clock) as frontier:
        yield Desk(frontier, clock)


async def test_never_added(desk: Desk) -> None:
    await desk.frontier.add(Item("a", lane="x"))
    assert await desk.says("b") == "b was never added."
    assert await desk.says("a", lane="y") == "a was never added to lane y. It is in lane x."
    assert await desk.says("b", lane="y") == "b was never added to lane y."


async def test_ready_behind_others(desk: Desk) -> None:
    await desk.frontier.add(["a", "b", "c", Item("elsewhere", lane="y"), Item("urgent", priority=7)])
    assert await desk.says("urgent") == "urgent is waiting behind no other in lane default, which is ready."
    assert await desk.says("elsewhere") == "elsewhere is waiting behind no other in lane y, which is ready."
    assert await desk.says("a") == "a is waiting behind 1 in lane default, which is ready."
    assert await desk.says("c") == "c is waiting behind 3 in lane default, which is ready."


async def test_others_are_counted_up_to_a_thousand(desk: Desk) -> None:
    await desk.frontier.add(f"k{n}" for n in range(AHEAD_LIMIT + 2))
    assert await desk.says("k999") == "k999 is waiting behind 999 in lane default, which is ready."
    assert await desk.says("k1001") == "k1001 is waiting behind 1,000 or more in lane default, which is ready."


async def test_ready_in_a_lane_that_is_paused(desk: Desk) -> None:
    await desk.frontier.add(Item("a", lane="x"))
    await desk.frontier.pause("x")
    assert await desk.says("a") == "a is waiting behind no other in lane x, which is paused."


async def test_ready_in_a_frontier_that_is_paused(desk: Desk) -> None:
    """Said of what could be started otherwise, and of nothing else."""
    await desk.frontier.add(["a", "b"])
    await desk.claim(1)
    desk.clock.advance(1)
    await desk.frontier.pause()
    b = "b is waiting behind no other in lane default, which is ready."
    assert await desk.says("b") == f"{b} The frontier is paused."
    assert await desk.says("a") == "a is being worked on by wanda, whose lease ends in 59.0 s."
    await desk.frontier.resume()
    assert await desk.says("b") == b


async def test_ready_in_a_lane_at_its_limit(desk: Desk) -> None:
    await desk.frontier.limit("x", concurrency=2)
    await desk.frontier.add(Item(key, lane="x") for key in "abc")
    await desk.claim()
    assert await desk.says("c") == "c is waiting behind no other in lane x, which has 2 in flight, its limit."


async def test_ready_in_a_lane_that_waits_for_its_interval(desk: Desk) -> None:
    await desk.frontier.limit("x", min_interval=90, concurrency=1)
    await desk.frontier.add(Item(key, lane="x") for key in "ab")
    claim = await desk.claim()
    await claim.settle([claim.items[0].done()])
    b = "b is waiting behind no other in lane x, which is ready"
    assert await desk.says("b") == f"{b} at 1970-01-12 13:48:10 UTC, in 90.0 s."
    desk.clock.advance(30)
    assert await desk.says("b") == f"{b} at 1970-01-12 13:48:10 UTC, in 60.0 s."
    desk.clock.advance(61)
    assert await desk.says("b") == f"{b}. It has waited for 91.0 s, since 1970-01-12 13:46:40 UTC."
    data = (await desk.frontier.explain("b")).data
    assert data["waiting_since"].startswith("1970-01-12T13:46:40")


async def test_the_age_of_the_oldest_unsettled_item(desk: Desk) -> None:
    async def read_lag() -> float | None:
        status = await desk.frontier.status()
        assert status.partitions[0].lag_seconds == status.lag_seconds
        return None if status.lag_seconds is None else round(status.lag_seconds)

    assert await read_lag() is None
    await desk.frontier.add("a")
    assert await read_lag() == 0
    desk.clock.advance(100)
    assert await read_lag() == 100
    await desk.frontier.add("b")
    desk.clock.advance(50)
    assert await read_lag() == 150
    claim = await desk.claim(1)
    await claim.settle([claim.items[0].done()])
    assert await read_lag() == 50
    claim = await desk.claim(1)
    assert "waiting_since" in (await desk.frontier.explain("b")).data
    await claim.settle([claim.items[0].done(revisit_after=9)])
    assert await read_lag() is None
    assert "waiting_since" not in (await desk.frontier.explain("b")).data


async def test_ready_in_a_lane_that_is_blocked(desk: Desk) -> None:
    await desk.frontier.add(Item("a", lane="x"))
    await desk.frontier.block("x", seconds=3 * 3_600)
    assert await desk.says("a") == (
        "a is waiting behind no other in lane x, which is blocked until 1970-01-12 16:46:40 UTC, in 3 h."
    )


async def test_delayed_from_the_start(desk: Desk) -> None:
    later = as_datetime(desk.clock.now()) + timedelta(days=2)
    await desk.frontier.add(Item("a", not_before=later))
    a = "a is not to be started before 1970-01-14 13:46:40 UTC"
    assert await desk.says("a") == f"{a}, in 2 d."
    desk.clock.advance(2 * 86_400 - 125)
    assert await desk.says("a") == f"{a}, in 2 min."
    desk.clock.advance(200)
    assert await desk.says("a") == f"{a}, with the next claim."


async def test_delayed_by_a_retry(desk: Desk) -> None:
    await desk.frontier.add("a")
    for count, reason in [("1 attempt", "busy"), ("2 attempts", "HTTP 503")]:
        claim = await desk.claim()
        await claim.settle([claim.items[0].retry(after=20, reason=reason)])
        assert await desk.says("a") == f"a failed {count} ({reason}) and is tried again in 20.0 s."
        desk.clock.advance(21)
        assert await desk.says("a") == f"a failed {count} ({reason}) and is tried again with the next claim."


async def test_delayed_until_it_is_visited_again(desk: Desk) -> None:
    await desk.frontier.add("a")
    claim = await desk.claim()
    await claim.settle([claim.items[0].done(revisit_after=3_600)])
    desk.clock.advance(600)
    assert await desk.says("a") == "a was done 10 min ago and is visited again in 50 min."


async def test_delayed_by_a_release(desk: Desk) -> None:
    """That a worker was lost before is no failure of the item."""
    await desk.frontier.add("a")
    await desk.claim(lease=1)
    desk.clock.advance(2)
    claim = await desk.claim()
    await claim.settle([claim.items[0].release(after=60)])
    assert await desk.says("a") == "a is not to be started before 1970-01-12 13:47:42 UTC, in 60.0 s."


async def test_delayed_where_nothing_is_started(desk: Desk) -> None:
    """In a lane, or a frontier, that is paused."""
    await desk.frontier.add(Item(key, lane="x") for key in "ab")
    claim = await desk.claim()
    a, b = claim.items
    await claim.settle([a.done(revisit_after=60), b.retry(after=60, reason="busy")])
    await desk.frontier.pause("x")
    desk.clock.advance(61)
    a_says = "a was done 61.0 s ago and is visited again with the next claim. Lane x is paused."
    b_says = "b failed 1 attempt (busy) and is tried again with the next claim. Lane x is paused."
    assert [await desk.says(key) for key in "ab"] == [a_says, b_says]
    await desk.frontier.pause()
    paused = " The frontier is paused."
    assert [await desk.says(key) for key in "ab"] == [a_says + paused, b_says + paused]


async def test_claimed_by_whom_and_until_when(desk: Desk) -> None:
    await desk.frontier.add("a")
    await desk.claim(lease=90)
    assert await desk.says("a") == "a is being worked on by wanda, whose lease ends in 90.0 s."
    desk.clock.advance(100)
    assert await desk.says("a") == (
        "a was being worked on by wanda, whose lease ended 10.0 s ago: the next claim takes it back."
    )


async def test_done_when_and_with_what(desk: Desk) -> None:
    await desk.frontier.add(["a", "b"])
    claim = await desk.claim()
    a, b = claim.items
    await claim.settle([a.done(), b.done(result={"size": 1})])
    desk.clock.advance(5)
    assert await desk.says("a") == "a was done 5.0 s ago."
    assert await desk.says("b") == 'b was done 5.0 s ago with {"size":1}.'
    desk.clock.advance(3 * 86_400)
    assert await desk.says("a") == "a was done 3 d ago."


async def test_dead_since_when_and_why(desk: Desk) -> None:
    await desk.frontier.configure(max_attempts=2)
    await desk.frontier.add(["a", "b"])
    claim = await desk.claim()
    a, b = claim.items
    await claim.settle([a.dead(reason="HTTP 410"), b.retry(after=20, reason="busy")])
    desk.clock.advance(21)
    claim = await desk.claim()
    await claim.settle([claim.items[0].retry(reason="busy")])
    desk.clock.advance(60)
    assert await desk.says("a") == "a is dead since 1970-01-12 13:46:40 UTC: HTTP 410."
    assert await desk.says("b") == "b is dead since 1970-01-12 13:47:01 UTC: gave up after 2 attempts: busy."


async def test_in_several_lanes(desk: Desk) -> None:
    """The sentence is about the first, unless a lane is named."""
    await desk.frontier.add(Item("a", lane=lane) for lane in "xyz")
    await desk.frontier.pause("y")
    assert await desk.says("a") == (
        "a is waiting behind no other in lane x, which is ready. The same key is also in lane y, z."
    )
    assert await desk.says("a", lane="y") == "a is waiting behind no other in lane y, which is paused."
