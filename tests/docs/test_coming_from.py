"""The spiders of the pages for users of Scrapy and Crawlee: ours crawls a shop, theirs are those of the benchmark."""

import importlib.util
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import pytest

from swath.crawl import Crawler
from swath.testing import crawl
from swath.testing.web import Request, Web, list_books
from tests.docs.test_docs import BLOCK, ROOT

SPIDERS = ROOT / "benchmarks/kills/spiders"
WEB = Web(hosts=1, pages=1, faults=False, shops=1, books=25)
PEERS = ["scrapy", "crawlee"]


def read_page(peer: str) -> str:
    return (ROOT / f"docs/coming-from-{peer}.md").read_text()


def list_pages(address: str) -> Mapping[str, str]:
    """The pages of the shop at another address."""
    (shop,) = (site for name, site in WEB.sites.items() if name.startswith("shop"))
    pages = {}
    for target, expectation in shop.expectations():
        if expectation.kind in ("listing", "details"):
            (whole,) = shop.respond(Request(shop.host, target)).steps
            assert isinstance(whole, bytes)
            pages[f"{address}{target}"] = whole.partition(b"\r\n\r\n")[2].decode()
    return pages


@pytest.mark.parametrize("peer", PEERS)
def test_the_pages_show_the_spiders_of_the_benchmark(peer: str) -> None:
    theirs, ours = BLOCK.findall(read_page(peer))
    assert theirs == (SPIDERS / f"books_{peer}.py").read_text()
    assert ours == (SPIDERS / "books_swath.py").read_text()


def test_our_spider_finds_every_book_of_the_shop(tmp_path: Path) -> None:
    _, ours = BLOCK.findall(read_page("scrapy"))
    (tmp_path / "shown_books.py").write_text(ours)
    spec = importlib.util.spec_from_file_location("shown_books", tmp_path / "shown_books.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    crawler: Crawler = module.crawler
    result = crawl(crawler, list_pages("https://books.example"))
    assert result.failed == {}
    found = [{name: book[name] for name in book if not name.startswith("_")} for book in result.items["Book"]]
    expected = [{name: value for name, value in asdict(book).items() if name != "url"} for book in list_books(WEB)]
    assert sorted(found, key=str) == sorted(expected, key=str)
