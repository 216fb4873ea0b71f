"""The plan of a loaded frontier, for both stores: lanes in their partitions, all ready, with equally many items.

The items are written directly into the tables, because adding ten million of them would take an hour. `check` compares
the result with the store's own count of its rows.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import swath
from benchmarks.settings import ITEMS_PER_LANE
from benchmarks.work import lane_name
from swath.core.clock import SECOND
from swath.core.item import DEFAULT_PRIORITY
from swath.core.lane import FRESH, locate_lane, rank_of

LEVEL = DEFAULT_PRIORITY
RANK = rank_of(DEFAULT_PRIORITY, FRESH)
A_DAY = 86_400 * SECOND


@dataclass(frozen=True, slots=True)
class PlannedLane:
    number: int  # in its partition, from 1
    name: str
    hash: bytes  # the lane's part of its items' hashes
    ready_at: int


@dataclass(frozen=True, slots=True)
class Plan:
    """Partitions with their lanes. Item `n` of lane `l` of a partition has the position (n - 1) * lanes + l."""

    partitions: Sequence[Sequence[PlannedLane]]

    @property
    def items(self) -> int:
        return sum(map(len, self.partitions)) * ITEMS_PER_LANE


def make_plan(items: int, partitions: int) -> Plan:
    planned: list[list[PlannedLane]] = [[] for _ in range(partitions)]
    lanes = max(1, items // ITEMS_PER_LANE)
    start = time.time_ns() // 1_000 - lanes - SECOND
    for index in range(lanes):
        name = lane_name(index)
        partition, lane_hash = locate_lane(name, partitions)
        there = planned[partition]
        there.append(PlannedLane(len(there) + 1, name, lane_hash, start + index))
    return Plan(planned)


async def create(url: str, *, partitions: int) -> None:
    """Create an empty frontier with a concurrency of 1, like that of a crawler."""
    async with swath.open(url, partitions=partitions, concurrency=1):
        pass


async def check(url: str, expected: int) -> None:
    """Raise RuntimeError unless the counters match the rows and the expected number."""
    async with swath.open(url, create=False) as frontier:
        store = frontier._store
        counted, kept = await store.recount(), (await store.status()).partitions
    if list(counted) != list(kept):
        wrong = next((one, other) for one, other in zip(counted, kept, strict=True) if one != other)
        raise RuntimeError(f"{url} was loaded incorrectly: the rows add up to {wrong[0]}, the counters are {wrong[1]}")
    ready = sum(part.ready for part in kept)
    if ready != expected:
        raise RuntimeError(f"{url} was loaded incorrectly: {ready:,} items are ready instead of {expected:,}")
