"""What hooks cost: a request and a link without a hook, and with one. Run `python -m benchmarks.crawl.hooks`."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import swath
from swath.crawl.handlers.hooks import Link, LinkHook, RequestHook
from swath.crawl.http.outgoing import OutgoingRequest
from swath.crawl.http.response import NO_HEADERS, Response
from swath.crawl.lanes import get_lane_namer
from swath.crawl.links import LinkFilter
from swath.crawl.page_fetcher import PageFetcher
from swath.crawl.settings import CrawlSettings
from swath.crawl.stats import CrawlStats
from swath.crawl.urls.scope import Scope

ROUNDS = 15  # the fastest counts
REQUESTS = 5_000
LINKS = 5_000
URL = "https://a.example/page"


class _NoNetwork:
    async def fetch(self, url: str, **_: Any) -> Response:
        return Response(url, 200, "http/1.1", b"", b"", NO_HEADERS, b"", None, 0.0, 0.0, 0.0)

    async def resolve(self, url: str) -> list[str]:
        return []


def keep_request(request: OutgoingRequest) -> OutgoingRequest:
    return request


def add_header(request: OutgoingRequest) -> OutgoingRequest:
    return replace(request, headers={"Accept-Language": "de"})


def keep_link(link: Link) -> Link:
    return link


def raise_priority(link: Link) -> Link:
    return replace(link, priority=7)


async def measure_requests(hook: Callable[..., Any] | None) -> float:
    """Return the microseconds that a request takes above the fetcher."""
    options: dict[str, Any] = {} if hook is None else {"hook": RequestHook(hook)}
    pacing: Any = None
    fetcher = PageFetcher(
        _NoNetwork(), CrawlSettings(out="x"), pacing=pacing, fallback=pacing, stats=CrawlStats(), **options
    )
    began = time.perf_counter()
    for _ in range(REQUESTS):
        await fetcher.fetch(URL, "a.example", fresh=False)
    return (time.perf_counter() - began) / REQUESTS * 1e6


async def measure_links(hook: Callable[..., Any] | None) -> float:
    """Return the microseconds that a new link takes until it is an item."""
    options: dict[str, Any] = {} if hook is None else {"hook": LinkHook(hook)}
    async with swath.open("memory:") as frontier:
        links = LinkFilter(
            frontier,
            Scope(),
            lane_of=get_lane_namer("host"),
            strip_tracking=False,
            year=2030,
            refused=Counter(),
            **options,
        )
        urls = [f"{URL}/{number}" for number in range(LINKS)]
        began = time.perf_counter()
        links.select_new_items(urls, depth=1, referrer=URL)
        return (time.perf_counter() - began) / LINKS * 1e6


async def main() -> None:
    cases: dict[str, Callable[[], Any]] = {
        "request, no hook": lambda: measure_requests(None),
        "request, a hook that changes nothing": lambda: measure_requests(keep_request),
        "request, a hook that adds a header": lambda: measure_requests(add_header),
        "link, no hook": lambda: measure_links(None),
        "link, a hook that changes nothing": lambda: measure_links(keep_link),
        "link, a hook that sets the priority": lambda: measure_links(raise_priority),
    }
    fastest = dict.fromkeys(cases, float("inf"))
    for _ in range(ROUNDS):  # in turn, so that other load on the machine is shared
        for name, measure in cases.items():
            fastest[name] = min(fastest[name], await measure())
    for name, microseconds in fastest.items():
        print(f"{name:40} {microseconds:6.2f} µs")


if __name__ == "__main__":
    asyncio.run(main())
