"""Handlers of the benchmark: they take six fields from each page. `swath crawl --run benchmarks.crawl.fields:NAME`."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

from swath.crawl import Crawler, Follow, Page


@dataclass
class Fields:
    title: str
    heading: str
    first: str | None
    link: str | None
    label: str | None
    style: str | None


# The same fields for `--select`, and in peers/scrapy_fields.py for Scrapy.
SELECTED = (
    "title=title", "heading=h1", "first=.box p", "link=a.more@href", "label=a.more", "style=link[rel=stylesheet]@href",
)  # fmt: skip


def read_fields(page: Page) -> Fields:
    return Fields(
        title=page.css("title").must_text(),
        heading=page.css("h1").must_text(),
        first=page.css(".box p").text(),
        link=page.css("a.more").url(),
        label=page.css("a.more").text(),
        style=page.css("link[rel=stylesheet]").url(),
    )


async def read_in_loop(page: Page) -> AsyncIterator[Fields]:
    yield read_fields(page)


def read_in_thread(page: Page) -> Iterator[Fields]:
    yield read_fields(page)


crawler = Crawler()  # follows what its handler yields, like a spider


@crawler.default()
async def read_and_follow(page: Page) -> AsyncIterator[Fields | Follow]:
    yield read_fields(page)
    yield page.follow("a")
