"""A spider that asks the shops of the demo web with POST: their search form and their JSON API. It can kill its process
as `shop_spider` can."""

from collections.abc import Iterator
from typing import Any

from swath.crawl import Crawler, Page, Request
from tests.crawl.handlers.shop_spider import reach

QUERIES = 8
crawler = Crawler(delay=0.0, allow_private=True)


@crawler.handler(r"/search")
def results(page: Page) -> Iterator[dict[str, Any]]:
    yield {"query": page.payload, "titles": page.css("article a").texts()}
    reach("handler")
    yield {"query": page.payload, "method": page.method}


@crawler.handler(r"/api/books")
def books(page: Page) -> Iterator[dict[str, Any] | Request]:
    found = page.json()
    for book in found["books"]:
        yield {"book": book["url"], "method": page.method}
    if found["next"] is not None and page.method == "GET":
        number = found["next"].rpartition("=")[2]
        yield Request(found["next"], headers={"Accept": "application/json"})
        yield Request("/api/books", method="POST", json={"page": int(number)})


@crawler.default()
def front(page: Page) -> Iterator[Request]:
    for number in range(QUERIES):
        yield Request(page.css("form").must_url(), method="POST", form={"q": f"{number}"}, payload=number)
    yield Request("/api/books?page=1")
    yield Request("/api/books", method="POST", json={"page": 1})
