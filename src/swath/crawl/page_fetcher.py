"""PageFetcher: send a request on behalf of an item, and settle the item if the request fails."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Protocol

from swath import Item, Observer, Outcome, get_fence
from swath.crawl.events import Fetched
from swath.crawl.fallback import FORM_REPEATS, Fallback, describe_forms
from swath.crawl.handlers.hooks import InvalidHookResult, RequestHook
from swath.crawl.http.address import parse_ip_literal
from swath.crawl.http.outgoing import OutgoingRequest
from swath.crawl.http.response import FailureKind, Response
from swath.crawl.pacing import LanePacing, compute_page_retry_pause
from swath.crawl.page_processor import PAGES
from swath.crawl.refusal import PRIVATE, give_up_page, refuse_private_page
from swath.crawl.settings import CrawlSettings
from swath.crawl.stats import CrawlStats
from swath.crawl.urls import normalise

DESCRIPTOR_PAUSE = 5.0  # seconds to wait when this machine has no file descriptor left
NOT_SENT: Final = frozenset[FailureKind]({"url", "dns", "dns-negative", "private"})  # failures before any connection
PERMANENT: Final = frozenset[FailureKind]({"url", "dns-negative", "private"})  # failures that no retry changes
UNREACHABLE: Final = frozenset[FailureKind](  # failures that any page of the host would have
    {"dns", "dns-negative", "refused", "unreachable", "timeout-connect", "tls", "proxy"}
)


class PageSource(Protocol):
    """Fetches URLs: a `Fetcher`, or what takes its place in tests."""

    async def fetch(
        self,
        url: str,
        *,
        fresh: bool = False,
        address: str | None = None,
        size: int = 0,
        outgoing: OutgoingRequest | None = None,
    ) -> Response: ...

    async def resolve(self, url: str) -> Response | Sequence[str]: ...


class PageFetcher:
    """The fetcher, with the statistics and the retry policy of a crawl."""

    def __init__(
        self,
        fetcher: PageSource,
        settings: CrawlSettings,
        *,
        pacing: LanePacing,
        fallback: Fallback,
        stats: CrawlStats,
        hook: RequestHook | None = None,
        observer: Observer | None = None,
    ) -> None:
        self._fetcher = fetcher
        self._settings = settings
        self._pacing = pacing
        self._fallback = fallback
        self._stats = stats
        self._hook = hook
        self._observer = observer

    async def fetch(
        self, url: str, lane: str, *, fresh: bool, size: int = 0, outgoing: OutgoingRequest | None = None
    ) -> Response:
        """Fetch a URL. With `--lane ip`, connect only to the address that the lane is named after.

        Pass `outgoing` if the request is not a plain GET. Raise HookFailed, without a request, if the hook fails.
        """
        if self._hook is not None:
            outgoing = self._call_hook(self._hook, url, outgoing)
        elif outgoing is not None:
            outgoing = replace(outgoing, proxy=self._settings.proxy)
        address = parse_ip_literal(lane) if self._settings.lane == "ip" else None
        response = await self._fetcher.fetch(url, fresh=fresh, address=address, size=size, outgoing=outgoing)
        self._stats.record_response_time(normalise.host(url), response.ended - response.started)
        if self._observer is not None:
            self._observer(_build_event(url, lane, response))
        return response

    def _call_hook(self, hook: RequestHook, url: str, outgoing: OutgoingRequest | None) -> OutgoingRequest | None:
        proxy = self._settings.proxy
        before = OutgoingRequest(url, proxy=proxy) if outgoing is None else replace(outgoing, proxy=proxy)
        after = hook(before)
        if after.proxy is not None and self._settings.lane == "ip":
            raise hook.fail(InvalidHookResult("it set a proxy, which hides the addresses that --lane ip needs"))
        return None if outgoing is None and after is before else after

    async def resolve(self, url: str) -> Sequence[str] | Response:
        """Return the addresses of a URL's host, or the failure to resolve it."""
        return await self._fetcher.resolve(url)

    async def settle_failure(self, item: Item, response: Response) -> Outcome:
        """Return the outcome of an item whose request failed: retry, release, refuse, or `give_up`."""
        assert response.error is not None
        if response.error == "closed":  # the server may not have read the request: repeat it on a new connection
            self._pacing.get(item.lane).closes_connections = True
            return item.release()
        if response.error == PRIVATE:
            return refuse_private_page(item, response.detail, stats=self._stats)
        self._stats.errors[response.failure] += 1
        if response.error == "descriptors":
            return item.release(after=DESCRIPTOR_PAUSE)
        sent = response.error not in NOT_SENT
        failures, retries = count_failures(item), self._settings.retries
        if await self._fallback.find_next_form(item, response.error) is not None:
            retries = min(retries, FORM_REPEATS)  # a closed port says nothing about the load of the host
            pause = self._pacing.get(item.lane).interval
        else:
            if sent:
                await self._pacing.record_response(item.lane, response.ended - response.started, failed=True)
            pause = compute_page_retry_pause(failures, interval=self._pacing.get(item.lane).interval)
        if _is_permanent(item, response) or failures >= retries:
            return await self.give_up(item, response.reason, attempts=failures + 1, started=sent)
        return item.retry(after=pause, reason=response.reason)

    async def give_up(self, item: Item, reason: str, *, attempts: int, started: bool = True) -> Outcome:
        """Return the outcome of a page that cannot be fetched: a bare seed falls back, any other page is dead.

        `reason` begins with the kind of error. Pass `started=False` if no request was sent this time.
        """
        form = await self._fallback.find_next_form(item, reason.partition(":")[0])
        if form is not None:
            return await self._fallback.fall_back(item, form, reason, started=started)
        return give_up_page(item, describe_forms(item, reason), attempts=attempts, started=started)


def _build_event(url: str, lane: str, response: Response) -> Fetched:
    return Fetched(
        key=url,
        lane=lane,
        fence=get_fence(),
        status=response.status if response.error is None else None,
        bytes=len(response.body),
        seconds=response.ended - response.started,
        error=None if response.error is None else response.reason,
    )


def _is_permanent(item: Item, response: Response) -> bool:
    """Return whether no retry is expected to help. A name that had an address in this crawl may get it back."""
    if response.error == "dns-negative":
        return not item.lane_counters.get(PAGES)
    return response.error in PERMANENT


def count_failures(item: Item) -> int:
    """Return how often a page has failed. Attempts that were lost with a process do not count against the host."""
    return item.attempts - item.losses
