"""A visitor on a frontier in memory, whose answers a test makes up."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import swath
from swath.core.frontier import Frontier
from swath.crawl.answer import Answer, Headers
from swath.crawl.links import Links
from swath.crawl.scope import Scope
from swath.crawl.settings import CrawlSettings
from swath.crawl.tally import Tally
from swath.crawl.visit import Visitor

Say = Callable[[str], Answer]


class Actor:
    """In place of a fetcher: says what it is told to, and remembers what it was asked."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self.asked: list[str] = []

    async def fetch(self, url: str, *, fresh: bool = False) -> Answer:
        self.asked.append(url)
        return self._say(url)


@asynccontextmanager
async def visiting(say: Say, **options: Any) -> AsyncIterator[tuple[Frontier, Visitor, Actor]]:
    settings = CrawlSettings(out="nowhere", scope="any", **options)
    tally = Tally()
    actor = Actor(say)
    opening = swath.open("memory:", min_interval=settings.min_interval, concurrency=settings.max_workers_per_host)
    async with opening as frontier:
        links = Links(frontier, Scope(), lane="host", strip_tracking=False, year=2026, refused=tally.refused)
        yield frontier, Visitor(frontier, settings, fetcher=actor, links=links, tally=tally), actor  # type: ignore[arg-type]


def answered(url: str, status: int = 200, body: bytes = b"", **headers: str) -> Answer:
    lines = [f"HTTP/1.1 {status} x", *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items())]
    head = "\r\n".join([*lines, "", ""]).encode("latin-1")
    return said(url, status, head, body)


def said(url: str, status: int, head: bytes, body: bytes, **more: Any) -> Answer:
    now = time.time()
    return Answer(
        url, status, "http/1.1", b"GET / HTTP/1.1\r\n\r\n", head, Headers(head), body, None, now, now, now, **more
    )
