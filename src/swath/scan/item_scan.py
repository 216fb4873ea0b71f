"""ItemScan: scan one item, record by record, and collect its findings, discovered items and counts."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from swath import Item
from swath.scan.check_slots import CheckSlots
from swath.scan.checker import Checker
from swath.scan.counts import READ, Counts
from swath.scan.finding import (
    Finding,
    FindingEvent,
    LineContext,
    compare_after_recheck,
    encode_line,
    make_open_events,
)
from swath.scan.record import AnyRecord, FileRecord
from swath.scan.sources.source import ReadCounts, ReadStep, Source, SourceFinding, Task

OpenBefore = Mapping[str, Mapping[str, int]]  # findings that were open before a recheck, by key and code


class ItemScan:
    """Scans one item in a thread, while the event loop watches its progress."""

    def __init__(
        self,
        task: Task,
        source: Source,
        checker: Checker | None,
        context: LineContext,
        *,
        hung: Collection[str],
        hung_finding: Finding,
    ) -> None:
        self.current: AnyRecord | None = None  # the record that is being checked
        self.steps = 0  # read from the source so far
        self.waiting = False  # for a check slot
        self.abandoned = False  # its result is no longer wanted
        self.discovered: list[Item] = []
        self.counts = Counts()
        self._checker = checker
        self._context = context
        self._hung = hung
        self._hung_finding = hung_finding
        self._before: OpenBefore = task.get("before", {})
        self._reported: set[str] = set()  # keys of `before` that were checked again
        self._lines: list[bytes] = []
        self._is_recheck = "keys" in task  # the first scan has counted these records
        self._source_steps = source.fetch(task["keys"]) if "keys" in task else source.read(task)

    def run(self, slots: CheckSlots) -> bytes:
        """Scan the item in this thread and return its lines. Check records while holding a slot."""
        for step in self._source_steps:
            self.steps += 1
            if isinstance(step, list):
                with slots.hold(self):
                    self._check(step)
            else:
                self._process_step(step)
        return self._finish()

    def _check(self, records: Sequence[AnyRecord]) -> None:
        records = self._count_records(records)
        if self._checker is not None:
            for record, events in self._checker.check_records(records, self, every=bool(self._before)):
                self._report(record.key, events)

    async def run_async(
        self, slots: asyncio.Semaphore, run_blocking: Callable[[Callable[[], Any]], Any], checker: Checker
    ) -> bytes:
        """Like `run`, with checks in the event loop. `run_blocking` runs blocking calls in a thread."""
        while (step := await run_blocking(self._read_next)) is not None:
            self.steps += 1
            if not isinstance(step, list):
                self._process_step(step)
                continue
            self.waiting = True
            async with slots:
                self.waiting = False
                for record in self._count_records(step):
                    self.current = record
                    events = await checker.check_async(record, run_blocking)
                    self.current = None
                    if events or self._before:
                        self._report(record.key, events)
        return self._finish()

    def _read_next(self) -> ReadStep | None:
        return next(self._source_steps, None)

    def _count_records(self, records: Sequence[Any]) -> Sequence[AnyRecord]:
        """Count records. Report and leave out those whose check hung in an earlier attempt."""
        files = bool(records) and isinstance(records[0], FileRecord)
        self._count(len(records), sum(record.size for record in records) if files else 0)
        if not self._hung:
            return records
        for record in records:
            if record.key in self._hung:
                self._report(record.key, make_open_events([self._hung_finding]))
        return [record for record in records if record.key not in self._hung]

    def _process_step(self, step: Item | ReadCounts | SourceFinding) -> None:
        match step:
            case Item():
                self.discovered.append(step)
            case ReadCounts():
                self._count(step.records, step.bytes)
                for name in READ[2:]:
                    setattr(self.counts, name, getattr(self.counts, name) + getattr(step, name))
            case SourceFinding(key, finding, records):
                self._count(records)
                self._report(key, make_open_events([finding]))

    def _count(self, records: int, size: int = 0) -> None:
        if self._is_recheck:
            self.counts.rechecked += records
        else:
            self.counts.records += records
            self.counts.bytes += size

    def _report(self, key: str, events: Sequence[FindingEvent]) -> None:
        before = self._before.get(key, {})
        if before:
            self._reported.add(key)
            events = compare_after_recheck(before, events)
        self._lines += [encode_line(key, event, self._context) for event in events]
        self.counts.add_record(Counter((event.state, event.finding.code) for event in events), before)

    def _finish(self) -> bytes:
        for key in self._before.keys() - self._reported:  # the record is gone, and so are its findings
            self._report(key, ())
        return b"".join(self._lines)
