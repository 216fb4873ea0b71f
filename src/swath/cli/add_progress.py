"""Progress of `swath add` on standard error: a live line on a terminal, otherwise a plain line every 10 seconds."""

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn

from swath.cli.terminal import is_terminal, make_console, print_error

PLAIN_SECONDS = 10.0


class AddProgress:
    """Counts the items that were read and added. Call `advance` after each batch."""

    def __init__(self, *, total_bytes: int | None, clock: Callable[[], float] = time.monotonic) -> None:
        self.read = 0
        self.added = 0
        self._clock = clock
        self._started = clock()
        self._next_line = self._started + PLAIN_SECONDS
        self._live: Progress | None = None
        if is_terminal(sys.stderr):
            bar = (BarColumn(), TaskProgressColumn(), TimeRemainingColumn()) if total_bytes else ()
            columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), *bar)
            self._live = Progress(*columns, console=make_console(stderr=True), transient=True)
            self._task = self._live.add_task("adding", total=total_bytes)

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def advance(self, *, read: int, added: int, bytes_read: int) -> None:
        """Count a batch and show the new totals. `bytes_read` is a total, the other two belong to the batch."""
        self.read += read
        self.added += added
        if self._live is not None:
            self._live.update(self._task, description=self._describe(), completed=bytes_read)
        elif self._clock() >= self._next_line:
            self._next_line = self._clock() + PLAIN_SECONDS
            print_error(self._describe())

    def _describe(self) -> str:
        seconds = max(self._clock() - self._started, 1e-9)
        return f"{self.added:,} new of {self.read:,}, {self.read / seconds:,.0f} a second"
