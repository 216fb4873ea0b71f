"""A single file that holds exactly what was settled (INV-5).

For each settlement: `append`, `sync`, settle with the new length, then `commit`. After a crash or a failed settlement,
`restore` the length that the store has committed. All calls block, and only one may run at a time.
"""

import fcntl
import os
from pathlib import Path

from swath.files.errors import OutputBusy, OutputDamaged
from swath.files.output_directory import check_undamaged
from swath.files.replace_file import sync_directory


class AppendFile:
    """A file that only this process writes to. Bytes after `committed` are not part of the output yet."""

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
                f"{path} is locked by another process that writes to it. Wait until it ends, or use another file."
            ) from None
        if new:
            sync_directory(path.parent)

    def restore(self, length: int) -> None:
        """Truncate the file to the length that the store has committed."""
        found = os.fstat(self._descriptor).st_size
        if found < length:
            raise OutputDamaged(
                f"{self.path} is {found} bytes long, but {length} bytes are committed: lines are missing. "
                "Restore the file from a copy."
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
        """Write all appended bytes to disk."""
        if self._synced < self.end:
            os.fdatasync(self._descriptor)
            self._synced = self.end

    def commit(self) -> None:
        """Keep the appended bytes, after the store has confirmed the settlement."""
        self.committed = self.end

    def close(self) -> None:
        """Release the lock. Uncommitted bytes stay in the file until `restore` decides whether to keep them: their
        settlement may have succeeded although its reply was lost."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
