"""`swath.testing.crawl`: a whole crawl in memory."""

from collections.abc import Iterator
from typing import Any

import pytest

from swath.core.errors import UsageError
from swath.crawl import Crawler, Page, Request
from swath.crawl.http.outgoing import OutgoingRequest
from swath.testing import Answer, crawl
from tests.crawl.handlers import books

B = "https://books.example"
PAGES: dict[str, Answer] = {
    B: "<article><h3><a href=/catalogue/a_1/>a</a></h3></article><li class=next><a href=/page-2>next</a></li>",
    f"{B}/catalogue/a_1/": "<h1>A</h1><p class=price_color>£1",
    f"{B}/page-2": (301, "", {"Location": "/page-3"}),
    f"{B}/page-3": "<article><h3><a href=/catalogue/b_2/>b</a><a href=/catalogue/c_3/>c</a></h3></article>",
    f"{B}/catalogue/b_2/": b"<p>no title",
}


def test_a_whole_crawl() -> None:
    result = crawl(books.crawler, PAGES)
    (book,) = result.items["Book"]
    assert (book["title"], book["price"], book["_url"]) == ("A", "£1", f"{B}/catalogue/a_1/")
    assert set(result.requested) == {
        f"{B}/", f"{B}/page-2", f"{B}/page-3", *(f"{B}/catalogue/{name}/" for name in ("a_1", "b_2", "c_3")),
    }  # fmt: skip
    assert list(result.failed) == [f"{B}/catalogue/b_2/"]
    assert result.failed[f"{B}/catalogue/b_2/"].startswith("handler: book: NoMatch: the selector 'h1' matches nothing")
    assert "must_text" in result.errors[f"{B}/catalogue/b_2/"]


async def test_it_works_within_an_event_loop() -> None:
    assert crawl(books.crawler, PAGES, seeds=[f"{B}/catalogue/a_1/"]).items["Book"][0]["title"] == "A"


def test_pauses_take_no_time_and_rules_hold() -> None:
    crawler = Crawler(delay=100.0, retries=2, depth=1)

    @crawler.default(links="scope")
    def patient(page: Page) -> Iterator[Any]:
        yield {"attempts": page.attempts}
        if page.attempts < 2:
            page.retry(after=1_000_000)

    pages: dict[str, Answer] = {
        "http://a.example/": "<a href=/b>b</a><a href=/private>c</a><a href=http://d.example/>d</a>",
        "http://a.example/b": "<a href=/deep>",
        "http://a.example/robots.txt": (200, "User-agent: *\nDisallow: /private\n", {"Content-Type": "text/plain"}),
    }
    result = crawl(crawler, pages, seeds=["http://a.example"])
    assert [item["attempts"] for item in result.items["item"]] == [2, 2]
    assert sorted(result.requested) == ["http://a.example/"] * 3 + ["http://a.example/b"] * 3
    assert result.failed == {}


def test_mistakes_are_explained() -> None:
    with pytest.raises(UsageError, match="nothing to crawl: give seeds=, or URLs to Crawler"):
        crawl(Crawler(), {})
    with pytest.raises(UsageError, match="'x:y' is not an http or https URL"):
        crawl(books.crawler, {"x:y": ""})


def test_requests_with_a_method_and_a_body() -> None:
    crawler = Crawler(B)

    @crawler.default()
    def start(page: Page) -> Iterator[Any]:
        yield {"method": page.method, "text": page.text}
        if page.url == f"{B}/" and page.method == "GET":
            yield Request("/search", method="POST", form={"q": "x"}, headers={"X-Token": "1"})
            yield Request("/", method="POST")
            yield Request("/search")

    def search(request: OutgoingRequest) -> Answer:
        return 200, f"{request.method} {request.url} {request.body.decode()} {request.headers['X-Token']}"

    result = crawl(crawler, {B: "start", ("POST", f"{B}/search"): search})
    assert sorted(result.requested) == sorted([f"{B}/", f"POST {B}/search", f"POST {B}/", f"{B}/search"])
    assert [item["text"] for item in result.items["item"]] == ["start", f"POST {B}/search q=x 1"]
