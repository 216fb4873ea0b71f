"""No character that others chose reaches a terminal unless it prints."""

import json
import re
import sqlite3
import sys
from pathlib import Path

import pytest

from swath import Frontier, Item
from swath.cli.formatting import dump_json, escape
from tests.cli.conftest import COMMAND, add, kill, on, run_swath
from tests.cli.test_terminal import ESCAPES, Terminal

FORBIDDEN = {
    "terminal sequences": "\x1b[2J\x1b]0;owned\x07",
    "control characters": "\x01\x08\r\x7f",
    "C1": "\x80\x85\x9b31m\x9f",
    "directions": "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069",
    "no width": "\u00ad\u180e\u200b\u200c\u200d\u2060\ufeff",
    "separators": "\u2028\u2029",
    "tags": "\U000e0001\U000e0041\U000e007f",
    "lone surrogates": "\ud800\udfff",
}
EVIL = "evil" + "".join(text for name, text in FORBIDDEN.items() if name != "lone surrogates")
EVIL_BYTES = "evil\udcff\udc9b"  # as Python decodes an argument or a file name that is not UTF-8


@pytest.mark.parametrize("name", FORBIDDEN)
def test_escape_and_json_cover(name: str) -> None:
    for character in FORBIDDEN[name]:
        assert escape(character).isascii() or character.isprintable()
        assert escape(character).isprintable()
        for indent in (None, 2):
            text = dump_json({character: [character]}, indent=indent)
            assert text.replace("\n", "").isprintable()
            assert json.loads(text) == {character: [character]}


def test_json_keeps_what_prints() -> None:
    text = 'Ω漢字é😀 "\\ \n'
    assert dump_json(text) == '"Ω漢字é😀 \\"\\\\ \\n"'
    assert dump_json(text, ensure_ascii=True).isascii()


def check(*args: str, store: str = "", command: tuple[str, ...] = COMMAND, width: int = 100) -> str:
    """Run a command on a terminal, and return what it printed, which must be printable."""
    terminal = Terminal(*args, store=store, command=command, width=width)
    terminal.finish()
    assert "\x1b[2J" not in terminal.raw, args
    assert "\x1b]" not in terminal.raw, args
    drawn = re.sub(r"\r(?=\n|\x1b\[)", "", terminal.raw)  # a live display goes to the start of its line
    printed = ESCAPES.sub("", drawn)
    bad = sorted({character for character in printed if not character.isprintable() and character != "\n"})
    assert not bad, (args, bad, printed)
    return printed


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A frontier with hostile keys, lanes, payloads, results, reasons and errors."""
    url = f"sqlite:///{tmp_path}/work.db"

    async def work(frontier: Frontier) -> None:
        await frontier.add(Item("done", payload={EVIL: EVIL}))
        claim = await frontier.claim()
        assert claim is not None
        await claim.settle([claim.items[0].done(result={EVIL: EVIL})])
        await frontier.add(Item(EVIL, "lane", payload=EVIL))  # a lane must be printable

    kill(url, f"dead {EVIL}", reason=EVIL, error=f"Traceback\n{EVIL}\n")
    on(url, work)
    return url


@pytest.mark.parametrize(
    "command",
    [
        ("status",),
        ("status", "--partitions"),
        ("status", "--json"),
        ("lanes",),
        ("lanes", "--json"),
        ("lanes", "list", "--", EVIL),
        ("lanes", "set", EVIL, "--concurrency", "2"),
        ("lanes", "block", EVIL, "--for", "1h"),
        ("lanes", "unblock", f"no {EVIL}"),
        ("pause", EVIL),
        ("resume", EVIL),
        ("dead",),
        ("dead", "--errors"),
        ("dead", "--json", "--errors"),
        ("dead", "--reason", f"no {EVIL}"),
        ("dead", "retry", EVIL, f"no {EVIL}"),
        ("dead", "retry", "--reason", f"no {EVIL}"),
        ("explain", EVIL),
        ("explain", f"dead {EVIL}"),
        ("explain", "done"),
        ("explain", "done", "--json"),
        ("explain", f"no {EVIL}"),
        ("explain", "done", "--lane", EVIL),
        ("add", EVIL),
        ("add", "--lane", EVIL, EVIL, "--json"),
    ],
    ids=lambda command: " ".join(command).replace(EVIL, "EVIL"),
)
def test_what_is_stored_is_escaped(store: str, command: tuple[str, ...]) -> None:
    assert check(*command, store=store)
    if command == ("dead",):
        assert "evil" in check(*command, store=store, width=40)


@pytest.mark.parametrize(
    "command",
    [
        ("{}",),
        ("status", "--{}"),
        ("status", "{}"),
        ("status", "--store", "{}"),
        ("status", "--store", "sqlite:///{}.db"),
        ("status", "--store", "{}://host/name"),
        ("status", "--store", "sqlite:///w.db?schema={}"),
        ("status", "--store", "sqlite:///w.db?{}=1"),
        ("status", "--every", "{}"),
        ("lanes", "list", "a", "b", "{}"),
        ("lanes", "{}"),
        ("lanes", "set", "x", "--min-interval", "{}"),
        ("lanes", "set", "x", "--concurrency", "{}"),
        ("lanes", "block", "x", "--until", "{}"),
        ("dead", "{}"),
        ("dead", "--limit", "{}"),
        ("db", "{}"),
        ("db", "init", "{}"),
        ("add", "--payload", "{}", "k"),
        ("add", "--not-before", "{}", "k"),
        ("add", "--file", "{}", "--store", "sqlite:///w.db"),
        ("add", "--lane-by", "{}", "k"),
        ("completion", "{}"),
        ("crawl", "http://{}/", "--out", "new"),
        ("crawl", "--scope", "{}", "example.com", "--out", "new"),
        ("crawl", "--include", "({}", "example.com", "--out", "new"),
        ("crawl", "--seeds", "{}", "--out", "new"),
        ("crawl", "--delay", "{}", "example.com"),
        ("crawl", "--contact", "{}", "example.com"),
        ("backfill", "--db", "{}", "--table", "t", "--set", "a = 1"),
        ("backfill", "--db", "sqlite:///app.db", "--table", "{}", "--set", "n = 1"),
        ("backfill", "--db", "sqlite:///app.db", "--table", "t", "--set", "{} = 1"),
        ("backfill", "--db", "sqlite:///app.db", "--table", "t", "--run", "{}:f"),
        ("scan", "--source", "{}", "--check", "a:b"),
        ("scan", "--source", "app.jsonl", "--check", "{}:b"),
        ("scan", "--source", "app.jsonl", "--check", "a:b", "--out", "{}"),
        ("export", "--format", "{}"),
        ("export", "--out", "{}"),
    ],
    ids=" ".join,
)
def test_what_is_typed_is_escaped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.jsonl").touch()
    with sqlite3.connect("app.db") as connection:
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, n)")
        connection.execute("INSERT INTO t VALUES (1, 1)")
    connection.close()
    for evil in (EVIL, EVIL_BYTES):
        assert check(*(word.replace("{}", evil) for word in command))


def test_names_of_files_and_contents_of_tables_are_escaped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    name = EVIL.replace("\r", "")[:40]
    (tmp_path / name).mkdir()
    (tmp_path / name / "crawl.json").write_text("{}")
    add(f"sqlite:///{tmp_path}/work.db", "k")
    assert "This directory has" in check("status")
    with sqlite3.connect("app.db") as connection:
        connection.execute("CREATE TABLE t (id TEXT PRIMARY KEY, n)")
        connection.executemany("INSERT INTO t VALUES (?, 1)", [(f"{number}{EVIL}",) for number in range(3)])
    connection.close()
    assert "evil" in check("backfill", "--db", "sqlite:///app.db", "--table", "t", "--set", "n = 2")
    assert "evil" in check("backfill", "--db", "sqlite:///app.db", "--table", "t", "--set", "n = 2")
    assert "backfill" in check("status", "app.db")
    (tmp_path / "hostile.py").write_text(
        "from swath.scan import Finding\n"
        "def check(row):\n"
        "    return Finding('code\\x1b[2J\\u202e' + row['id'], 'message\\x9b' + row['id'])\n"
    )
    assert "evil" in check("scan", "--source", "sqlite:///app.db#t", "--check", "hostile:check")
    assert "scan" in check("status", "findings.jsonl")


def test_errors_and_log_records_are_escaped(store: str) -> None:
    script = (
        "import sys, logging, swath.cli.status\n"
        "def broken(view, partitions, argument):\n"
        "    logging.getLogger('swath.runner').warning('a key: %s', view)\n"
        "    raise RuntimeError(view)\n"
        f"swath.cli.status.print_status = lambda *args, **more: broken({EVIL!a}, *args[1:], **more)\n"
        "sys.argv = ['swath', 'status']\n"
        "from swath.cli import main\n"
        "sys.exit(main())\n"
    )
    printed = check(store=store, command=(sys.executable, "-c", script))
    assert "a key: evil" in printed
    assert "Traceback" in printed
    assert "RuntimeError: evil" in printed


@pytest.mark.parametrize("form", ["jsonl", "csv", "cdxj"])
def test_an_export_to_a_terminal_is_escaped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    monkeypatch.chdir(tmp_path)
    script = (
        "import sys\n"
        "from swath.crawl.archive import index\n"
        f"evil = {EVIL!a}\n"
        "index.read_pages = lambda directory, committed: iter([{'url': evil, 'title': evil, 'status': 200}])\n"
        "index.read_cdxj_lines = lambda directory, committed: iter([evil])\n"
        f"sys.argv = ['swath', 'export', '--format', {form!r}]\n"
        "from swath.cli import main\n"
        "sys.exit(main())\n"
    )
    (tmp_path / "crawl").mkdir()
    add(f"sqlite:///{tmp_path}/crawl/frontier.db", "k")
    assert "evil" in check(command=(sys.executable, "-c", script))


def test_elsewhere_only_json_and_plain_text_are_escaped(store: str) -> None:
    """A file is often looked at later."""
    for command in (("dead",), ("dead", "--json"), ("lanes", "--json")):
        assert run_swath(*command, store=store).out.replace("\n", "").replace("\t", "").isprintable()
