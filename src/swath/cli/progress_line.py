"""Progress on standard error: a live line on a terminal, otherwise a plain line every 10 seconds."""

import sys
import time
from collections.abc import Callable

from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn

from swath.cli.terminal import is_terminal, make_console, print_error
from swath.logs.lines import format_time

PLAIN_SECONDS = 10.0


class ProgressLine:
    """One line that changes. With a `total`, it has a bar."""

    def __init__(self, *, total: int | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next_line = clock() + PLAIN_SECONDS
        self._live: Progress | None = None
        if is_terminal(sys.stderr):
            bar = (BarColumn(), TaskProgressColumn(), TimeRemainingColumn()) if total else ()
            columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), *bar)
            self._live = Progress(*columns, console=make_console(stderr=True), transient=True)
            self._task = self._live.add_task("", total=total)

    def start(self) -> None:
        if self._live is not None:
            self._live.start()

    def stop(self) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, text: str, *, completed: int = 0) -> None:
        """Show a text, and how much of the total is done."""
        if self._live is not None:
            self._live.update(self._task, description=text, completed=completed)
        elif self._clock() >= self._next_line:
            self._next_line = self._clock() + PLAIN_SECONDS
            print_error(f"{format_time(time.time())} {text}")
