"""Series of output files: how files are named, and which files belong to a series."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from swath import UsageError

SERIAL = r"(?P<serial>\d{5,})"


@dataclass(frozen=True, slots=True)
class FileSeries:
    """A series of files named `{prefix}-{time}-{serial}-{unique}{suffix}`, each at most one record larger than `size`.

    `unique` identifies the output of one process in one directory, and stays the same when a crawl resumes. If the
    store does not know a file with this name, a crash left it, and it is removed. `first_record` builds the record that
    each file starts with. A file may have an index beside it: a file with its name and `index_suffix`, written when it
    is finished, and removed when it changes.
    """

    name: str
    prefix: str
    unique: str
    suffix: str
    size: int
    first_record: Callable[[str], bytes] | None = None
    index_suffix: str | None = None

    def __post_init__(self) -> None:
        if self.size < 1:
            raise UsageError(f"series {self.name!r}: size={self.size} must be at least 1 byte")
        for part in (self.prefix, self.unique, self.suffix):
            if "/" in part or "\0" in part:
                raise UsageError(f"{part!r} cannot be part of a file name: it contains a slash or a NUL")

    def format_file_name(self, timestamp: str, serial: int) -> str:
        return f"{self.prefix}-{timestamp}-{serial:05d}-{self.unique}{self.suffix}"

    def parse_serial(self, file: str) -> int | None:
        """Return the serial number in the name of a file; None if the file does not belong to this series."""
        pattern = rf"{re.escape(self.prefix)}-\d{{17}}-{SERIAL}-{re.escape(self.unique)}{re.escape(self.suffix)}"
        found = re.fullmatch(pattern, file, re.ASCII)
        return None if found is None else int(found["serial"])

    def select(self, files: Iterable[str]) -> list[tuple[int, str]]:
        """Return the files that belong to this series with their serial numbers, in order."""
        return sorted((serial, file) for file in files if (serial := self.parse_serial(file)) is not None)
