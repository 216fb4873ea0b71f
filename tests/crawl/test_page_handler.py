"""The page handler, one page at a time: waiting for robots.txt, its redirects, and its failures."""

import asyncio
import gc
import gzip
import threading
import time
import tracemalloc
from typing import Any

import pytest

from swath.core.clock import SECOND, from_datetime
from swath.core.item import Dead, Done, Item, Release, Retry
from swath.crawl.archive import cdxj
from swath.crawl.http.response import Response, make_failure
from swath.crawl.page_processor import PARSED_IN_THREAD, PARSERS
from swath.crawl.parse import page as parse_page
from swath.crawl.robots import cache
from swath.crawl.robots.policy import policy_from_response
from swath.crawl.settings import CrawlSettings
from swath.frontier import Frontier
from tests.crawl.handling import answered, handler_on, handling, said, settle


def item(url: str, *, attempts: int = 0, losses: int = 0) -> Item:
    lane = url.split("/")[2]
    return Item(url, lane, payload={"depth": 0}, attempts=attempts, losses=losses, partition=0, position=1)


async def test_pages_that_waited_for_robots_txt_do_not_all_start_at_once() -> None:
    """INV-3 with several pages of a host in flight: a page that waited has used its turn."""
    arrived = asyncio.Event()

    async with handling(answered, delay=1.0, max_workers_per_host=3) as (_, handler, actor):
        plain = actor.fetch

        async def slowly(url: str, *, fresh: bool = False, **_: Any) -> Response:
            answer = await plain(url, fresh=fresh)
            await arrived.wait()
            return answer

        actor.fetch = slowly  # type: ignore[method-assign]
        visits = [asyncio.create_task(handler(item(f"http://a.example/{number}"))) for number in range(3)]
        await asyncio.sleep(0.05)
        arrived.set()
        outcomes = await asyncio.gather(*visits)
    assert actor.asked == ["http://a.example/robots.txt"]
    assert all(isinstance(outcome, Release) and outcome.started for outcome in outcomes)


async def test_the_target_of_a_robots_txt_redirect_is_retried() -> None:
    """As often as a robots.txt without a redirect; then every page is excluded."""

    def say(url: str) -> Response:
        return answered(url, 302, Location="http://b.example/rules") if "a.example" in url else answered(url, 500)

    async with handling(say, delay=0.0, retries=1) as (frontier, handler, actor):
        for asked in (1, 2):
            for _ in range(2):
                assert isinstance(await handler(item("http://a.example/")), Release)
            claim = await frontier.claim(limit=1)
            assert claim is not None
            redirect = claim.items[0]
            assert redirect.lane == "b.example"
            await settle(claim, await handler(redirect))
            assert actor.asked == ["http://a.example/robots.txt", "http://b.example/rules"] * asked
            handler._robots._cache._known.clear()
            known = (await frontier.facts(["robots http://a.example"]))["robots http://a.example"]
            assert (known["kind"], known["tries"]) == ("deny", asked)
            if asked == 1:  # time passes
                await frontier.learn({"robots http://a.example": {**known, "expires_at": 0}})
        excluded = await handler(item("http://a.example/"))
    assert isinstance(excluded, Done)
    assert excluded.result == {"excluded": "robots", "rule": "robots.txt answered 500"}


@pytest.mark.parametrize("lane", ["host", "domain"])
async def test_a_redirected_robots_txt_applies_to_its_own_host(lane: str) -> None:
    """Its Crawl-delay and sitemaps apply. The response time of the other host does not slow this one down."""
    body = b"Sitemap: http://a.example/map.xml\nSitemap: more.xml\nUser-agent: *\nDisallow: /private\nCrawl-delay: 20\n"

    def say(url: str) -> Response:
        if "a.example" in url:
            return answered(url, 302, Location="http://b.example/rules")
        answer = answered(url, body=body)
        return answer._replace(ended=answer.started + 10)

    async with handling(say, lane=lane, delay=1.0) as (frontier, handler, _):
        for _ in range(2):
            assert isinstance(await handler(item("http://a.example/")), Release)
        claim = await frontier.claim(limit=1)
        assert claim is not None
        assert [redirect.lane for redirect in claim.items] == ["b.example"]
        await settle(claim, await handler(claim.items[0]))
        for sitemap in ("map.xml", "more.xml"):
            assert (await frontier.explain(f"http://a.example/{sitemap}", lane="a.example")).state == "ready"
        intervals = {status.lane: status.min_interval async for status in frontier.lanes()}
        assert intervals == {"a.example": 20.0, "b.example": 1.0}


async def blocked_until(frontier: Frontier, lane: str) -> int:
    found = await frontier.lane(lane)
    assert found is not None
    return from_datetime(found.blocked_until) if found.blocked_until else 0


def leading_away(url: str) -> Response:
    return answered(url, 302, Location="http://b.example/rules") if "robots.txt" in url else answered(url, 404)


async def test_only_one_of_several_waiting_hops_is_fetched() -> None:
    """Their lane was blocked for longer than one is waited for, so that the origin was asked anew each time. Those that
    come late change nothing of the origin's lane, which may have been promised peace since."""
    async with handling(leading_away, delay=0.0, max_workers_per_host=0) as (frontier, handler, actor):
        for waited in range(3):
            if waited:  # in vain
                fact = (await frontier.facts(["robots http://a.example"]))["robots http://a.example"]
                url, redirects, _ = fact["redirect"]
                await frontier.learn({"robots http://a.example": {**fact, "redirect": [url, redirects, 0]}})
            for _ in range(2):
                assert isinstance(await handler(item("http://a.example/")), Release)
        assert await blocked_until(frontier, "a.example") > 0
        claim = await frontier.claim(limit=10)
        assert claim is not None
        assert [redirect.lane for redirect in claim.items] == ["b.example"] * 3
        outcomes = [await handler(claim.items[0])]
        assert await blocked_until(frontier, "a.example") == 0
        await frontier.block("a.example", seconds=60.0)
        outcomes += [await handler(redirect) for redirect in claim.items[1:]]
        assert [isinstance(outcome, Done) and outcome.started for outcome in outcomes] == [True, False, False]
        assert actor.asked == ["http://a.example/robots.txt"] * 3 + ["http://b.example/rules"]
        assert await blocked_until(frontier, "a.example") > 0


async def test_a_hop_that_was_lost_with_its_process_is_fetched_again() -> None:
    """The rules may be known, but the response is not in the archive."""
    async with handling(leading_away, delay=0.0) as (frontier, handler, actor):
        for _ in range(2):
            assert isinstance(await handler(item("http://a.example/")), Release)
        claim = await frontier.claim(limit=1)
        assert claim is not None
        for losses in range(2):
            outcome = await handler(claim.items[0]._replace(attempts=losses, losses=losses))
            assert isinstance(outcome, Done)
            assert [capture.page["url"] for capture in outcome.output] == ["http://b.example/rules"]
    assert actor.asked == ["http://a.example/robots.txt"] + ["http://b.example/rules"] * 2


@pytest.mark.parametrize("busy_first", [True, False], ids=["before", "meanwhile"])
async def test_a_hop_does_not_end_a_block_for_another_reason(busy_first: bool) -> None:
    """Another process received a Retry-After from the host, before or while the redirect waited."""

    def say(url: str) -> Response:
        return answered(url, 503, Retry_After="1000") if url == "https://a.example/" else leading_away(url)

    async with handling(say, delay=0.0, max_workers_per_host=2) as (frontier, handler, actor):
        other = handler_on(frontier, CrawlSettings(out="nowhere", scope="any", delay=0.0), actor)
        rules = policy_from_response(404, now=time.time_ns() // 1_000)
        await frontier.learn({"robots https://a.example": rules.to_json()})
        if busy_first:
            assert isinstance(await other(item("https://a.example/")), Retry)
        for _ in range(2):
            assert isinstance(await handler(item("http://a.example/")), Release)
        if not busy_first:
            assert isinstance(await other(item("https://a.example/")), Retry)
        claim = await frontier.claim(limit=1)
        assert claim is not None
        await settle(claim, await handler(claim.items[0]))
        assert actor.asked[-1] == "http://b.example/rules"
        assert await blocked_until(frontier, "a.example") / SECOND > time.time() + 900


async def test_a_lane_waits_for_each_hop_of_a_robots_txt() -> None:
    targets = {"http://a.example/robots.txt": "http://b.example/", "http://b.example/": "http://c.example/"}

    def say(url: str) -> Response:
        return answered(url, 302, Location=targets[url]) if url in targets else answered(url, 404)

    async with handling(say, delay=0.0) as (frontier, handler, actor):
        for _ in range(2):
            assert isinstance(await handler(item("http://a.example/")), Release)
        for _ in range(2):
            redirect = (await frontier.facts(["robots http://a.example"]))["robots http://a.example"]["redirect"]
            assert abs(await blocked_until(frontier, "a.example") - redirect[-1]) < SECOND
            claim = await frontier.claim(limit=1)
            assert claim is not None
            await settle(claim, await handler(claim.items[0]))
        assert actor.asked == [*targets, "http://c.example/"]
        assert await blocked_until(frontier, "a.example") == 0


async def test_a_lost_worker_does_not_count_as_a_failure_of_the_page() -> None:
    """Retries count only what the host did."""
    async with handling(
        lambda url: make_failure(url, "reset", "", started=0.0, ended=0.0), robots=False, retries=1
    ) as (
        _,
        handler,
        _,
    ):
        assert isinstance(await handler(item("http://a.example/", attempts=3, losses=3)), Retry)


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("then", [{"Retry_After": "5"}, {"Retry_After": "0"}, {}], ids=["less", "none", "unsaid"])
@pytest.mark.parametrize("attempts", [0, 9])
async def test_a_retry_after_blocks_the_host(attempts: int, then: dict[str, str], processes: int) -> None:
    """Even if the page is not retried, and if another page, in any process, gets a shorter Retry-After."""
    waits = iter(({"Retry_After": "100"}, then))

    def say(url: str) -> Response:
        return answered(url, 503, b"", **next(waits))

    async with handling(say, delay=0.0, robots=False, retries=3) as (frontier, handler, actor):
        settings = CrawlSettings(out="nowhere", scope="any", delay=0.0, robots=False, retries=3)
        handlers = [handler, handler if processes == 1 else handler_on(frontier, settings, actor)]
        await frontier.add([Item("http://a.example/wait", "a.example")])
        for number, one in enumerate(handlers):
            await one(item(f"http://a.example/{number}", attempts=attempts))
        found = await frontier.explain("http://a.example/wait")
    assert "blocked until" in found.sentence, found.sentence
    assert "in 100" in found.sentence or "in 99" in found.sentence, found.sentence


@pytest.mark.parametrize(("attempts", "blocked"), [(0, True), (9, False)], ids=["again", "given-up"])
async def test_a_busy_host_is_blocked_until_the_page_is_retried(attempts: int, blocked: bool) -> None:
    """A page that is not retried blocks nothing; the interval of the host still grows."""
    async with handling(lambda url: answered(url, 503), delay=0.0, robots=False, retries=3) as (frontier, handler, _):
        await frontier.add([Item("http://a.example/wait", "a.example")])
        await handler(item("http://a.example/", attempts=attempts))
        assert (await frontier.claim(limit=1) is None) == blocked


async def test_a_retry_after_of_robots_txt_blocks_the_host() -> None:
    async with handling(lambda url: answered(url, 503, Retry_After="1000"), delay=0.0) as (frontier, handler, actor):
        await frontier.add([Item("http://a.example/wait", "a.example")])
        assert isinstance(await handler(item("http://a.example/")), Release)
        found = await frontier.explain("http://a.example/wait")
    assert actor.asked == ["http://a.example/robots.txt"]
    assert "in 17 min" in found.sentence, found.sentence


async def test_the_request_for_robots_txt_uses_the_turn_of_the_page() -> None:
    """Even without a delay: the page is fetched in its next turn."""

    def say(url: str) -> Response:
        return answered(url, 200 if "robots" in url else 500)

    async with handling(say, delay=0.0) as (_, handler, actor):
        outcome = await handler(item("http://a.example/"))
        assert isinstance(outcome, Release)
        assert [capture.page["url"] for capture in outcome.output] == ["http://a.example/robots.txt"]
        assert isinstance(await handler(item("http://a.example/")), Retry)
    assert actor.asked == ["http://a.example/robots.txt", "http://a.example/"]


async def test_pages_wait_for_the_retry_of_robots_txt() -> None:
    """Also pages that waited for the first attempt. They are excluded only after the last one."""
    arrived = asyncio.Event()

    async with handling(lambda url: answered(url, 500), delay=0.0, retries=1) as (_, handler, actor):
        plain = actor.fetch

        async def slowly(url: str, *, fresh: bool = False, **_: Any) -> Response:
            await arrived.wait()
            return await plain(url, fresh=fresh)

        actor.fetch = slowly  # type: ignore[method-assign]
        visits = [asyncio.create_task(handler(item(f"http://a.example/{number}"))) for number in range(3)]
        await asyncio.sleep(0)
        arrived.set()
        outcomes = await asyncio.gather(*visits)
    assert actor.asked == ["http://a.example/robots.txt"]
    assert all(isinstance(outcome, Release) for outcome in outcomes), outcomes
    assert sum(isinstance(outcome, Release) and bool(outcome.after) for outcome in outcomes) == 2


@pytest.mark.parametrize("lane", ["host", "domain"])
async def test_a_robots_txt_that_fails_blocks_its_own_host_only(lane: str) -> None:
    async with handling(lambda url: answered(url, 500), lane=lane, delay=0.0, retries=1) as (frontier, handler, _):
        name = {"host": "a.shop.example", "domain": "shop.example"}[lane]
        await frontier.add([Item("http://a.shop.example/wait", name)])
        assert isinstance(await handler(Item("http://a.shop.example/", name, payload={"depth": 0})), Release)
        assert (await frontier.claim(limit=1) is None) == (lane == "host")


@pytest.mark.parametrize(("status", "rule"), [(404, None), (503, "robots.txt answered 503")])
async def test_a_truncated_error_page_of_robots_txt_counts_by_its_status(status: int, rule: str | None) -> None:
    """Half of an error page is as good as all of it."""

    def say(url: str) -> Response:
        if "robots" not in url:
            return answered(url)
        return said(url, status, b"HTTP/1.1 %d x\r\n\r\n" % status, b"User-agent: *\nAl", truncated="disconnect")

    async with handling(say, delay=0.0, retries=0) as (_, handler, _):
        await handler(item("http://a.example/"))
        outcome = await handler(item("http://a.example/"))
    assert isinstance(outcome, Done)
    assert (outcome.result or {}).get("rule") == rule


async def test_a_lack_of_file_descriptors_does_not_count_as_a_missing_robots_txt() -> None:
    """That would exclude all pages for all processes, and it is not the fault of the host."""
    short = True

    def say(url: str) -> Response:
        if short:
            return make_failure(url, "descriptors", "Too many open files", started=0.0, ended=0.0)
        return answered(url, 404 if "robots" in url else 200)

    redirect = {"origin": "http://b.example", "url": "http://a.example/b", "redirects": 1, "lane": "b.example"}
    async with handling(say, delay=0.0, retries=0) as (frontier, handler, actor):
        for one in (item("http://a.example/"), Item("robots http://b.example", "a.example", payload=redirect)):
            outcome = await handler(one)
            assert isinstance(outcome, Release)
            assert outcome.after
        assert await frontier.facts(["robots http://a.example", "robots http://b.example"]) == {}
        short = False
        assert isinstance(await handler(item("http://a.example/")), Release)
        assert isinstance(await handler(item("http://a.example/")), Done)
    assert actor.asked[2:] == ["http://a.example/robots.txt", "http://a.example/"]


async def test_a_closed_keep_alive_connection_does_not_count_as_a_failure() -> None:
    """The page gets another turn on a new connection, and a failure there counts."""

    def say(url: str) -> Response:
        return make_failure(url, "closed" if not actor.fresh[-1] else "reset", "", started=0.0, ended=0.0)

    async with handling(say, robots=False, retries=0) as (_, handler, actor):
        first = await handler(item("http://a.example/"))
        assert isinstance(first, Release)
        assert first.started
        assert isinstance(await handler(item("http://a.example/")), Dead)
    assert actor.fresh == [False, True]


@pytest.mark.parametrize(("status", "body"), [(200, b"new"), (200, b"known"), (200, b""), (301, b""), (404, b"gone")])
async def test_a_noarchive_page_is_listed_but_not_archived(status: int, body: bytes) -> None:
    """Also if it is not parsed: an error, a redirect, a duplicate."""

    def say(url: str) -> Response:
        if url.endswith("/first"):
            return answered(url, 200, b"known")
        return answered(url, status, body, X_Robots_Tag="noarchive", Location="/first")

    async with handling(say, robots=False) as (frontier, handler, _):
        first = await handler(item("http://a.example/first"))
        assert isinstance(first, Done)
        await frontier.learn(first.facts or {})
        outcome = await handler(item("http://a.example/"))
    assert isinstance(outcome, Done)
    assert [capture.archived is None for capture in (*(first.output or ()), *(outcome.output or ()))] == [False, True]


LONG = gzip.compress(b"<b>" * PARSED_IN_THREAD)


@pytest.mark.parametrize(
    ("body", "headers", "aside"),
    [
        (gzip.compress(b"<b>short"), {"Content_Encoding": "gzip"}, False),
        (LONG, {"Content_Encoding": "gzip"}, True),
        (gzip.compress(LONG), {"Content_Encoding": "gzip, gzip"}, True),
        (LONG, {"Content_Type": "application/gzip"}, True),
    ],
    ids=["short", "long", "twice", "sitemap"],
)
async def test_a_large_decoded_body_is_parsed_in_a_thread(
    monkeypatch: pytest.MonkeyPatch, body: bytes, headers: dict[str, str], aside: bool
) -> None:
    """Even if few bytes arrived: parsing it in the event loop would block all other fetches."""
    threads = []

    def reading(*given: Any) -> None:
        threads.append(threading.current_thread())

    monkeypatch.setattr(parse_page, "_parse_document", reading)
    headers = {"Content_Type": "text/html"} | headers
    async with handling(lambda url: answered(url, 200, body, **headers), robots=False) as (_, handler, _):
        page = item("http://a.example/")
        await handler(page._replace(payload={"depth": 0, "kind": "sitemap"}))
    assert [thread is not threading.main_thread() for thread in threads] == [aside]


async def test_two_large_pages_are_parsed_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes several times its size in memory."""
    at_once = threading.Barrier(PARSERS)
    one_more = threading.Barrier(PARSERS + 1)
    broken = []

    def reading(*given: Any) -> None:
        at_once.wait(timeout=30)
        try:
            one_more.wait(timeout=0.3)
        except threading.BrokenBarrierError:
            broken.append(1)

    monkeypatch.setattr(parse_page, "_parse_document", reading)
    headers = {"Content_Encoding": "gzip", "Content_Type": "text/html"}
    async with handling(lambda url: answered(url, 200, LONG, **headers), robots=False) as (_, handler, _):
        pages = [item(f"http://{number}.example/") for number in range(2 * PARSERS)]
        await asyncio.gather(*(handler(page) for page in pages))
    assert len(broken) == len(pages)


async def test_the_robots_txt_cache_has_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A parsed file of short lines takes thirty times the memory of its bytes."""
    most = 1_000_000
    monkeypatch.setattr(cache, "MAX_CACHED_BYTES", most)
    body = b"User-agent: *\n" + b"".join(b"allow:/%x\n" % number for number in range(1_000))
    async with handling(lambda url: answered(url, 200, body if "robots" in url else b""), delay=0.0) as (_, handler, _):
        await handler(item("http://first.example/"))
        tracemalloc.start()
        try:
            for number in range(40):
                for _ in range(2):
                    await handler(item(f"http://h{number}.example/"))
            gc.collect()
            taken, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert taken < 4 * most


async def test_a_revisit_record_refers_to_an_archived_body() -> None:
    """In a crawl that began with --no-warc, the first archived copy holds the body, and later ones refer to it."""

    def say(url: str) -> Response:
        return answered(url, 200, b"the same everywhere")

    async with handling(say, delay=0.0, robots=False, warc=False) as (frontier, listing, actor):
        archiving = handler_on(frontier, CrawlSettings(out="nowhere", scope="any", delay=0.0, robots=False), actor)
        duplicate_of = []
        for number, handler in enumerate((listing, listing, archiving, archiving)):
            await frontier.add([Item(f"http://a.example/{number}", "a.example")])
            claim = await frontier.claim(limit=1)
            assert claim is not None
            outcome = await handler(claim.items[0])
            assert isinstance(outcome, Done)
            ((page, *_),) = outcome.output
            duplicate_of.append(page.get("duplicate_of"))
            await settle(claim, outcome)
    assert duplicate_of == [None, "http://a.example/0", None, "http://a.example/2"]


async def test_the_page_list_omits_empty_fields() -> None:
    async with handling(lambda url: answered(url, 200, b"", Content_Type=""), delay=0.0, robots=False) as (
        _,
        handler,
        _,
    ):
        outcome = await handler(item("http://a.example/"))
    assert isinstance(outcome, Done)
    ((page, *_),) = outcome.output
    assert page.keys() == {"url", "status", "time", "size", "digest", "kind", "depth"}
    assert (page["size"], page["depth"]) == (0, 0)
    assert cdxj.make_entry({**page, "file": "x", "offset": 0, "length": 1}).mime == "unk"


async def test_only_pages_count_for_max_pages_per_host() -> None:
    """Robots.txt redirects and moves between lanes are visits of a lane as well, but not pages."""
    async with handling(answered, delay=0.0, robots=False, max_pages_per_host=1) as (_, handler, _):
        page = item("http://a.example/")._replace(lane_visits=5)
        fetched = await handler(page)
        assert isinstance(fetched, Done)
        assert (fetched.counters, fetched.lane_counters) == ({"pages": 1}, {"pages": 1})
        refused = await handler(page._replace(lane_counters={"pages": 1}))
        assert isinstance(refused, Done)
        assert (refused.result or {})["excluded"] == "host-budget"
        assert (refused.started, refused.counters) == (False, {})
