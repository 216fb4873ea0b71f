"""FindingsOutput: one process's file of findings, which grows in step with the settlements (INV-5)."""

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from swath import OutputMove
from swath.files.append_file import AppendFile
from swath.files.errors import translate_write_errors


class FindingsOutput:
    """A file of findings that only this process writes. The store knows it as `name`. An entry is one item's lines."""

    def __init__(self, path: Path, *, name: str) -> None:
        self.name = name
        self._path = path
        self._file = AppendFile(path)
        self._lock = threading.Lock()  # a write may still be running in its thread when a run is abandoned

    def size(self, entry: bytes) -> int:
        return len(entry)

    def write(self, settlements: Sequence[Sequence[bytes]]) -> Sequence[Sequence[OutputMove]]:
        with self._lock, translate_write_errors(self._path):
            try:
                moves = [self._append(entries) for entries in settlements]
                self._file.sync()
            except BaseException:
                self._file.restore(self._file.committed)  # none of these settlements will take place
                raise
            return moves

    def keep(self) -> None:
        self._file.commit()

    def restore(self, committed: Mapping[str, int]) -> None:
        with self._lock:
            self._file.restore(committed.get(self.name, 0))

    def close(self) -> None:
        with self._lock:
            self._file.close()

    def _append(self, entries: Sequence[bytes]) -> list[OutputMove]:
        start = self._file.end
        for lines in entries:
            self._file.append(lines)
        return [OutputMove(self.name, start, self._file.end)] if self._file.end != start else []
