"""CrawlJob: one process of a crawl."""

import asyncio
from contextlib import AsyncExitStack
from datetime import UTC, datetime

import swath
from swath import Frontier, RunMonitor, Status, Stop, Summary, lease_clock
from swath.crawl import fd_limit, seeds, workspace
from swath.crawl.archive.output import CrawlOutput
from swath.crawl.handlers.code import CrawlCode, load_settings_code
from swath.crawl.handlers.extractor import PageExtractor
from swath.crawl.http.connect_to import ConnectTo
from swath.crawl.http.fetcher import Fetcher
from swath.crawl.http.resolver import Resolver
from swath.crawl.http.response import Limits
from swath.crawl.ip_lanes import HostLanes
from swath.crawl.lanes import get_lane_namer
from swath.crawl.links import LinkFilter
from swath.crawl.page_handler import PageHandler
from swath.crawl.page_processor import PAGES
from swath.crawl.settings import CrawlSettings
from swath.crawl.stats import CrawlStats
from swath.gc_tuning import collect_garbage_rarely

CHECK_SECONDS = 0.5  # between checks of --max-pages and --max-duration
GRACE_SECONDS = 5.0  # for pages in flight, after a stop was requested; the run ends at most STOP_SECONDS later
HANDLER_SECONDS = 60.0  # for parsing and store calls, in addition to the fetcher's timeout
CONNECT_SECONDS = 10.0
FIRST_BYTE_SECONDS = 20.0
KEEP_ALIVE_SECONDS = 30.0  # idle connections are kept this long, unless the delay between requests is longer


class CrawlJob:
    """Crawls in this process. `number` distinguishes the processes that share a directory."""

    def __init__(
        self,
        settings: CrawlSettings,
        frontier: Frontier,
        *,
        number: int = 0,
        stop: Stop | None = None,
        code: CrawlCode | None = None,
    ) -> None:
        """Pass `code` for a crawl with handlers, or it is imported."""
        self.settings = settings
        self.number = number
        self.stop = stop or Stop()
        self.stats = CrawlStats()
        self.monitor = RunMonitor(noun="page", handler="page handler")
        self.status: Status | None = None  # of the whole frontier, as of the last check
        self.total_pages = 0  # of the whole crawl, as of the last check
        self._frontier = frontier
        self._code = load_settings_code(settings) if code is None else code

    async def run(self) -> Summary:
        """Crawl until every page is settled, a limit is reached, or a stop is requested."""
        settings = self.settings
        workers = fd_limit.limit_workers(settings.workers).workers
        self.stats.workers = workers
        async with AsyncExitStack() as stack:
            stack.enter_context(collect_garbage_rarely())
            output = CrawlOutput(
                settings.directory,
                unique=workspace.get_output_name(settings.directory, self.number),
                warc_size=settings.warc_size if settings.warc else None,
                about=_describe(settings),
            )
            stack.callback(output.close)
            await asyncio.to_thread(output.restore, await self._frontier.outputs())
            handler = await self._make_handler(stack, workers)
            checks = asyncio.create_task(self._check_limits(handler))
            stack.callback(checks.cancel)
            summary = await self._frontier.run(
                handler,
                workers=workers,
                lease=settings.lease_seconds,
                timeout=settings.timeout
                + HANDLER_SECONDS
                + (self._code.crawler.handler_timeout if self._code else 0.0),
                grace=GRACE_SECONDS,
                until="done",
                handle_signals=False,
                output=output,
                stop=self.stop,
                monitor=self.monitor,
            )
            if summary.stopped_by == "done":
                await asyncio.to_thread(output.finish_indexes)
            return summary

    async def _make_handler(self, stack: AsyncExitStack, workers: int) -> PageHandler:
        settings = self.settings
        resolver = await stack.enter_async_context(Resolver(nameservers=settings.dns_servers or None))
        fetcher = await stack.enter_async_context(make_fetcher(settings, resolver, connections=workers))
        host_lanes = HostLanes() if settings.lane == "ip" else None
        links = LinkFilter(
            self._frontier,
            await asyncio.to_thread(seeds.load_scope, settings),
            lane_of=get_lane_namer(settings.lane) if host_lanes is None else host_lanes.lane_of,
            strip_tracking=settings.strip_tracking,
            year=datetime.now(UTC).year,
            refused=self.stats.refused,
            priority_by=settings.priority_by,
        )
        extractor = None
        if self._code is not None:
            extractor = PageExtractor(self._code.crawler)
            stack.callback(extractor.close)
        return PageHandler(
            self._frontier,
            settings,
            fetcher=fetcher,
            links=links,
            stats=self.stats,
            host_lanes=host_lanes,
            extractor=extractor,
        )

    async def _check_limits(self, handler: PageHandler) -> None:
        """Request a stop when --max-pages or --max-duration is reached, and refresh `status`."""
        duration, budget = self.settings.max_duration, self.settings.max_pages
        ends_at = None if duration is None else lease_clock() + duration
        while True:
            unsettled = self.monitor.in_flight
            try:
                self.status = await self._frontier.status()
                self.total_pages = await count_pages(self._frontier)
            except swath.StoreUnavailable:
                pass  # the runner logs the outage and retries
            else:
                if budget is not None:
                    left = max(0, budget - self.total_pages - self.stats.in_flight)
                    # A page that was fetched and not settled is in neither number: do not count it as left again.
                    unsettled = unsettled or self.monitor.in_flight
                    handler.pages_left = min(left, handler.pages_left or 0) if unsettled else left
                    if self.total_pages >= budget:
                        self.stop.request("max-pages")
            if ends_at is not None and lease_clock() >= ends_at:
                self.stop.request("max-duration")
            await asyncio.sleep(CHECK_SECONDS)


def make_fetcher(settings: CrawlSettings, resolver: Resolver, *, connections: int) -> Fetcher:
    """Return a fetcher with the settings of a crawl."""
    return Fetcher(
        resolver=resolver,
        user_agent=settings.agent,
        limits=Limits(
            connect=min(CONNECT_SECONDS, settings.timeout),
            first_byte=min(FIRST_BYTE_SECONDS, settings.timeout),
            total=settings.timeout,
            size=settings.max_size,
        ),
        allow_private=settings.allow_private,
        proxy=settings.proxy,
        connect_to=ConnectTo.parse(settings.connect_to),
        verify=settings.verify,
        ca_file=settings.ca_file,
        connections=connections,
        keep_alive=KEEP_ALIVE_SECONDS if settings.min_interval < KEEP_ALIVE_SECONDS else 0.0,
    )


async def count_pages(frontier: Frontier) -> int:
    """Return how many pages the crawl has fetched, in all processes and runs."""
    return (await frontier.counters()).get(PAGES, 0)


def _describe(settings: CrawlSettings) -> dict[str, str]:
    """Return the fields of the warcinfo record."""
    about = {"http-header-user-agent": settings.agent, "robots": "obey" if settings.robots else "ignore"}
    return about | ({"operator": settings.contact} if settings.contact else {})
