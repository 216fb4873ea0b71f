"""Lanes: where an item belongs, and when its lane may start another (INV-3).

Everything here is a pure function of values, so that the memory store and SQLite share it and PostgreSQL's
`place_lane` can be held to it.
"""

from hashlib import blake2b
from typing import NamedTuple

from swath.core.item import LEVELS

HASH_BYTES = 20
KEY_HASH_BYTES = 16  # the rest is the lane's, so that a key can be looked up without knowing its lane

RETURNED = 0
FRESH = 1


def address(lane: str, partitions: int) -> tuple[int, bytes]:
    """The partition of a lane, and the lane's part of its items' hashes."""
    number, lane_hash = whereabouts(lane)
    return number % partitions, lane_hash


def whereabouts(lane: str) -> tuple[int, bytes]:
    """A number that picks the partition of a lane, of however many, and the lane's part of its items' hashes."""
    digest = blake2b(lane.encode(), digest_size=16).digest()
    return int.from_bytes(digest[:8], "big"), digest[8 : 8 + HASH_BYTES - KEY_HASH_BYTES]


def key_hash(key: str) -> bytes:
    return blake2b(key.encode(), digest_size=KEY_HASH_BYTES).digest()


def rank_of(priority: int, band: int) -> int:
    """The order of an item within its lane: higher priorities first, and among equals what was claimed before."""
    return (LEVELS - 1 - priority) * 2 + band


def level_of(rank: int) -> int:
    """The priority that a rank belongs to."""
    return LEVELS - 1 - rank // 2


class Pacing(NamedTuple):
    """The limits in force for one lane. `concurrency` 0 means no limit."""

    min_interval: int
    concurrency: int


class LaneLimits(NamedTuple):
    """What somebody set on a lane. None: the frontier's default."""

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
    """The first moment at which this lane may start an item. `last_at` is its last settlement, or its last start
    where several may be in flight; 0 when there was none."""
    if last_at and pacing.min_interval:
        return max(blocked_until, last_at + pacing.min_interval)
    return blocked_until


def room(pacing: Pacing, in_flight: int, limit: int) -> int:
    """How many items a lane that is ready may start at once, up to `limit`."""
    free = limit if pacing.concurrency == 0 else pacing.concurrency - in_flight
    most = 1 if pacing.min_interval else limit
    return 0 if free < 0 else free if free < most else most  # for every lane: min() and max() cost three times this


def starts_count(pacing: Pacing) -> bool:
    """Whether the interval runs from the last start; with one at a time it runs from the last settlement."""
    return pacing.concurrency != 1


def starts_begin_to_count(before: Pacing, after: Pacing) -> bool:
    """Whether a change of limits makes starts count that were not written down: what is in flight counts as started
    with the change."""
    return not starts_count(before) and starts_count(after)


def low_share(limit: int, claims_made: int) -> int:
    """How many items of a claim go to the lowest levels first: one in ten, also over claims of one item."""
    return limit // 10 + (claims_made % 10 < limit % 10)
