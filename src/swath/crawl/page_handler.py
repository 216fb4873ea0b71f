"""PageHandler: the handler of a crawl, called with one item at a time.

The route of a page: `LinkFilter` finds that the settings do not exclude it, `IpLanes` moves it to the lane of its
address, the page budgets admit it, `RobotsGate` allows it, `PageFetcher` fetches it, and `PageProcessor` archives it,
parses it and calls the user's handler for it.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from swath import Dead, Done, Frontier, Item, Observer, Outcome, Retry
from swath.crawl.archive.capture import CaptureBuilder
from swath.crawl.archive.record import Capture
from swath.crawl.fact_batcher import FactBatcher
from swath.crawl.fallback import Fallback, get_first_form
from swath.crawl.frontier_clock import FrontierClock
from swath.crawl.handlers.extractor import PageExtractor
from swath.crawl.handlers.hooks import HookFailed
from swath.crawl.http.response import Response
from swath.crawl.http.status import is_busy, is_retryable
from swath.crawl.ip_lanes import HostLanes, IpLanes
from swath.crawl.lanes import is_ip_lane
from swath.crawl.links import LinkFilter
from swath.crawl.pacing import LanePacing, compute_page_retry_pause
from swath.crawl.page_fetcher import PageFetcher, PageSource, count_failures
from swath.crawl.page_processor import PAGES, PageProcessor
from swath.crawl.page_request import get_url, read_request
from swath.crawl.refusal import give_up_page, refuse_page
from swath.crawl.robots.cache import RobotsCache
from swath.crawl.robots.gate import RobotsGate
from swath.crawl.seeds import is_seed
from swath.crawl.settings import CrawlSettings
from swath.crawl.start import StartGate
from swath.crawl.stats import CrawlStats

if TYPE_CHECKING:
    from swath.crawl.stream import Backlog

BUDGET_RECHECK = 1.0  # seconds until a page over budget is claimed again: pages in flight may fail and not count


class PageHandler:
    """Visits the pages of a crawl."""

    def __init__(
        self,
        frontier: Frontier,
        settings: CrawlSettings,
        *,
        fetcher: PageSource,
        links: LinkFilter,
        stats: CrawlStats,
        host_lanes: HostLanes | None = None,
        extractor: PageExtractor | None = None,
        has_sink: bool = False,
        backlog: "Backlog | None" = None,
        observer: Observer | None = None,
    ) -> None:
        """Pass `host_lanes` with `--lane ip` only, and `extractor` for a crawl with handlers.

        With `has_sink`, the outcome of a page has its extracted items as rows for the sink of the run. No page is
        fetched while `backlog` is full.
        """
        facts = FactBatcher(frontier)
        self._clock = FrontierClock(frontier)
        self._settings = settings
        self._stats = stats
        self._links = links
        self._pacing = LanePacing(frontier, facts, delay=settings.min_interval)
        fallback = Fallback(frontier, facts, lane_of=links.lane_of)
        self._fetcher = PageFetcher(
            fetcher,
            settings,
            pacing=self._pacing,
            fallback=fallback,
            stats=stats,
            hook=None if extractor is None else extractor.crawler.on_request,
            observer=observer,
        )
        self._ip_lanes = None if host_lanes is None else IpLanes(host_lanes, facts, self._fetcher)
        captures = CaptureBuilder(facts, archiving=settings.warc)
        self._robots = RobotsGate(
            frontier,
            settings,
            cache=RobotsCache(facts, self._clock),
            clock=self._clock,
            fetcher=self._fetcher,
            pacing=self._pacing,
            captures=captures,
            links=links,
            stats=stats,
            ip_lanes=self._ip_lanes,
        )
        self._fallback = fallback
        self._extractor = extractor
        self._backlog = backlog
        self._processor = PageProcessor(
            settings,
            facts=facts,
            captures=captures,
            links=links,
            fallback=fallback,
            stats=stats,
            extractor=extractor,
            has_sink=has_sink,
        )
        self.start = StartGate(frontier, settings, facts=facts, links=links, extractor=extractor)
        self.pages_left: int | None = settings.max_pages  # how many more pages this process may start

    async def __call__(self, item: Item) -> Outcome:
        if self.start.is_start(item):
            return await self.start.run(item)
        if not self.start.is_open:
            await self.start.load()
        try:
            return await self._call(item)
        except HookFailed as failed:
            self._stats.errors[failed.kind] += 1
            if self._robots.is_hop(item):
                return item.dead(reason=f"{failed}", error=failed.trace, started=False)
            return give_up_page(item, f"{failed}", attempts=count_failures(item), started=False, error=failed.trace)

    async def _call(self, item: Item) -> Outcome:
        if self._robots.is_hop(item):
            return await self._robots.follow(item)
        if (excluded := self._links.find_exclusion(item)) is not None:
            return refuse_page(item, *excluded, stats=self._stats)
        if (restarted := await self._fallback.restart(item)) is not None:
            return restarted
        outcome = await self._handle(item)
        if isinstance(outcome, Dead | Retry) and is_seed(item):
            self._stats.record_seed_failure(get_first_form(item), outcome)
        return outcome

    def refuse_items(self, item: Item, output: Sequence[Capture], message: str) -> Dead:
        """Return the outcome of a page whose items the database has refused."""
        return self._processor.refuse_items(item, output, message)

    async def _handle(self, item: Item) -> Outcome:
        if self._ip_lanes is not None:
            if not is_ip_lane(item.lane):
                return await self._move(item, self._ip_lanes)
            self._ip_lanes.remember(item)
        if self._extractor is not None and self._extractor.is_full:
            return item.release(started=False, after=BUDGET_RECHECK)
        if self._backlog is not None and self._backlog.is_full:
            await self._backlog.wait_for_room()
            return item.release(started=False)  # the pace of its lane begins anew
        if self.pages_left is not None:
            if self.pages_left <= 0:
                return item.release(started=False, after=BUDGET_RECHECK)
            self.pages_left -= 1
        self._stats.in_flight += 1
        fetched = False
        try:
            outcome = await self._visit(item)
            fetched = isinstance(outcome, Done | Dead) and PAGES in outcome.counters
            return outcome
        finally:
            self._stats.in_flight -= 1
            if self.pages_left is not None and not fetched:
                self.pages_left += 1

    async def _move(self, item: Item, ip_lanes: IpLanes) -> Outcome:
        if (unreachable := await self._robots.check_reachable(item)) is not None:
            return unreachable
        moved = await ip_lanes.move(item)
        return await self._robots.settle_unreachable(item, moved) if isinstance(moved, Response) else moved

    async def _visit(self, item: Item) -> Outcome:
        if (over_budget := self._check_host_budget(item)) is not None:
            return over_budget
        await self._pacing.load(item.lane)
        check = self._robots.check if self._settings.robots else self._robots.check_reachable
        if (refused := await check(item)) is not None:
            return refused
        fresh = item.attempts > 0 or self._pacing.get(item.lane).closes_connections
        response = await self._fetcher.fetch(get_url(item), item.lane, fresh=fresh, outgoing=read_request(item))
        return await self._settle(item, response)

    def _check_host_budget(self, item: Item) -> Outcome | None:
        """Return the outcome of a page that --max-pages-per-host does not admit; None if it does."""
        budget = self._settings.max_pages_per_host
        if budget is None:
            return None
        pages = item.lane_counters.get(PAGES, 0)
        if pages + item.lane_in_flight < budget:
            return None
        if pages < budget:
            return item.release(started=False, after=BUDGET_RECHECK)  # pages in flight may fail and not count
        rule = f"--max-pages-per-host {budget}: {item.lane} has reached this limit"
        return refuse_page(item, "host-budget", rule, stats=self._stats)

    async def _settle(self, item: Item, response: Response) -> Outcome:
        """Settle a page: process the response, or retry if the host failed or is busy."""
        if response.error is not None:
            if not self._settings.robots and not item.lane_counters.get(PAGES, 0):
                return await self._robots.settle_unreachable(item, response)
            return await self._fetcher.settle_failure(item, response)
        lane, status, failures = item.lane, response.status, count_failures(item)
        busy = is_busy(status)
        await self._pacing.record_response(lane, response.ended - response.started, failed=busy or status >= 500)
        pause = compute_page_retry_pause(failures, interval=self._pacing.get(lane).interval)
        retry = is_retryable(status) and failures < self._settings.retries
        if busy:
            asked = await self._clock.find_retry_after(response)
            pause = pause if asked is None else asked
            if retry or asked is not None:  # a Retry-After applies to the whole host, even if this page is not retried
                await self._pacing.block(lane, pause)
        if retry:
            self._stats.errors[f"{status}"] += 1
            return item.retry(after=pause, reason=f"status {status}")
        self._stats.count_page(status, len(response.body))
        return await self._processor.process(item, response)
