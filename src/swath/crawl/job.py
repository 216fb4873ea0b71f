"""CrawlJob: one process of a crawl."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import swath
from swath import Frontier, Observer, RunMonitor, Status, Stop, Summary, lease_clock
from swath.crawl import fd_limit, seeds, workspace
from swath.crawl.archive.output import CrawlOutput
from swath.crawl.handlers.code import CrawlCode, load_settings_code
from swath.crawl.handlers.extractor import PageExtractor
from swath.crawl.handlers.lifespan import Lifespan
from swath.crawl.handlers.sink import ItemSink
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

if TYPE_CHECKING:
    from swath.crawl.stream import Backlog

CHECK_SECONDS = 0.5  # between checks of --max-pages and --max-duration
GRACE_SECONDS = 5.0  # for pages in flight, after a stop was requested; the run ends at most STOP_SECONDS later
HANDLER_SECONDS = 60.0  # for parsing and store calls, in addition to the fetcher's timeout
CONNECT_SECONDS = 10.0
FIRST_BYTE_SECONDS = 20.0
LIFESPAN: Final = "lifespan"  # the reason of a stop, and an error in the statistics: it failed after it was opened
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
        backlog: "Backlog | None" = None,
        observer: Observer | None = None,
        owns_process: bool = False,
    ) -> None:
        """Pass `code` for a crawl with handlers, or it is imported. `backlog` gets items after their commit. `observer`
        gets the events of the crawl; those of the frontier go to the frontier's own.

        With `owns_process`, the process exits if the lifespan of the crawler blocks it at the end.
        """
        self._owns_process = owns_process
        self.lifespan_hangs = False  # the caller should use `leave_process` after its last step
        self._backlog = backlog
        self.lifespan_failure: str | None = None  # why the lifespan of the crawler failed after it was opened
        self.settings = settings
        self.number = number
        self.stop = stop or Stop()
        self.stats = CrawlStats()
        self.monitor = RunMonitor(noun="page", handler="page handler")
        self.status: Status | None = None  # of the whole frontier, as of the last check
        self.total_pages = 0  # of the whole crawl, as of the last check
        self._frontier = frontier
        self._observer = observer
        self._code = load_settings_code(settings) if code is None else code

    async def run(self) -> Summary:
        """Crawl until every page is settled, a limit is reached, or a stop is requested."""
        settings = self.settings
        workers = fd_limit.limit_workers(settings.workers).workers
        self.stats.workers = workers
        sink = None if self._code is None or self._code.crawler.sink is None else ItemSink(self._code.crawler.sink)
        async with AsyncExitStack() as stack:
            stack.enter_context(collect_garbage_rarely())
            state = await stack.enter_async_context(self._open_lifespan())
            output = CrawlOutput(
                settings.directory,
                unique=workspace.get_output_name(settings.directory, self.number),
                warc_size=settings.warc_size if settings.warc else None,
                about=_describe(settings),
                has_items=sink is None,
                on_committed=None if self._backlog is None else self._backlog.add,
            )
            stack.callback(output.close)
            await asyncio.to_thread(output.restore, await self._frontier.outputs())
            handler = await self._make_handler(stack, workers, state)
            checks = asyncio.create_task(self._check_limits(handler))
            stack.callback(checks.cancel)
            try:
                summary = await self._frontier.run(
                    handler,
                    workers=workers,
                    lease=settings.lease_seconds,
                    timeout=settings.timeout + HANDLER_SECONDS + self._get_code_seconds(),
                    grace=GRACE_SECONDS,
                    until="done",
                    handle_signals=False,
                    output=output,
                    sink=None if sink is None else sink.get_writer(),
                    on_refused=None if sink is None else handler.refuse_items,
                    stop=self.stop,
                    monitor=self.monitor,
                )
            except Exception as error:
                if sink is None or (translated := sink.translate(error)) is error:
                    raise
                raise translated from error
            if summary.stopped_by == "done":
                await asyncio.to_thread(output.finish_indexes)
            return summary

    def _get_code_seconds(self) -> float:
        """Return the maximum time of one call of the user's code."""
        if self._code is None:
            return 0.0
        crawler = self._code.crawler
        return max(crawler.handler_timeout, crawler.start_timeout if crawler.start_handler else 0.0)

    @asynccontextmanager
    async def _open_lifespan(self) -> AsyncIterator[Any]:
        """Open the lifespan of the crawler, if it has one; a requested stop ends the attempt."""
        if self._code is None or (open_state := self._code.crawler.open_lifespan) is None:
            yield None
            return
        lifespan = Lifespan(
            open_state,
            name=self._code.name,
            on_failure=lambda: self.stop.request(LIFESPAN),
            owns_process=self._owns_process,
        )
        opening = asyncio.create_task(lifespan.open())

        def cancel() -> None:
            opening.cancel()

        self.stop.on_change = cancel
        if self.stop.reason is not None:
            cancel()
        try:
            state = await opening
        except asyncio.CancelledError:
            opening.cancel()
            await asyncio.wait([opening])
            if self.stop.abort_error is not None:
                raise self.stop.abort_error from None
            if self.stop.reason is None:
                raise
            state = None  # the run is going to start no page
        finally:
            self.stop.on_change = lambda: None
        try:
            yield state
        finally:
            await lifespan.close()
            self.lifespan_failure, self.lifespan_hangs = lifespan.failure, lifespan.hangs
            if lifespan.failure is not None:
                self.stats.errors[LIFESPAN] += 1

    async def _make_handler(self, stack: AsyncExitStack, workers: int, state: Any) -> PageHandler:
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
            hook=None if self._code is None else self._code.crawler.on_link,
        )
        extractor = None
        if self._code is not None:
            extractor = PageExtractor(self._code.crawler, state=state)
            stack.callback(extractor.close)
        return PageHandler(
            self._frontier,
            settings,
            fetcher=fetcher,
            links=links,
            stats=self.stats,
            host_lanes=host_lanes,
            extractor=extractor,
            backlog=self._backlog,
            has_sink=self._code is not None and self._code.crawler.sink is not None,
            observer=self._observer,
        )

    async def _check_limits(self, handler: PageHandler) -> None:
        """Request a stop when --max-pages or --max-duration is reached, and refresh `status`."""
        duration, budget = self.settings.max_duration, self.settings.max_pages
        ends_at = None if duration is None else lease_clock() + duration
        while True:
            unsettled = self.monitor.in_flight
            try:
                self.status = await read_status(self._frontier, self._code)
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


async def read_status(frontier: Frontier, code: CrawlCode | None) -> Status:
    """Return the status of the frontier without the lane of the start of the crawl, which is not a host."""
    status = await frontier.status()
    has_start = code is not None and code.crawler.start_handler is not None
    return replace(status, lanes=status.lanes - 1) if has_start and status.lanes else status


async def count_pages(frontier: Frontier) -> int:
    """Return how many pages the crawl has fetched, in all processes and runs."""
    return (await frontier.counters()).get(PAGES, 0)


def _describe(settings: CrawlSettings) -> dict[str, str]:
    """Return the fields of the warcinfo record."""
    about = {"http-header-user-agent": settings.agent, "robots": "obey" if settings.robots else "ignore"}
    return about | ({"operator": settings.contact} if settings.contact else {})
