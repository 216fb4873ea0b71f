"""A spider for the shops of the demo web that can kill its process: `KILL=point:number` names the moment.

The points are `handler` (between two items of a page), `write` (items are on disk, but not settled), `settled` (settled
in the store, but this process does not know it yet), `line` (a line of the exported file is written) and `export` (the
exported file is written, but not renamed yet). With `KILL=all:point:number` the whole process group dies, otherwise one
process; with `KILL=stop:point:number` it is suspended. Run as a module, it is the command `swath` with these points.
"""

import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any

from swath.cli import item_export, main
from swath.crawl import Crawler, Follow, Page
from swath.crawl.archive.item_files import read_item_lines
from swath.crawl.archive.output import CrawlOutput

_kill = os.environ.get("KILL", "")
_point, _, _number = _kill.removeprefix("all:").removeprefix("stop:").partition(":")
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
            os.kill(os.getpid(), signal.SIGSTOP if _kill.startswith("stop:") else signal.SIGKILL)


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


def _read_lines(*arguments: Any) -> Iterator[bytes]:
    for line in read_item_lines(*arguments):
        yield line
        reach("line")


if _point:
    _reach_after(CrawlOutput, "write", "write")
    _reach_before(CrawlOutput, "keep", "settled")
    setattr(item_export, "read_item_lines", _read_lines)  # noqa: B010  mypy does not let a module's function change
    _reach_after(item_export, "_sync", "export")

if __name__ == "__main__":
    raise SystemExit(main())
