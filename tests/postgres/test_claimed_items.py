"""The items of a claim whose reply was lost come as in the reply."""

from typing import cast

import swath
from swath import Item
from swath.backends.postgres.store import PostgresStore


async def test_items_that_are_read_later_come_by_priority_and_position(database: str) -> None:
    async with swath.open(database, partitions=1) as frontier:
        items = [Item(f"{n}", lane=f"lane {n % 3}", priority=priority) for n, priority in enumerate((1, 7, 3, 7, 1, 3))]
        await frontier.add(items)
        claim = await frontier.claim(6)
        assert claim is not None
        store = cast(PostgresStore, frontier._store)
        read = await store._read_claimed_items(0, claim.fence)
        assert [(item.key, item.priority) for item in read] == [
            ("1", 7), ("3", 7), ("2", 3), ("5", 3), ("0", 1), ("4", 1),
        ]  # fmt: skip
        assert sorted(item.key for item in read) == sorted(item.key for item in claim.items)
