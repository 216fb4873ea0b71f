"""The shops of the demo web: every book can be found in three ways, and is the same in each."""

import json
from urllib.parse import quote

from swath.crawl import Page
from swath.testing.web import DemoBook, Request, Requirement, Web, list_books
from swath.testing.web.shop import Shop, make_book

WEB = Web(hosts=1, pages=1, faults=False, shops=2, books=45)


def fetch(web: Web, url: str) -> tuple[int, bytes]:
    host, _, target = url.removeprefix("http://").partition("/")
    response = web.respond(Request(host, f"/{target}"))
    (whole,) = response.steps
    assert isinstance(whole, bytes)
    return response.status, whole.partition(b"\r\n\r\n")[2]


def read_details(url: str) -> DemoBook:
    page = Page.from_html(fetch(WEB, url)[1], url=url)
    return DemoBook(
        url=page.url,
        title=page.css("h1").must_text(),
        price=page.css(".price_color").must_text(),
        stock=int(page.css(".availability").must_text().split("(")[1].split()[0]),
        rating=page.css(".star-rating").must_attr("class").removeprefix("star-rating "),
        category=page.css(".category").must_text(),
        description=page.css("#product_description + p").must_text(),
    )


def test_details_and_the_api_have_the_same_books() -> None:
    books = list(list_books(WEB))
    assert len({book.url for book in books}) == 90
    assert [read_details(book.url) for book in books] == books
    listed: list[DemoBook] = []
    for seed in WEB.shop_seeds:
        following = "/api/books?page=1"
        while following:
            answer = json.loads(fetch(WEB, f"{seed}{following.removeprefix('/')}")[1])
            listed += [DemoBook(**book) for book in answer["books"]]
            following = answer["next"]
    assert listed == books


def test_listings_lead_to_every_book() -> None:
    for shop, seed in enumerate(WEB.shop_seeds):
        url, found = seed, set[str]()
        listings = 0
        while url:
            page = Page.from_html(fetch(WEB, url)[1], url=url)
            found |= set(page.css("article h3 a").urls())
            url, listings = page.css("li.next a").url() or "", listings + 1
        assert found == {make_book(WEB, shop, number).url for number in range(45)}
        assert listings == 3


def test_the_form_finds_books() -> None:
    book = make_book(WEB, 0, 44)
    page = Page.from_html(fetch(WEB, f"{WEB.shop_seeds[0]}search?q={quote('<44>')}")[1], url=WEB.shop_seeds[0])
    assert page.css("article a").urls() == [book.url]
    assert Page.from_html(fetch(WEB, WEB.shop_seeds[0])[1]).css("form").attr("action") == "/search"


def test_expectations_name_what_a_crawl_finds() -> None:
    must = {url for url in WEB.urls_to_archive() if "//shop" in url}
    assert must == {book.url for book in list_books(WEB)} | {
        f"{seed}{name}" for seed in WEB.shop_seeds for name in ("", "page-2", "page-3")
    }
    assert WEB.expectation(f"{WEB.shop_seeds[0]}api/books?page=1").requirement is Requirement.MAY
    for target in ("page-1", "page-4", "catalogue/book_45/", "api/books?page=x"):
        assert fetch(WEB, f"{WEB.shop_seeds[0]}{target}")[0] == 404
    assert Shop(WEB, 0).expectation("/nothing") is None
