"""`swath crawl` as users see it: the demo, the display, and the error messages."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import swath
from docs import generate
from swath.cli import crawl_view as view
from swath.cli.crawl_command import CrawlCommand
from swath.core.item import Item
from swath.core.status import Status
from swath.crawl import seeds
from swath.crawl.settings import SETTINGS, CrawlSettings, format_flag
from swath.frontier import ADD_BUFFER
from tests.cli.conftest import COMMAND, TIMEOUT, add, environment, look, run_swath
from tests.crawl.driving import prepare

DEMO = Path(__file__).parents[2] / "examples/demo_crawl.py"
SMALL = ("--delay", "0.05s", "--max-pages-per-host", "3", "--retries", "0")


# In this locale Python uses ASCII, unless a program chooses another encoding.
PLAIN = environment(LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
del PLAIN["PYTHONIOENCODING"]


class Green(BaseHTTPRequestHandler):
    """A page with a title that is not in ASCII."""

    def do_GET(self) -> None:
        body = "<!doctype html><meta charset=utf-8><title>Grün</title>".encode()
        self.send_response(404 if self.path == "/robots.txt" else 200)
        self.send_header("content-type", "text/html")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def demo(out: Path, *args: str) -> subprocess.Popen[str]:
    """Start a smaller demo. The web inherits its standard error, so the pipe closes when both have exited."""
    command = [sys.executable, str(DEMO), "--out", str(out), *SMALL, *args]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=environment(), stdout=pipe, stderr=pipe, text=True, start_new_session=True)


def test_the_demo_crawl_completes_and_a_second_run_has_nothing_to_do(tmp_path: Path) -> None:
    out = tmp_path / "crawl"
    first = demo(out)
    said, remarks = first.communicate(timeout=TIMEOUT)
    assert first.returncode == 0, remarks
    assert "starts, 2 new seeds" in remarks
    assert "result\tcomplete\n" in said
    assert "left\t0 queued, 0 failed" in said
    names = {path.suffix for path in out.iterdir()}
    assert {".gz", ".cdxj", ".json", ".txt", ".db"} <= names
    again = demo(out)
    said, remarks = again.communicate(timeout=TIMEOUT)
    assert again.returncode == 0, remarks
    assert "is complete: there are no URLs to fetch" in remarks
    assert "pages since the crawl started" in said


def test_an_interrupted_demo_resumes(tmp_path: Path) -> None:
    out = tmp_path / "crawl"
    process = demo(out, "--delay", "0.2s")
    try:
        assert process.stderr is not None
        assert "starts" in process.stderr.readline()
        os.killpg(process.pid, signal.SIGINT)  # like Ctrl-C, to the whole foreground process group
        said, remarks = process.communicate(timeout=TIMEOUT)
    finally:
        process.kill()
    assert process.returncode == 130, remarks
    assert "run the same command again to continue" in remarks
    assert "refused" not in said  # the web served the pages in flight
    process = demo(out, "--delay", "0.2s")
    said, remarks = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 0, remarks
    assert "resumes with" in remarks
    assert look(f"sqlite:///{out}/frontier.db").waiting == 0


def test_the_demo_refuses_the_directory_of_another_crawl(tmp_path: Path) -> None:
    (tmp_path / "seeds.txt").write_text("https://example.com/\n")
    process = demo(tmp_path)
    _, remarks = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 2
    assert "holds a crawl of https://example.com/" in remarks


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), "nothing to crawl: give URLs"),
        (("exa mple",), "'exa mple' is not a URL or host name"),
        (
            ("example.com", "https//example.com"),
            "'https//example.com' is not a URL or host name that can be crawled: did",
        ),
        (("http://127.0.0.1:1/",), "'http://127.0.0.1:1/' cannot be crawled: port 1 is blocked, as in browsers"),
        (("example.com:25",), "port 25 is blocked"),
        (("htps://example.com",), "did you mean https://example.com/?"),
        (("example.com", "--scope", "hosts"), "scope 'hosts' is not one of page, prefix, host, domain, any"),
        (("example.com", "--scope", "any"), "give --contact"),
        (("example.com", "--include", "("), "include pattern '(' is not a regular expression"),
        (("example.com", "--lane", "tld"), "--lane tld: must be one of host, domain, ip"),
        (("example.com", "--lane", "ip", "--proxy", "http://127.0.0.1:1"), "--lane ip needs the addresses of hosts"),
        (("example.com", "--workers", "0"), "--workers 0: must be at least 1"),
        (("example.com", "--contact", "me"), "--contact 'me': must be an e-mail address or a URL in ASCII, such as"),
        (("example.com", "--proxy", "proxy:x"), "--proxy 'proxy:x': must be a URL such as http://proxy.example:3128"),
        (("example.com", "--connect-to", "foo"), "connect-to 'foo' is not HOST:PORT:HOST:PORT"),
        (("example.com", "--exclude-hosts", "/nowhere.txt"), "--exclude-hosts /nowhere.txt: No such file"),
        (
            ("example.com", "--exclude-hosts", "/dev/null"),
            "--exclude-hosts /dev/null is read again later: give a regular",
        ),
        (("example.com", "--include", "*.html"), r"For URLs that end with .html, write \.html$"),
        (("--seeds", "/nowhere.txt"), "--seeds /nowhere.txt: No such file"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_an_error_is_one_line(tmp_path: Path, args: tuple[str, ...], said: str) -> None:
    result = run_swath("crawl", *args, "--out", str(tmp_path / "crawl"))
    assert result.code == 2
    assert result.err.startswith("swath: ")
    assert said in result.err
    assert result.err.count("\n") == 1
    assert result.out == ""


def test_a_strict_list_reports_its_first_bad_line(tmp_path: Path) -> None:
    seeds = tmp_path / "hosts.txt"
    seeds.write_text("# mine\n\nexample.com\nhttp//example.org/x\n")
    result = run_swath("crawl", "--seeds", str(seeds), "--seeds-strict", "--out", str(tmp_path / "crawl"))
    assert result.code == 2
    assert result.err.startswith(f"swath: line 4 of {seeds}: 'http//example.org/x' is not a URL or host name")
    assert result.err.endswith(": did you mean http://example.org/x?\n")
    assert not (tmp_path / "crawl").exists()


def test_an_unwritable_directory_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = run_swath("crawl", "example.com", "--out", str(tmp_path / "file"))
    assert result.code == 2
    assert result.err == f"swath: --out {tmp_path / 'file'} is a file, not a directory: give another --out\n"


def test_an_unreachable_store_is_reported(tmp_path: Path) -> None:
    result = run_swath("crawl", "example.com", "--out", str(tmp_path), "--store", "postgresql://u:secret@127.0.0.1:1/x")
    assert result.code == 3
    assert "cannot be reached" in result.err
    assert "secret" not in result.err


@pytest.mark.parametrize("url", ["sqlite", "postgres"], indirect=True)
def test_a_frontier_with_other_work_is_not_changed(url: str, tmp_path: Path) -> None:
    add(url, "a", "b")
    before = look(url)
    result = run_swath("crawl", "example.com", "--delay", "9s", "--out", str(tmp_path / "crawl"), store=url)
    assert result.code == 2
    assert "holds work that is not a crawl: give another --store" in result.err
    after = look(url)
    assert (after.ready, after.min_interval, after.concurrency) == (2, before.min_interval, before.concurrency)
    assert not (tmp_path / "crawl").exists()


def test_a_crawl_that_was_killed_while_it_added_seeds_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fact that marks the frontier as a crawl's is stored before the first URL."""
    settings = CrawlSettings(out=str(tmp_path))

    def some(_settings: CrawlSettings, _new: Path) -> Iterator[Item]:
        for number in range(2 * ADD_BUFFER):
            yield Item(f"https://example.com/{number}", "example.com")
        raise ConnectionAbortedError

    with monkeypatch.context() as patch:
        patch.setattr(seeds, "make_seed_items", some)
        with pytest.raises(ConnectionAbortedError):
            asyncio.run(prepare(settings, ["https://example.com/"]))
    assert look(settings.store_url).waiting
    assert asyncio.run(prepare(settings, ["https://example.com/"])).resumed


@pytest.mark.parametrize(
    "args",
    [
        ("--seeds", "/dev/null"),
        ("exa mple",),
        ("--seeds", "/nowhere.txt"),
        ("example.com", "--store", "sqlite:////nowhere/frontier.db"),
    ],
    ids=lambda args: args[-1],
)
def test_a_refused_crawl_leaves_nothing_behind(tmp_path: Path, args: tuple[str, ...]) -> None:
    assert run_swath("crawl", *args, "--out", str(tmp_path / "new" / "crawl")).code in (2, 3)
    assert not (tmp_path / "new").exists()
    (tmp_path / "mine").mkdir()
    assert run_swath("crawl", *args, "--out", str(tmp_path / "mine")).code in (2, 3)
    assert list((tmp_path / "mine").iterdir()) == []


@pytest.mark.parametrize("more", [(), ("--no-robots",), ("--lane", "ip")], ids=" ".join)
def test_an_address_that_is_not_public_is_refused_until_it_is_allowed(
    url: str, tmp_path: Path, more: tuple[str, ...]
) -> None:
    """It is not a failure, and a later run with --allow-private queues the page again."""
    words = ("crawl", "https://a.example/x", *more, "--connect-to", "::127.0.0.1:1", "--retries", "0", "--json")
    result = run_swath(*words, "--out", str(tmp_path), store=url)
    assert result.code == 1
    assert "is not a public address; --allow-private permits it" in result.err
    summary = json.loads(result.out.splitlines()[-1])
    assert (summary["dead"], summary["robots_fetched"], summary["errors"]) == (0, 0, {})
    assert summary["refused"] == {"private": 1}
    assert summary["result"].startswith("nothing was fetched: private: 127.0.0.1 is not a public address")
    assert summary["next"][-1].endswith(" --allow-private")
    allowed = run_swath(*words, "--allow-private", "--out", str(tmp_path), store=url)
    assert "note: 1 URL that --allow-private permits is queued again" in allowed.err
    assert json.loads(allowed.out.splitlines()[-1])["errors"]
    again = run_swath(*words, "--allow-private", "--out", str(tmp_path), store=url)
    assert "queued again" not in again.err


def test_seeds_from_standard_input_are_utf_8_in_any_locale(tmp_path: Path) -> None:
    command = [*COMMAND, "crawl", "--seeds", "-", "--out", str(tmp_path), "-q", "--connect-to", "::127.0.0.1:1"]
    subprocess.run(command, input="http://127.0.0.1:8001/ü\n".encode(), env=PLAIN, check=False, timeout=TIMEOUT)
    assert (tmp_path / "seeds.txt").read_text() == "http://127.0.0.1:8001/%C3%BC\n"


def test_export_is_utf_8_in_any_locale(tmp_path: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Green) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        seed = f"http://127.0.0.1:{server.server_port}/"
        assert run_swath("crawl", seed, "--allow-private", "--delay", "0s", "--out", str(tmp_path)).code == 0
        server.shutdown()
    command = [*COMMAND, "export", "--out", str(tmp_path)]
    done = subprocess.run(command, env=PLAIN, capture_output=True, check=True, timeout=TIMEOUT)
    pages = [json.loads(line) for line in done.stdout.decode().splitlines()]
    assert {(page["depth"], page["title"]) for page in pages if page["kind"] == "page"} == {(0, "Grün")}


def test_export_omits_empty_fields(tmp_path: Path) -> None:
    closed = ("--connect-to", "::127.0.0.1:1", "--allow-private", "--retries", "0", "--delay", "0s")
    run_swath("crawl", "example.com", *closed, "--out", str(tmp_path))
    *forms, page = map(json.loads, run_swath("export", "--out", str(tmp_path)).out.splitlines())
    assert [form["fallback"] for form in forms] == [
        "http://example.com/",
        "https://www.example.com/",
        "http://www.example.com/",
    ]
    assert (page["kind"], page["failed"][:8], page["attempts"]) == ("page", "refused:", 1)
    assert not {"status", "excluded", "rule"} & page.keys()
    assert None not in page.values()


def test_an_unwritable_index_is_reported(tmp_path: Path) -> None:
    (tmp_path / "index.cdxj.new").mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), Green) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        seed = f"http://127.0.0.1:{server.server_port}/"
        ran = run_swath("crawl", seed, "--allow-private", "--delay", "0s", "--out", str(tmp_path), "-q")
        server.shutdown()
    assert (ran.code, ran.err) == (2, f"swath: --out {tmp_path} cannot be written to: Is a directory\n")


def test_explain_names_the_rule_that_refuses_a_url(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/frontier.db"
    limits = ("--exclude", "/private/", "--connect-to", "::127.0.0.1:1", "--allow-private", "--retries", "0")
    run_swath("crawl", "example.com", *limits, "--delay", "0s", "--out", str(tmp_path))
    for url, reason in {
        "https://example.com/a/a/a/a/a": "as a trap (path-repeats): its path repeats itself",
        "https://example.com/private/1": "an --exclude pattern matches it",
        "https://EXAMPLE.com/x": "It is crawled as https://example.com/x",
        "https://example.com/other": "was never added",
    }.items():
        explained = run_swath("explain", url, store=store)
        assert explained.code == 1
        assert reason in explained.words


def test_export_reports_errors(tmp_path: Path) -> None:
    assert "--format txt: must be one of" in run_swath("export", "pages.txt", "--out", str(tmp_path)).err
    assert "there is no crawl in" in run_swath("export", "--out", str(tmp_path)).err


def test_parquet_can_be_exported_to_a_file_with_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asyncio.run(prepare(CrawlSettings(out=str(tmp_path)), ["https://a.example/"]))
    monkeypatch.chdir(tmp_path)
    for name in ("at-12:30.parquet", "\udcff.parquet"):
        assert run_swath("export", name, "--out", str(tmp_path)).code == 0
        assert (tmp_path / name).stat().st_size


# the display


def status(*, ready: int = 0, delayed: int = 0, claimed: int = 0, lanes: int = 0, wait: float = 0.0) -> Status:
    now = datetime(2030, 1, 1, tzinfo=UTC)
    ready_at = now + timedelta(seconds=wait)
    return Status(
        ready=ready, delayed=delayed, claimed=claimed, done=0, visits=0, dead=0, lanes=lanes, inbox=0, paused=False,
        min_interval=70.0, concurrency=1, max_attempts=5, checkpoints=[], next_ready_at=ready_at, now=now,
    )  # fmt: skip


def shown(settings: CrawlSettings, stats: dict[str, object], now: Status, *, workers: int = 500) -> str:
    console = Console(width=100, file=StringIO(), record=True)
    stats = {"workers": workers, **stats}
    states = view.add_pacing([], settings, stats, now)
    console.print(view.build_panel(settings, stats, now, states))
    return console.export_text()


def test_the_panel_explains_the_limit_when_hosts_are_few() -> None:
    settings = CrawlSettings(out="crawl", scope="any", contact="me@example.com")
    text = " ".join(shown(settings, {"in_flight": 2}, status(ready=5_000, lanes=700)).replace("│", " ").split())
    assert "700 hosts, one page every 70 s each, at most 10.0 pages/s; more workers do not help" in text
    assert "hosts 700 seen, at most 700 with URLs left, some ready now" in text


def test_the_panel_shows_when_every_host_waits() -> None:
    """For example when a few hosts of many remain, with many pages each."""
    settings = CrawlSettings(out="crawl", scope="any", contact="me@example.com", lane="domain")
    now = status(ready=90_000, lanes=60_000, wait=3.0)
    text = " ".join(shown(settings, {"in_flight": 2}, now).replace("│", " ").split())
    assert "domains 60,000 seen, at most 60,000 with URLs left, next one ready in 3 s" in text
    assert "every domain with URLs left waits 70 s between pages" in text


def test_the_panel_says_when_every_host_is_paused() -> None:
    text = shown(CrawlSettings(out="crawl"), {}, status(ready=1, lanes=44, wait=16.53))
    assert "next one ready in 16.5 s" in text
    assert "throttled: every host with URLs left asked for a pause or a longer delay, fails or is slow" in text


def test_the_panel_does_not_show_a_lease_as_a_wait() -> None:
    """In a crawl of one site the only host is in flight, and the next known moment is the end of the lease."""
    text = shown(CrawlSettings(out="crawl"), {"in_flight": 1}, status(ready=9, claimed=1, lanes=1, wait=89.8))
    assert "at most 1 with URLs left " in text
    assert "next one ready" not in text
    assert "paused" not in text
    assert "1 host, one page every 1 s, at most 1.0 pages/s" in text


@pytest.mark.parametrize(
    ("stats", "now"),
    [
        ({"in_flight": 400}, {"ready": 5_000, "lanes": 700}),  # the workers are busy
        ({}, {"ready": 90_000, "lanes": 60_000}),  # enough hosts
        ({}, {"ready": 0, "delayed": 3, "lanes": 700}),  # only retries remain
    ],
)
def test_the_panel_has_no_hint_when_politeness_is_not_the_limit(stats: dict[str, object], now: dict[str, int]) -> None:
    settings = CrawlSettings(out="crawl", scope="any", contact="me@example.com")
    assert "politeness" not in shown(settings, stats, status(**now))


def test_host_names_cannot_send_escape_sequences_to_the_terminal() -> None:
    text = shown(CrawlSettings(out="\x1b[2J"), {"slow": {"\x1b]0;owned\x07": 9.0}}, status())
    assert "\x1b" not in text
    assert r"\x1b]0;owned\x07 9.0 s" in text


# the settings


def test_each_setting_is_an_option_with_its_default_and_help() -> None:
    """A setting is written once, as a field of CrawlSettings; `swath crawl` has the option for it."""
    options = {param.name: param for path, command in generate.list_commands() if path == ("swath", "crawl")
               for param in command.params}  # fmt: skip
    for field in fields(CrawlSettings):
        info = SETTINGS.get(field.name)
        if info is None:
            assert field.name not in options
            continue
        option = options[field.name]
        assert (option.help, option.envvar) == (info.help, info.envvar)
        assert option.opts[0] == format_flag(field.name)
        assert (option.default or ()) == (field.default or ())


@pytest.mark.parametrize("processes", [1, 2])
async def test_a_crawl_opens_its_frontier_once(processes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A first attempt finds no frontier and creates one. A resume opens it, and child processes open their own."""
    opened: list[bool] = []
    plain = swath.open

    def counted(url: str, **options: Any) -> Any:
        opened.append(options.get("create", True))
        return plain(url, **options)

    monkeypatch.setattr(swath, "open", counted)
    settings = CrawlSettings(
        out=str(tmp_path), connect_to=("::127.0.0.1:1",), allow_private=True, retries=0, delay=0.0, processes=processes
    )
    for expected in ([False, True], [False]):
        opened.clear()
        await CrawlCommand(settings, json=True, quiet=True).run(["example.com", f"{len(expected)}.example"], None)
        assert opened == expected
