"""LiveDisplay: a drawing that is redrawn in place, also when the terminal is resized."""

import asyncio
import signal
from types import TracebackType
from typing import Self

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.constrain import Constrain
from rich.live import Live
from rich.segment import Segment

MARGIN = 4  # columns that a live display leaves free: a ^C that the terminal echoes must not wrap and break the display
MIN_WIDTH = 20


class LiveDisplay:
    """Draws on a terminal, above the cursor. Enter it inside a running event loop."""

    def __init__(self, console: Console, *, transient: bool) -> None:
        self._console = console
        self._live = _ReflowingLive(console=console, auto_refresh=False, transient=transient)
        self._drawing: RenderableType | None = None

    def __enter__(self) -> Self:
        self._live.start()
        asyncio.get_running_loop().add_signal_handler(signal.SIGWINCH, self._redraw)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGWINCH)
        self._live.forget_width()
        self._live.stop()

    def draw(self, drawing: RenderableType) -> None:
        """Replace the drawing."""
        self._drawing = drawing
        self._redraw()

    def _redraw(self) -> None:
        if self._drawing is not None:
            self._live.forget_width()
            width = max(MIN_WIDTH, self._console.width - MARGIN)
            self._live.update(_Measured(Constrain(self._drawing, width), self._live), refresh=True)


class _ReflowingLive(Live):
    """A Live that erases what it drew after the terminal became narrower and wrapped those lines.

    Terminals wrap existing lines when they become narrower (a few old ones cut them off). Live does not know this, and
    would leave the upper lines of the old drawing on the screen.
    """

    drawn_widths: tuple[int, ...] = ()  # of each line

    def forget_width(self) -> None:
        """Take the rows that the drawing has now for its height."""
        shape = self._live_render._shape
        if shape is not None and self.drawn_widths:
            width = max(1, self.console.width)
            rows = sum(max(1, -(-drawn // width)) for drawn in self.drawn_widths[: shape[1]])
            self._live_render._shape = (shape[0], rows)


class _Measured:
    """A drawing that records the widths of its lines."""

    def __init__(self, drawing: RenderableType, live: _ReflowingLive) -> None:
        self._drawing = drawing
        self._live = live

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = console.render_lines(self._drawing, options, pad=False)
        self._live.drawn_widths = tuple(Segment.get_line_length(line) for line in lines)
        for line in lines:
            yield from line
            yield Segment.line()
