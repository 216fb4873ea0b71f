"""Lanes that nobody has limited: what they say of themselves, and their order."""

import swath
from swath import Item


async def test_a_lane_without_limits_says_so(any_store: str) -> None:
    async with swath.open(any_store, min_interval=2.0, concurrency=3) as frontier:
        await frontier.add(Item("a", lane="x"))
        lane = await frontier.lane("x")
        assert lane is not None
        assert (lane.blocked_until, lane.overrides, lane.paused, lane.last_at) == (None, frozenset(), False, None)
        assert (lane.min_interval, lane.concurrency, lane.waiting, lane.in_flight) == (2.0, 3, 1, 0)
        assert (lane.visits, dict(lane.counters)) == (0, {})


async def test_new_lanes_are_in_the_order_of_their_first_items(any_store: str) -> None:
    async with swath.open(any_store, partitions=1) as frontier:
        await frontier.add([Item("1", lane="x"), Item("2", lane="y"), Item("3", lane="z"), Item("4", lane="x")])
        assert [lane.lane async for lane in frontier.lanes()] == ["x", "y", "z"]
        claim = await frontier.claim(4)
        assert claim is not None
        assert sorted(item.key for item in claim.items) == ["1", "2", "3", "4"]
        await claim.settle([item.done() for item in claim.items])
