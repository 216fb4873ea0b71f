"""Names of output files that follow each other, and how to tell our own from those of others."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from swath.core.errors import UsageError

SERIAL = r"(?P<serial>\d{5,})"


@dataclass(frozen=True, slots=True)
class FileSeries:
    """Files that follow each other: `{prefix}-{time}-{serial}-{unique}{suffix}`, each at most one record above `size`.

    `unique` names this directory's output of this frontier, and stays the same when a crawl is resumed: files that bear
    it and are unknown to the store are remains of a crash and are removed. `opening` makes a file's first record.
    """

    name: str
    prefix: str
    unique: str
    suffix: str
    size: int
    first_record: Callable[[str], bytes] | None = None

    def __post_init__(self) -> None:
        if self.size < 1:
            raise UsageError(f"size={self.size} of the series {self.name!r} must be at least 1 byte")
        for part in (self.prefix, self.unique, self.suffix):
            if "/" in part or "\0" in part:
                raise UsageError(f"{part!r} cannot be part of a file's name: it has a slash or a NUL")

    def file_name(self, timestamp: str, serial: int) -> str:
        return f"{self.prefix}-{timestamp}-{serial:05d}-{self.unique}{self.suffix}"

    def serial_of(self, file: str) -> int | None:
        """The serial number in a name of this series; None for any other name."""
        pattern = rf"{re.escape(self.prefix)}-\d{{17}}-{SERIAL}-{re.escape(self.unique)}{re.escape(self.suffix)}"
        found = re.fullmatch(pattern, file, re.ASCII)
        return None if found is None else int(found["serial"])

    def select(self, files: Iterable[str]) -> list[tuple[int, str]]:
        """Those files that belong to this series, with their serial numbers, in order."""
        return sorted((serial, file) for file in files if (serial := self.serial_of(file)) is not None)
