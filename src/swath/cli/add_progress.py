"""Progress of `swath add`."""

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from swath.cli.progress_line import ProgressLine


class AddProgress:
    """Counts the items that were read and added. Call `advance` after each batch."""

    def __init__(self, *, total_bytes: int | None, clock: Callable[[], float] = time.monotonic) -> None:
        self.read = 0
        self.added = 0
        self._clock = clock
        self._started = clock()
        self._line = ProgressLine(total=total_bytes, clock=clock)

    def __enter__(self) -> Self:
        self._line.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._line.stop()

    def advance(self, *, read: int, added: int, bytes_read: int) -> None:
        """Count a batch and show the new totals. `bytes_read` is a total, the other two belong to the batch."""
        self.read += read
        self.added += added
        seconds = max(self._clock() - self._started, 1e-9)
        text = f"{self.added:,} new of {self.read:,}, {self.read / seconds:,.0f} a second"
        self._line.show(text, completed=bytes_read)
