"""The shop of the demo web on a port of its own, which can kill a spider at its nth request."""

import asyncio
import os
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial

from swath.testing.web import DemoBook, LoggedRequest, Request, RequestLog, ScriptedResponse, Web, list_books, serve
from swath.testing.web.expectation import Expectation
from swath.testing.web.scripted_response import Wait
from swath.testing.web.site import Site

RESPONSE_SECONDS = 0.02
MOST_PAGES = 0.4  # of the shop, in a run before it is killed
MOST_SECONDS = 0.05  # from the request until the kill


@dataclass(frozen=True, slots=True)
class Moment:
    """When a run is killed: some time after its nth page was requested."""

    requests: int
    seconds: float


def draw_moments(seed: int, count: int, *, books: int) -> list[Moment]:
    """Return the same moments for the same seed."""
    chance = random.Random(seed)
    most = max(1, int(MOST_PAGES * books))
    return [Moment(chance.randint(1, most), chance.uniform(0, MOST_SECONDS)) for _ in range(count)]


@dataclass(frozen=True, slots=True)
class SlowSite:
    """A `Site` whose responses take some time, so that several are in flight."""

    site: Site

    @property
    def host(self) -> str:
        return self.site.host

    @property
    def counts_targets(self) -> bool:
        return self.site.counts_targets

    @property
    def takes_posts(self) -> bool:
        return self.site.takes_posts

    def respond(self, request: Request) -> ScriptedResponse:
        response = self.site.respond(request)
        return replace(response, steps=(Wait(RESPONSE_SECONDS), *response.steps))

    def expectation(self, target: str) -> Expectation | None:
        return self.site.expectation(target)

    def expectations(self) -> Iterator[tuple[str, Expectation]]:
        return self.site.expectations()


class KillingLog(RequestLog):
    """Counts the requests for pages, and kills the process group of the present run at its moment."""

    def __init__(self) -> None:
        super().__init__(keep=False)
        self.pages: Counter[str] = Counter()  # requests of each URL, without robots.txt
        self.killed = False
        self._group: int | None = None
        self._moment: Moment | None = None
        self._requests = 0

    def begin(self, group: int, moment: Moment | None) -> None:
        self._group, self._moment, self._requests, self.killed = group, moment, 0, False

    def end(self) -> None:
        self._group = None

    def add(self, entry: LoggedRequest) -> None:
        super().add(entry)
        if entry.target == "/robots.txt":
            return
        self.pages[entry.url] += 1
        self._requests += 1
        if self._moment is not None and self._requests == self._moment.requests:
            kill = partial(self._kill, self._group)
            asyncio.get_running_loop().call_later(self._moment.seconds, kill)

    def _kill(self, group: int | None) -> None:
        if group is not None and group == self._group:
            self.killed = True
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class ShopServer:
    url: str
    log: KillingLog
    books: Mapping[str, DemoBook]
    """By URL."""


@asynccontextmanager
async def serve_shop(books: int) -> AsyncIterator[ShopServer]:
    """Serve a shop on 127.0.0.1 under the address itself, because not every crawler can map names to an address."""
    web = Web(hosts=1, pages=1, faults=False, shops=1, books=books)
    (shop,) = (site for name, site in web.sites.items() if name.startswith("shop"))
    log = KillingLog()
    async with serve(web, log=log) as server:
        address = f"127.0.0.1:{server.port}"
        web.sites[address] = SlowSite(shop)
        url = f"http://{address}/"
        found = {f"{url}{book.url.split('/', 3)[3]}": book for book in list_books(web)}
        yield ShopServer(url, log, found)
