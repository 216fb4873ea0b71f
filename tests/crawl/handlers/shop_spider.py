"""A spider for the shops of the demo web that can kill its process: `KILL=point:number` names the moment.

`START=url url` makes the crawl start from code. The points are `start` (between two seeds), `handler` (between two items of a page), `write` (items are on disk, but not settled), `settled` (settled
in the store, but this process does not know it yet) and `export` (the exported file is written, but not renamed yet).
With `KILL=all:point:number` the whole process group dies, otherwise one process.
"""

import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any

from swath.cli import item_export
from swath.crawl import Crawler, Follow, Page
from swath.crawl.archive.output import CrawlOutput

_kill = os.environ.get("KILL", "")
_point, _, _number = _kill.removeprefix("all:").partition(":")
_reached: list[str] = []

crawler = Crawler(delay=0.0, allow_private=True)


@dataclass
class Book:
    title: str
    price: str
    stock: int
    rating: str
    category: str
    description: str


if "START" in os.environ:

    @crawler.start
    def shops() -> Iterator[str]:
        for url in os.environ["START"].split():
            yield url
            reach("start")


@crawler.handler(r"/catalogue/")
async def book(page: Page) -> AsyncIterator[Book | dict[str, Any]]:
    yield Book(
        page.css("h1").must_text(),
        page.css(".price_color").must_text(),
        int(page.css(".availability").must_text().split("(")[1].split()[0]),
        page.css(".star-rating").must_attr("class").split()[1],
        page.css(".category").must_text(),
        page.css("#product_description + p").must_text(),
    )
    reach("handler")
    for link in page.css("article a"):
        yield {"book": page.url, "other": link.url()}


@crawler.default()
def listing(page: Page) -> Iterator[Follow]:
    yield page.follow("article h3 a", to=book, priority=5)
    reach("handler")
    yield page.follow("li.next a")


def reach(point: str) -> None:
    if point == _point:
        _reached.append(point)
        if len(_reached) == int(_number):
            if _kill.startswith("all:"):
                os.killpg(os.getpgrp(), signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)


def _reach_after(owner: Any, name: str, point: str) -> None:
    """Reach a point when a function has returned."""
    original: Callable[..., Any] = getattr(owner, name)

    def changed(*arguments: Any) -> Any:
        result = original(*arguments)
        reach(point)
        return result

    setattr(owner, name, changed)


def _reach_before(owner: Any, name: str, point: str) -> None:
    original: Callable[..., Any] = getattr(owner, name)

    def changed(*arguments: Any) -> Any:
        reach(point)
        return original(*arguments)

    setattr(owner, name, changed)


if _point:
    _reach_after(CrawlOutput, "write", "write")
    _reach_before(CrawlOutput, "keep", "settled")
    _reach_after(item_export, "_sync", "export")
