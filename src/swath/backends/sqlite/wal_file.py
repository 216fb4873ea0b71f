"""WalFile: how long the write-ahead log is. SQLite reports it only to a hook that Python does not have.

The log's file keeps its size when SQLite restarts the log at its beginning. A restart changes the salt in the file's
header, and each frame carries the salt of its log (https://sqlite.org/fileformat2.html#walformat). SQLite does not lock
this file, so opening and closing it drops no lock.
"""

import os

HEADER_BYTES = 32
FRAME_HEADER_BYTES = 24
_PAGE_SIZE = slice(8, 12)
_SALT = slice(16, 24)  # in the header of the file
_FRAME_SALT = slice(8, 16)


class WalFile:
    """The log of one database, read without SQLite."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.salt = b""  # as of the last `read_header`
        self._frame_bytes = 0

    def read_header(self) -> bool:
        """Read the header; return whether the log was started again since the last call, by any process."""
        header = os.pread(self._file, HEADER_BYTES, 0)
        salt, self.salt = self.salt, header[_SALT]
        self._frame_bytes = FRAME_HEADER_BYTES + int.from_bytes(header[_PAGE_SIZE])
        return salt != self.salt

    def has_frame(self, number: int) -> bool:
        """Return whether the log has this many frames. It may count some that were rolled back."""
        header = os.pread(self._file, FRAME_HEADER_BYTES, HEADER_BYTES + (number - 1) * self._frame_bytes)
        return len(header) == FRAME_HEADER_BYTES and header[_FRAME_SALT] == self.salt

    def count_frames(self, size: int) -> int:
        """Return how many frames hold `size` bytes."""
        return max(1, size // (self._frame_bytes or 1))

    def close(self) -> None:
        os.close(self._file)
