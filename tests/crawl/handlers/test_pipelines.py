"""Pipelines: functions that change or drop items, as a part of the handler."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from swath.core.errors import UsageError
from swath.crawl import Crawler, InvalidYield, Page
from swath.crawl.handlers.code import hash_sources
from swath.testing import crawl
from tests.crawl.handlers.books import Book
from tests.crawl.handlers.running import read_examples, run

A = "http://a.example"


@dataclass
class Price:
    text: str
    amount: float | None = None
    page: str = ""


def make_crawler() -> Crawler:
    crawler = Crawler(f"{A}/")

    @crawler.pipeline
    def parse(item: Price) -> Price | None:
        amount = float(item.text.removeprefix("£"))
        return replace(item, amount=amount) if amount else None

    @crawler.pipeline
    def locate(item: Price, page: Page) -> Price:
        assert item.amount is not None  # in the order of registration
        return replace(item, page=page.url)

    @crawler.default()
    def prices(page: Page) -> Iterator[Any]:
        yield from map(Price, page.css("p").texts())
        yield page.follow("a")

    return crawler


PAGES = {f"{A}/": "<p>£2<p>£0<p>£3<a href=/b>", f"{A}/b": "<p>free"}


async def test_they_change_and_drop_items(tmp_path: Path) -> None:
    done = await run(make_crawler(), PAGES, tmp_path)
    assert [(item["amount"], item["page"]) for item in done.items["Price"]] == [(2.0, f"{A}/"), (3.0, f"{A}/")]
    ids = [item["_id"] for item in done.items["Price"]]
    assert [one.rpartition("-")[2] for one in ids] == ["0", "1"]
    (dead,) = done.dead
    assert dead.reason.startswith("handler: prices: ValueError: could not convert string to float: 'free' (test_pipe")


def test_check_applies_them() -> None:
    page = Page.from_html(PAGES[f"{A}/"], url=f"{A}/")
    assert make_crawler().check(page).items == [Price("£2", 2.0, f"{A}/"), Price("£3", 3.0, f"{A}/")]


def test_they_run_where_the_handler_runs() -> None:
    threads: dict[str, set[str]] = {"plain": set(), "loop": set()}
    crawler = Crawler(f"{A}/")

    @crawler.handler("/b")
    async def loop(page: Page) -> AsyncIterator[dict[str, str]]:
        asyncio.get_running_loop()
        yield {"name": "loop"}

    @crawler.default()
    def plain(page: Page) -> Iterator[Any]:
        yield {"name": "plain"}
        yield page.follow("a")

    @crawler.pipeline
    def note(item: dict[str, str]) -> dict[str, str]:
        threads[item["name"]].add(threading.current_thread().name)
        return item

    crawl(crawler, PAGES)
    assert threads["plain"]
    assert threads["loop"]
    assert not threads["loop"] & threads["plain"]


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ("text", "the pipeline broken returned a value of type str: return an item, or None to drop it"),
        ({"_url": 1}, "item has a field _url, which swath adds to each item"),
        ({"x": {1}}, r"item\['x'\] is \{1\} of type set, which cannot be written as JSON: use a list"),
    ],
)
def test_what_they_return_is_checked(returned: Any, message: str) -> None:
    crawler = Crawler()
    crawler.default()(give_item)

    @crawler.pipeline
    def broken(item: dict[str, Any]) -> dict[str, Any]:
        return returned  # type: ignore[no-any-return]

    with pytest.raises(InvalidYield, match=message):
        crawler.check(Page.from_html(""))


def give_item(page: Page) -> list[Any]:
    return [{"x": 1}]


def test_a_handler_whose_items_are_all_dropped_does_not_yield_for_ever() -> None:
    crawler = Crawler(f"{A}/")

    @crawler.pipeline
    def drop(item: dict[str, int]) -> None: ...

    @crawler.default()
    async def visit(page: Page) -> AsyncIterator[dict[str, int]]:
        for number in range(1_000_000):
            yield {"number": number}

    assert "yielded more than 10 MB" in crawl(crawler, {f"{A}/": ""}).failed[f"{A}/"]


def test_they_get_items_only() -> None:
    crawler = Crawler()
    seen: list[Any] = []

    @crawler.default()
    def mixed(page: Page) -> list[Any]:
        return [page.follow("a"), 3]

    @crawler.pipeline
    def note(item: Any) -> Any:
        seen.append(item)
        return item

    with pytest.raises(InvalidYield, match="a handler yielded 3 of type int"):
        crawler.check(Page.from_html("<a href=/x>"))
    assert seen == []


async def wrong_async(item: Any) -> Any:
    return item


def wrong_generator(item: Any) -> Any:
    yield item


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (wrong_async, "the pipeline wrong_async is async: use a plain function"),
        (wrong_generator, "the pipeline wrong_generator is a generator"),
        (lambda: None, "it takes an item, or an item and its page"),
        (Price, "Price cannot be a pipeline"),
    ],
)
def test_mistakes_are_found_when_they_are_registered(wrong: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Crawler().pipeline(wrong)


def keep(item: Any) -> Any:
    return item


def test_their_source_belongs_to_the_code() -> None:
    plain, changed = Crawler(), Crawler()
    changed.pipeline(keep)
    assert hash_sources(plain) != hash_sources(changed)


def test_the_documentation_shows_one() -> None:
    (shown,) = (text for text in read_examples() if "@crawler.pipeline" in text)
    crawler = Crawler()
    names: dict[str, Any] = {"crawler": crawler, "Book": Book, "Page": Page}
    exec(shown, names)

    @crawler.default()
    def both(page: Page) -> list[Book]:
        return [Book(" Sapiens ", None), Book("", None)]

    assert crawler.check(Page.from_html("")).items == [Book("Sapiens", None)]
