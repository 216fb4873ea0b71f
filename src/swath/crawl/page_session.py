"""PageSession: fetch single pages as politely as a crawl does, for an interactive prompt.

Each page takes the route of a crawl (see `page_handler`) on a frontier in memory: robots.txt, the guard of private
addresses and the pace of each host apply, between the pages of a session too. The event loop runs in a thread of its
own, so that the prompt has the main thread.
"""

import asyncio
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Any, Final

import swath
from swath import Frontier, Item, OutputMove, SwathError
from swath.crawl.archive.record import Capture
from swath.crawl.fallback import BARE
from swath.crawl.handlers.crawler import Crawler
from swath.crawl.handlers.extractor import PageExtractor
from swath.crawl.handlers.page import Page
from swath.crawl.http.resolver import Resolver
from swath.crawl.job import HANDLER_SECONDS, make_fetcher
from swath.crawl.lanes import get_lane_namer
from swath.crawl.links import LinkFilter
from swath.crawl.page_handler import PageHandler
from swath.crawl.seeds import SeedRules, build_settings_scope, read_seeds
from swath.crawl.settings import CrawlSettings
from swath.crawl.stats import CrawlStats

MAX_REDIRECTS: Final = 10


class FetchFailed(SwathError):
    """A page could not be fetched, or the rules of a crawl exclude it."""


class PageSession:
    """Fetches pages one after the other."""

    def __init__(self, settings: CrawlSettings) -> None:
        self._settings = settings
        self._pages: list[Page] = []  # those of the present fetch
        self._output = _LastLine()
        self._frontier: Frontier | None = None
        self._handler: PageHandler | None = None
        self._stack = AsyncExitStack()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="swath-shell", daemon=True)
        self._thread.start()

    def start_fetch(self, url: str) -> "Future[Page]":
        """Begin to fetch a page in the thread of the session. FetchFailed says why there is none."""
        return asyncio.run_coroutine_threadsafe(self._fetch(url), self._loop)

    def fetch(self, url: str) -> Page:
        """Fetch a page and return it. KeyboardInterrupt cancels the fetch."""
        future = self.start_fetch(url)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            raise

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._stack.aclose(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _fetch(self, text: str) -> Page:
        (seed,) = read_seeds([text], SeedRules(self._settings))
        if self._frontier is None or self._handler is None:
            self._frontier, self._handler = await self._open()
        url, payload = seed.url, {"depth": 0, **({BARE: True} if seed.bare else {})}
        requested: list[str] = []
        while url not in requested and len(requested) <= MAX_REDIRECTS:
            requested.append(url)
            self._pages.clear()
            self._output.line = {}
            item = Item(url, get_lane_namer(self._settings.lane)(url), payload=payload)
            if not await self._frontier.add(item):
                await self._frontier.reopen(url)
            await self._frontier.run(
                self._handler,
                workers=1,
                timeout=self._settings.timeout + HANDLER_SECONDS,
                output=self._output,
                handle_signals=False,
            )
            if self._pages:
                return self._pages[-1]
            line = self._output.line
            if "redirect" not in line:
                raise FetchFailed(_describe_failure(url, line))
            url, payload = line["redirect"], {"depth": 0}
        circle = "redirects lead back to the URL" if url in requested else f"more than {MAX_REDIRECTS} redirects"
        raise FetchFailed(f"{url}: {circle}")

    async def _open(self) -> tuple[Frontier, PageHandler]:
        settings, stack = self._settings, self._stack
        frontier = await stack.enter_async_context(
            swath.open("memory:", min_interval=settings.min_interval, concurrency=1)
        )
        resolver = await stack.enter_async_context(Resolver(nameservers=settings.dns_servers or None))
        fetcher = await stack.enter_async_context(make_fetcher(settings, resolver, connections=1))
        stats = CrawlStats()
        links = LinkFilter(
            frontier,
            build_settings_scope(settings),
            lane_of=get_lane_namer(settings.lane),
            strip_tracking=False,
            year=datetime.now(UTC).year,
            refused=stats.refused,
        )
        extractor = PageExtractor(self._make_crawler())
        stack.callback(extractor.close)
        return frontier, PageHandler(frontier, settings, fetcher=fetcher, links=links, stats=stats, extractor=extractor)

    def _make_crawler(self) -> Crawler:
        """Return a crawler that keeps the page, whatever its status is."""
        crawler = Crawler()

        @crawler.default()
        @crawler.error()
        async def keep(page: Page) -> None:
            self._pages.append(page)

        return crawler


class _LastLine:
    """An output that keeps the line of the last page."""

    def __init__(self) -> None:
        self.line: Mapping[str, Any] = {}

    def size(self, entry: Sequence[Capture]) -> int:
        return sum(capture.size for capture in entry)

    def write(self, settlements: Sequence[Sequence[Sequence[Capture]]]) -> Sequence[Sequence[OutputMove]]:
        for entries in settlements:
            for capture in (capture for entry in entries for capture in entry):
                if capture.page.get("kind", "page") == "page":
                    self.line = capture.page
        return [[] for _ in settlements]

    def keep(self) -> None:
        """Do nothing: nobody else writes to a frontier in memory, so a settlement is never refused."""

    def restore(self, committed: Mapping[str, int]) -> None:
        """Do nothing, for the same reason."""


def _describe_failure(url: str, line: Mapping[str, Any]) -> str:
    if "excluded" in line:
        return f"{url} is not fetched: {line['excluded']}: {line.get('rule', '')}"
    return f"{url} could not be fetched: {line.get('failed', 'there was no response')}"


def make_session_settings(given: Mapping[str, Any]) -> CrawlSettings:
    """Return the settings of a session: one attempt for each page, of any host, and redirects one by one."""
    always = {"scope": "any", "retries": 0, "max_redirects": 0, "lane": "host", "sitemaps": False, "depth": None}
    names = ("delay", "contact", "timeout", "max_size", "connect_to", "dns_servers", "allow_private", "proxy",
             "user_agent", "user_agent_string", "verify", "ca_file")  # fmt: skip
    return CrawlSettings(**{"delay": 1.0, **{name: given[name] for name in names if name in given}, **always})
