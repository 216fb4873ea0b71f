"""The floor: the same rows moved by bare SQL over the same driver, with no library around.

It is as naive as it likes in policy: one priority, one item a lane, no fairness, no checkpoint, no take-over. But it
moves the same rows between the same tables with the same indexes, writes the same counters, and makes the same two
commits a batch. What a library does beyond that is what it costs.
"""

from collections.abc import Sequence
from functools import cache
from hashlib import blake2b
from typing import Any, NamedTuple, Protocol

from benchmarks.work import Link
from swath.core.lane import locate_lane

LEASE = 60_000_000


class Counted(NamedTuple):
    items: int
    links: int


class Held(NamedTuple):
    """A claim of the floor: its number of items, and what the floor needs to settle it."""

    items: int
    claim: Any


class Floor(Protocol):
    def cycle(self, batch: int, *, links: bool) -> Counted:
        """Claim a batch and settle it, with the links of its pages if `links` is set."""
        ...

    async def cycle_in_loop(self, batch: int, *, links: bool) -> Counted:
        """Do the same from an event loop, without blocking it."""
        ...

    async def claim_in_loop(self, batch: int) -> Held:
        """Claim a batch. Several coroutines may do so at the same time."""
        ...

    async def settle_in_loop(self, held: Held) -> None: ...

    async def close(self) -> None: ...


class Arrival(NamedTuple):
    partition: int
    hash: bytes
    key: str
    lane: str


@cache
def _address(lane: str, partitions: int) -> tuple[int, bytes]:
    return locate_lane(lane, partitions)


def hash_links(links: Sequence[Link], partitions: int) -> list[Arrival]:
    """Return the links with their hashes, without duplicates."""
    found = {}
    for key, lane in links:
        partition, lane_hash = _address(lane, partitions)
        digest = blake2b(key.encode(), digest_size=16).digest() + lane_hash
        found[digest] = Arrival(partition, digest, key, lane)
    return list(found.values())
