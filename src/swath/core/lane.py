"""Lanes: the partition of a lane, and the time at which it may start its next item (INV-3).

Everything here is a pure function. The memory store and SQLite use it, and tests compare PostgreSQL's stored functions
with it.
"""

from hashlib import blake2b
from typing import NamedTuple

from swath.core.item import LEVELS

HASH_BYTES = 20
KEY_HASH_BYTES = 16  # the first bytes of an item's hash; the others are of its lane, so a key is found without it

RETURNED = 0
FRESH = 1


def locate_lane(lane: str, partitions: int) -> tuple[int, bytes]:
    """Return the partition of a lane, and the lane's part of an item's hash."""
    number, lane_hash = hash_lane(lane)
    return number % partitions, lane_hash


def hash_lane(lane: str) -> tuple[int, bytes]:
    """Return a number that determines the lane's partition, and the lane's part of an item's hash."""
    digest = blake2b(lane.encode(), digest_size=16).digest()
    return int.from_bytes(digest[:8], "big"), digest[8 : 8 + HASH_BYTES - KEY_HASH_BYTES]


def hash_key(key: str) -> bytes:
    return blake2b(key.encode(), digest_size=KEY_HASH_BYTES).digest()


def rank_of(priority: int, band: int) -> int:
    """Return the order of an item in its lane: higher priorities first, then items that were claimed before."""
    return (LEVELS - 1 - priority) * 2 + band


def level_of(rank: int) -> int:
    """Return the priority of a rank."""
    return LEVELS - 1 - rank // 2


class Pacing(NamedTuple):
    """The limits in force for a lane. `concurrency` 0 means no limit."""

    min_interval: int
    concurrency: int


class LaneLimits(NamedTuple):
    """The limits that were set on a lane. None: the default of the frontier."""

    min_interval: int | None = None
    concurrency: int | None = None
    paused: bool = False
    blocked_until: int = 0

    def pacing(self, default: Pacing) -> Pacing:
        return Pacing(
            default.min_interval if self.min_interval is None else self.min_interval,
            default.concurrency if self.concurrency is None else self.concurrency,
        )


NO_LIMITS = LaneLimits()


def earliest_start(pacing: Pacing, blocked_until: int, last_at: int) -> int:
    """Return the first time at which a lane may start an item.

    `last_at` is its last settlement if concurrency is 1, and otherwise its last start; 0 if there was none.
    """
    if last_at and pacing.min_interval:
        return max(blocked_until, last_at + pacing.min_interval)
    return blocked_until


def count_startable(pacing: Pacing, in_flight: int, limit: int) -> int:
    """Return how many items a ready lane may start now, up to `limit`."""
    free = limit if pacing.concurrency == 0 else pacing.concurrency - in_flight
    most = 1 if pacing.min_interval else limit
    return (
        0 if free < 0 else free if free < most else most
    )  # called for every lane: min() and max() take three times as long


def starts_count(pacing: Pacing) -> bool:
    """Return whether the interval runs from the last start. With a concurrency of 1 it runs from the settlement."""
    return pacing.concurrency != 1


def starts_begin_to_count(before: Pacing, after: Pacing) -> bool:
    """Return whether a change of limits makes the interval run from the start instead of the settlement.

    Earlier starts were not recorded, so items in flight count as started at the time of the change.
    """
    return not starts_count(before) and starts_count(after)


def compute_low_share(limit: int, claims_made: int) -> int:
    """Return how many items of a claim to take from the lowest priorities first: one in ten.

    `claims_made` spreads the share over several claims if each takes fewer than ten items.
    """
    return limit // 10 + (claims_made % 10 < limit % 10)
