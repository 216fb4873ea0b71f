"""The reply of a claim: a column in which every item has the usual value is left out, and none is the worse for it."""

from typing import Any

import pytest

from swath.core.item import Item
from swath.core.store import Settings
from swath.frontier import Frontier
from tests.postgres.site import Site

UNUSUAL: list[dict[str, Any]] = [{"payload": {"n": 1}}, {"span": 4}, {"payload": "x", "span": 2}]


@pytest.mark.parametrize("unusual", range(8))
async def test_what_is_unusual_at_one_priority_is_told_of_its_items_alone(site: Site, unusual: int) -> None:
    frontier = Frontier(await site.store(Settings(3)))
    added = [
        Item(f"key{n}", lane=f"lane{n % 7}", priority=n % 8, **(UNUSUAL[n % 3] if n % 8 == unusual else {}))
        for n in range(96)
    ]
    await frontier.add(added)
    claim = await frontier.claim(96)
    assert claim is not None
    found = {item.key: item for item in claim.items}
    assert len(found) == 96
    for item in added:
        same = found[item.key]
        assert (same.lane, same.priority, same.payload, same.span) == (
            item.lane,
            item.priority,
            item.payload,
            item.span,
        )
        assert (same.attempts, same.losses) == (0, 0)


async def test_how_many_are_beside_an_item_is_counted_within_its_lane(site: Site) -> None:
    """Also where a lane gives items of two priorities, one after the other."""
    frontier = Frontier(await site.store(Settings(1)))
    await frontier.add(Item(f"{lane}{n}", lane=lane, priority=5 - n // 2) for lane in "ab" for n in range(4))
    claim = await frontier.claim(7)
    assert claim is not None
    beside = {item.key: item.lane_in_flight for item in claim.items}
    assert len(beside) == 7
    for lane in "ab":
        numbers = [count for key, count in beside.items() if key.startswith(lane)]
        assert sorted(numbers) == list(range(len(numbers)))
