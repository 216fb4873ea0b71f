"""Handlers in a crawl: what they yield is committed with their page (INV-5), and what becomes of failures."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
from selectolax.lexbor import LexborHTMLParser

from swath.core.errors import UsageError
from swath.core.item import Done, Item, Release
from swath.crawl import Crawler, Follow, Page, Request
from swath.crawl.archive.output import MAX_KINDS, CrawlOutput
from swath.crawl.archive.record import Capture, ItemLine
from swath.crawl.handlers import extractor as extractor_module
from swath.crawl.handlers import handler_threads
from swath.crawl.handlers.extractor import Extraction, PageExtractor
from swath.crawl.handlers.handler_threads import MAX_WAITING
from swath.crawl.handlers.registration import Handler
from swath.crawl.parse import page_text
from swath.crawl.parse.page_text import estimate_memory
from swath.crawl.settings import CrawlSettings
from tests.crawl.archives import archived_urls
from tests.crawl.handlers.running import Answer, run
from tests.crawl.handling import answered, handling

A = "http://a.example"
SHOP: dict[str, Answer] = {
    f"{A}/": "<article><h3><a href=/catalogue/x_1/>x</a></h3></article>"
    "<article><h3><a href=/catalogue/y_2/>y</a></h3></article>"
    "<li class=next><a href=/page-2>next</a></li><a href=/elsewhere>not followed</a>",
    f"{A}/page-2": "<article><h3><a href=/catalogue/z_3/>z</a></h3></article>",
    f"{A}/catalogue/x_1/": "<h1>X</h1><p class=price_color>£1</p><i>1</i><i>2</i>",
    f"{A}/catalogue/y_2/": "<h1>Y</h1>",
    f"{A}/catalogue/z_3/": "<p>no title",
}


@dataclass
class Book:
    title: str
    price: str | None


def make_shop(**options: Any) -> Crawler:
    crawler = Crawler(f"{A}/", **options)

    @crawler.handler(r"/catalogue/")
    async def book(page: Page) -> AsyncIterator[Book | dict[str, Any]]:
        yield Book(page.css("h1").must_text(), page.css(".price_color").text())
        for part in page.css("i").texts():
            yield {"part": part, "from": page.payload}

    @crawler.default()
    def listing(page: Page) -> Iterator[Follow]:
        yield page.follow("article a", to=book, payload={"page": page.url})
        yield page.follow("li.next a")

    return crawler


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest) -> str | None:
    """The URL of the store; None for the default, SQLite."""
    if request.param == "sqlite":
        return None
    database: str = request.getfixturevalue("database")
    return f"{database}&schema=crawl" if "?" in database else f"{database}?schema=crawl"


async def test_items_are_committed_with_their_pages(store: str | None, tmp_path: Path) -> None:
    done = await run(make_shop(), SHOP, tmp_path, store=store)
    assert done.summary.stopped_by == "done"
    assert set(done.requests) == set(SHOP)
    assert max(done.requests.values()) == 1
    books = {book["title"]: book for book in done.items["Book"]}
    assert {name: book["price"] for name, book in books.items()} == {"X": "£1", "Y": None}
    assert books["X"]["_url"] == f"{A}/catalogue/x_1/"
    assert (books["X"]["_handler"], books["X"]["_version"]) == ("book", 1)
    parts = done.items["item"]
    assert [part["part"] for part in parts] == ["1", "2"]
    assert [part["from"] for part in parts] == [{"page": f"{A}/"}] * 2
    visit = books["X"]["_id"].rpartition("-")[0]
    assert [books["X"]["_id"], *(part["_id"] for part in parts)] == [f"{visit}-{number}" for number in range(3)]
    assert done.page(f"{A}/")["handler"] == "listing"
    assert dict(done.stats.items) == {"Book": 2, "item": 2}


async def test_a_handler_that_fails_settles_its_page_without_another_request(store: str | None, tmp_path: Path) -> None:
    done = await run(make_shop(), SHOP, tmp_path, store=store)
    url = f"{A}/catalogue/z_3/"
    (dead,) = done.dead
    assert dead.key == url
    assert dead.reason.startswith("handler: book: NoMatch: the selector 'h1' matches nothing (test_run.py:")
    assert dead.error is not None
    assert dead.error.startswith("Traceback")
    assert "swath/crawl/handlers/extractor.py" not in dead.error
    assert "must_text" in dead.error
    assert done.requests[url] == 1
    assert url in archived_urls(tmp_path)
    assert done.page(url)["handler_error"] == dead.reason.removeprefix("handler: ")
    assert done.stats.errors == {"handler": 1}
    assert not any(book["_url"] == url for book in done.items["Book"])


async def test_a_handler_that_fails_late_has_yielded_nothing(tmp_path: Path) -> None:
    crawler = Crawler()

    @crawler.default()
    def late(page: Page) -> Iterator[Any]:
        yield {"n": 1}
        yield Follow("/x")
        raise RuntimeError

    done = await run(crawler, SHOP, tmp_path)
    assert done.items == {}
    assert set(done.requests) == {f"{A}/"}
    assert done.dead[0].reason.startswith("handler: late: RuntimeError (test_run.py:")


async def test_a_hostile_message_of_an_exception_is_recorded_in_part(store: str | None, tmp_path: Path) -> None:
    """A page may decide what it says: it must not end the run, nor fill the page list."""
    crawler = Crawler()

    @crawler.default()
    def fails(page: Page) -> None:
        raise ValueError("\ud800\0\x1b[2J" + "x" * 1_000_000)

    done = await run(crawler, SHOP, tmp_path, store=store)
    (dead,) = done.dead
    assert dead.reason.startswith("handler: fails: ValueError: \\ud800\u2400\x1b[2Jxxx")
    assert dead.reason.endswith(")")
    assert len(dead.reason) < 1_000
    assert len(done.page(f"{A}/")["handler_error"]) < 1_000


async def test_a_hostile_reason_of_a_retry_is_recorded_in_part(tmp_path: Path) -> None:
    crawler = Crawler(retries=0)

    @crawler.default()
    def fails(page: Page) -> None:
        page.retry(after=0, reason="\ud800" + "x" * 1_000_000)

    done = await run(crawler, SHOP, tmp_path)
    assert "gave up after 1 attempt: \\ud800xxx" in done.dead[0].reason
    assert len(done.page(f"{A}/")["handler_error"]) < 1_000


async def test_garbage_fails_its_page_only(tmp_path: Path) -> None:
    crawler = Crawler()

    @crawler.default()
    def garbage(page: Page) -> Iterator[Any]:
        yield page.follow("article a")
        if "y_2" in page.url:
            yield {"n": object()}
        elif "x_1" in page.url:
            yield {"n": "\0\ud7ff\U0001f600\u202e"}

    done = await run(crawler, SHOP, tmp_path)
    assert [item["n"] for item in done.items["item"]] == ["\0\ud7ff\U0001f600\u202e"]
    assert [item.key for item in done.dead] == [f"{A}/catalogue/y_2/"]
    assert "InvalidYield: item['n'] is <object" in done.dead[0].reason


async def test_retry_is_the_only_thing_that_fetches_again(store: str | None, tmp_path: Path) -> None:
    crawler = Crawler(retries=2)
    attempts: list[int] = []

    @crawler.default()
    def patient(page: Page) -> Iterator[Any]:
        attempts.append(page.attempts)
        yield page.follow("li.next a")
        yield {"url": page.url}
        if page.attempts < 2 or page.url.endswith("page-2"):
            page.retry(after=0.01, reason="not ready")

    done = await run(crawler, SHOP, tmp_path, store=store)
    assert done.requests == {f"{A}/": 3, f"{A}/page-2": 3}
    assert [item["url"] for item in done.items["item"]] == [f"{A}/"]
    assert [item.reason for item in done.dead] == ["handler: patient: gave up after 3 attempts: not ready"]
    assert sorted(archived_urls(tmp_path) - {f"{A}/robots.txt"}) == [f"{A}/", f"{A}/page-2"]


async def test_the_error_handler_gets_other_statuses_but_no_redirects(tmp_path: Path) -> None:
    crawler = Crawler()

    @crawler.default()
    def listing(page: Page) -> Iterator[Any]:
        yield Follow(["/moved", "/gone"])
        yield {"good": page.url}

    @crawler.error()
    def wrong(page: Page) -> Iterator[Any]:
        yield {"bad": page.url, "status": page.status}

    answers: dict[str, Answer] = {f"{A}/": "x", f"{A}/moved": (301, "", "Location: /target\r\n"), f"{A}/target": "y"}
    done = await run(crawler, answers, tmp_path)
    assert [item["good"] for item in done.items["item"] if "good" in item] == [f"{A}/", f"{A}/target"]
    assert [item["bad"] for item in done.items["item"] if "bad" in item] == [f"{A}/gone"]


async def test_a_redirect_keeps_the_handler_and_the_payload(tmp_path: Path) -> None:
    crawler = Crawler()

    def special(page: Page) -> Iterator[Any]:
        yield {"payload": page.payload, "depth": page.depth}

    crawler.handler("/never")(special)

    @crawler.default()
    def first(page: Page) -> Iterator[Any]:
        yield Request("/moved", to=special, payload=[1], priority=7)

    answers: dict[str, Answer] = {f"{A}/": "x", f"{A}/moved": (302, "", "Location: /target\r\n"), f"{A}/target": "y"}
    done = await run(crawler, answers, tmp_path)
    assert [(item["payload"], item["depth"]) for item in done.items["item"]] == [([1], 1)]


async def test_a_body_that_another_url_had_has_a_handler_too(tmp_path: Path) -> None:
    crawler = Crawler()

    @crawler.default()
    def listing(page: Page) -> Iterator[Any]:
        yield Follow([f"/{number}" for number in range(3)])
        yield {"title": page.css("h1").text()}

    done = await run(crawler, {f"{A}/": "<h1>T", **{f"{A}/{number}": "<h1>T" for number in range(3)}}, tmp_path)
    assert sum("duplicate_of" in page for page in done.pages) == 3
    assert [item["title"] for item in done.items["item"]] == ["T"] * 4


SCOPE: dict[str, Answer] = {
    f"{A}/": "<a href=/one>1</a><a href=/two>2</a>", f"{A}/one": "1", f"{A}/two": "2", f"{A}/three": "3",
    f"{A}/robots.txt": f"Sitemap: {A}/sitemap.xml\n",
    f"{A}/sitemap.xml": f"<?xml version='1.0'?><urlset><url><loc>{A}/three</loc></url></urlset>",
}  # fmt: skip


@pytest.mark.parametrize(("links", "followed"), [(None, set()), ("scope", {"one", "two", "sitemap.xml", "three"})])
async def test_a_crawler_follows_what_its_handlers_yield(links: Any, followed: set[str], tmp_path: Path) -> None:
    crawler = Crawler()

    @crawler.default(links=links)
    def seen(page: Page) -> Iterator[Any]:
        yield {"url": page.url}

    done = await run(crawler, SCOPE, tmp_path)
    assert set(done.requests) == {f"{A}/", *(f"{A}/{name}" for name in followed)}
    assert {item["url"] for item in done.items["item"]} == set(done.requests) - {f"{A}/sitemap.xml"}


async def test_scope_depth_and_robots_hold_for_every_link(tmp_path: Path) -> None:
    crawler = Crawler(depth=2, exclude=["/private"])

    @crawler.default()
    def chain(page: Page) -> Iterator[Any]:
        yield Follow([f"/{page.depth + 1}", "http://b.example/x", "/private/x", "/forbidden"])
        yield Request("http://b.example/private/y", any_host=True)
        yield Request(f"http://b.example/{page.depth}", any_host=True)

    answers: dict[str, Answer] = {f"{A}/{number}": f"{number}" for number in ("", 1, 2, 3)}
    answers |= {f"http://b.example/{number}": "b" for number in range(3)}
    answers[f"{A}/robots.txt"] = "User-agent: *\nDisallow: /forbidden\n"
    done = await run(crawler, answers, tmp_path)
    # A page that is out of scope follows links as well, and those to itself are in scope only with any_host.
    assert set(done.requests) == {f"{A}/", f"{A}/1", f"{A}/2", "http://b.example/0", "http://b.example/1"}
    assert done.stats.refused["scope"] > 0
    assert done.stats.refused["depth"] > 0
    assert done.stats.refused["robots"] == 1


async def test_links_with_a_higher_priority_come_first(tmp_path: Path) -> None:
    crawler = Crawler()

    @crawler.default()
    def listing(page: Page) -> Iterator[Any]:
        if page.depth == 0:
            for number in range(8):
                yield Request(f"/{number}", priority=number)

    answers: dict[str, Answer] = {f"{A}/": "x", **{f"{A}/{number}": f"{number}" for number in range(8)}}
    done = await run(crawler, answers, tmp_path)
    assert done.order.index(f"{A}/7") < done.order.index(f"{A}/3") < done.order.index(f"{A}/0")


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_wrong_value_is_reported_with_the_yield_it_came_from(
    tmp_path: Path, is_async: bool, caplog: pytest.LogCaptureFixture
) -> None:
    crawler = Crawler()

    def yield_tags() -> Iterator[Any]:
        yield {"n": 1}
        yield {"tags": {1}}

    def plain(page: Page) -> Iterator[Any]:
        yield from yield_tags()

    async def asynchronous(page: Page) -> AsyncIterator[Any]:
        for item in yield_tags():
            yield item

    crawler.default()(asynchronous if is_async else plain)
    done = await run(crawler, {f"{A}/": "x"}, tmp_path)
    line = 2 + (asynchronous if is_async else yield_tags).__code__.co_firstlineno
    (dead,) = done.dead
    assert dead.reason.endswith(f"which cannot be written as JSON: use a list (test_run.py:{line})")
    assert f'test_run.py", line {line}, in {"asynchronous" if is_async else "yield_tags"}' in caplog.text
    assert "collector.py" not in caplog.text


# limits


async def test_an_async_handler_that_hangs_is_timed_out(tmp_path: Path) -> None:
    crawler = Crawler(handler_timeout=0.2)
    cleaned = []

    @crawler.default()
    async def hangs(page: Page) -> AsyncIterator[Any]:
        yield {"n": 1}
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append(page.url)

    done = await run(crawler, SHOP, tmp_path)
    assert done.items == {}
    assert done.dead[0].reason == "handler: hangs: HandlerTimeout: the handler took longer than 0.2 s"
    assert cleaned == [f"{A}/"]


async def test_a_plain_handler_that_hangs_is_timed_out(tmp_path: Path) -> None:
    release = threading.Event()
    crawler = Crawler(handler_timeout=0.2)

    @crawler.default()
    def hangs(page: Page) -> Iterator[Any]:
        yield {"n": 1}
        release.wait(60)
        yield {"n": 2}

    try:
        done = await run(crawler, SHOP, tmp_path)
    finally:
        release.set()
    assert done.items == {}
    assert "HandlerTimeout: the handler took longer than 0.2 s; its thread still runs" in done.dead[0].reason


async def test_a_timeout_of_the_handlers_own_is_an_error_like_any_other() -> None:
    crawler = Crawler()

    @crawler.default()
    async def own(page: Page) -> None:
        raise TimeoutError("of mine")

    result = await extract(PageExtractor(crawler))
    assert result.failure is not None
    assert result.failure.reason.startswith("own: TimeoutError: of mine (test_run.py:")


async def extract(extractor: PageExtractor, *, size: int = 1) -> extractor_module.Extraction:
    page = Page.from_html("")
    handler = extractor.crawler.choose(page.url)
    assert handler is not None
    try:
        return await extractor.extract(handler, page, size=size)
    finally:
        extractor.close()


@pytest.mark.parametrize("links", [None, "scope"])
async def test_the_crawl_and_the_handler_share_one_tree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: Literal["scope"] | None
) -> None:
    built: list[str] = []

    def build(text: str) -> LexborHTMLParser:
        built.append(text)
        return LexborHTMLParser(text)

    monkeypatch.setattr(page_text, "LexborHTMLParser", build)
    crawler = Crawler(sitemaps=False)

    @crawler.default(links=links)
    async def read(page: Page) -> AsyncIterator[dict[str, Any] | Follow]:
        yield {"heading": page.css("h1").text(), "links": page.links(), "title": page.title}
        yield page.follow("a.next")

    answers = {
        f"{A}/": "<title>One</title><link rel=canonical href=/2><h1>1</h1><a class=next href=/2>2</a><a href=/3>3</a>",
        f"{A}/2": "<title>Two</title><meta name=robots content=noarchive><h1>2</h1>",
        f"{A}/3": "<h1>3</h1>",
    }
    done = await run(crawler, answers, tmp_path, robots=False)
    assert set(done.requests) == {f"{A}/", f"{A}/2"} | ({f"{A}/3"} if links else set())
    assert len(built) == len(done.requests), "one tree for each page"
    first = done.items["item"][0]
    assert (first["heading"], first["links"], first["title"]) == ("1", [f"{A}/2", f"{A}/3"], "One")
    assert (done.page(f"{A}/")["title"], done.page(f"{A}/")["canonical"]) == ("One", f"{A}/2")
    assert done.page(f"{A}/2")["title"] == "Two"
    assert "file" not in done.page(f"{A}/2"), "noarchive"


async def test_the_memory_of_a_page_includes_its_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """INV-9"""
    sizes: dict[str, int] = {}
    extract_page = PageExtractor.extract

    async def note(extractor: PageExtractor, handler: Handler, page: Page, *, size: int) -> Extraction:
        sizes[page.url] = size
        return await extract_page(extractor, handler, page, size=size)

    monkeypatch.setattr(PageExtractor, "extract", note)
    crawler = Crawler()
    crawler.default()(lambda_like)
    text = "<p>x" * 1_000
    await run(crawler, {f"{A}/": text}, tmp_path / "html", robots=False)
    assert sizes == {f"{A}/": 2 * len(text) + estimate_memory(len(text))}
    assert estimate_memory(1_000_000) > 10_000_000


async def test_pages_in_handlers_count_against_the_memory_of_pages() -> None:
    """INV-9: also those whose thread was left behind."""
    release = threading.Event()
    crawler = Crawler(page_memory=10, handler_timeout=0.05)

    @crawler.default()
    def hangs(page: Page) -> None:
        release.wait(60)

    extractor = PageExtractor(crawler)
    seen = [extractor.is_full]
    running = asyncio.create_task(extract(extractor, size=10))
    await asyncio.sleep(0)
    seen.append(extractor.is_full)
    assert (await running).failure is not None
    seen.append(extractor.is_full)
    release.set()
    await until(lambda: not extractor.is_full)
    assert seen == [False, True, True]


async def test_a_page_that_waits_for_a_thread_counts_against_the_memory_of_pages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """INV-9: it is not parsed yet, but its body is there."""
    monkeypatch.setattr(handler_threads, "HELP_SECONDS", 60.0)  # one thread
    release = threading.Event()
    crawler = Crawler(page_memory=MAX_WAITING * 10 + 15)

    @crawler.default()
    def waits(page: Page) -> None:
        release.wait(60)

    extractor = PageExtractor(crawler)
    handler = crawler.handlers["waits"]
    running = [asyncio.create_task(extract(extractor, size=10)) for _ in range(MAX_WAITING + 1)]
    await asyncio.sleep(0)
    seen = [extractor.is_full]
    waiting = asyncio.create_task(extractor.wait_for_room(handler, size=5))
    await asyncio.sleep(0)
    seen.append(extractor.is_full)
    release.set()
    await asyncio.gather(waiting, *running)
    assert [*seen, extractor.is_full] == [False, True, False]


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110  nothing signals the end of a thread
        await asyncio.sleep(0.001)


async def test_handlers_that_never_return_stop_new_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extractor_module, "MAX_HUNG", 1)
    release = threading.Event()
    crawler = Crawler(handler_timeout=0.05)

    @crawler.default()
    def hangs(page: Page) -> None:
        release.wait(60)

    extractor = PageExtractor(crawler)
    await extract(extractor)
    assert extractor.is_full
    release.set()


async def test_no_page_is_fetched_while_handlers_have_too_many() -> None:
    crawler = Crawler()
    crawler.default()(lambda_like)
    full = PageExtractor(crawler)
    full._bytes = crawler.page_memory
    item = Item(f"{A}/", "a.example", payload={"depth": 0}, partition=0, position=1)
    async with handling(answered, robots=False) as (_, handler, actor):
        handler._extractor = handler._processor._extractor = full
        outcome = await handler(item)
        assert isinstance(outcome, Release)
        assert (outcome.started, outcome.after, actor.asked) == (False, 1.0, [])
        full._bytes = 0
        assert isinstance(await handler(item), Done)
        assert actor.asked == [f"{A}/"]


def lambda_like(page: Page) -> None:
    """Yields nothing."""


async def test_failures_of_one_kind_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    crawler = Crawler()

    class Broken(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    @crawler.default()
    def fails(page: Page) -> None:
        raise Broken

    extractor = PageExtractor(crawler)
    results = [await extract(extractor) for _ in range(3)]
    assert all(result.failure and result.failure.reason.startswith("fails: Broken") for result in results)
    assert len(caplog.records) == 1
    assert "more failures of this kind are only counted" in caplog.text


# resuming


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_resume_needs_the_same_handlers(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    store = None
    if kind == "postgres":
        store = f"{request.getfixturevalue('database')}"
    await run(make_shop(), SHOP, tmp_path, store=store)

    async def again(crawler: Crawler, **options: Any) -> list[str]:
        return list((await run(crawler, SHOP, tmp_path, store=store, **options)).notes)

    assert await again(make_shop()) == []
    (note,) = await again(make_shop(), source_hash="2")
    assert note == "the code of shop:crawler has changed since the last run of the crawl, here or on another machine"
    assert await again(make_shop(), source_hash="2", same_code=True) == []
    with pytest.raises(UsageError, match="the code of shop:crawler is not that of shop:crawler"):
        await again(make_shop(), source_hash="1", same_code=True)
    other = Crawler()
    other.default()(lambda_like)
    with pytest.raises(
        UsageError, match=r"runs shop:crawler, and its pages may wait for the handler 'book', which x:y"
    ):
        await again(other, name="x:y")
    renamed = Crawler(aliases={"book": "lambda_like", "listing": "lambda_like"})
    renamed.default()(lambda_like)
    await again(renamed)
    plain = CrawlSettings(out=str(tmp_path), store=store, delay=0.0, allow_private=True)
    with pytest.raises(UsageError, match=r"the crawl in .* has handlers: give --run shop:crawler"):
        await open_plain(plain)


async def open_plain(settings: CrawlSettings, *seeds: str) -> None:
    from tests.crawl.driving import prepare

    await prepare(settings, seeds)


async def test_a_crawl_without_handlers_does_not_get_some_later(tmp_path: Path) -> None:
    await open_plain(CrawlSettings(out=str(tmp_path), delay=0.0, allow_private=True), f"{A}/")
    with pytest.raises(UsageError, match="was begun without --run or --select, so its pages have no items"):
        await run(make_shop(), SHOP, tmp_path)


# the output


def write(output: CrawlOutput, *items: ItemLine) -> dict[str, int]:
    (moves,) = output.write([[[Capture({"url": "x"}, None, items)]]])
    return {move.name: move.new for move in moves}


@pytest.fixture
def make_output(tmp_path: Path) -> Iterator[Callable[[], CrawlOutput]]:
    made: list[CrawlOutput] = []

    def make() -> CrawlOutput:
        for output in made:
            output.close()
        made.append(CrawlOutput(tmp_path, unique="x~0", warc_size=None, about={}))
        return made[-1]

    yield make
    for output in made:
        output.close()


def test_items_that_were_not_settled_are_truncated(make_output: Callable[[], CrawlOutput], tmp_path: Path) -> None:
    output = make_output()
    output.restore({})
    committed = write(output, ItemLine("Book", b"1\n"))
    output.keep()
    write(output, ItemLine("Book", b"2\n"), ItemLine("Author", b"3\n"))  # and the process dies
    make_output().restore(committed)
    assert {path.name: path.stat().st_size for path in tmp_path.glob("*.gz")} == committed
    assert sum(name.startswith("items-Book-") for name in committed) == 1


def test_a_write_that_fails_leaves_no_items(make_output: Callable[[], CrawlOutput], tmp_path: Path) -> None:
    output = make_output()
    output.restore({})
    kinds = [ItemLine(f"Kind{number}", b"1\n") for number in range(MAX_KINDS + 1)]
    with pytest.raises(UsageError, match="more than 100 kinds of items"):
        write(output, *kinds)
    assert list(tmp_path.glob("items-*")) == []
    assert len([name for name in write(output, *kinds[:-1]) if name.startswith("items-")]) == MAX_KINDS


def test_what_waits_to_be_written_counts_its_items() -> None:
    one, other = Capture({}, None), Capture({}, None, [ItemLine("Book", b"x" * 1_000)])
    assert other.size - one.size == 1_000


async def test_the_page_list_says_which_handler_a_page_had(tmp_path: Path) -> None:
    done = await run(make_shop(), SHOP, tmp_path)
    assert json.dumps(done.page(f"{A}/catalogue/x_1/")["handler"]) == '"book"'
