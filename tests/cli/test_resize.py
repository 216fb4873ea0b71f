"""A live display is redrawn in place when the terminal is resized."""

import signal
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import run_swath
from tests.cli.screen import Screen
from tests.cli.test_terminal import Terminal

TRANSIENT = """
import asyncio, signal
from rich.panel import Panel
from swath.cli.terminal import open_live_display

async def main():
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    loop.add_signal_handler(signal.SIGUSR1, over.set)
    print("above")
    with open_live_display(transient=True) as draw:
        draw(Panel("a line that is as long as the panel of a crawl, more or less\\n" * 5 + "last"))
        await over.wait()
    print("below")

asyncio.run(main())
"""


class Resizing:
    """A command on a terminal, and what the screen shows while it is resized."""

    def __init__(self, terminal: Terminal, width: int) -> None:
        self.terminal = terminal
        self.screen = Screen(width)
        self._fed = 0

    def read_drawing(self) -> list[str]:
        """Wait for one more drawing, and return the rows on the screen."""
        before = self.terminal.text.count("╯")
        self.terminal.read_until(lambda text: text.count("╯") > before)
        return self.feed()

    def feed(self) -> list[str]:
        self.screen.feed(self.terminal.raw[self._fed :])
        self._fed = len(self.terminal.raw)
        return self.screen.list_rows()

    def resize(self, width: int) -> list[str]:
        self.screen.resize(width)
        self.terminal.resize(width)
        return self.read_drawing()


def test_a_resized_watch_leaves_no_rows_of_the_old_panel(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/work.db"
    run_swath("add", "a", "b", store=store)
    terminal = Terminal("status", "--every", "1h", store=store, width=120)
    resizing = Resizing(terminal, 120)
    drawn = resizing.read_drawing()
    above = "".join(row for row in drawn if row[0] not in "╭│╰")  # the store, if the title of the panel is cut off
    for width in (60, 50, 130, 45, 110):
        rows = resizing.resize(width)
        panel = [row for row in rows if row[0] in "╭│╰"]
        assert [row[0] for row in panel] == ["╭", *("│" * (len(panel) - 2)), "╰"], "\n".join(rows)
        assert "".join(row for row in rows if row not in panel) == above
        assert max(map(len, panel)) <= width - 4
    terminal.process.kill()
    terminal.finish()


@pytest.mark.parametrize("widths", [(50,), (40, 100), (200,)], ids=str)
def test_a_resized_display_is_erased_at_the_end(widths: tuple[int, ...]) -> None:
    terminal = Terminal(command=[sys.executable, "-c", TRANSIENT], store="", width=80)
    resizing = Resizing(terminal, 80)
    resizing.read_drawing()
    for width in widths:
        resizing.resize(width)
    terminal.process.send_signal(signal.SIGUSR1)
    assert terminal.finish() == 0
    assert resizing.feed() == ["above", "below"]
