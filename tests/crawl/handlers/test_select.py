"""`--select`: items without code."""

import json
from pathlib import Path

import pytest

from swath.core.errors import InvalidSetting, UsageError
from swath.crawl import Page
from swath.crawl.handlers.code import check_code, load_settings_code
from swath.crawl.handlers.select import make_select_crawler
from swath.crawl.settings import CrawlSettings
from swath.testing.web import Web, list_books, spawn
from tests.crawl.driving import crawl_words, swath_command

FIELDS = ("title=h1", "image=img@src", "id=h1@data-id", "first=ul > li:first-child")


def test_each_field_is_a_text_or_an_attribute() -> None:
    page = Page.from_html("<h1 data-id=' 1 '> A  b </h1><img src=/x.png><ul><li>one<li>two</ul>")
    (item,) = make_select_crawler(FIELDS).check(page).items
    assert item == {"title": "A b", "image": "https://example.com/x.png", "id": " 1 ", "first": "one"}
    (item,) = make_select_crawler(FIELDS).check(Page.from_html("<img src='mailto:x'><h1>x")).items
    assert item == {"title": "x", "image": None, "id": None, "first": None}


def test_a_page_without_any_match_has_no_item() -> None:
    found = make_select_crawler(FIELDS).check(Page.from_html("<p>x"))
    assert (found.handler, found.items) == ("select", [])


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["h1"], "'h1': write name=selector, such as title=h1"),
        (["=h1"], "write name=selector"),
        (["a="], "write name=selector"),
        (["a=h1["], r"'a=h1\[': 'h1\[' is not a valid CSS selector"),
        (["a=h1::text"], r"Use text\(\) or attr\(name\)"),
        (["_url=h1"], "swath adds the field _url to each item"),
        (["a=h1", "a=h2"], "gives the field a twice"),
    ],
)
def test_mistakes_are_explained(texts: list[str], message: str) -> None:
    with pytest.raises(InvalidSetting, match=message):
        make_select_crawler(texts)


def test_select_and_run_exclude_each_other() -> None:
    with pytest.raises(InvalidSetting, match="--select and --run exclude each other"):
        CrawlSettings(select=("a=h1",), run="x:y")


def test_other_selectors_are_other_code() -> None:
    code, other = (load_settings_code(CrawlSettings(select=(text,))) for text in ("a=h1", "a=h2"))
    assert code is not None
    assert other is not None
    known = code.describe()
    assert check_code(code, known, out="x", same=True) == []
    assert check_code(other, known, out="x", same=False) != []
    with pytest.raises(UsageError, match="the crawl in x has handlers: give --select"):
        check_code(None, known, out="x", same=False)
    crawler = {"run": "shop:crawler", "handlers": {"book": 1}, "hash": ""}
    with pytest.raises(UsageError, match="--select lacks: give another --out, or --run shop:crawler"):
        check_code(code, crawler, out="x", same=False)


def test_a_crawl_with_selectors_resumes_without_them(tmp_path: Path) -> None:
    web = Web(hosts=1, pages=1, faults=False, shops=1, books=12)
    with spawn(web) as spawned:
        options = ("--select", "title=h1", "--select", "price=.price_color", "--delay", "0")
        words = crawl_words(spawned, tmp_path / "out", *options, urls=web.shop_seeds)
        assert swath_command(*words, "--max-pages", "3").code == 1
        resumed = crawl_words(spawned, tmp_path / "out", "--items", str(tmp_path / "items.jsonl"))
        ran = swath_command(*resumed)
        assert ran.code == 0, ran.err
    items = [json.loads(line) for line in (tmp_path / "items.jsonl").read_text().splitlines()]
    found = sorted((item["_url"], item["title"], item["price"]) for item in items)
    assert found == sorted((book.url, book.title, book.price) for book in list_books(web))
