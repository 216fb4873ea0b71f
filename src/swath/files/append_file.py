"""One file that grows with the settlements, and holds exactly what was settled (INV-5).

`append`, `sync`, settle with the length, then `commit`; after a crash or a refusal `restore` to the length that the
store holds. Everything here blocks. Calls come one at a time.
"""

import fcntl
import os
from pathlib import Path

from swath.files.output_directory import OutputBusy, OutputDamaged, check_undamaged


class AppendFile:
    """A file that this process alone writes to. What lies beyond `committed` is not there yet, as far as anybody is
    told."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.committed = 0
        self.end = 0
        self._synced = 0
        new = not path.exists()
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._descriptor)
            raise OutputBusy(
                f"{path} is being written to by another process. Wait until that has ended, or give another file."
            ) from None
        if new:
            _sync_directory(path.parent)

    def restore(self, length: int) -> None:
        """Bring the file to the length that the store holds."""
        found = os.fstat(self._descriptor).st_size
        if found < length:
            raise OutputDamaged(
                f"{self.path} is {found} bytes long and {length} are committed: lines are gone. "
                "Put the file back from a copy."
            )
        if found > length:
            os.ftruncate(self._descriptor, length)
            os.fsync(self._descriptor)
        self.committed = self.end = self._synced = length

    def append(self, data: bytes) -> None:
        check_undamaged(self.path, self._descriptor, self.end)
        view = memoryview(data)
        while view:
            taken = os.pwrite(self._descriptor, view, self.end)
            self.end += taken
            view = view[taken:]

    def sync(self) -> None:
        """Return when all that was appended is on disk."""
        if self._synced < self.end:
            os.fdatasync(self._descriptor)
            self._synced = self.end

    def commit(self) -> None:
        """The store has confirmed the settlement: what was appended stays."""
        self.committed = self.end

    def close(self) -> None:
        """Let another owner in. What was appended and not committed stays, for `restore` to decide on: a settlement
        whose reply nobody waited for may have taken place."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
