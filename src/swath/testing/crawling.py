"""Run a whole crawl in memory: for tests of crawlers with handlers."""

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import swath
from swath import Frontier, ManualClock, OutputMove, UsageError
from swath.crawl.archive.record import Capture
from swath.crawl.handlers.crawler import Crawler
from swath.crawl.handlers.extractor import PageExtractor
from swath.crawl.handlers.lifespan import open_lifespan
from swath.crawl.http.outgoing import OutgoingRequest
from swath.crawl.http.response import Headers, Response
from swath.crawl.lanes import get_lane_namer
from swath.crawl.links import LinkFilter
from swath.crawl.page_handler import PageHandler
from swath.crawl.seeds import build_settings_scope
from swath.crawl.settings import CrawlSettings
from swath.crawl.start import make_start_item
from swath.crawl.stats import CrawlStats
from swath.crawl.urls import normalise

Answer = str | bytes | tuple[int, str | bytes] | tuple[int, str | bytes, Mapping[str, str]]
"""The body of a page; or its status and body; or its status, body and headers."""

Responder = Answer | Callable[[OutgoingRequest], Answer]
Pages = Mapping[Any, Responder]
"""The answer for each URL (str), or for each method and URL (a tuple). A function returns the answer to a request.

The type of a key in a Mapping is invariant, so a precise one would refuse a `dict[str, …]`.
"""

NOT_FOUND: Answer = (404, "no such page")
HTML = {"Content-Type": "text/html; charset=utf-8"}


@dataclass(frozen=True, slots=True)
class CrawlResult:
    """What a crawl in memory has found."""

    items: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    """The items by kind, with the fields that swath adds."""
    requested: Sequence[str] = ()
    """The URLs that were requested, in order, without robots.txt; after a method other than GET: `POST https://…`."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """The pages that failed, by key, with the reason. Those whose handler failed begin with `handler: `."""
    errors: Mapping[str, str] = field(default_factory=dict)
    """The tracebacks of the handlers that failed, by key."""


def crawl(crawler: Crawler, pages: Pages, *, seeds: Sequence[str] | None = None, state: Any = None) -> CrawlResult:
    """Crawl these pages with a crawler, without a network, files or waiting.

    The key of a page is its URL, or its method and URL: `("POST", url)`. All other requests have status 404. The crawl
    starts from `seeds`, or else those of the crawler. Scope, robots.txt, redirects, duplicates and retries work as in a
    real crawl; delays and pauses take no time. The lifespan of the crawler is opened, unless `state` takes the place of
    what it yields.
    """
    work = _crawl(crawler, pages, crawler.seeds if seeds is None else seeds, state)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


async def _crawl(crawler: Crawler, pages: Pages, seeds: Sequence[str], given: Any) -> CrawlResult:
    urls = [_normalise(seed) for seed in seeds]
    if not urls and crawler.start_handler is None:
        raise UsageError("nothing to crawl: give seeds=, or URLs to Crawler()")
    settings = CrawlSettings(**{**crawler.settings, "out": "", "lane": "host"})
    fetcher = _Pages(pages)
    lane_of, stats, clock, output = get_lane_namer("host"), CrawlStats(), ManualClock(), _MemoryOutput()
    opening = swath.open("memory:", clock=clock, max_attempts=max(5, settings.retries + 1), concurrency=1)
    open_state = crawler.open_lifespan if given is None else None
    async with open_lifespan(open_state, name="the crawler") as opened, opening as frontier:
        links = LinkFilter(
            frontier,
            build_settings_scope(settings, urls),
            lane_of=lane_of,
            strip_tracking=settings.strip_tracking,
            year=datetime.now(UTC).year,
            refused=stats.refused,
            priority_by=settings.priority_by,
            hook=crawler.on_link,
        )
        extractor = PageExtractor(crawler, state=opened if given is None else given)
        handler = PageHandler(frontier, settings, fetcher=fetcher, links=links, stats=stats, extractor=extractor)
        await frontier.add(swath.Item(url, lane_of(url), payload={"depth": 0}) for url in urls)
        if crawler.start_handler is not None:
            await frontier.add(make_start_item())
        try:
            await _run(frontier, handler, output, clock, timeout=max(crawler.handler_timeout, crawler.start_timeout))
        finally:
            extractor.close()
        dead = [item async for item in frontier.dead()]
    return CrawlResult(
        output.items,
        fetcher.requested,
        {item.key: item.reason for item in dead},
        {item.key: item.error for item in dead if item.error},
    )


async def _run(
    frontier: Frontier, handler: PageHandler, output: "_MemoryOutput", clock: ManualClock, *, timeout: float
) -> None:
    """Run until every page is settled. When all pages wait for a moment, it comes at once."""
    while True:
        await frontier.run(handler, until="idle", workers=8, output=output, handle_signals=False, timeout=timeout + 60)
        status = await frontier.status()
        if not status.waiting:
            return
        if status.next_ready_at is not None:
            clock.advance(max(0.001, (status.next_ready_at - status.now).total_seconds()))


class _Pages:
    """Takes the place of the fetcher."""

    def __init__(self, pages: Pages) -> None:
        self._pages = {_normalise_key(key): answer for key, answer in pages.items()}
        self.requested: list[str] = []

    async def fetch(
        self,
        url: str,
        *,
        fresh: bool = False,
        address: str | None = None,
        size: int = 0,
        outgoing: OutgoingRequest | None = None,
    ) -> Response:
        request = outgoing or OutgoingRequest(url)
        if not url.endswith("/robots.txt"):
            self.requested.append(url if request.method == "GET" else f"{request.method} {url}")
        answer = self._pages.get((request.method, url), NOT_FOUND)
        if callable(answer):
            answer = answer(request)
        given = (200, answer) if isinstance(answer, str | bytes) else answer
        status, body = given[:2]
        headers = given[2] if len(given) == 3 else {}
        encoded = body.encode() if isinstance(body, str) else body
        lines = "".join(f"{name}: {value}\r\n" for name, value in {**HTML, **headers}.items())
        head = f"HTTP/1.1 {status} x\r\n{lines}\r\n".encode()
        now = time.time()
        return Response(url, status, "http/1.1", b"", head, Headers(head), encoded, None, now, now, now)

    async def resolve(self, url: str) -> Sequence[str]:
        return ["192.0.2.1"]


class _MemoryOutput:
    """An output that keeps the items of settled pages."""

    def __init__(self) -> None:
        self.items: dict[str, list[Mapping[str, Any]]] = {}

    def size(self, entry: Sequence[Capture]) -> int:
        return sum(capture.size for capture in entry)

    def write(self, settlements: Sequence[Sequence[Sequence[Capture]]]) -> Sequence[Sequence[OutputMove]]:
        for entries in settlements:
            for capture in (capture for entry in entries for capture in entry):
                for kind, line in capture.items:
                    self.items.setdefault(kind, []).append(json.loads(line))
        return [[] for _ in settlements]

    def keep(self) -> None:
        """Do nothing: nobody else writes to a frontier in memory, so a settlement is never refused."""

    def restore(self, committed: Mapping[str, int]) -> None:
        """Do nothing, for the same reason."""


def _normalise_key(key: str | tuple[str, str]) -> tuple[str, str]:
    method, url = ("GET", key) if isinstance(key, str) else key
    return method.upper(), _normalise(url)


def _normalise(url: str) -> str:
    found = normalise.normalise(url)
    if found is None:
        raise UsageError(f"{url!r} is not an http or https URL")
    return found
