"""Check a store: count its rows and compare them with the counters and checkpoints that it keeps."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from swath.core.store import ADD_CHUNK, PartitionStatus, Store

MAX_ROUNDS = 5  # attempts to count a partition that other processes are changing
COUNTERS = (
    "ready", "delayed", "claimed", "done", "visits", "dead", "lanes", "inbox", "checkpoint", "checkpoint_dead", "end"
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One contradiction in a partition, such as a counter that differs from the rows."""

    partition: int
    text: str


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The result of `Frontier.check`.

    `skipped` lists the partitions that changed during every attempt to count them.
    """

    partitions: int
    items: int
    mismatches: Sequence[Mismatch] = ()
    skipped: Sequence[int] = ()

    @property
    def ok(self) -> bool:
        return not self.mismatches


class LaneTotals(NamedTuple):
    """Sums over the lanes of one partition."""

    waiting: int = 0
    in_flight: int = 0


async def check_store(store: Store) -> CheckReport:
    """Compare the counters of each partition with its rows. Try again if a partition changes during the count."""
    remaining = set(range(store.settings.partitions))
    mismatches: list[Mismatch] = []
    items = 0
    for _ in range(MAX_ROUNDS):
        before = _index_by_number((await store.status()).partitions)
        counted = _index_by_number(await store.recount())
        lanes = await _sum_lanes(store)
        after = _index_by_number((await store.status()).partitions)
        for number in sorted(remaining):
            if _ignore_time(before[number]) == _ignore_time(after[number]):
                remaining.discard(number)
                items += _count_items(counted[number])
                mismatches += compare(after[number], counted[number], lanes.get(number, LaneTotals()))
        if not remaining:
            break
    return CheckReport(store.settings.partitions, items, mismatches, sorted(remaining))


def compare(kept: PartitionStatus, counted: PartitionStatus, lanes: LaneTotals) -> Iterator[Mismatch]:
    """Yield every contradiction between the counters that a partition keeps and its rows."""

    def mismatch(text: str) -> Mismatch:
        return Mismatch(kept.partition, text)

    for name in COUNTERS:
        if (value := getattr(kept, name)) != (rows := getattr(counted, name)):
            yield mismatch(f"{name} is {value:,}, but the rows add up to {rows:,}")
    if lanes.waiting != counted.ready:
        yield mismatch(f"{lanes.waiting:,} items wait according to the lanes, {counted.ready:,} according to the rows")
    if lanes.in_flight != counted.claimed:
        yield mismatch(
            f"{lanes.in_flight:,} items are in flight according to the lanes, {counted.claimed:,} according to the rows"
        )
    if not 0 <= kept.checkpoint <= kept.end:
        yield mismatch(f"INV-6: the checkpoint {kept.checkpoint:,} is not between 0 and the end, {kept.end:,}")
    if not (counted.ready or counted.delayed or counted.claimed) and kept.checkpoint != kept.end:
        yield mismatch(
            f"INV-6: every item is settled, but the checkpoint {kept.checkpoint:,} is not at the end, {kept.end:,}"
        )
    if kept.checkpoint_dead > kept.dead:
        yield mismatch(
            f"INV-6: {kept.checkpoint_dead:,} items are dead up to the checkpoint, but only {kept.dead:,} in total"
        )
    if (items := _count_items(counted)) > kept.end:
        yield mismatch(f"INV-4: {items:,} items share {kept.end:,} positions")


async def _sum_lanes(store: Store) -> Mapping[int, LaneTotals]:
    totals: dict[int, LaneTotals] = {}
    after: tuple[int, int] | None = None
    while page := await store.lanes(after=after, limit=ADD_CHUNK):
        after = (page[-1][1].partition, page[-1][0])
        for _, lane in page:
            total = totals.get(lane.partition, LaneTotals())
            totals[lane.partition] = LaneTotals(total.waiting + lane.waiting, total.in_flight + lane.in_flight)
    return totals


def _index_by_number(partitions: Sequence[PartitionStatus]) -> dict[int, PartitionStatus]:
    return {part.partition: part for part in partitions}


def _ignore_time(part: PartitionStatus) -> PartitionStatus:
    return part._replace(next_ready_at=None)


def _count_items(part: PartitionStatus) -> int:
    return part.ready + part.delayed + part.claimed + part.done + part.dead
