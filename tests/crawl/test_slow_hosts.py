"""A crawl slows down for the hosts that are slow or fail, and for no other (docs/crawl.md, Politeness)."""

import asyncio
import time
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import swath
from swath.crawl.pacing import MIN_FAILING_INTERVAL, SLOW_FACTOR, SLOW_RESPONSE
from swath.crawl.settings import CrawlSettings
from tests.crawl.driving import crawl_here
from tests.crawl.web import Exchange, serving

DELAY = 0.05
PAGES = 4
SLOW = SLOW_RESPONSE + 0.1
SEEDS = [
    "http://slow.example/",
    *(f"http://{host}.example/{number}" for host in ("steady", "failing", "resetting") for number in range(PAGES)),
]
# The first failure changes nothing, and each later one doubles the interval.
AFTER_FAILURES = [MIN_FAILING_INTERVAL * 2.0**number for number in range(1, PAGES)]


async def test_slow_and_failing_hosts_are_visited_less_often(tmp_path: Path) -> None:
    arrivals: dict[str, list[float]] = defaultdict(list)

    async def answer(exchange: Exchange) -> None:
        if exchange.path == "/robots.txt":
            # A request on a connection that was kept open would be repeated after a reset.
            await exchange.send(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            exchange.close()
            return
        arrivals[exchange.host].append(time.monotonic())
        match exchange.host:
            case "slow.example":
                await asyncio.sleep(SLOW)
                await exchange.ok()
            case "failing.example":
                await exchange.send(b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n")
            case "resetting.example":
                exchange.reset()
            case _:
                await exchange.ok(exchange.path.encode())

    async with serving(answer) as server:
        settings = CrawlSettings(
            out=str(tmp_path / "out"),
            scope="page",
            delay=DELAY,
            retries=0,
            allow_private=True,
            connect_to=(f"::127.0.0.1:{server.port}",),
        )
        summary, _ = await crawl_here(settings, SEEDS)
    assert summary.stopped_by == "done"
    assert {host: len(times) for host, times in arrivals.items()} == {
        "slow.example": 1,
        "steady.example": PAGES,
        "failing.example": PAGES,
        "resetting.example": PAGES,
    }
    for host in ("failing.example", "resetting.example"):
        gaps = [later - earlier for earlier, later in pairwise(arrivals[host])]
        assert all(gap > 0.95 * least for gap, least in zip(gaps[1:], AFTER_FAILURES, strict=False)), (host, gaps)
    intervals = await _read_intervals(settings, list(arrivals))
    assert intervals["slow.example"] >= SLOW_FACTOR * SLOW
    assert intervals["steady.example"] == DELAY
    assert intervals["failing.example"] == intervals["resetting.example"] == AFTER_FAILURES[-1]


async def _read_intervals(settings: CrawlSettings, hosts: list[str]) -> dict[str, float]:
    async with swath.open(settings.store_url, create=False) as frontier:
        lanes = {host: await frontier.lane(host) for host in hosts}
    return {host: lane.min_interval for host, lane in lanes.items() if lane is not None}
