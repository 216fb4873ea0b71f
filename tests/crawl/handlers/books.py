"""The spider of the README."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

from swath.crawl import Crawler, Follow, Page

crawler = Crawler("https://books.example/", delay=1.0)


@dataclass
class Book:
    title: str
    price: str | None


@crawler.handler(r"/catalogue/[^/]+_\d+/")
async def book(page: Page) -> AsyncIterator[Book]:
    yield Book(page.css("h1").must_text(), page.css(".price_color").text())


@crawler.default()
def listing(page: Page) -> Iterator[Follow]:
    yield page.follow("article h3 a", to=book, priority=5)
    yield page.follow("li.next a")
