"""The replies of the stored functions: the names of their columns, and the items that a claim's arrays hold."""

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, groupby, repeat
from typing import Any, NamedTuple

from swath.core.counters import NO_COUNTERS, Counters
from swath.core.item import Item


class ClaimReplyRow(NamedTuple):
    """The reply of `claim`. The columns from `partitions` on hold the items, unless they are too many for one reply.

    `partitions`, `priorities` and `counts` are run-length encoded: a run is `counts` items of one partition and one
    priority. From `payloads` on, a column is None if all items have its default value.
    """

    now: int
    fence: int
    expires_at: int | None
    next_ready_at: int | None
    skipped: Sequence[int]
    recovered: int
    died: int
    paused: bool
    signal_version: int
    min_interval: int
    concurrency: int
    max_attempts: int
    versions: Sequence[int]
    starts_count: bool
    partitions: Sequence[int] | None
    priorities: Sequence[int]
    counts: Sequence[int]
    positions: Sequence[int]
    lanes: Sequence[str]
    keys: Sequence[str]
    visits: Sequence[int]
    payloads: Sequence[str | None] | None
    attempts: Sequence[int] | None
    losses: Sequence[int] | None
    spans: Sequence[int] | None
    lane_in_flights: Sequence[int] | None
    lane_counters: Sequence[str | None] | None


class FoundClaimRow(NamedTuple):
    """The reply of `find_claim`."""

    now: int
    fence: int
    expires_at: int | None
    paused: bool
    signal_version: int


class ClaimedItemsRow(NamedTuple):
    """The reply of `claimed_items`: one array per column, None if the claim holds nothing."""

    partitions: Sequence[int] | None
    positions: Sequence[int]
    lanes: Sequence[str]
    priorities: Sequence[int]
    keys: Sequence[str]
    payloads: Sequence[str | None]
    attempts: Sequence[int]
    spans: Sequence[int]
    losses: Sequence[int]
    visits: Sequence[int]
    lane_in_flights: Sequence[int]
    lane_counters: Sequence[str | None] | None


class SettleReplyRow(NamedTuple):
    """The reply of `settle`."""

    now: int
    discovered: int
    checkpoint: int
    version: int


SCALAR = ("reply",)  # the column name of a function that returns one value

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "add": SCALAR,
    "claim": ClaimReplyRow._fields,
    "find_claim": FoundClaimRow._fields,
    "claimed_items": ClaimedItemsRow._fields,
    "renew": SCALAR,
    "settle": SettleReplyRow._fields,
    "drop": SCALAR,
    "empty_inbox": SCALAR,
    "learn": SCALAR,
    "audit_change": SCALAR,
    "change_lane": SCALAR,
    "change_settings": SCALAR,
    "requeue_lanes": SCALAR,
    "reopen": SCALAR,
}


def read_claimed(row: ClaimReplyRow) -> list[Item]:
    """Build the items of a claim from the runs and arrays of its reply."""
    keys, lanes = row.keys, row.lanes
    count = len(keys)
    assert row.partitions is not None
    in_flight = [0] * count if row.lane_in_flights is None else row.lane_in_flights
    return _build_items(
        partitions=chain.from_iterable(map(repeat, row.partitions, row.counts)),
        positions=row.positions,
        lanes=lanes,
        priorities=chain.from_iterable(map(repeat, row.priorities, row.counts)),
        keys=keys,
        payloads=[None] * count if row.payloads is None else row.payloads,
        attempts=[0] * count if row.attempts is None else row.attempts,
        spans=[1] * count if row.spans is None else row.spans,
        losses=[0] * count if row.losses is None else row.losses,
        visits=row.visits,
        lane_in_flights=in_flight if len(set(lanes)) == count else _count_in_flight(lanes, in_flight),
        lane_counters=read_lane_counters(row.lane_counters, count),
    )


def read_claimed_items(row: ClaimedItemsRow) -> list[Item]:
    """Build the items of a claim that was too large for its reply."""
    if row.partitions is None:
        return []
    counters = read_lane_counters(row.lane_counters, len(row.keys))
    return _build_items(**{**row._asdict(), "lane_counters": counters})


def read_counters(text: str | Mapping[str, int] | None) -> Counters:
    """Build the counters of a lane from JSON, as text or decoded."""
    if not text:
        return NO_COUNTERS
    return Counters(json.loads(text) if isinstance(text, str) else text)


def read_lane_counters(texts: Sequence[str | None] | None, count: int) -> Iterable[Counters]:
    """Build the counters of each item's lane. Items of one lane share one object."""
    if texts is None:
        return repeat(NO_COUNTERS, count)
    known: dict[str | None, Counters] = {text: read_counters(text) for text in set(texts)}
    return [known[text] for text in texts]


def _count_in_flight(lanes: Sequence[str], before: Sequence[int]) -> Iterable[int]:
    """Return how many items of its lane were in flight before each item, including those of the claim."""
    for (_, first), items in groupby(zip(lanes, before, strict=True)):
        yield from range(first, first + sum(1 for _ in items))


def _build_items(
    *,
    partitions: Iterable[int],
    positions: Iterable[int],
    lanes: Iterable[str],
    priorities: Iterable[int],
    keys: Sequence[str],
    payloads: Iterable[str | None],
    attempts: Iterable[int],
    spans: Iterable[int],
    losses: Iterable[int],
    visits: Iterable[int],
    lane_in_flights: Iterable[int],
    lane_counters: Iterable[Counters],
) -> list[Item]:
    """Build many items at once. `Item(…)` binds arguments by name, which takes three times as long."""
    columns: tuple[Iterable[Any], ...] = (
        keys,
        lanes,
        priorities,
        payloads,
        repeat(None, len(keys)),
        spans,
        attempts,
        losses,
        visits,
        lane_in_flights,
        partitions,
        positions,
        lane_counters,
    )
    return list(map(tuple.__new__, repeat(Item), zip(*columns, strict=True)))
