"""What can be seen of the promises from outside: counters against rows, checkpoints against what is settled."""

from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from swath.cli.formatting import pluralize
from swath.core.store import PartitionStatus
from swath.frontier import Frontier

TRIES = 5  # looks at a partition that somebody works on
COUNTED = (
    "ready", "delayed", "claimed", "done", "visits", "dead", "lanes", "inbox", "checkpoint", "checkpoint_dead", "end"
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Finding:
    partition: int
    text: str


@dataclass(frozen=True, slots=True)
class LaneSums:
    """What the lanes of a partition say together."""

    waiting: int = 0
    in_flight: int = 0


@dataclass(frozen=True, slots=True)
class Report:
    partitions: int
    items: int
    findings: list[Finding] = field(default_factory=list)
    moving: list[int] = field(default_factory=list)  # partitions that did not hold still

    def summary(self) -> str:
        if self.findings:
            differences = pluralize(len(self.findings), "difference")
            return f"{differences} in {pluralize(self.partitions, 'partition')}: please report this"
        held = pluralize(self.partitions - len(self.moving), "partition")
        moving = pluralize(len(self.moving), "partition")
        rest = f"; {moving} did not hold still, swath pause sees to that" if self.moving else ""
        return f"ok: {pluralize(self.items, 'item')} in {held}, as counted{rest}"

    def as_json(self) -> dict[str, Any]:
        return {
            "ok": not self.findings,
            "partitions": self.partitions,
            "items": self.items,
            "moving": self.moving,
            "findings": [{"partition": finding.partition, "text": finding.text} for finding in self.findings],
        }


async def check(frontier: Frontier) -> Report:
    """Compare, partition by partition, what held still while it was counted."""
    open_ones = set(range(frontier._store.settings.partitions))
    findings: list[Finding] = []
    items = 0
    for _ in range(TRIES):
        before = _by_number((await frontier._store.status()).partitions)
        counted = _by_number(await frontier._store.recount())
        lanes = await _lane_sums(frontier)
        after = _by_number((await frontier._store.status()).partitions)
        for number in sorted(open_ones):
            if _still(before[number]) == _still(after[number]):
                open_ones.discard(number)
                items += _items(counted[number])
                findings += compare(after[number], counted[number], lanes.get(number, LaneSums()))
        if not open_ones:
            break
    return Report(frontier._store.settings.partitions, items, findings, sorted(open_ones))


def compare(kept: PartitionStatus, counted: PartitionStatus, lanes: LaneSums) -> Iterator[Finding]:
    """Everything that is wrong with a partition that held still."""

    def found(text: str) -> Finding:
        return Finding(kept.partition, text)

    for name in COUNTED:
        if (says := getattr(kept, name)) != (rows := getattr(counted, name)):
            yield found(f"{name} says {says:,}, the rows say {rows:,}")
    if lanes.waiting != counted.ready:
        yield found(f"its lanes have {lanes.waiting:,} waiting, the rows say {counted.ready:,}")
    if lanes.in_flight != counted.claimed:
        yield found(f"its lanes have {lanes.in_flight:,} in flight, the rows say {counted.claimed:,}")
    if not 0 <= kept.checkpoint <= kept.end:
        yield found(f"INV-6: the checkpoint {kept.checkpoint:,} is not between 0 and the end, {kept.end:,}")
    if not (counted.ready or counted.delayed or counted.claimed) and kept.checkpoint != kept.end:
        yield found(f"INV-6: all is settled, but the checkpoint {kept.checkpoint:,} is not at the end, {kept.end:,}")
    if kept.checkpoint_dead > kept.dead:
        yield found(f"INV-6: {kept.checkpoint_dead:,} dead below the checkpoint, {kept.dead:,} in all")
    if _items(counted) > kept.end:
        yield found(f"INV-4: {pluralize(_items(counted), 'item')} at {pluralize(kept.end, 'position')}")


async def _lane_sums(frontier: Frontier) -> Mapping[int, LaneSums]:
    sums: dict[int, LaneSums] = {}
    lanes: AsyncIterator[Any] = frontier.lanes()
    async for lane in lanes:
        so_far = sums.get(lane.partition, LaneSums())
        sums[lane.partition] = LaneSums(so_far.waiting + lane.waiting, so_far.in_flight + lane.in_flight)
    return sums


def _by_number(partitions: Any) -> dict[int, PartitionStatus]:
    return {part.partition: part for part in partitions}


def _still(part: PartitionStatus) -> PartitionStatus:
    return part._replace(next_ready_at=None)


def _items(part: PartitionStatus) -> int:
    return part.ready + part.delayed + part.claimed + part.done + part.dead
