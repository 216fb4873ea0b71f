"""`crawler.stream()`: items in the caller's event loop, after their commit and with back-pressure."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, assert_type

import pytest

import swath
from swath.core.errors import InvalidSetting, UsageError
from swath.crawl import Crawler, ItemRecord, LifespanFailed, Page
from swath.crawl import stream as stream_module
from swath.crawl.archive.item_files import read_item_lines
from swath.crawl.archive.output import CrawlOutput
from swath.crawl.archive.record import Capture, ItemLine
from swath.crawl.stream import Backlog
from tests.crawl.handlers.books import Book
from tests.crawl.handlers.running import Answer, make_settings, read_examples, serving_pages

A = "http://a.example"
PAGES: dict[str, Answer] = {
    f"{A}/": "".join(f"<a href=/{number}>{number}</a>" for number in range(30)),
    **{f"{A}/{number}": f"<h1>{number}</h1><h1>again</h1>" for number in range(30)},
}
TITLES = sorted([*map(str, range(30)), *["again"] * 30])


def make_crawler(out: Path, **options: Any) -> Crawler:
    crawler = Crawler(f"{A}/", out=str(out), delay=0.0, allow_private=True, **options)

    @crawler.default()
    def book(page: Page) -> Iterator[Any]:
        yield from (Book(title, None) for title in page.css("h1").texts())
        yield page.follow("a")

    return crawler


async def read_committed(out: Path) -> list[Any]:
    async with swath.open(make_settings(out).store_url, create=False) as frontier:
        return [json.loads(line) for line in read_item_lines(out, await frontier.outputs(), "Book")]


async def test_each_item_is_committed_before_it_is_yielded(tmp_path: Path) -> None:
    found: list[ItemRecord] = []
    async with serving_pages(PAGES) as (connect_to, order):
        async for item in make_crawler(tmp_path).stream(connect_to=[connect_to]):
            assert_type(item, ItemRecord)
            if not len(found) % 10:
                assert item in await read_committed(tmp_path)
            found.append(item)
    assert sorted(item["title"] for item in found) == TITLES
    assert {item.kind for item in found} == {"Book"}
    assert found == await read_committed(tmp_path)
    assert len(order) == len(PAGES)
    assert (tmp_path / "index.cdxj").exists()


async def test_a_slow_caller_stops_fetches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_module, "MAX_ITEMS", 4)
    waiting = asyncio.Event()
    wait = Backlog.wait_for_room

    async def notice(backlog: Backlog) -> None:
        waiting.set()
        await wait(backlog)

    monkeypatch.setattr(Backlog, "wait_for_room", notice)
    found: list[str] = []
    async with serving_pages(PAGES) as (connect_to, order):
        async for item in make_crawler(tmp_path, workers=2).stream(connect_to=(connect_to,)):
            if not found:
                await waiting.wait()
                assert len(order) <= 1 + 4 // 2 + 2 * 2  # the first page, those of items that wait, and those in flight
            found.append(item["title"])
    assert sorted(found) == TITLES
    assert len(order) == len(PAGES)


async def test_leaving_the_loop_stops_the_crawl_and_another_stream_continues_it(tmp_path: Path) -> None:
    crawler = make_crawler(tmp_path)
    async with serving_pages(PAGES) as (connect_to, order):
        async with aclosing(crawler.stream(connect_to=(connect_to,))) as items:
            async for _ in items:
                break
        first = await read_committed(tmp_path)
        requested = len(order)
        rest = [item async for item in crawler.stream(connect_to=(connect_to,))]
        assert [item async for item in crawler.stream(connect_to=(connect_to,))] == []
    assert 0 < len(first) < len(TITLES)
    assert sorted(item["title"] for item in (*first, *rest)) == TITLES
    assert len(order) <= len(PAGES) + 1 + requested - len({item["_url"] for item in first})  # and those in flight


async def test_an_error_of_the_caller_stops_the_crawl(tmp_path: Path) -> None:
    crawler = make_crawler(tmp_path)

    async def fail(connect_to: str) -> None:
        async with aclosing(crawler.stream(connect_to=(connect_to,))) as items:
            async for _ in items:
                raise KeyError

    async with serving_pages(PAGES) as (connect_to, _):
        with pytest.raises(KeyError):
            await fail(connect_to)
        rest = [item async for item in crawler.stream(connect_to=(connect_to,))]  # waits for nobody's lock
    assert rest


async def test_a_failure_of_the_crawl_is_raised(tmp_path: Path) -> None:
    @asynccontextmanager
    async def opened() -> AsyncIterator[None]:
        yield
        raise OSError("cannot flush")

    found: list[str] = []

    async def collect(crawler: Crawler, connect_to: str) -> None:
        async for item in crawler.stream(connect_to=(connect_to,)):
            found.append(item["title"])  # noqa: PERF401  a comprehension would lose them

    async with serving_pages(PAGES) as (connect_to, _):
        with pytest.raises(LifespanFailed, match="failed when it was closed: OSError: cannot flush"):
            await collect(make_crawler(tmp_path, lifespan=opened), connect_to)
    assert sorted(found) == TITLES


async def test_mistakes_are_explained(tmp_path: Path) -> None:
    crawler = make_crawler(tmp_path / "out")
    with pytest.raises(InvalidSetting, match=r"crawler\.stream\(dealy=…\): there is no .*; did you mean delay\?"):
        crawler.stream(dealy=1.0)
    with pytest.raises(UsageError, match=r"the seed \['https://a\.example/'\] is of type list"):
        crawler.stream(["https://a.example/"])  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="it runs in this process"):
        await anext(crawler.stream(processes=2))
    with pytest.raises(UsageError, match="--scope any"):
        await anext(crawler.stream(scope="any"))
    with pytest.raises(UsageError, match="nothing to crawl"):
        await anext(Crawler(out=str(tmp_path / "out")).stream())
    assert not (tmp_path / "out").exists()


def test_only_committed_items_are_reported_if_a_settlement_was_refused(tmp_path: Path) -> None:
    """The store has settled the first of two groups that were written together, and refused the second."""
    reported: list[str] = []
    output = CrawlOutput(
        tmp_path, unique="x_0", warc_size=None, about={},
        on_committed=lambda items: reported.extend(kind for kind, _ in items),
    )  # fmt: skip
    output.restore({})
    groups = [[[Capture({"url": kind}, None, [ItemLine(kind, b"{}\n")])]] for kind in ("first", "second")]
    moves = output.write(groups)
    assert reported == []
    committed: Mapping[str, int] = {move.name: move.new for move in moves[0]}
    output.restore(committed)
    assert reported == ["first"]
    output.write(groups[1:])
    output.keep()
    assert reported == ["first", "second"]
    output.close()


async def test_the_documentation_shows_one(tmp_path: Path) -> None:
    (shown,) = (text for text in read_examples() if "crawler.stream()" in text)
    crawler = make_crawler(tmp_path)
    names: dict[str, Any] = {"Crawler": Crawler}
    exec(shown, names)
    async with serving_pages({f"{A}/": "<h1>Sapiens</h1>"}) as (connect_to, _):
        crawler._settings["connect_to"] = (connect_to,)
        assert await names["find_title"](crawler, "Sapiens") == f"{A}/"
        assert await names["find_title"](crawler, "Sapiens") is None
