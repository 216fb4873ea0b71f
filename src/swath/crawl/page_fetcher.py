"""PageFetcher: send a request on behalf of an item, and settle the item if the request fails."""

from collections.abc import Sequence
from typing import Final

from swath import Item, Outcome
from swath.crawl.http.address import parse_ip_literal
from swath.crawl.http.fetcher import Fetcher
from swath.crawl.http.response import FailureKind, Response
from swath.crawl.pacing import LanePacing, compute_page_retry_pause
from swath.crawl.refusal import give_up_page
from swath.crawl.settings import CrawlSettings
from swath.crawl.stats import CrawlStats
from swath.crawl.urls import normalise

DESCRIPTOR_PAUSE = 5.0  # seconds to wait when this machine has no file descriptor left
NOT_SENT: Final = frozenset[FailureKind]({"url", "dns", "dns-negative", "private"})  # failures before any connection
PERMANENT: Final = frozenset[FailureKind]({"url", "dns-negative", "private"})  # failures that no retry changes
UNREACHABLE: Final = frozenset[FailureKind](  # failures that any page of the host would have
    {"dns", "dns-negative", "refused", "unreachable", "timeout-connect", "tls", "proxy"}
)


class PageFetcher:
    """The fetcher, with the statistics and the retry policy of a crawl."""

    def __init__(self, fetcher: Fetcher, settings: CrawlSettings, *, pacing: LanePacing, stats: CrawlStats) -> None:
        self._fetcher = fetcher
        self._settings = settings
        self._pacing = pacing
        self._stats = stats

    async def fetch(self, url: str, lane: str, *, fresh: bool, size: int = 0) -> Response:
        """Fetch a URL. With `--lane ip`, connect only to the address that the lane is named after."""
        address = parse_ip_literal(lane) if self._settings.lane == "ip" else None
        response = await self._fetcher.fetch(url, fresh=fresh, address=address, size=size)
        self._stats.record_response_time(normalise.host(url), response.ended - response.started)
        return response

    async def resolve(self, url: str) -> Sequence[str] | Response:
        """Return the addresses of a URL's host, or the failure to resolve it."""
        return await self._fetcher.resolve(url)

    async def settle_failure(self, item: Item, response: Response) -> Outcome:
        """Return the outcome of an item whose request failed: retry, dead letter, or release."""
        assert response.error is not None
        if response.error == "closed":  # the server may not have read the request: repeat it on a new connection
            self._pacing.get(item.lane).closes_connections = True
            return item.release()
        self._stats.errors[response.failure] += 1
        if response.error == "descriptors":
            return item.release(after=DESCRIPTOR_PAUSE)
        sent = response.error not in NOT_SENT
        if sent:
            await self._pacing.record_response(item.lane, response.ended - response.started, failed=True)
        if response.error in PERMANENT or count_failures(item) >= self._settings.retries:
            return give_up_page(item, response.reason, attempts=count_failures(item) + 1, started=sent)
        pause = compute_page_retry_pause(count_failures(item), interval=self._pacing.get(item.lane).interval)
        return item.retry(after=pause, reason=response.reason)


def count_failures(item: Item) -> int:
    """Return how often a page has failed. Attempts that were lost with a process do not count against the host."""
    return item.attempts - item.losses
