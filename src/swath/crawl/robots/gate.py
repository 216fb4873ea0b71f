"""RobotsGate: decide whether a page may be fetched now.

If the rules of an origin are not known, the worker fetches robots.txt instead of the page, and releases the page. So
the lane paces that request like any other, and nothing else is fetched from the origin before it.

If robots.txt redirects to a URL in the same lane, the next worker with a page of the origin follows the redirect. If it
redirects into another lane, the redirect becomes an item of that lane. Until that item is settled, the
origin's lane is blocked, at most for WAIT_SECONDS; if several hosts share the lane, only the pages of the origin wait.
If it is not settled in time, the next worker requests robots.txt from the origin again. So several such items may be
queued in a busy lane: the first one fetches the rules, and the others settle without a request.

If a request gets no response, the origin cannot be reached (see `failure`). The page that needed it is retried, the
other pages of the origin wait, and after `--retries` retries every page that is due is dead. If no robots.txt is
requested before a page, a connection that fails for the page has the same effect.
"""

import asyncio
from datetime import timedelta
from typing import assert_never

from swath import Frontier, Item, Outcome, retry_while_unavailable
from swath.crawl.archive.capture import CaptureBuilder
from swath.crawl.archive.record import Capture
from swath.crawl.fallback import is_unreachable_form
from swath.crawl.frontier_clock import FrontierClock
from swath.crawl.http.response import Response
from swath.crawl.http.status import is_busy
from swath.crawl.ip_lanes import IpLanes
from swath.crawl.links import LinkFilter
from swath.crawl.pacing import LanePacing, compute_robots_retry_pause
from swath.crawl.page_fetcher import NOT_SENT, PERMANENT, UNREACHABLE, PageFetcher, count_failures
from swath.crawl.page_request import get_url
from swath.crawl.parse.page import decode_body
from swath.crawl.refusal import PRIVATE, refuse_page
from swath.crawl.robots.cache import (
    KEY_PREFIX,
    TOP_PRIORITY,
    WAIT_SECONDS,
    CachedRobots,
    Known,
    RobotsCache,
    RobotsRedirect,
)
from swath.crawl.robots.failure import OriginFailure
from swath.crawl.robots.parser import MAX_BODY
from swath.crawl.robots.policy import SECOND
from swath.crawl.settings import CrawlSettings
from swath.crawl.stats import CrawlStats
from swath.crawl.urls import normalise

MAX_BYTES = MAX_BODY + 1  # of a robots.txt, independent of --max-size; one more than is parsed, to detect a longer file
MAX_FAILING = 50_000  # origins that one process remembers as failing
BLOCK_TOLERANCE = timedelta(seconds=2)  # a block ends this close to its redirect, or has another reason
MIN_WAIT = 0.01  # minimum seconds to wait for the next attempt at a robots.txt


class RobotsGate:
    """Decides whether pages may be fetched, and fetches the robots.txt files that the decision needs."""

    def __init__(
        self,
        frontier: Frontier,
        settings: CrawlSettings,
        *,
        cache: RobotsCache,
        clock: FrontierClock,
        fetcher: PageFetcher,
        pacing: LanePacing,
        captures: CaptureBuilder,
        links: LinkFilter,
        stats: CrawlStats,
        ip_lanes: IpLanes | None,
    ) -> None:
        self._frontier = frontier
        self._settings = settings
        self._cache = cache
        self._clock = clock
        self._fetcher = fetcher
        self._pacing = pacing
        self._captures = captures
        self._links = links
        self._stats = stats
        self._ip_lanes = ip_lanes
        self._one_host_per_lane = settings.lane == "host"
        self._requests: dict[str, asyncio.Future[None]] = {}  # origin -> its robots.txt request in flight
        self._failing: set[str] = set()  # origins that this process could not reach; their facts are read again

    @staticmethod
    def is_hop(item: Item) -> bool:
        """Return whether an item is the target of a robots.txt redirect instead of a page."""
        return item.key.startswith(KEY_PREFIX) and "origin" in (item.payload or {})  # a user may choose a key

    # a page

    async def check(self, item: Item) -> Outcome | None:
        """Return None if the page may be fetched now, otherwise its outcome."""
        origin = normalise.origin(get_url(item))
        while isinstance(known := await self._cache.get(origin), RobotsRedirect) or known is None:
            if (request := self._requests.get(origin)) is None:
                request = self._requests[origin] = asyncio.get_running_loop().create_future()
                try:
                    return await self._request(item, origin, known)
                finally:
                    del self._requests[origin]
                    request.set_result(None)
            await asyncio.shield(request)
            if self._pacing.is_paced(item.lane):
                return item.release()  # pages that waited must not all start at once
        if isinstance(known, OriginFailure):
            return await self._settle_unreachable(item, known)
        if wait := await self._compute_seconds_to_retry(known):
            return item.release(started=False, after=wait)
        self._pacing.get(item.lane).crawl_delay = known.robots.get_crawl_delay(self._settings.user_agent)
        verdict = known.robots.decide(get_url(item), self._settings.user_agent)
        if verdict.allowed:
            return None
        assert verdict.rule is not None
        return refuse_page(item, "robots", verdict.rule, stats=self._stats)

    async def _request(self, item: Item, origin: str, redirect: RobotsRedirect | None) -> Outcome:
        """Fetch robots.txt, or the target of its redirect, instead of the page."""
        url = f"{origin}/robots.txt" if redirect is None else redirect.url
        lane = item.lane
        target_lane = lane if redirect is None else await self._find_lane_of_request(url)
        if redirect is not None and isinstance(target_lane, str) and target_lane != lane:
            return await self._queue_redirect(item, origin, redirect, target_lane)
        if isinstance(target_lane, str):
            response = await self._fetcher.fetch(url, lane, fresh=True, size=MAX_BYTES)
        else:
            response = target_lane
        if response.error == "descriptors":  # this machine's fault, not the host's
            return await self._fetcher.settle_failure(item, response)
        if redirect is None and (response.error == PRIVATE or is_unreachable_form(item, response)):
            return await self._fetcher.settle_failure(item, response)  # as if the page had been requested
        known = await self._record(origin, response, lane=lane, redirects=redirect.redirects if redirect else 0)
        wait = await self._compute_seconds_to_retry(known)
        if wait and self._one_host_per_lane:
            await self._pacing.block(lane, wait)
        if isinstance(known, OriginFailure):
            return await self._settle_failed_request(item, known, wait, sent=response.error not in NOT_SENT)
        if isinstance(known, CachedRobots) and response.error is None:
            await self._apply_hints(lane, origin, known, seconds=response.ended - response.started)
        return item.release(output=self._capture(response))

    # a page whose robots.txt is not requested first

    async def check_reachable(self, item: Item) -> Outcome | None:
        """Return the outcome of a page if its origin cannot be reached, as far as this process knows; else None."""
        origin = normalise.origin(get_url(item))
        if origin not in self._failing:
            return None
        known = await self._cache.get(origin)
        if isinstance(known, OriginFailure):
            return await self._settle_unreachable(item, known)
        self._failing.discard(origin)
        return None

    async def settle_unreachable(self, item: Item, response: Response) -> Outcome:
        """Settle a page whose request failed, if no page of the origin was fetched so far."""
        if response.error not in UNREACHABLE or is_unreachable_form(item, response):
            return await self._fetcher.settle_failure(item, response)
        origin = normalise.origin(get_url(item))
        if len(self._failing) >= MAX_FAILING:
            self._failing.clear()
        self._failing.add(origin)
        known = await self._record_failure(origin, response, response.reason, lane=item.lane)
        if not isinstance(known, OriginFailure):
            return await self._fetcher.settle_failure(item, response)
        self._stats.errors[known.kind] += 1
        wait = await self._compute_seconds_to_retry(known)
        if wait and self._one_host_per_lane:
            await self._pacing.block(item.lane, wait)
        return await self._settle_failed_request(item, known, wait, sent=response.error not in NOT_SENT)

    # shared by pages and redirects

    async def _settle_failed_request(self, item: Item, failure: OriginFailure, wait: float, *, sent: bool) -> Outcome:
        """Settle the page that needed the request. `wait` is the time until the next one."""
        if failure.is_final:
            return await self._fetcher.give_up(item, failure.reason, attempts=failure.tries, started=sent)
        if count_failures(item) < self._settings.retries:
            return item.retry(after=wait, reason=failure.reason)
        return item.release(started=sent, after=wait)  # the page has failed before, but the origin has retries left

    async def _settle_unreachable(self, item: Item, failure: OriginFailure) -> Outcome:
        """Settle a page whose origin cannot be reached, as a request for another page has found. Send no request."""
        if failure.is_final:
            self._stats.errors[failure.kind] += 1
            return await self._fetcher.give_up(item, failure.reason, attempts=failure.tries, started=False)
        return item.release(started=False, after=await self._compute_seconds_to_retry(failure))

    async def _queue_redirect(self, item: Item, origin: str, redirect: RobotsRedirect, target_lane: str) -> Outcome:
        """Add the redirect as an item of the other lane, and release the page.

        The page waits as long as the redirect has taken so far, so that waiting pages are claimed less and less often.
        """
        new_item = _make_redirect_item(origin, redirect, target_lane, waiting_lane=item.lane)
        added = await retry_while_unavailable(lambda: self._frontier.add(new_item))
        left = await self._compute_seconds_until(redirect.until)
        if added and self._one_host_per_lane:
            seconds = max(0.0, left)
            await retry_while_unavailable(lambda: self._frontier.block(item.lane, seconds=seconds, at_least=True))
        return item.release(started=False, after=max(1.0, self._settings.min_interval, WAIT_SECONDS - left))

    # an item that follows a redirect

    async def follow(self, item: Item) -> Outcome:
        """Fetch the target of a robots.txt redirect, unless an earlier one has fetched the rules."""
        origin, url, redirects, waiting_lane = (item.payload[name] for name in ("origin", "url", "redirects", "lane"))
        before = await self._cache.get(origin)
        # A process that died here may have stored the rules, but its response is not archived: repeat the request.
        if isinstance(before, CachedRobots | OriginFailure) and not item.attempts:
            return item.done(result={"known": origin}, started=False)
        response = await self._fetcher.fetch(url, item.lane, fresh=True, size=MAX_BYTES)
        if response.error == "descriptors":
            return await self._fetcher.settle_failure(item, response)
        known = await self._record(origin, response, lane=item.lane, redirects=redirects)
        next_item: list[Item] = []
        if isinstance(known, RobotsRedirect):
            target_lane = await self._find_lane_of_request(known.url)
            if isinstance(target_lane, Response):
                known = await self._record(origin, target_lane, lane=item.lane, redirects=known.redirects)
            elif target_lane != waiting_lane:
                next_item = [_make_redirect_item(origin, known, target_lane, waiting_lane=waiting_lane)]
        if isinstance(known, CachedRobots) and response.error is None:
            await self._apply_hints(waiting_lane, origin, known, seconds=None)
        if isinstance(before, RobotsRedirect) and self._one_host_per_lane:
            await self._unblock(waiting_lane, before, known, hop_again=bool(next_item))
        result = {"status": response.status} if response.error is None else {"failed": response.reason}
        return item.done(result=result, discovered=next_item, output=self._capture(response))

    async def _unblock(self, lane: str, before: RobotsRedirect, known: Known, *, hop_again: bool) -> None:
        """End the block of the lane that waits for a redirect, or extend it to the next redirect.

        A block that ends at another moment than the redirect has another reason, such as a Retry-After: leave it.
        """
        found = await retry_while_unavailable(lambda: self._frontier.lane(lane))
        if found is None or found.blocked_until is None:
            return
        left = timedelta(seconds=await self._compute_seconds_until(before.until))
        if abs(found.blocked_until - await self._clock.read_wall() - left) > BLOCK_TOLERANCE:
            return
        if isinstance(known, RobotsRedirect) and hop_again:
            seconds = max(0.0, await self._compute_seconds_until(known.until))
        else:
            seconds = await self._compute_seconds_to_retry(known)
        await retry_while_unavailable(lambda: self._frontier.block(lane, seconds=seconds))

    async def _find_lane_of_request(self, url: str) -> str | Response:
        return self._links.lane_of(url) if self._ip_lanes is None else await self._ip_lanes.find_lane_of_request(url)

    async def _record(self, origin: str, response: Response, *, lane: str, redirects: int) -> Known:
        """Store what a response says about an origin's rules, or that there was none."""
        if (reason := _describe_failure(origin, response)) is not None:
            self._stats.errors[reason.partition(":")[0]] += 1
            return await self._record_failure(origin, response, reason, lane=lane)
        self._stats.robots_fetched += 1
        body = b""
        if 200 <= response.status < 300:
            body = decode_body(response, limit=max(MAX_BYTES, self._settings.max_size)).body
        first_retry = compute_robots_retry_pause(self._settings.min_interval)
        if is_busy(response.status):
            asked = await self._clock.find_retry_after(response)
            first_retry = max(first_retry, asked or 0.0)
            await self._pacing.block(lane, first_retry)
        return await self._cache.record_response(
            origin, response, body=body, redirects=redirects, first_retry=first_retry
        )

    async def _record_failure(
        self, origin: str, response: Response, reason: str, *, lane: str
    ) -> CachedRobots | OriginFailure:
        return await self._cache.record_failure(
            origin,
            reason,
            is_permanent=response.error in PERMANENT,
            retries=self._settings.retries,
            interval=self._pacing.get(lane).interval,
        )

    def _capture(self, response: Response) -> list[Capture] | None:
        """Return the entry of a response for the archive and the page list. A failed request has none."""
        return [self._captures.build(response, {"kind": "robots"})] if response.error is None else None

    async def _compute_seconds_to_retry(self, known: Known) -> float:
        """Return the seconds until the next attempt at a robots.txt without rules; 0 if pages do not wait for it."""
        match known:
            case OriginFailure():
                until, waits = known.until, not known.is_final
            case CachedRobots():
                until = known.policy.expires_at
                waits = known.policy.kind == "deny" and known.policy.tries <= self._settings.retries
            case RobotsRedirect():
                return 0.0
            case _:
                assert_never(known)
        return max(MIN_WAIT, await self._compute_seconds_until(until)) if waits else 0.0

    async def _compute_seconds_until(self, moment: int) -> float:
        return (moment - await self._clock.now()) / SECOND

    async def _apply_hints(self, lane: str, origin: str, known: CachedRobots, *, seconds: float | None) -> None:
        """Apply the Crawl-delay of a robots.txt, and add its sitemaps.

        `seconds` is the response time of the origin itself, whose lane this is; None if another host responded.
        """
        delay = known.robots.get_crawl_delay(self._settings.user_agent)
        if delay is not None:
            if seconds is None:
                await self._pacing.apply_crawl_delay(lane, delay)
            else:
                self._pacing.get(lane).crawl_delay = delay
                await self._pacing.record_response(lane, seconds, failed=False)
        if self._settings.sitemaps and known.robots.sitemaps:
            base = f"{origin}/robots.txt"
            urls = [url for text in known.robots.sitemaps if (url := normalise.normalise(text, base)) is not None]
            items = self._links.select_new_items(urls, depth=0, referrer=base, kind="sitemap")
            if items:
                await retry_while_unavailable(lambda: self._frontier.add(items))


def _describe_failure(origin: str, response: Response) -> str | None:
    """Return why a response has no rules, as `kind: detail`; None if it is a response.

    A partial file could allow too much, so it counts as a failure. Bodies of other statuses do not matter.
    """
    if response.error is not None:
        reason = response.reason
    elif response.truncated in ("time", "disconnect") and 200 <= response.status < 300:
        reason = f"{'timeout' if response.truncated == 'time' else 'reset'}: robots.txt is incomplete"
    else:
        return None
    return reason if response.url == f"{origin}/robots.txt" else f"{reason} (robots.txt redirects to {response.url})"


def _make_redirect_item(origin: str, redirect: RobotsRedirect, lane: str, *, waiting_lane: str) -> Item:
    """Return the item of one redirect. Its key contains the deadline, so pages that meet the redirect add one item."""
    payload = {"origin": origin, "url": redirect.url, "redirects": redirect.redirects, "lane": waiting_lane}
    return Item(f"{KEY_PREFIX}{origin} {redirect.url} {redirect.until}", lane, TOP_PRIORITY, payload)
