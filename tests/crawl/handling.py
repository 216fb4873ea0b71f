"""A page handler on a frontier in memory, with responses that the test makes up."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import swath
from swath import Store
from swath.claim import Claim
from swath.core.item import Outcome, Retry, Split
from swath.crawl.handlers.extractor import PageExtractor
from swath.crawl.http.outgoing import OutgoingRequest
from swath.crawl.http.response import Headers, Response, make_failure
from swath.crawl.ip_lanes import HostLanes
from swath.crawl.lanes import get_lane_namer
from swath.crawl.links import LinkFilter
from swath.crawl.page_handler import PageHandler
from swath.crawl.settings import CrawlSettings
from swath.crawl.stats import CrawlStats
from swath.crawl.urls import normalise
from swath.crawl.urls.scope import Scope
from swath.frontier import Frontier

Say = Callable[[str], Response]


class Actor:
    """Takes the place of a fetcher: returns made-up responses and records the requests. `names` maps hosts to
    addresses, and a test can change it; other hosts do not exist."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self.asked: list[str] = []
        self.fresh: list[bool] = []  # whether each asked for a new connection
        self.names: dict[str, list[str]] = {}

    async def fetch(
        self,
        url: str,
        *,
        fresh: bool = False,
        address: str | None = None,
        size: int = 0,
        outgoing: OutgoingRequest | None = None,
    ) -> Response:
        self.asked.append(url)
        self.fresh.append(fresh)
        return self._say(url)

    async def resolve(self, url: str) -> Response | list[str]:
        found = self.names.get(normalise.host(url))
        return found or make_failure(url, "dns-negative", "no such host", started=0.0, ended=0.0)


@asynccontextmanager
async def handling(
    say: Say, *, store: Store | None = None, **options: Any
) -> AsyncIterator[tuple[Frontier, PageHandler, Actor]]:
    settings = CrawlSettings(out="nowhere", scope="any", **options)
    actor = Actor(say)
    limits: dict[str, Any] = {
        "min_interval": settings.min_interval, "concurrency": settings.max_workers_per_host or None,
    }  # fmt: skip
    async with swath.open("memory:", **limits) if store is None else swath.open(store=store) as frontier:
        yield frontier, handler_on(frontier, settings, actor), actor


def handler_on(
    frontier: Frontier,
    settings: CrawlSettings,
    actor: Actor,
    *,
    scope: Scope | None = None,
    extractor: PageExtractor | None = None,
) -> PageHandler:
    """Return the page handler of one process."""
    stats = CrawlStats()
    host_lanes = HostLanes() if settings.lane == "ip" else None
    lane_of = get_lane_namer(settings.lane) if host_lanes is None else host_lanes.lane_of
    links = LinkFilter(
        frontier, scope or Scope(), lane_of=lane_of, strip_tracking=False, year=2026, refused=stats.refused
    )
    return PageHandler(
        frontier, settings, fetcher=actor, links=links, stats=stats, host_lanes=host_lanes, extractor=extractor
    )


async def settle(claim: Claim, outcome: Outcome) -> None:
    """Settle an outcome without its output."""
    await claim.settle([outcome if isinstance(outcome, Retry | Split) else outcome._replace(output=None)])


def answered(url: str, status: int = 200, body: bytes = b"", **headers: str) -> Response:
    lines = [f"HTTP/1.1 {status} x", *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items())]
    head = "\r\n".join([*lines, "", ""]).encode("latin-1")
    return said(url, status, head, body)


def said(url: str, status: int, head: bytes, body: bytes, **more: Any) -> Response:
    now = time.time()
    return Response(
        url, status, "http/1.1", b"GET / HTTP/1.1\r\n\r\n", head, Headers(head), body, None, now, now, now, **more
    )
