"""SourceFile: one file to scan, on this machine or behind fsspec."""

import os
from collections.abc import Mapping
from typing import IO, Any

from swath.scan.sources.filesystems import explain_read_errors, find_local_path, open_filesystem


class SourceFile:
    """Opens a file, and tells whether it changed since a scan started."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.path = find_local_path(source)  # None: use fsspec
        self._filesystem: tuple[Any, str] | None = None

    @property
    def is_remote(self) -> bool:
        return self.path is None

    def open(self) -> IO[bytes]:
        """Open the file for reading. The caller closes it."""
        if self.path is not None:
            file: IO[bytes] = open(self.path, "rb")  # noqa: SIM115  the caller closes it
            return file
        filesystem, path = self._open_filesystem()
        remote: IO[bytes] = filesystem.open(path, "rb")
        return remote

    def snapshot(self) -> Mapping[str, Any]:
        """Return size and modification time. Raise UsageError if the file cannot be read."""
        with explain_read_errors(self.source):
            if self.path is not None:
                found = os.stat(self.path)
                with self.open():
                    return {"size": found.st_size, "mtime": found.st_mtime}
            filesystem, path = self._open_filesystem()
            info = filesystem.info(path)
        modified = info.get("LastModified") or info.get("ETag") or info.get("mtime")
        return {"size": info["size"], "mtime": None if modified is None else str(modified)}

    def explain_change(self, before: Mapping[str, Any]) -> str | None:
        """Return how the file changed, or None. Growing at the end is not a change."""
        now = self.snapshot()
        if now["size"] < before["size"]:
            return f"{self.source} had {before['size']:,} bytes when the scan started and has {now['size']:,} now"
        if now["size"] == before["size"] and now["mtime"] != before["mtime"]:
            return f"{self.source} was modified after the scan started"
        return None

    def _open_filesystem(self) -> tuple[Any, str]:
        if self._filesystem is None:
            self._filesystem = open_filesystem(self.source)
        return self._filesystem
