"""Look: one item of a scan looked at, record by record: what is found, what is discovered, what is counted."""

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from swath.core.item import Item
from swath.scan.counts import Counts
from swath.scan.finding import Context, Finding, Word, after_recheck, line, opened
from swath.scan.judge import Judge
from swath.scan.output import Entry
from swath.scan.record import FileRecord, Record
from swath.scan.sources.source import Counted, Source, Step, Task, Trouble

CHUNK = 100  # records that are read at once for an async check

Before = Mapping[str, Mapping[str, int]]  # what was open, by key and code


class Abandoned(Exception):
    """Nobody waits for this look any more."""


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
        self.key: str | None = None  # of the record that is being checked
        self.since = time.monotonic()  # when that began, or reading the next one did
        self.abandoned = False
        self.discovered: list[Item] = []
        self._source = source
        self._judge = judge
        self._context = context
        self._hung = hung
        self._hung_finding = hung_finding
        self._before: Before = task.get("before", {})
        self._spoken: set[str] = set()  # keys on which a recheck has said its word
        self._lines: list[bytes] = []
        self._counts = Counts(items=1)
        self._known = "keys" in task  # these records were counted when they were first looked at
        self._steps = source.fetch(task["keys"]) if "keys" in task else source.read(task)

    def run(self) -> Entry:
        """Look at everything, in this thread."""
        judge = self._judge
        for step in self._steps:
            if self.abandoned:
                raise Abandoned
            if judge is not None and isinstance(step, Record | FileRecord) and step.key not in self._hung:
                self.key, self.since = step.key, time.monotonic()
                words = judge(step)
                self.key, self.since = None, time.monotonic()
                self._count(1, step.size if isinstance(step, FileRecord) else 0)
                if words or self._before:
                    self._say(step.key, words)
            else:
                self._plain(step)
        return self._entry()

    async def run_async(self, blocking: Callable[[Callable[[], Any]], Any], judge: Judge) -> Entry:
        """Look at everything, with checks in the event loop and everything that blocks elsewhere."""
        while chunk := await blocking(self._chunk):
            for step in chunk:
                if isinstance(step, Record | FileRecord) and step.key not in self._hung:
                    self.key, self.since = step.key, time.monotonic()
                    words = await judge.ask(step, blocking)
                    self.key, self.since = None, time.monotonic()
                    self._count(1, step.size if isinstance(step, FileRecord) else 0)
                    if words or self._before:
                        self._say(step.key, words)
                else:
                    self._plain(step)
        return self._entry()

    def _chunk(self) -> Sequence[Step]:
        chunk = []
        for step in self._steps:
            chunk.append(step)
            if len(chunk) == CHUNK:
                break
        return chunk

    def _plain(self, step: Step) -> None:
        match step:
            case Item():
                self.discovered.append(step)
            case Counted(records, size, skipped):
                self._count(records, size)
                self._counts.skipped += skipped
            case Trouble(key, finding, records):
                self._count(records)
                self._say(key, opened([finding]))
            case Record() | FileRecord():
                self._count(1, step.size if isinstance(step, FileRecord) else 0)
                self._say(step.key, opened([self._hung_finding]))

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
