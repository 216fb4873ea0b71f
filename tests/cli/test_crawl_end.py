"""What a crawl says of failures: at once about its seeds, at its end about the result, and what to do next.

DNS answers for names in `.onion` without a query: they do not exist (RFC 7686).
"""

import json
import shlex
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from swath.cli.crawl_summary import list_next_steps
from swath.cli.failed_seeds import FailedSeeds
from swath.crawl.settings import CrawlSettings
from swath.crawl.stats import NAMED_SEEDS
from tests.cli.conftest import Result, look, run_swath
from tests.cli.test_crawl import status
from tests.cli.test_terminal import Terminal

MISTYPED = "http://exmaple.onion/"
CLOSED = ("--connect-to", "::127.0.0.1:1", "--allow-private", "--delay", "0s")  # nothing listens at port 1


class Site(BaseHTTPRequestHandler):
    """A page with a link; robots.txt is 404 or what a test sets."""

    robots = 404

    def do_GET(self) -> None:
        status = self.robots if self.path == "/robots.txt" else 200
        body = b"<a href=/next>next</a>"
        self.send_response(status)
        self.send_header("content-type", "text/html")
        self.send_header("content-length", f"{len(body)}")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving(handler: type[Site] = Site) -> Iterator[str]:
    """Serve a site, and yield the value for --connect-to."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"::127.0.0.1:{server.server_port}"
        server.shutdown()


def crawl(out: Path, *words: str, store: str | None = None) -> Result:
    return run_swath("crawl", *words, "--out", str(out), store=store)


def rows(result: Result) -> list[list[str]]:
    return [line.split("\t", 1) for line in result.out.splitlines() if "\t" in line]


# seeds


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_mistyped_seed_is_named_and_the_crawl_fails_in_seconds(tmp_path: Path, processes: str) -> None:
    """With the default settings. The exit code, the page list and `swath dead` tell the same."""
    out = tmp_path / "out"
    ran = crawl(out, MISTYPED, "--processes", processes)
    assert ran.code == 1
    lines = ran.err.splitlines()
    assert f"swath: seed {MISTYPED}: dns: no such host" in lines[:2]
    assert lines[-1] == "swath: nothing was fetched: dns: no such host (exmaple.onion)"
    assert ["result", "nothing was fetched: dns: no such host (exmaple.onion)"] in rows(ran)
    assert ["errors", "dns 1"] in rows(ran)
    assert ["next", f"swath dead --store {out}"] in rows(ran)
    dead = run_swath("dead", "--json", store=f"sqlite:///{out}/frontier.db").json_lines()
    assert [(one["key"], one["reason"]) for one in dead] == [(MISTYPED, "dns: no such host")]
    (line,) = map(json.loads, run_swath("export", "--out", str(out)).out.splitlines())
    assert (line["url"], line["failed"], line["attempts"]) == (MISTYPED, "dns: no such host", 1)
    assert "excluded" not in line


def test_the_result_names_a_mistyped_host_once(tmp_path: Path) -> None:
    ran = crawl(tmp_path / "out", "exmaple.onion")
    forms = "https://exmaple.onion/, https://www.exmaple.onion/"
    assert ["result", f"nothing was fetched: dns: no such host ({forms})"] in rows(ran)


def test_only_the_first_failed_seeds_are_named(tmp_path: Path) -> None:
    seeds = [f"http://{number}.onion/" for number in range(13)]
    ran = crawl(tmp_path / "out", *seeds, "--contact", "me@example.org", "--quiet")
    named = [line for line in ran.err.splitlines() if line.startswith("swath: seed ")]
    assert len(named) == 10
    assert "swath: 3 more seeds failed\n" in ran.err
    assert "swath: nothing was fetched: dns: no such host (0.onion), 13 failed" in ran.err


def test_each_named_seed_is_named_again_when_it_is_given_up(capsys: pytest.CaptureFixture[str]) -> None:
    reported = FailedSeeds(json=False)
    seeds = [f"http://{number}.onion/" for number in range(NAMED_SEEDS + 1)]
    reported.report({"seed_failures": [(seed, "dns", 60.0) for seed in seeds]})
    capsys.readouterr()
    reported.report({"seed_failures": [(seed, "dns", None) for seed in seeds]})
    reported.report({"seed_failures": [(seed, "dns", None) for seed in seeds]})
    assert capsys.readouterr().err.splitlines() == [f"swath: seed {seed}: dns; given up" for seed in seeds[:-1]]


def test_json_has_an_event_for_a_failed_seed(tmp_path: Path) -> None:
    ran = crawl(tmp_path / "out", "https://example.com/", *CLOSED, "--retries", "1", "--json")
    events = [json.loads(line) for line in ran.out.splitlines()]
    failed = [event for event in events if event["event"] == "seed-failed"]
    assert failed[0]["url"] == "https://example.com/"
    assert {event["reason"] for event in failed} == {"refused: connection refused"}
    assert failed[0]["next_attempt_seconds"] > 0
    assert failed[-1]["next_attempt_seconds"] is None
    summary = events[-1]
    assert (summary["event"], summary["stopped_by"], summary["seeds_failed"]) == ("summary", "done", 1)
    assert summary["result"] == "nothing was fetched: refused: connection refused (example.com)"
    assert (summary["dead"], summary["robots_fetched"], summary["errors"]) == (1, 0, {"refused": 2})


def test_a_failed_seed_is_named_above_the_panel(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/frontier.db"
    terminal = Terminal("crawl", MISTYPED, "https://example.com/", *CLOSED, "--out", str(tmp_path), store=store)
    terminal.finish()
    seed = terminal.text.index("swath: seed https://example.com/: refused: connection refused; next attempt in")
    assert seed < terminal.text.rindex("crawling into")
    assert seed < terminal.text.rindex("errors")


# the end


def test_the_commands_for_the_next_steps_can_be_copied(tmp_path: Path) -> None:
    """Also on a narrow terminal: they are not wrapped."""
    out = tmp_path / "a directory with a long name"
    with serving() as target:
        seed = ("http://example.com/", MISTYPED)
        terminal = Terminal(
            "crawl", *seed, "--connect-to", target.replace("::", "example.com::"), "--allow-private", "--delay", "0s",
            "--out", str(out), store=f"sqlite:///{out}/frontier.db", width=60,
        )  # fmt: skip
        assert terminal.finish() == 1
    commands = {
        name: shlex.split(line.split("swath ", 1)[1])
        for line in terminal.text.splitlines()
        for name in ("export the pages:", "show a page:", "list the failures:", "try them again:")
        if line.startswith(name)
    }
    assert len(commands) == 4, terminal.text
    assert run_swath(*commands["export the pages:"][:1], *commands["export the pages:"][2:]).code == 0
    assert "<a href=/next>next</a>" in run_swath(*commands["show a page:"]).out
    assert "dns: no such host" in run_swath(*commands["list the failures:"]).out
    assert "1 failed page made ready again" in run_swath(*commands["try them again:"]).err
    assert "complete, 1 failed" in terminal.text


@pytest.mark.parametrize(
    ("words", "code", "result"),
    [
        (("http://example.com/",), 0, "complete"),
        (("http://example.com/", MISTYPED), 1, "complete, 1 failed"),
        (("http://example.com/", "--max-pages", "1"), 1, "stopped by --max-pages, 1 URL left"),
        (("http://example.com/", "--max-duration", "0s"), 1, "stopped by --max-duration, 1 URL left"),
        ((MISTYPED,), 1, "nothing was fetched: dns: no such host (exmaple.onion)"),
    ],
    ids=["complete", "failures", "max-pages", "max-duration", "nothing"],
)
def test_the_result_and_the_exit_code_say_what_happened(
    tmp_path: Path, words: tuple[str, ...], code: int, result: str
) -> None:
    with serving() as target:
        more = ("--connect-to", target.replace("::", "example.com::"), "--allow-private", "--delay", "0.3s")
        ran = crawl(tmp_path / "out", *words, *more)
    assert (ran.code, ["result", result] in rows(ran)) == (code, True), ran
    again = (
        "run it with a higher --max-pages, or without it" if "--max-pages" in words else "run the same command again"
    )
    assert (f"left: {again}" in ran.err) == ("left" in result)


@pytest.mark.parametrize(("robots", "reason"), [(503, "robots: robots.txt answered 503")])
def test_a_crawl_that_robots_txt_excludes_says_so(tmp_path: Path, robots: int, reason: str) -> None:
    """A server that answers is not a host that cannot be reached."""
    with serving(type("Refusing", (Site,), {"robots": robots})) as target:
        more = ("--connect-to", target, "--allow-private", "--delay", "0s", "--retries", "0", "--json")
        ran = crawl(tmp_path / "out", "http://example.com/", *more)
    summary = json.loads(ran.out.splitlines()[-1])
    assert (ran.code, summary["dead"], summary["refused"], summary["errors"]) == (1, 0, {"robots": 1}, {})
    assert summary["result"] == f"nothing was fetched: {reason} (example.com)"


def test_commands_to_copy_repeat_what_is_not_saved_and_hide_passwords() -> None:
    store = "postgresql://me:secret@db.example/crawls?schema=news"
    settings = CrawlSettings(
        out="my crawl", store=store, workers=9, lease=120.0, connect_to=("::127.0.0.1:1",), max_pages=5, delay=9.0
    )
    (_, resume), *_ = list_next_steps(settings, status(ready=3), "stopped", total_pages=0)
    assert shlex.split(resume) == [
        "swath", "crawl", "--out", "my crawl", "--workers", "9",
        "--lease", "120s", "--connect-to", "::127.0.0.1:1",
    ]  # fmt: skip


# failed pages again


@pytest.mark.parametrize("url", ["sqlite", "postgres"], indirect=True)
@pytest.mark.parametrize("how", ["--retry-failed", "dead retry"])
def test_failed_pages_are_fetched_when_their_host_is_back(url: str, tmp_path: Path, how: str) -> None:
    """A plain run says that there are failed pages, and does not try them."""
    out, seeds = tmp_path / "out", ("http://example.com/", "http://example.com/other")
    first = crawl(out, *seeds, *CLOSED, "--retries", "0", store=url)
    assert (first.code, look(url).dead) == (1, 2)
    plain = crawl(out, *CLOSED, store=url)
    assert (plain.code, look(url).dead) == (1, 2)
    assert "note: 2 pages failed in earlier runs: --retry-failed tries them again\n" in plain.err
    assert "has no URLs left to fetch" in plain.err
    with serving() as target:
        here = ("--connect-to", target, "--allow-private", "--delay", "0s", "--scope", "page", "--json")
        if how == "--retry-failed":
            again = crawl(out, *here, how, store=url)
            assert "note: 2 failed pages made ready again\n" in again.err
        else:
            assert "2 dead items made ready again" in run_swath("dead", "retry", "--all", store=url).out
            again = crawl(out, *here, store=url)
    summary = json.loads(again.out.splitlines()[-1])
    assert (again.code, summary["result"], summary["pages"], look(url).dead) == (0, "complete", 2, 0)


@pytest.mark.parametrize("url", ["sqlite", "postgres"], indirect=True)
def test_failed_pages_that_fail_again_are_really_tried(url: str, tmp_path: Path) -> None:
    """With all retries, and not because of the failure that the earlier run found."""
    out = tmp_path / "out"
    for number, words in enumerate((["http://example.com/"], ["--retry-failed"])):
        ran = crawl(out, *words, *CLOSED, "--retries", "1", "--json", store=url)
        summary = json.loads(ran.out.splitlines()[-1])
        assert (ran.code, summary["dead"], summary["errors"]) == (1, 1, {"refused": 2}), number
