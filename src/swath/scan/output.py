"""Output: the findings of one process, in one file that grows in step with the settlements (INV-5)."""

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from swath import OutputMove
from swath.files.append_file import AppendFile
from swath.scan.counts import Counts, counted, file_name


class Entry(NamedTuple):
    """What came of one item: lines for the file, and what to count."""

    lines: bytes
    counts: Counts


class FindingsOutput:
    """A file of findings, written by this process alone. `name` is what the store knows it by."""

    def __init__(self, path: Path, *, name: str) -> None:
        self.name = name
        self.counts = Counts()  # written; what is settled is the same, a moment later
        self._file = AppendFile(path)
        self._one_at_a_time = threading.Lock()  # a write may still be under way when a run is given up

    # what the runner calls

    def size(self, entry: Entry) -> int:
        return len(entry.lines)

    def write(self, settlements: Sequence[Sequence[Entry]]) -> Sequence[Sequence[OutputMove]]:
        with self._one_at_a_time:
            try:
                moves = [self._append(entries) for entries in settlements]
                self._file.sync()
            except BaseException:
                self._file.restore(self._file.committed)  # none of it will be settled
                raise
            return moves

    def keep(self) -> None:
        self._file.commit()

    def restore(self, committed: Mapping[str, int]) -> None:
        with self._one_at_a_time:
            self._file.restore(committed.get(file_name(self.name), 0))
            self.counts = counted(committed, out=self.name)

    def close(self) -> None:
        with self._one_at_a_time:
            self._file.close()

    def _append(self, entries: Sequence[Entry]) -> list[OutputMove]:
        before, start = self.counts.named(self.name), self._file.end
        for entry in entries:
            self._file.append(entry.lines)
            self.counts.add(entry.counts)
        after = {file_name(self.name): self._file.end, **self.counts.named(self.name)}
        before[file_name(self.name)] = start
        return [
            OutputMove(name, before.get(name, 0), number)
            for name, number in after.items()
            if number != before.get(name, 0)
        ]
