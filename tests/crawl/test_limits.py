"""The limits of a crawl, how it stops, and what it refuses to start."""

import asyncio
import gzip
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import swath
from swath.core.errors import SchemaError, UsageError
from swath.crawl import job, seeds
from swath.crawl.fleet import Fleet
from swath.crawl.job import count_pages
from swath.crawl.settings import CrawlSettings
from swath.runner.shutdown import Stop
from swath.testing.web import Web, WebProcess, find_too_close, find_too_many_at_once, spawn
from tests.crawl.archives import archived_urls, check_records
from tests.crawl.driving import begin, crawl, crawl_here, crawl_words, environment, prepare, read_status, swath_command
from tests.crawl.killing import children, wait
from tests.crawl.web import Exchange, serving

DELAY = "0.02"
SEEDS = 100_000 if os.environ.get("SWATH_SOAK") == "1" else 20_000
WEB = Web(seed=11, hosts=6, pages=120, faults=False, skew=0.5, sitemaps=False)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebProcess]:
    with spawn(WEB, log=tmp_path_factory.mktemp("web") / "requests.jsonl") as spawned:
        yield spawned


@pytest.fixture
def spawned(shared: WebProcess) -> WebProcess:
    """The web, with an empty log."""
    assert shared.log is not None
    os.truncate(shared.log, 0)
    return shared


def pages_of(out: Path) -> set[str]:
    return {url for url in archived_urls(out) if not url.endswith("/robots.txt")}


def hosts_of(urls: set[str]) -> Counter[str]:
    return Counter(url.split("/")[2] for url in urls)


# how many pages


def test_max_pages_per_host_is_exact(tmp_path: Path) -> None:
    """Also with several pages in flight. The interval holds from start to start (INV-3)."""
    web = Web(seed=11, hosts=3, pages=60, faults=False, skew=0.0, sitemaps=False, latency_seconds=0.4)
    out = tmp_path / "out"
    options = ("--scope", "domain", "--delay", "0.1", "--max-pages-per-host", "7", "--max-workers-per-host", "3")
    with spawn(web, log=tmp_path / "requests.jsonl") as spawned:
        ran = crawl(spawned, out, *options, urls=web.seeds)
        entries = spawned.requests
    assert list(hosts_of(pages_of(out)).values()) == [7] * 3
    assert ran.summary["refused"]["host-budget"] > 0
    # A start is when the store hands a page out; from there to the request it may take a moment.
    assert find_too_close(entries, 0.1, since="start", slack=0.05) == []
    assert find_too_many_at_once(entries, 3) == {}
    assert set(find_too_many_at_once(entries, 2)) == {f"h000{number}.demo.test" for number in range(3)}


def test_max_pages_stops_a_crawl(spawned: WebProcess, tmp_path: Path) -> None:
    """At most that many pages, plus those in flight. The command without the limit continues."""
    out = tmp_path / "out"
    ran = crawl(spawned, out, "--scope", "domain", "--delay", DELAY, "--max-pages", "20", urls=WEB.seeds)
    assert (ran.code, ran.summary["stopped_by"]) == (1, "max-pages")
    assert 20 <= len(pages_of(out)) <= 20 + WEB.hosts
    ran = crawl(spawned, out, "--scope", "domain", "--delay", DELAY, urls=WEB.seeds)
    assert (ran.code, ran.summary["stopped_by"]) == (0, "done")
    assert WEB.check({entry.url for entry in spawned.requests}, archived_urls(out)) == []


async def test_max_pages_counts_a_page_that_is_settled_while_pages_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, counted = asyncio.Event(), asyncio.Event()
    counts: list[int] = []

    async def answer(exchange: Exchange) -> None:
        if exchange.path == "/":
            asked.set()
            await counted.wait()
        await exchange.ok(b'<a href="/next">x</a>', headers=b"Content-Type: text/html\r\n")

    async def count_while_the_page_is_settled(frontier: swath.Frontier) -> int:
        """Return what was true before the page was settled."""
        count = await count_pages(frontier)
        if asked.is_set() and not counted.is_set():
            counts.append(count)
            counted.set()
            while not await count_pages(frontier):  # noqa: ASYNC110  nothing tells it
                await asyncio.sleep(0.01)
        return count

    monkeypatch.setattr(job, "count_pages", count_while_the_page_is_settled)
    async with serving(answer) as server:
        settings = CrawlSettings(out=str(tmp_path), allow_private=True, delay=0.05, robots=False, max_pages=1)
        await crawl_here(settings, [server.url(host="127.0.0.1")])
    assert counts == [0]
    assert [request.split()[1] for request in server.requests] == [b"/"]


@pytest.mark.parametrize("coded", [False, True])
async def test_max_size_does_not_truncate_robots_txt(tmp_path: Path, coded: bool) -> None:
    rules = b"User-agent: *\n#" + b"x" * 2_000 + b"\nDisallow: /secret\n"

    async def answer(exchange: Exchange) -> None:
        if exchange.path == "/robots.txt":
            await exchange.ok(gzip.compress(rules) if coded else rules, headers=b"Content-Encoding: gzip\r\n" * coded)
        else:
            await exchange.ok(b'<a href="/secret">x</a>' + b" " * 2_000, headers=b"Content-Type: text/html\r\n")

    async with serving(answer) as server:
        settings = CrawlSettings(out=str(tmp_path), allow_private=True, delay=0.0, max_size=1_000)
        _, job = await crawl_here(settings, [server.url(host="127.0.0.1")])
    assert [request.split()[1] for request in server.requests] == [b"/robots.txt", b"/"]
    assert job.stats.refused == {"robots": 1}


def test_max_duration_stops_a_crawl(spawned: WebProcess, tmp_path: Path) -> None:
    out = tmp_path / "out"
    began = time.monotonic()
    ran = crawl(spawned, out, "--scope", "domain", "--delay", "1s", "--max-duration", "1.5s", urls=WEB.seeds)
    assert ran.summary["stopped_by"] == "max-duration"
    assert time.monotonic() - began < 10
    assert (ran.code, ran.summary["queued"] > 0) == (1, True)
    check_records(out)


# how far


Within = Callable[[str, str], bool]


def anything(url: str, seed: str) -> bool:
    return "outside" not in url


def on_host(url: str, seed: str) -> bool:
    return url.startswith(seed)


def even(url: str, seed: str) -> bool:
    return url == seed or (on_host(url, seed) and url[-1] in "02468")


def not_even(url: str, seed: str) -> bool:
    return on_host(url, seed) and url[-1] not in "02468"


SCOPES: list[tuple[Within, dict[str, Any]]] = [
    (lambda url, seed: url == seed, {"scope": "page"}),
    (on_host, {"scope": "host"}),
    (anything, {"scope": "domain", "depth": 1}),
    (even, {"scope": "host", "include": ("[02468]$", "test/$")}),
    (not_even, {"scope": "host", "exclude": ("[02468]$",)}),
    (anything, {"scope": "any", "contact": "me@example.org", "exclude": ("outside",)}),
]


@pytest.mark.parametrize(("within", "options"), SCOPES, ids=[str(options) for _, options in SCOPES])
async def test_a_crawl_stays_in_scope(
    spawned: WebProcess, tmp_path: Path, options: dict[str, Any], within: Within
) -> None:
    out = tmp_path / "out"
    seed = WEB.seeds[0]
    await crawl_here(
        CrawlSettings(out=str(out), delay=0.0, connect_to=(spawned.connect_to,), allow_private=True, **options), [seed]
    )
    found = pages_of(out)
    assert seed in found
    assert {url for url in found if not within(url, seed)} == set()
    assert found == _reachable(seed, options, within)


def _reachable(seed: str, options: dict[str, Any], within: Within) -> set[str]:
    """Return the pages that links lead to, computed from the web's own data."""
    most = options.get("depth", 99)
    found, fresh = {seed}, {seed}
    for _ in range(most):
        pages = [page for url in sorted(fresh) if (page := WEB.page(url)) is not None and url in WEB.urls_to_archive()]
        links = {link.url for page in pages for link in page.links}
        fresh = {url for url in links - found if within(url, seed) and url in WEB.urls_to_archive()}
        found |= fresh
    return found


def test_a_crawl_stays_below_the_prefix(spawned: WebProcess, tmp_path: Path) -> None:
    """The directory of the seed, and what lies below."""
    out = tmp_path / "out"
    inside = next(url for url in sorted(WEB.urls_to_archive()) if url.count("/") > 4)
    directory = inside.rpartition("/")[0] + "/"
    crawl(spawned, out, "--delay", "0", "--scope", "prefix", urls=[inside])
    assert inside in pages_of(out)
    assert {url for url in pages_of(out) if not url.startswith(directory)} == set()


# how it stops


@pytest.mark.parametrize("processes", ["1", "2"])
def test_ctrl_c_stops_cleanly_and_says_how_to_continue(spawned: WebProcess, tmp_path: Path, processes: str) -> None:
    out = tmp_path / "out"
    words = crawl_words(spawned, out, "--scope", "domain", "--delay", "0.3", "--processes", processes, urls=WEB.seeds)
    process = begin([word for word in words if word != "--json"])
    assert wait(lambda: len(spawned.requests) > 8, 60.0)
    family = children(process.pid)
    began = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, err = process.communicate(timeout=20)
    assert time.monotonic() - began < 10
    assert process.returncode == 130
    assert "run the same command again to continue" in err
    assert not any(Path(f"/proc/{pid}").exists() for pid in family)
    check_records(out)


def test_a_second_ctrl_c_aborts(tmp_path: Path) -> None:
    """Even while the crawl waits for responses that never come."""
    web = Web(seed=1, hosts=1, pages=1, faults=frozenset({"slow"}))
    with spawn(web, log=tmp_path / "requests.jsonl") as spawned:
        out = tmp_path / "out"
        words = crawl_words(spawned, out, "--delay", "0", "--timeout", "60s", urls=["http://slow.demo.test/hang"])
        process = begin(words, lease=60)
        assert wait(lambda: len(spawned.requests) >= 1, 60.0)  # robots.txt
        time.sleep(0.5)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
        assert time.monotonic() - began < 3
        assert process.returncode == 130


def test_a_crawl_whose_processes_were_all_killed_fails(spawned: WebProcess, tmp_path: Path) -> None:
    words = crawl_words(spawned, tmp_path / "out", "--scope", "domain", "--processes", "2", urls=WEB.seeds)
    process = begin(words)
    assert wait(lambda: len(spawned.requests) > 2, 60.0)
    for pid in children(process.pid):
        os.kill(pid, signal.SIGKILL)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 1
    assert "process 0: exited with code -9\n" in err
    assert "process 1: exited with code -9\n" in err
    assert "run the same command again to continue" in err
    assert '"stopped_by": "failed"' in out


async def test_a_crawl_fails_with_the_error_type_of_its_processes(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "frontier.db") as foreign:
        foreign.execute("CREATE TABLE theirs (x)")
    foreign.close()
    async with swath.open("memory:") as frontier:
        fleet = Fleet(CrawlSettings(out=str(tmp_path), processes=2), frontier, Stop())
        with pytest.raises(SchemaError, match=r"process 0: .*; process 1: "):
            await fleet.run()


def test_changed_settings_are_printed(spawned: WebProcess, tmp_path: Path) -> None:
    out = tmp_path / "out"
    crawl(spawned, out, "--delay", "0", "--scope", "page", urls=WEB.seeds)
    ran = crawl(spawned, out, "--delay", "0", "--scope", "host", "--depth", "0", "--workers", "9", urls=WEB.seeds)
    assert 'note: --scope was "page" before and is now "host" (the default)\n' in ran.err
    assert "note: --depth was not set before and is now 0\n" in ran.err
    assert "--workers" not in ran.err


# what it refuses to start


@pytest.mark.parametrize("options", [("--scope", "any"), ("--scope", "host")])
def test_many_hosts_require_a_contact(tmp_path: Path, options: tuple[str, ...]) -> None:
    """The run is refused before anything is added, wherever in the list the hosts are."""
    out = tmp_path / "out"
    seeds = "".join(f"h{max(0, number - 2_000)}.example/{number}\n" for number in range(2_011))
    ran = swath_command("crawl", "--seeds", "-", "--out", str(out), "--json", *options, stdin=seeds)
    assert (ran.code, "--contact" in ran.err) == (2, True)
    assert not (out / "frontier.db").exists()
    assert not (out / "seeds.txt").exists()


def test_a_strict_list_is_refused_before_anything_is_added(tmp_path: Path) -> None:
    out = tmp_path / "out"
    seeds = "# mine\n\n" + "".join(f"h0.example/{number}\n" for number in range(2_000)) + "mailto:me@example.org\n"
    ran = swath_command("crawl", "--seeds", "-", "--seeds-strict", "--out", str(out), "--json", stdin=seeds)
    assert (ran.code, "line 2,003 of standard input: 'mailto:me@example.org' is not a URL" in ran.err) == (2, True)
    assert not (out / "frontier.db").exists()


async def test_a_machine_that_joins_needs_the_seeds(tmp_path: Path) -> None:
    """Without them nothing would be in scope, without an error."""
    store = f"sqlite:///{tmp_path}/frontier.db"
    await prepare(CrawlSettings(out=str(tmp_path / "one"), store=store), ["https://h0.example/"])
    with pytest.raises(UsageError, match="the same seeds"):
        await prepare(CrawlSettings(out=str(tmp_path / "two"), store=store, delay=9.0), [])
    assert not (tmp_path / "two").exists()
    assert (await read_status(CrawlSettings(out=str(tmp_path / "one"), store=store))).min_interval == 1.0
    again = await prepare(CrawlSettings(out=str(tmp_path / "two"), store=store), ["https://h0.example/"])
    assert (again.added, again.resumed) == (0, True)
    assert (tmp_path / "two" / seeds.FILE).read_text() == "https://h0.example/\n"


def test_a_machine_that_joins_without_seeds_says_what_became_of_the_crawl(tmp_path: Path) -> None:
    words = ["--store", f"sqlite:///{tmp_path}/frontier.db", "--scope", "any", "--contact", "me@example.org"]
    words += ["--delay", "0s", "--retries", "0", "--connect-to", "::127.0.0.1:1", "--allow-private", "--json"]
    assert swath_command("crawl", "https://down.example/", "--out", str(tmp_path / "one"), *words).code == 1
    joined = swath_command("crawl", "--out", str(tmp_path / "two"), *words)
    assert (joined.code, joined.summary["result"]) == (1, "nothing was fetched, 1 failed"), joined.err


def test_seeds_are_streamed(tmp_path: Path) -> None:
    """Line by line into a file, and from there into the frontier: a list of millions is never in memory."""
    out = tmp_path / "out"
    settings = CrawlSettings(out=str(out), scope="host", contact="me@example.org")

    def lines() -> Iterator[str]:
        for number in range(SEEDS):
            yield f"https://h{number}.example/"
        files = [path for path in Path("/proc/self/fd").glob("*") if os.path.realpath(path).startswith(f"{out}/")]
        assert max(path.stat().st_size for path in files) > SEEDS * 10

    prepared = asyncio.run(prepare(settings, lines()))
    assert prepared.added == SEEDS
    with (out / seeds.FILE).open() as kept:
        assert sum(1 for _ in kept) == SEEDS
    assert asyncio.run(prepare(settings, ["https://h1.example/", "https://new.example/"])).added == 1


FEW = """
import resource, runpy
resource.setrlimit(resource.RLIMIT_NOFILE, (160, 160))
runpy.run_module("swath", run_name="__main__")
"""


def test_a_low_descriptor_limit_reduces_workers(spawned: WebProcess, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = crawl_words(spawned, out, "--scope", "domain", "--delay", "0", "--workers", "500", urls=WEB.seeds)
    ran = subprocess.run(
        [sys.executable, "-c", FEW, *words],
        capture_output=True, text=True, timeout=120, check=False, env=environment(),
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert "500 workers need" in ran.stderr
    assert WEB.check({entry.url for entry in spawned.requests}, archived_urls(out)) == []
