"""Look: one item of a scan looked at, record by record: what is found, what is discovered, what is counted."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from swath import Item
from swath.scan.check_slots import Turns
from swath.scan.checker import Judge
from swath.scan.counts import Counts
from swath.scan.finding import Context, Finding, Word, after_recheck, line, opened
from swath.scan.output import Entry
from swath.scan.record import AnyRecord, FileRecord
from swath.scan.sources.source import Counted, Source, Step, Task, Trouble

Before = Mapping[str, Mapping[str, int]]  # what was open, by key and code


class Look:
    """What comes of one item. It is worked on in a thread, and watched from the event loop."""

    def __init__(
        self,
        task: Task,
        source: Source,
        judge: Judge | None,
        context: Context,
        *,
        hung: Collection[str],
        hung_finding: Finding,
    ) -> None:
        self.current: AnyRecord | None = None  # the record that is being checked
        self.steps = 0  # of the source that were taken
        self.waiting = False  # for its turn
        self.abandoned = False  # nobody waits for it any more
        self.discovered: list[Item] = []
        self._judge = judge
        self._context = context
        self._hung = hung
        self._hung_finding = hung_finding
        self._before: Before = task.get("before", {})
        self._spoken: set[str] = set()  # keys on which a recheck has said its word
        self._lines: list[bytes] = []
        self._counts = Counts(items=1)
        self._known = "keys" in task  # these records were counted when they were first looked at
        self._source_steps = source.fetch(task["keys"]) if "keys" in task else source.read(task)

    def run(self, turns: Turns) -> Entry:
        """Look at everything, in this thread; check records when it is this look's turn."""
        for step in self._source_steps:
            self.steps += 1
            if isinstance(step, list):
                with turns.turn(self):
                    self._judged(step)
            else:
                self._plain(step)
        return self._entry()

    def _judged(self, records: Sequence[AnyRecord]) -> None:
        records = self._counted(records)
        if self._judge is not None:
            for record, words in self._judge.judge(records, self, every=bool(self._before)):
                self._say(record.key, words)

    async def run_async(
        self, turns: asyncio.Semaphore, blocking: Callable[[Callable[[], Any]], Any], judge: Judge
    ) -> Entry:
        """Look at everything, with checks in the event loop and everything that blocks elsewhere."""
        while (step := await blocking(self._next)) is not None:
            self.steps += 1
            if not isinstance(step, list):
                self._plain(step)
                continue
            self.waiting = True
            async with turns:
                self.waiting = False
                for record in self._counted(step):
                    self.current = record
                    words = await judge.ask(record, blocking)
                    self.current = None
                    if words or self._before:
                        self._say(record.key, words)
        return self._entry()

    def _next(self) -> Step | None:
        return next(self._source_steps, None)

    def _counted(self, records: Sequence[Any]) -> Sequence[AnyRecord]:
        """Count records, and set those aside whose check never returned before."""
        files = bool(records) and isinstance(records[0], FileRecord)
        self._count(len(records), sum(record.size for record in records) if files else 0)
        if not self._hung:
            return records
        for record in records:
            if record.key in self._hung:
                self._say(record.key, opened([self._hung_finding]))
        return [record for record in records if record.key not in self._hung]

    def _plain(self, step: Item | Counted | Trouble) -> None:
        match step:
            case Item():
                self.discovered.append(step)
            case Counted(records, size, skipped):
                self._count(records, size)
                self._counts.skipped += skipped
            case Trouble(key, finding, records):
                self._count(records)
                self._say(key, opened([finding]))

    def _count(self, records: int, size: int = 0) -> None:
        if self._known:
            self._counts.rechecked += records
        else:
            self._counts.records += records
            self._counts.bytes += size

    def _say(self, key: str, words: Sequence[Word]) -> None:
        before = self._before.get(key, {})
        if before:
            self._spoken.add(key)
            words = after_recheck(before, words)
        self._lines += [line(key, word, self._context) for word in words]
        self._counts.judged(Counter((word.state, word.finding.code) for word in words), before)

    def _entry(self) -> Entry:
        for key in self._before.keys() - self._spoken:  # what is gone has nothing wrong any more
            self._say(key, ())
        return Entry(b"".join(self._lines), self._counts)
