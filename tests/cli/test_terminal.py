"""What people see: the command on a pseudo-terminal."""

import codecs
import os
import pty
import re
import select
import signal
import sqlite3
import struct
import subprocess
import time
from collections.abc import Callable, Sequence
from fcntl import ioctl
from pathlib import Path
from termios import TIOCSWINSZ

import pytest

from swath import Frontier
from swath.cli.live_display import MARGIN
from tests.cli.conftest import COMMAND, TIMEOUT, environment, kill, on, run_swath, wait_until_added

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][AB0]")


class Terminal:
    """A command and the screen it writes to."""

    def __init__(
        self, *args: str, store: str, width: int = 100, command: Sequence[str] = COMMAND, **changes: str
    ) -> None:
        self.raw = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._fd, there = pty.openpty()
        ioctl(there, TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
        env = environment(SWATH_STORE=store, TERM="xterm-256color", **changes)
        self.process = subprocess.Popen(
            [*command, *args], stdin=there, stdout=there, stderr=there, env=env, start_new_session=True
        )
        os.close(there)

    def resize(self, width: int) -> None:
        ioctl(self._fd, TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
        self.process.send_signal(signal.SIGWINCH)  # this is not the controlling terminal of the process

    @property
    def text(self) -> str:
        return ESCAPES.sub("", self.raw).replace("\r\n", "\n")

    def read_until(self, seen: Callable[[str], bool], *, timeout: float = 30.0) -> None:
        deadline = time.monotonic() + timeout
        while not seen(self.text):
            assert time.monotonic() < deadline, self.text
            if not self._read():
                assert seen(self.text), self.text
                return

    def _read(self) -> bool:
        if not select.select([self._fd], [], [], 0.1)[0]:
            return True
        try:
            block = os.read(self._fd, 65536)
        except OSError:  # Linux: the other side is closed
            return False
        self.raw += self._decoder.decode(block)  # a block may end within a character
        return bool(block)

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def finish(self) -> int:
        deadline = time.monotonic() + TIMEOUT
        while self._read() and time.monotonic() < deadline:
            if self.process.poll() is not None and not select.select([self._fd], [], [], 0)[0]:
                break
        code = self.process.wait(1)
        os.close(self._fd)
        return code


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/work.db"


def test_status_is_a_panel_in_colour(store: str) -> None:
    run_swath("add", "a", "b", store=store)
    terminal = Terminal("status", store=store)
    assert terminal.finish() == 0
    assert "╭" in terminal.text
    assert re.search(r"ready +2 +waiting for a worker", terminal.text)
    assert "0.0% of 2 items settled" in terminal.text
    assert "\x1b[" in terminal.raw


def test_what_is_to_be_visited_again_is_settled(store: str) -> None:
    async def work(frontier: Frontier) -> None:
        await frontier.add(["a", "b"])
        claim = await frontier.claim()
        assert claim is not None
        await claim.settle([item.done(revisit_after=3_600) for item in claim.items])

    on(store, work)
    terminal = Terminal("status", store=store)
    assert terminal.finish() == 0
    assert re.search(r"delayed +2", terminal.text)
    assert "100.0% of 2 items settled" in terminal.text


def test_json_has_no_colours_on_a_terminal(store: str) -> None:
    run_swath("add", "a", store=store)
    terminal = Terminal("status", "--json", store=store)
    assert terminal.finish() == 0
    assert "\x1b" not in terminal.raw


def test_watch_is_live_and_leaves_on_interrupt(store: str) -> None:
    run_swath("add", "a", store=store)
    terminal = Terminal("status", "--watch", "--every", "0.1", store=store)
    terminal.read_until(lambda text: text.count("a second") >= 2)
    run_swath("add", "b", store=store)
    terminal.read_until(lambda text: re.search(r"ready +2 ", text) is not None)
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.finish() == 0
    assert "Traceback" not in terminal.text
    assert terminal.raw.rstrip().endswith("\x1b[?25h")  # the cursor is back


@pytest.mark.parametrize(
    ("command", "title"),
    [
        ("status --every 0.1 --store sqlite:///{app}?schema={long}", "╭─ sqlite://"),
        ("scan --source sqlite:///{app}#{long} --check tests.scan.checks:nothing --store {store}", "╭─ scanning"),
        ("backfill --db sqlite:///{app} --table {long} --run tests.backfill.handlers:nothing", "╭─ backfill"),
    ],
    ids=["status", "scan", "backfill"],
)
def test_a_live_panel_stays_clear_of_the_edge(tmp_path: Path, store: str, command: str, title: str) -> None:
    """Or the ^C that the terminal echoes begins a line, and what was drawn above it is not taken away."""
    app, long, width = tmp_path / "app.db", "a_name_as_long_as_it_may_be", 40
    with sqlite3.connect(app) as connection:
        connection.execute(f"CREATE TABLE {long} (id INTEGER PRIMARY KEY, name TEXT)")
        connection.execute(f"INSERT INTO {long} (name) VALUES ('a')")
    connection.close()
    run_swath("add", "a", store=f"sqlite:///{app}?schema={long}")
    words = command.format(app=app, long=long, store=store).split()
    words += ["--out", f"{tmp_path}/findings.jsonl"] if words[0] == "scan" else []
    terminal = Terminal(*words, store=store, width=width)
    terminal.read_until(lambda text: title in text and "╯" in text.partition(title)[2])
    terminal.process.kill()
    terminal.finish()
    drawn = title + terminal.text.partition(title)[2].partition("╯")[0]
    assert max(map(len, drawn.splitlines())) <= width - MARGIN


def test_listings_are_tables_and_say_when_there_is_more(store: str) -> None:
    run_swath("add", "--lane-by", "host", "https://a.org/", "https://b.org/", store=store)
    terminal = Terminal("lanes", "--limit", "1", store=store)
    assert terminal.finish() == 0
    assert re.search(r"lane +waiting +in flight +state", terminal.text)
    assert "the first 1; --limit 0 lists all" in terminal.text
    terminal = Terminal("dead", store=store)
    assert terminal.finish() == 0
    assert "no dead items" in terminal.text


def test_nothing_that_was_stored_steers_the_terminal(store: str) -> None:
    kill(store, "[bold]k\x1b[2J", reason="\x1b]0;owned\x07 [red]x[/red]", error="\x1b[31m")
    for command in [("dead", "--errors"), ("explain", "[bold]k\x1b[2J")]:
        terminal = Terminal(*command, store=store, width=200)
        assert terminal.finish() == 0
        assert "\x1b[2J" not in terminal.raw
        assert "\x1b]0" not in terminal.raw
        assert r"[bold]k\x1b[2J" in terminal.text
        assert r"\x1b]0;owned\x07 [red]x[/red]" in terminal.text


def test_add_shows_progress_and_an_interrupt_is_clean(store: str) -> None:
    terminal = Terminal("add", "-", store=store)
    terminal.type("".join(f"key{n}\n" for n in range(201)))
    wait_until_added(store, 201)
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.finish() == 130
    assert "stopped: 201 new of 201" in terminal.text
    assert "Traceback" not in terminal.text


def test_add_without_keys_on_a_terminal_is_told_what_to_do(store: str) -> None:
    terminal = Terminal("add", store=store)
    assert terminal.finish() == 2
    assert "no keys: give them as arguments, with --file FILE, or on standard input" in terminal.text


def test_progress_while_a_file_is_read(store: str, tmp_path: Path) -> None:
    keys = tmp_path / "keys.txt"
    keys.write_text("".join(f"https://example.com/{n}\n" for n in range(20_000)))
    terminal = Terminal("add", "--file", str(keys), store=store)
    assert terminal.finish() == 0
    assert re.search(r"[\d,]+ new of [\d,]+, [\d,]+ a second", terminal.text)
    assert terminal.text.rstrip().endswith("20,000 new of 20,000")


def test_dead_items_with_their_errors_say_when_there_is_more(store: str) -> None:
    kill(store, "a", "b", error="line 1\nline 2")
    terminal = Terminal("dead", "--errors", "--limit", "1", store=store)
    assert terminal.finish() == 0
    assert "  line 1\n  line 2\n" in terminal.text
    assert "the first 1; --limit 0 lists all" in terminal.text
