"""`swath shell`: one page as politely as in a crawl, or from the archive, with a prompt or a script."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import typer

from swath.cli.shell_command import ShellCommand
from tests.cli.test_terminal import Terminal
from tests.crawl.driving import Ran, swath_command
from tests.crawl.handlers.running import run
from tests.crawl.handlers.test_run import SHOP, A, make_shop
from tests.crawl.web import Exchange, Server, serving

ROBOTS = b"User-agent: *\nDisallow: /secret\n"
SPIDER = "tests.crawl.handlers.repair_spider:crawler"  # without a delay, and with --allow-private


async def answer(exchange: Exchange) -> None:
    match exchange.path:
        case "/robots.txt":
            await exchange.ok(ROBOTS)
        case "/old":
            await exchange.send(b"HTTP/1.1 301 x\r\nLocation: /book_1/\r\nContent-Length: 0\r\n\r\n")
        case "/loop":
            await exchange.send(b"HTTP/1.1 302 x\r\nLocation: /loop\r\nContent-Length: 0\r\n\r\n")
        case "/to-secret":
            await exchange.send(b"HTTP/1.1 302 x\r\nLocation: /secret\r\nContent-Length: 0\r\n\r\n")
        case path if path.startswith("/far/"):
            target = f"/far/{int(path[5:]) + 1}".encode()
            await exchange.send(b"HTTP/1.1 302 x\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n" % target)
        case "/gone":
            await exchange.send(b"HTTP/1.1 404 x\r\nContent-Length: 4\r\n\r\ngone")
        case "/closes":
            exchange.reset()
        case path:
            body = f"<title>Title \x1b[31m</title><h1>{path}</h1><a href=/next>n</a>".encode()
            await exchange.ok(body, headers=b"Content-Type: text/html\r\n")


def list_paths(server: Server) -> list[str]:
    return [request.split(b" ", 2)[1].decode() for request in server.requests]


Shell = Callable[..., Awaitable[Ran]]


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    """Run the command in a thread of this process, with a script as its standard input."""

    def run_command(url: str, options: dict[str, Any]) -> int:
        try:
            ShellCommand(url, **{"run": None, "out": None, "store": None, "given": {}, **options}).run()
        except typer.Exit as left:
            return left.exit_code
        except SystemExit as left:
            return int(left.code or 0)
        return 0

    async def shell(url: str, script: str, server: Server | None = None, **options: Any) -> Ran:
        monkeypatch.setattr(sys, "stdin", StringIO(script))
        if server is not None:
            options = {"run": SPIDER, "given": {"connect_to": (f"::127.0.0.1:{server.port}",)}, **options}
        code = await asyncio.to_thread(run_command, url, options)
        return Ran(code, *capsys.readouterr())

    return shell


async def test_a_script_gets_the_page_behind_a_redirect_and_fetches_more(shell: Shell) -> None:
    async with serving(answer) as server:
        script = """
print(page.url, page.status, page.css("h1").text(), page.links())
again = fetch("http://a.example/old")
print(again is page, page.url)
print(fetch("http://a.example/gone").status, page.body)
"""
        ran = await shell(f"{A}/old", script, server)
        assert ran == Ran(
            0,
            f"{A}/book_1/ 200 /book_1/ ['{A}/next']\nTrue {A}/book_1/\n404 b'gone'\n",
            "",
        )
        paths = list_paths(server)
        assert paths == ["/robots.txt", "/old", "/book_1/", "/old", "/book_1/", "/gone"]


async def test_pages_that_are_not_fetched_are_explained(shell: Shell) -> None:
    async with serving(answer) as server:
        for url, message in (
            (f"{A}/secret", f"swath: {A}/secret is not fetched: robots: Disallow: /secret\n"),
            (f"{A}/to-secret", f"swath: {A}/secret is not fetched: robots: Disallow: /secret\n"),
            (f"{A}/loop", f"swath: {A}/loop: redirects lead back to the URL\n"),
            (f"{A}/far/0", f"swath: {A}/far/11: more than 10 redirects\n"),
            (f"{A}/closes", f"swath: {A}/closes could not be fetched: "),
        ):
            ran = await shell(url, "print(page)", server)
            assert (ran.code, ran.out) == (1, ""), ran
            assert ran.err.startswith(message)
        assert "/secret" not in list_paths(server)
    ran = await shell("http://127.0.0.1/", "print(page)")
    assert ran.code == 2
    assert "has an address that is not public: give --allow-private" in ran.err


async def test_a_script_that_fails_shows_its_traceback_only(shell: Shell) -> None:
    async with serving(answer) as server:
        ran = await shell(f"{A}/", "x = 1\nprint(page.status)\nx / 0\n", server)
        assert (ran.code, ran.out) == (1, "200\n")
        assert ran.err == (
            'Traceback (most recent call last):\n  File "<stdin>", line 3, in <module>\n'
            "ZeroDivisionError: division by zero\n"
        )
        assert (await shell(f"{A}/", "import sys; sys.exit(7)", server)).code == 7
        assert "SyntaxError" in (await shell(f"{A}/", "1 +", server)).err


async def test_handlers_can_be_tried(shell: Shell) -> None:
    async with serving(answer) as server:
        script = "print(sorted(handlers), crawler.check(page).requests)"
        ran = await shell(f"{A}/9", script, server)
        assert ran.code == 0, ran.err
        assert ran.out.startswith(f"['links', 'parts'] [Request(url='{A}/more/9'")


async def test_a_page_of_the_archive_needs_no_network(shell: Shell, tmp_path: Path) -> None:
    await run(make_shop(), {**SHOP, f"{A}/catalogue/y_2/": SHOP[f"{A}/catalogue/x_1/"]}, tmp_path)
    for url in (f"{A}/catalogue/x_1/", f"{A}/catalogue/y_2/"):  # the body of one is in the record of the other
        ran = await shell(
            url, 'print(page.url, page.css("h1").text(), page.payload, "fetch" in globals())', out=str(tmp_path)
        )
        assert ran == Ran(0, f"{url} X {{'page': '{A}/'}} False\n", "")
    ran = await shell(f"{A}/unknown", "", out=str(tmp_path))
    assert ran == Ran(1, "", f"swath: the archive in {tmp_path} does not have {A}/unknown: swath show says why\n")


def test_the_command_reports_errors_of_the_store(tmp_path: Path) -> None:
    ran = swath_command("shell", "http://127.0.0.1:1/", "--out", str(tmp_path))
    assert ran == Ran(2, "", f"swath: there is no crawl in {tmp_path}: name its directory with --out\n")
    (tmp_path / "frontier.db").write_text("something else" * 100)
    ran = swath_command("shell", "http://127.0.0.1:1/", "--out", str(tmp_path))
    assert ran.code == 4
    assert "not an SQLite database" in ran.err


async def test_the_prompt_on_a_terminal() -> None:
    async with serving(answer) as server:
        words: Sequence[str] = (f"{A}/x", "--connect-to", f"::127.0.0.1:{server.port}", "--allow-private")

        def converse() -> str:
            terminal = Terminal("shell", *words, store="")
            terminal.read_until(lambda text: ">>> " in text)
            terminal.type('page.css("h1").text()\n')
            terminal.read_until(lambda text: "'/x'" in text)
            terminal.type("fetch('http://a.example/secret')\n")
            terminal.read_until(lambda text: "FetchFailed: " in text)
            terminal.type("fetch('http://a.example/y').url + '!'\n")
            terminal.read_until(lambda text: "http://a.example/y!" in text)
            terminal.type("page.url[-1] * 3\n")
            terminal.read_until(lambda text: "'yyy'" in text)
            terminal.type("\x04")
            assert terminal.finish() == 0
            return terminal.text

        text = await asyncio.to_thread(converse)
        assert f"page is {A}/x\n  status 200, text/html, " in text
        assert "fetch(url)" in text
        assert "crawler.check" not in text
