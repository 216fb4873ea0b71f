"""A small file system of its own, to fill."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MEGABYTE = 1_048_576


class SmallDisk:
    """A mounted tmpfs. A file that holds nothing takes the room that a test wants to be missing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    @property
    def free(self) -> int:
        stat = os.statvfs(self.path)
        return stat.f_bavail * stat.f_frsize

    def fill(self, *, leave: int = 0) -> None:
        """Take all room but `leave` bytes."""
        with self._ballast.open("ab") as file:
            file.write(bytes(max(0, self.free - leave)))

    def clear(self) -> None:
        """Give the room back."""
        self._ballast.unlink()


@contextmanager
def mount_small_disk(path: Path, *, size: int = 12 * MEGABYTE, read_only: bool = False) -> Iterator[SmallDisk]:
    path.mkdir()
    become_root = [] if os.geteuid() == 0 else ["sudo", "-n"]
    options = f"size={size},mode=0777,{'ro' if read_only else 'rw'}"
    subprocess.run([*become_root, "mount", "-t", "tmpfs", "-o", options, "tmpfs", path], check=True, timeout=30)
    try:
        yield SmallDisk(path)
    finally:
        subprocess.run([*become_root, "umount", "--lazy", path], check=True, timeout=30)
