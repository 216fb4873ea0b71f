"""IpLanes: one lane for all hosts that share an IP address (`--lane ip`).

When the crawler finds a link, it does not know the address of the host, and DNS may return several addresses in any
order. But the lane is part of an item's identity (INV-7), so all processes must choose the same address for a host, and
keep it. So a page first enters the lane that is named after its host. There, a worker sends no request: it moves the
page to the lane of the address. If no address is chosen yet, a worker that is alone in the host's lane chooses one, and
stores the choice as a fact when it settles the page. No process uses a choice before it is settled.
"""

from swath import Item, Outcome
from swath.crawl.fact_batcher import FactBatcher
from swath.crawl.http.response import Response
from swath.crawl.lanes import choose_ip_lane, is_ip_lane
from swath.crawl.page_fetcher import PageFetcher
from swath.crawl.page_request import get_url
from swath.crawl.urls import normalise

FACT_PREFIX = "address "  # key of the fact with the name of a host's lane: this prefix and the host
MOVED_TO = "passed_on_to"  # in the result of a page that was moved to another lane
MAX_HOSTS = 100_000  # hosts that one process remembers
RECHECK_SECONDS = 1.0  # while another worker chooses the address


class HostLanes:
    """The lanes of hosts whose address is settled and known to this process."""

    def __init__(self) -> None:
        self._lanes: dict[str, str] = {}

    def lane_of(self, url: str) -> str:
        """Return the lane for an item: that of the address if it is known here, otherwise that of the host."""
        host = normalise.host(url)
        return self._lanes.get(host, host)

    def remember(self, host: str, lane: str) -> None:
        if host not in self._lanes:
            if len(self._lanes) >= MAX_HOSTS:
                self._lanes.clear()
            self._lanes[host] = lane


class IpLanes:
    """Moves pages from the lane of their host to the lane of its address."""

    def __init__(self, hosts: HostLanes, facts: FactBatcher, fetcher: PageFetcher) -> None:
        self._hosts = hosts
        self._facts = facts
        self._fetcher = fetcher

    async def move(self, item: Item) -> Outcome | Response:
        """Move a page from the lane of its host to the lane of its address, or return the failure to resolve it."""
        host = item.lane
        lane = await self._facts.get(FACT_PREFIX + host)
        facts = {}
        if lane is not None:
            self._hosts.remember(host, lane)
        elif item.lane_in_flight:
            return item.release(started=False, after=RECHECK_SECONDS)
        else:
            addresses = await self._fetcher.resolve(get_url(item))
            if isinstance(addresses, Response):
                return addresses
            lane = choose_ip_lane(addresses)
            facts = {FACT_PREFIX + host: lane}  # not remembered yet: another worker may settle a choice first
        moved = Item(item.key, lane, item.priority, item.payload)
        return item.done(result={MOVED_TO: lane}, discovered=[moved], facts=facts, started=False)

    def remember(self, item: Item) -> None:
        """Remember the lane of a page that is in the lane of its address."""
        self._hosts.remember(normalise.host(get_url(item)), item.lane)

    async def find_lane_of_request(self, url: str) -> str | Response:
        """Return the lane whose pace a request for this URL must follow, or the failure to resolve its host."""
        lane = self._hosts.lane_of(url)
        if is_ip_lane(lane):
            return lane
        addresses = await self._fetcher.resolve(url)
        return addresses if isinstance(addresses, Response) else choose_ip_lane(addresses)
