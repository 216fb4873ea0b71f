"""A crawl of which each page fails, and the spider after the fix, which can kill its process as `shop_spider` does."""

import os
from collections.abc import Iterator
from typing import Any

from swath.crawl import Crawler, Follow, Page, repair
from tests.crawl.handlers import shop_spider  # it reads KILL

PAGES = 30
A = "http://a.example"


def make_crawler(*, broken: bool) -> Crawler:
    crawler = Crawler(f"{A}/", delay=0.0, allow_private=True)

    @crawler.handler(r"/\d+$")
    def parts(page: Page) -> Iterator[dict[str, Any] | Follow]:
        if broken:
            raise ValueError(page.url)
        for part in page.css("i").texts():
            yield {"part": part}
        shop_spider.reach("handler")
        yield Follow([f"/more/{page.url.rpartition('/')[2]}"])

    @crawler.default()
    def links(page: Page) -> Iterator[Follow]:
        yield page.follow("a")

    return crawler


def make_pages() -> dict[str, str]:
    pages = {f"{A}/{n}": f"<i>{n}.0</i><i>{n}.1</i>" for n in range(PAGES)}
    return {f"{A}/": "".join(f"<a href=/{n}>{n}</a>" for n in range(PAGES)), **pages}


crawler = make_crawler(broken=False)
repair.BATCH = int(os.environ.get("REPAIR_BATCH", repair.BATCH))  # type: ignore[misc]
