"""What the settings exclude is not fetched: seeds, and pages that were queued before the settings changed."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

import swath
from swath.core.item import Done, Item, Release
from swath.crawl.http.response import Response, make_failure
from swath.crawl.links import LinkFilter
from swath.crawl.pacing import MIN_FAILING_INTERVAL
from swath.crawl.reopening import reopen_private, reopen_refused
from swath.crawl.settings import CrawlSettings
from swath.crawl.stats import CrawlStats
from swath.crawl.urls.scope import build_scope
from tests.crawl.driving import Ran, prepare, swath_command
from tests.crawl.handling import answered, handling, settle
from tests.crawl.web import Exchange, serving

SEED = "https://a.example/docs/"
SEED_PAYLOAD = {"depth": 0}


def link(depth: int) -> dict[str, Any]:
    return {"depth": depth, "from": SEED}


@pytest.mark.parametrize(
    ("url", "payload", "settings", "found"),
    [
        ("https://a.example/docs/x", link(1), {}, None),
        (SEED, SEED_PAYLOAD, {}, None),
        ("https://b.example/", link(1), {}, ("scope", "--scope host: it is outside the scope of the seeds")),
        ("https://b.example/", SEED_PAYLOAD, {}, None),  # a seed that another machine added
        ("https://a.example/", link(1), {"kind": "prefix"},
         ("scope", "--scope prefix: it is outside the scope of the seeds")),
        (SEED, SEED_PAYLOAD, {"exclude": ["nothing", "/do"]}, ("exclude", "--exclude /do: this pattern matches it")),
        (SEED, SEED_PAYLOAD, {"include": ["/blog"]}, ("include", "--include: no --include pattern matches it")),
        (SEED, SEED_PAYLOAD, {"excluded_hosts": ["example"]},
         ("host", "--exclude-hosts: its host, or a domain above it, is in the list of excluded hosts")),
        ("https://a.example/docs/x", link(2), {"depth": 1}, ("depth", "--depth 1: it is 2 links away from a seed")),
        (SEED, SEED_PAYLOAD, {"depth": 0}, None),
        (SEED, None, {"depth": 0}, None),
    ],
)  # fmt: skip
async def test_a_page_is_checked_again_when_its_turn_comes(
    url: str, payload: Any, settings: dict[str, Any], found: tuple[str, str] | None
) -> None:
    scope = build_scope(**{"kind": "host", "seeds": [SEED], **settings})
    async with handling(answered, delay=0.0, robots=False) as (frontier, handler, actor):
        handler._links = LinkFilter(
            frontier, scope, lane_of=lambda _: "a.example", strip_tracking=False, year=2026,
            refused=CrawlStats().refused,
        )  # fmt: skip
        outcome = await handler(Item(url, "a.example", payload=payload, partition=0, position=1))
    assert isinstance(outcome, Done)
    if found is None:
        assert actor.asked == [url]
        return
    reason, rule = found
    assert (actor.asked, outcome.started, outcome.result) == ([], False, {"excluded": reason, "rule": rule})
    assert outcome.output[0].page["excluded"] == reason
    assert handler._stats.refused == {reason: 1}


async def _run(*words: str) -> Ran:
    return await asyncio.to_thread(swath_command, *words)


async def test_new_limits_apply_to_what_was_queued_before(tmp_path: Path) -> None:
    """The real command: the second run excludes what the first one queued, and a third one queues it again."""

    async def answer(exchange: Exchange) -> None:
        body = b"<a href=/keep>1</a><a href=/drop/1>2</a><a href=/drop/2>3</a>" if exchange.path == "/" else b""
        await exchange.ok(body, headers=b"Content-Type: text/html\r\n")

    async with serving(answer) as server:
        out = tmp_path / "out"
        words = ["crawl", server.url(host="127.0.0.1"), "--out", str(out), "--delay", "0s", "--allow-private"]
        words += ["--no-robots", "--max-workers-per-host", "1", "--json"]
        first = await _run(*words, "--max-pages", "1")
        assert (first.code, first.summary["queued"]) == (1, 3), first.err
        second = await _run(*words, "--exclude", "/drop/", "--include", "")
        assert (second.code, second.summary["refused"]) == (0, {"exclude": 2}), second.err
        assert [request.split()[1] for request in server.requests] == [b"/", b"/keep"]
        async with swath.open(f"sqlite:///{out}/frontier.db", create=False) as frontier:
            assert await reopen_refused(frontier, "include") == 0
            assert await reopen_refused(frontier, "exclude") == 2
        third = await _run(*words, "--reset", "exclude", "--reset", "include")
        assert (third.code, third.summary["pages"]) == (0, 2)


# private addresses


def private(url: str) -> Response:
    return make_failure(url, "private", "10.0.0.1 is not a public address", started=0.0, ended=0.0)


@pytest.mark.parametrize("robots", [True, False], ids=["robots", "no-robots"])
async def test_pages_at_private_addresses_are_refused_without_waiting(robots: bool) -> None:
    """No request is sent, so the lane neither waits nor slows down, and a later run knows that there are some."""
    async with handling(private, delay=0.0, robots=robots) as (frontier, handler, _):
        await frontier.add([Item(f"http://10.0.0.1/{number}", "10.0.0.1", 3, link(1)) for number in range(12)])
        for _ in range(12):
            claim = await frontier.claim(limit=1)
            assert claim is not None, "the lane is ready at once"
            outcome = await handler(claim.items[0])
            assert isinstance(outcome, Done)
            assert outcome.result == {
                "excluded": "private",
                "rule": "10.0.0.1 is not a public address; --allow-private permits it",
            }
            assert outcome.output[0].page["excluded"] == "private"
            await settle(claim, outcome)
        lane = await frontier.lane("10.0.0.1")
        assert lane is not None
        assert lane.min_interval == 0.0 < MIN_FAILING_INTERVAL
        assert (await frontier.counters())["refused private"] == 12
        assert (handler._stats.refused, handler._stats.errors) == ({"private": 12}, {})
        assert await reopen_private(frontier, newly_allowed=True) == 12
        assert (await frontier.status()).ready == 12
        assert await reopen_private(frontier, newly_allowed=False) == 0


async def test_allowing_private_addresses_retries_a_robots_txt_that_leads_to_one() -> None:
    """Otherwise the pages would die again of the failure that the origin had before."""

    def say(url: str) -> Response:
        if url == "http://a.example/robots.txt":
            return answered(url, 302, Location="http://a.example/rules")
        return private(url)

    async with handling(say, delay=0.0) as (frontier, handler, actor):
        await frontier.add(Item("http://a.example/", "a.example", 3, link(1)))
        while not (await frontier.status()).dead:
            claim = await frontier.claim(limit=1)
            assert claim is not None
            await settle(claim, await handler(claim.items[0]))
        assert await reopen_private(frontier, newly_allowed=True) == 1
        claim = await frontier.claim(limit=1)
        assert claim is not None
        assert isinstance(await handler(claim.items[0]), Release)
        assert actor.asked == [f"http://a.example/{name}" for name in ("robots.txt", "rules", "robots.txt")]


async def test_allowing_private_addresses_reopens_dead_pages_of_earlier_versions(tmp_path: Path) -> None:
    settings = CrawlSettings(out=str(tmp_path))
    await prepare(settings, ["https://a.example/", "https://b.example/"])
    async with swath.open(settings.store_url, create=False) as frontier:
        claim = await frontier.claim()
        assert claim is not None
        reasons = {"https://a.example/": "private: 10.0.0.1 is not a public address", "https://b.example/": "tls: no"}
        await claim.settle([item.dead(reason=reasons[item.key]) for item in claim.items])
    allowed = CrawlSettings(out=str(tmp_path), allow_private=True)
    workspace = await prepare(allowed, [])
    assert "1 URL that --allow-private permits is queued again" in workspace.changes
    assert (await prepare(allowed, [])).changes == []
    async with swath.open(settings.store_url, create=False) as frontier:
        assert (await frontier.explain("https://a.example/")).state == "ready"
        assert (await frontier.explain("https://b.example/")).state == "dead"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("http://127.0.0.1:8000/",), "'http://127.0.0.1:8000/' has an address that is not public: give --allow"),
        (("localhost:8000",), "'localhost:8000' has an address that is not public: give --allow-private"),
        (("https://app.localhost/",), "is not public: give --allow-private"),
        (("10.1.2.3",), "is not public"),
        (("http://[::1]/",), "is not public"),
        (("http://10.1.2.3/", "--proxy", "http://proxy.example:1"), "is not public"),
        (("a.example/x", "--exclude", "/x"), "'a.example/x' is excluded: --exclude /x: this pattern matches it"),
        (("a.example", "--include", "/x"), "is excluded: --include: no --include pattern matches it. Seeds must match"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)  # fmt: skip
def test_an_excluded_seed_is_refused_at_the_start(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    ran = swath_command("crawl", "b.example", *words, "--out", str(tmp_path / "out"))
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert said in ran.err
    assert not (tmp_path / "out").exists()


def test_an_excluded_host_is_refused_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("example\n")
    words = ("crawl", "a.example", "--exclude-hosts", str(tmp_path / "hosts"), "--out", str(tmp_path / "out"))
    ran = swath_command(*words)
    assert (ran.code, "'a.example' is excluded: --exclude-hosts" in ran.err) == (2, True)


def test_an_excluded_line_of_a_list_is_skipped(tmp_path: Path) -> None:
    closed = ("--connect-to", "b.example::127.0.0.1:1", "--retries", "0", "--delay", "0s", "--exclude", "^https://c")
    lines = "https://b.example/\nc.example\n10.0.0.1\n"
    out = ("--out", str(tmp_path / "out"))
    ran = swath_command("crawl", "--seeds", "-", *closed, *out, stdin=lines)
    assert ran.code == 1
    assert "skipped line 2 of standard input: 'c.example' is excluded: --exclude ^https://c" in ran.err
    assert "skipped 1 bad line of standard input, 2 good; --seeds-strict refuses bad lines" in ran.err
    ran = swath_command("crawl", "--seeds", "-", "--seeds-strict", *closed, *out, stdin=lines)
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "line 2 of standard input: 'c.example' is excluded" in ran.err
    ran = swath_command("crawl", "--seeds", "-", "--out", str(tmp_path / "new"), stdin="10.0.0.1\n")
    assert ran.code == 2
    assert "skipped line 1 of standard input: '10.0.0.1' has an address that is not public" in ran.err
    assert ran.err.endswith("nothing to crawl: standard input has no line that can be crawled\n")
    assert not (tmp_path / "new").exists()
