"""Run a crawler on a few pages that a test writes."""

import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import swath
from swath import DeadItem, Summary
from swath.crawl import Crawler
from swath.crawl.archive import index
from swath.crawl.archive.item_files import list_kinds, read_item_lines
from swath.crawl.handlers.code import CrawlCode
from swath.crawl.job import CrawlJob
from swath.crawl.seeds import read_seeds
from swath.crawl.settings import CrawlSettings
from swath.crawl.stats import CrawlStats
from swath.crawl.workspace import open_workspace
from tests.crawl.web import Exchange, serving

DOCS = Path(__file__).parents[3] / "docs/handlers.md"
Answer = str | tuple[int, str] | tuple[int, str, str]  # body; status and body; and more header lines


@dataclass(frozen=True, slots=True)
class Crawled:
    """What a crawl left."""

    items: Mapping[str, Sequence[Mapping[str, Any]]]  # by kind
    pages: Sequence[Mapping[str, Any]]  # the page list
    dead: Sequence[DeadItem]
    requests: Counter[str]  # URL -> how often it was requested, without robots.txt; other methods than GET are named
    order: Sequence[str]  # of requests
    summary: Summary
    stats: CrawlStats
    notes: Sequence[str]
    received: Sequence[bytes]  # the requests as the server got them

    def page(self, url: str) -> Mapping[str, Any]:
        """The last line of the page list for a URL."""
        return [page for page in self.pages if page["url"] == url][-1]


def make_settings(out: Path, **options: Any) -> CrawlSettings:
    return CrawlSettings(out=str(out), **{"delay": 0.0, "allow_private": True, **options})


async def run(
    crawler: Crawler,
    answers: Mapping[str, Answer] | Mapping[str, Answer | Callable[[bytes], Answer]],
    out: Path,
    *,
    seeds: Sequence[str] = ("http://a.example/",),
    name: str = "shop:crawler",
    source_hash: str = "1",
    **options: Any,
) -> Crawled:
    """Crawl the pages at some URLs; all others have status 404. A function gets the body of the request."""
    received: list[bytes] = []
    async with serving_pages(answers, received) as (connect_to, order):
        given = {**crawler.settings, **options, "connect_to": (connect_to,)}
        settings = make_settings(out, **given)
        code = CrawlCode(name, crawler, source_hash)
        async with open_workspace(settings, read_seeds(seeds), code=code) as workspace:
            job = CrawlJob(settings, workspace.frontier, code=code)
            summary = await job.run()
            committed = await workspace.frontier.outputs()
            dead = [item async for item in workspace.frontier.dead()]
    items = {
        kind: [json.loads(line) for line in read_item_lines(out, committed, kind)]
        for kind in list_kinds(out, committed)
    }
    pages = [page for page in index.read_pages(out, committed) if not page["url"].endswith("/robots.txt")]
    return Crawled(items, pages, dead, Counter(order), order, summary, job.stats, list(workspace.changes), received)


@asynccontextmanager
async def serving_pages(
    answers: Mapping[str, Answer] | Mapping[str, Answer | Callable[[bytes], Answer]],
    received: list[bytes] | None = None,
) -> AsyncIterator[tuple[str, list[str]]]:
    """Serve pages; yield the setting that connects to them, and the URLs of requests as they come.

    `received` gets the bodies of requests.
    """
    order: list[str] = []
    received = [] if received is None else received

    async def answer(exchange: Exchange) -> None:
        url = f"http://{exchange.host}{exchange.path}"
        if exchange.method != "GET":
            url = f"{exchange.method} {url}"
        if exchange.path != "/robots.txt":
            order.append(url)
        status, body, head = 404, "", ""
        if exchange.path != "/robots.txt":
            received.append(exchange.request)
        found = answers.get(url, (404, "no such page"))
        match found(exchange.body) if callable(found) else found:
            case str(text):
                status, body = 200, text
            case (int(number), str(text)):
                status, body = number, text
            case (int(number), str(text), str(lines)):
                status, body, head = number, text, lines
        encoded = body.encode()
        start = f"HTTP/1.1 {status} x\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {len(encoded)}\r\n"
        await exchange.send(f"{start}{head}\r\n".encode(), encoded)

    async with serving(answer) as server:
        yield f"::127.0.0.1:{server.port}", order


async def read_dead(out: Path, store: str | None = None) -> list[DeadItem]:
    async with swath.open(make_settings(out, store=store).store_url, create=False) as frontier:
        return [item async for item in frontier.dead()]


async def read_frontier(out: Path, store: str | None = None) -> Mapping[str, int]:
    async with swath.open(make_settings(out, store=store).store_url, create=False) as frontier:
        return await frontier.outputs()


def read_examples() -> list[str]:
    """Return the Python in docs/handlers.md."""
    return re.findall(r"^```python\n(.*?)^```", DOCS.read_text(), re.MULTILINE | re.DOTALL)
