"""INV-9: what a crawling process remembers of hosts and links has a bound, and forgetting it changes no result."""

from collections import Counter

import pytest

from swath.crawl import ip_lanes, links, pacing, stats
from swath.crawl.fact_batcher import FactBatcher
from swath.crawl.http.response import make_failure
from swath.crawl.ip_lanes import HostLanes
from swath.crawl.links import LinkFilter
from swath.crawl.pacing import LanePacing
from swath.crawl.robots import gate
from swath.crawl.robots import parser as robots_parser
from swath.crawl.robots.parser import RobotsTxt
from swath.crawl.stats import CrawlStats
from swath.crawl.urls.scope import Scope
from tests.bench import bench
from tests.crawl.handling import handling
from tests.crawl.test_unreachable import page

BOUND = 4


async def test_decisions_about_links(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "MAX_DECISIONS", BOUND)
    urls = [f"http://a.example/{n}" for n in range(3 * BOUND)]
    async with bench() as b:
        chosen = LinkFilter(
            b.frontier, Scope(), lane_of=lambda url: "a.example", strip_tracking=False, year=2026, refused=Counter()
        )
        for _ in range(2):
            items = chosen.select_new_items(urls, depth=1, referrer="http://a.example/")
            assert [item.key for item in items] == urls
            assert len(chosen._decisions) <= BOUND


def test_lanes_of_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ip_lanes, "MAX_HOSTS", BOUND)
    known = HostLanes()
    for n in range(3 * BOUND):
        known.remember(f"{n}.example", "ip 192.0.2.1")
        assert known.lane_of(f"http://{n}.example/") == "ip 192.0.2.1"
        assert len(known._lanes) <= BOUND
    known.remember(f"{n}.example", "ip 192.0.2.2")
    assert known.lane_of(f"http://{n}.example/") == "ip 192.0.2.1", "the first choice stays"
    assert known.lane_of("http://0.example/") == "0.example", "it was forgotten"


async def test_paces_of_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pacing, "MAX_LANES", BOUND)
    async with bench() as b:
        paces = LanePacing(b.frontier, FactBatcher(b.frontier), delay=1.0)
        await paces.load("slow")
        await paces.record_response("slow", 4.0, failed=False)
        for n in range(3 * BOUND):
            assert paces.get(f"{n}.example").interval == 1.0
            assert len(paces._paces) <= BOUND
        await paces.load("slow")
        assert paces.get("slow").interval == 20.0, "it is read from the store again"


async def test_origins_that_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "MAX_FAILING", BOUND)
    async with handling(lambda url: make_failure(url, "refused", "", started=0.0, ended=0.0), robots=False) as (
        _, handler, actor,
    ):  # fmt: skip
        for n in range(3 * BOUND):
            item = page()._replace(key=f"http://{n}.example/", lane=f"{n}.example")
            await handler(item)
            assert len(handler._robots._failing) <= BOUND
        assert len(actor.asked) == 3 * BOUND


def test_rules_for_user_agents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(robots_parser, "AGENTS_CACHED", BOUND)
    agents = [f"bot{letter}" for letter in "abcdefghijkl"]
    rules = RobotsTxt.parse("".join(f"User-agent: {agent}\nDisallow: /{agent}\n" for agent in agents).encode())
    for agent in agents * 2:
        assert not rules.decide(f"http://a.example/{agent}", agent).allowed
        assert rules.decide("http://a.example/other", agent).allowed
        assert len(rules._rules) <= BOUND


def test_response_times_of_the_slowest_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats, "MAX_SLOW_HOSTS", BOUND)
    found = CrawlStats()
    for n in range(BOUND):
        found.record_response_time(f"{n}.example", 2.0 + n)
    found.record_response_time("slow.example", 9.0)
    assert found.slow == {"1.example": 3.0, "2.example": 4.0, "3.example": 5.0, "slow.example": 9.0}
    found.record_response_time("quick.example", 2.5)
    found.record_response_time("quickest.example", 0.1)
    assert "quick.example" not in found.slow
    assert "quickest.example" not in found.slow
    found.record_response_time("1.example", 1.0)
    assert found.slow["1.example"] == 2.0, "the mean of what it was and what it is"
    assert list(found.as_dict()["slow"]) == ["slow.example", "3.example", "2.example", "1.example"]
