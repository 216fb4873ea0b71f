"""What people copy from a terminal is in one piece, however narrow the terminal is."""

from pathlib import Path

import pytest

from swath import Frontier, Item
from tests.cli.conftest import kill, on
from tests.cli.test_terminal import Terminal

URL = "https://www.example.com/a/long/path/to/a/page.html?with=a&query=string&that=is-longer-than-the-terminal"
REASON = f"redirect: https://other.example.org/{'x' * 60}"


@pytest.fixture
def store(tmp_path: Path) -> str:
    folder = tmp_path / "a-directory-with-a-long-name"
    folder.mkdir()
    url = f"sqlite:///{folder}/work.db"
    kill(url, URL, lane="www.example.com", reason=REASON)

    async def work(frontier: Frontier) -> None:
        await frontier.add(Item(URL + "2", "lane-" + "y" * 60))
        await frontier.pause("lane-" + "y" * 60)

    on(url, work)
    return url


@pytest.mark.parametrize("width", [40, 80])
@pytest.mark.parametrize(
    ("command", "pieces"),
    [
        (("dead",), [URL, REASON.split()[1], "www.example.com"]),
        (("dead", "--errors"), [URL, REASON.split()[1]]),
        (("lanes",), ["www.example.com", "lane-" + "y" * 60]),
        (("lanes", "lane-" + "y" * 60), ["lane-" + "y" * 60]),
        (("explain", URL), [URL, REASON.split()[1]]),
        (("status",), ["{store}", "swath dead", "swath lanes --paused"]),
        (("status", "{store}"), ["swath dead --store {store}", "swath lanes --paused --store {store}"]),
        (("db", "info"), ["{store}"]),
        (("dead", "--help"), ["   swath dead --reason timeout --errors"]),
        (("backfill", "--help"), ['--set "active = true" --where "active is null"']),
        (("status", "nothing.db"), ["--store sqlite:///nothing.db"]),
    ],
    ids=lambda value: " ".join(value)[:20] if isinstance(value, tuple) else "",
)
def test_it_is_wrapped_by_the_terminal_only(
    store: str, width: int, command: tuple[str, ...], pieces: list[str]
) -> None:
    variable = "" if "{store}" in command else store
    terminal = Terminal(*(word.format(store=store) for word in command), store=variable, width=width)
    terminal.finish()
    lines = [line for line in terminal.text.splitlines() if not {*"╭│╰─"} & {*line[width - 1 :]}]
    for piece in pieces:
        assert any(piece.format(store=store) in line for line in lines), terminal.text


def test_a_wide_terminal_shows_tables_and_boxes(store: str) -> None:
    for command, marks in ((("dead",), "─"), (("status",), "╭│╰"), (("db", "info"), "╭│╰")):
        terminal = Terminal(*command, store=store, width=250)
        terminal.finish()
        assert all(mark in terminal.text for mark in marks)
        assert URL in terminal.text or command != ("dead",)


def test_a_message_during_a_live_display_is_wrapped_by_the_terminal_only(store: str, tmp_path: Path) -> None:
    (tmp_path / "checks.py").write_text(
        f"import logging\nlog = logging.getLogger('checks')\ndef check(row):\n    log.warning('see {URL} %s', row)\n"
    )
    (tmp_path / "rows.jsonl").write_text('{"id": 1}\n')
    words = ["scan", "--source", f"{tmp_path}/rows.jsonl", "--check", "checks:check", "--out", f"{tmp_path}/f.jsonl"]
    terminal = Terminal(*words, store=f"sqlite:///{tmp_path}/scan.db", width=40, PYTHONPATH=str(tmp_path))
    terminal.finish()
    assert f"see {URL} " in terminal.text
