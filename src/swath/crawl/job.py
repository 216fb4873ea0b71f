"""Job: one process of a crawl, from opening its frontier and output to a clean end."""

import asyncio
import os
from contextlib import AsyncExitStack
from datetime import UTC, datetime

import swath
from swath.core.status import Status
from swath.crawl import fd_limit, workspace
from swath.crawl.archive.output import CrawlOutput
from swath.crawl.http.connect_to import ConnectTo
from swath.crawl.http.fetcher import Fetcher
from swath.crawl.http.resolver import Resolver
from swath.crawl.http.response import Limits
from swath.crawl.ip_lanes import HostLanes
from swath.crawl.lanes import lane_naming
from swath.crawl.links import LinkFilter
from swath.crawl.page_handler import PageHandler
from swath.crawl.settings import CrawlSettings
from swath.crawl.stats import CrawlStats
from swath.frontier import Frontier
from swath.gc_tuning import rarely_collected
from swath.runner.run import Summary
from swath.runner.shutdown import Stop

LOOK_SECONDS = 0.5  # between looks at the limits of a run
GRACE = 7.0  # seconds that fetches have to end after a stop
LEASE = 60.0
LEASE_VARIABLE = "SWATH_CRAWL_LEASE"  # seconds; for tests that kill crawls and would not wait that long
CONNECT_SECONDS = 10.0
FIRST_BYTE_SECONDS = 20.0


class Job:
    """What one process does of a crawl. `number` tells the processes of one directory apart."""

    def __init__(self, settings: CrawlSettings, *, number: int = 0, stop: Stop | None = None) -> None:
        self.settings = settings
        self.number = number
        self.stop = stop or Stop()
        self.stats = CrawlStats()
        self.status: Status | None = None  # of the whole frontier, a moment ago

    async def run(self) -> Summary:
        """Crawl until everything is settled, a limit is reached, or somebody asks for a stop."""
        settings = self.settings
        workers = fd_limit.limit_workers(settings.workers).workers
        async with AsyncExitStack() as stack:
            stack.enter_context(rarely_collected())
            frontier = await stack.enter_async_context(swath.open(settings.store_url, create=False))
            output = CrawlOutput(
                settings.directory,
                unique=workspace.unique(settings.directory, self.number),
                warc_size=settings.warc_size if settings.warc else None,
                about=_about(settings),
            )
            stack.callback(output.close)
            await asyncio.to_thread(output.restore, await frontier.outputs())
            handler = await self._make_handler(stack, frontier, workers)
            looking = asyncio.create_task(self._look(frontier, handler))
            stack.callback(looking.cancel)
            return await frontier.run(
                handler,
                workers=workers,
                lease=_lease(settings),
                timeout=settings.timeout + 60.0,  # the fetcher keeps its own time; this is for what is read in threads
                grace=GRACE,
                until="done",
                handle_signals=False,
                output=output,
                stop=self.stop,
            )

    async def _make_handler(self, stack: AsyncExitStack, frontier: Frontier, workers: int) -> PageHandler:
        settings = self.settings
        resolver = await stack.enter_async_context(Resolver())
        fetcher = await stack.enter_async_context(
            Fetcher(
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
                connections=workers,
                keep_alive=30.0 if settings.min_interval < 30.0 else 0.0,
            )
        )
        host_lanes = HostLanes() if settings.lane == "ip" else None
        links = LinkFilter(
            frontier,
            await asyncio.to_thread(workspace.scope, settings),
            lane_of=lane_naming(settings.lane) if host_lanes is None else host_lanes.lane_of,
            strip_tracking=settings.strip_tracking,
            year=datetime.now(UTC).year,
            refused=self.stats.refused,
        )
        return PageHandler(frontier, settings, fetcher=fetcher, links=links, stats=self.stats, host_lanes=host_lanes)

    async def _look(self, frontier: Frontier, handler: PageHandler) -> None:
        """Keep an eye on the limits of the run, and on the frontier for whoever shows it."""
        loop = asyncio.get_running_loop()
        ends_at = None if self.settings.max_duration is None else loop.time() + self.settings.max_duration
        most = self.settings.max_pages
        while True:
            try:
                self.status = await frontier.status()
            except swath.StoreUnavailable:
                pass  # the runner says so, and waits
            else:
                if most is not None:
                    handler.pages_left = max(0, most - self.status.visits - self.stats.in_flight)
                    if self.status.visits >= most:
                        self.stop.request("max-pages")
            if ends_at is not None and loop.time() >= ends_at:
                self.stop.request("max-duration")
            await asyncio.sleep(LOOK_SECONDS)


def _lease(settings: CrawlSettings) -> float:
    """How long what a process had in hand is left alone after it was killed."""
    given = os.environ.get(LEASE_VARIABLE)
    return float(given) if given else max(LEASE, 3 * settings.timeout)


def _about(settings: CrawlSettings) -> dict[str, str]:
    """What a warcinfo record says of the crawl."""
    about = {"http-header-user-agent": settings.agent, "robots": "obey" if settings.robots else "ignore"}
    return about | ({"operator": settings.contact} if settings.contact else {})
