"""`@crawler.start`: seeds that code yields are committed once, and extend the scope of every process."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import swath
from swath.cli.crawl_summary import describe_end, list_next_steps
from swath.cli.explain import explain_in_crawl
from swath.core.errors import UsageError
from swath.crawl import Crawler, InvalidYield, Page, Request
from swath.crawl import start as start_module
from swath.crawl.failed_pages import retry_failed_pages
from swath.crawl.handlers import start as seeds_module
from swath.crawl.handlers.code import CrawlCode
from swath.crawl.handlers.extractor import PageExtractor
from swath.crawl.handlers.start import START_KEY
from swath.crawl.job import read_status
from swath.crawl.page_handler import PageHandler
from swath.crawl.seeds import load_scope, read_seeds
from swath.crawl.start import make_start_item, read_start_seeds
from swath.crawl.workspace import open_workspace
from swath.testing import crawl
from tests.crawl.handlers.running import make_settings, read_examples, run
from tests.crawl.handling import Actor, answered, handler_on

A, B, C = "http://a.example", "http://b.example", "http://c.example"
PAGES: dict[str, Any] = {
    f"{A}/": "a",
    f"{B}/list": "<a href=/x>x</a><a href=http://c.example/>c</a><a href=http://d.example/>d</a>",
    f"{B}/x": "x",
    f"{C}/": "c",
    "http://e.example/": "<a href=/y>y</a>",
}


def make_crawler(start: Callable[..., Any], **options: Any) -> Crawler:
    crawler = Crawler(retries=0, **options)
    crawler.start(start)

    @crawler.default()
    def visit(page: Page) -> Iterator[Any]:
        yield {"url": page.url, "payload": page.payload, "depth": page.depth, "from": page.referrer}
        yield page.follow("a")

    @crawler.handler("never")
    def chosen(page: Page) -> list[Any]:
        return [{"url": page.url, "payload": page.payload, "chosen": True}]

    return crawler


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest) -> str | None:
    """The URL of the store; None for the default, SQLite."""
    if request.param == "sqlite":
        return None
    database: str = request.getfixturevalue("database")
    return f"{database}&schema=crawl" if "?" in database else f"{database}?schema=crawl"


async def test_its_seeds_extend_the_scope(store: str | None, tmp_path: Path) -> None:
    async def start() -> AsyncIterator[str | Request]:
        yield f"{B}/list"
        yield Request(f"{C}/", to="chosen", payload={"n": 1})
        yield Request("http://e.example/", any_host=True)

    done = await run(make_crawler(start), PAGES, tmp_path, store=store)
    assert set(done.requests) == set(PAGES)  # the links of an any_host seed are out of scope, as is d.example
    assert max(done.requests.values()) == 1
    items = {item["url"]: item for item in done.items["item"]}
    assert items[f"{C}/"]["chosen"]
    code = CrawlCode("tests:crawler", make_crawler(start), "")
    async with swath.open(make_settings(tmp_path, store=store).store_url, create=False) as frontier:
        assert (await read_status(frontier, code)).lanes == 4  # the start has a lane and is not a host
        assert (await read_status(frontier, None)).lanes == 5
    assert items[f"{C}/"]["payload"] == {"n": 1}
    assert (items[f"{B}/list"]["depth"], items[f"{B}/list"]["from"]) == (0, None)
    assert done.summary.stopped_by == "done"


async def test_a_crawl_needs_no_other_seeds_and_a_resume_does_not_run_it_again(tmp_path: Path) -> None:
    calls: list[int] = []

    def start() -> Iterator[str]:
        calls.append(1)
        yield f"{B}/list"

    crawler = make_crawler(start)
    done = await run(crawler, PAGES, tmp_path, seeds=())
    assert set(done.requests) == {f"{B}/list", f"{B}/x"}
    again = await run(crawler, PAGES, tmp_path, seeds=())
    assert (again.requests, again.notes, calls) == ({}, [], [1])


def test_a_page_with_its_key_is_a_page() -> None:
    crawler = Crawler(f"{A}/")

    @crawler.default()
    def visit(page: Page) -> Iterator[Any]:
        yield {"url": page.url}
        if page.url == f"{A}/":
            yield Request("/list", key=START_KEY)

    result = crawl(crawler, {f"{A}/": "a", f"{A}/list": "b"})
    assert (result.failed, [item["url"] for item in result.items["item"]]) == ({}, [f"{A}/", f"{A}/list"])


async def test_it_gets_the_state() -> None:
    @asynccontextmanager
    async def opened() -> AsyncIterator[list[str]]:
        yield [f"{A}/"]

    async def start(state: list[str]) -> list[str]:
        return state

    assert crawl(make_crawler(start, lifespan=opened), PAGES).requested == [f"{A}/"]


def test_a_host_name_has_its_other_forms() -> None:
    result = crawl(make_crawler(lambda_start("a.example")), {"https://a.example/": "a"})
    assert result.requested == ["https://a.example/"]


def lambda_start(*found: Any) -> Callable[[], Iterator[Any]]:
    def start() -> Iterator[Any]:
        yield from found

    return start


async def test_excluded_seeds_are_skipped(tmp_path: Path) -> None:
    crawler = make_crawler(lambda_start(f"{B}/list", f"{C}/"), exclude=["c.example"])
    done = await run(crawler, PAGES, tmp_path, seeds=())
    assert set(done.requests) == {f"{B}/list", f"{B}/x"}


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (["not a url"], "'not a url' is not a URL or host name that can be crawled"),
        ([Request("/relative")], "Request('/relative'): the URL of a seed begins with https:// or http://"),
        ([{"x": 1}], "the start of the crawl yielded {'x': 1} of type dict: yield URLs or Requests"),
        ([Request(f"{A}/", to="nobody")], "to='nobody': the crawler has no handler with this name"),
        ([f"http://h{n}.example/" for n in range(11)], "the seeds are on 12 hosts, so the owners of these hosts need"),
    ],
)
def test_garbage_is_refused_as_a_whole(found: list[Any], message: str) -> None:
    result = crawl(make_crawler(lambda_start(f"{A}/", *found)), PAGES)
    assert result.requested == []
    assert list(result.failed) == [START_KEY]
    assert result.failed[START_KEY].startswith("start: ")
    assert message in result.failed[START_KEY]


def test_too_many_seeds_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seeds_module, "MAX_SEEDS", 2)
    result = crawl(make_crawler(lambda_start(*(f"{A}/{n}" for n in range(3)))), PAGES)
    assert "yielded more than 2 seeds: write them to a file" in result.failed[START_KEY]


async def test_a_failure_is_recorded_and_can_be_repeated(store: str | None, tmp_path: Path) -> None:
    fails = [True]

    async def start() -> AsyncIterator[str]:
        yield f"{A}/"
        if fails:
            raise ConnectionError("no database")

    crawler = make_crawler(start)
    done = await run(crawler, PAGES, tmp_path, seeds=(), store=store)
    (dead,) = done.dead
    assert (dead.key, done.requests) == (START_KEY, {})
    assert dead.reason.startswith("start: start: ConnectionError: no database (test_start.py:")
    assert dead.error is not None
    assert dead.error.startswith("Traceback")
    settings = make_settings(tmp_path, store=store)
    async with swath.open(settings.store_url, create=False) as frontier:
        status = await frontier.status()
        result = await describe_end(frontier, settings, status, stopped_by="done", total_pages=0)
        assert result.startswith("nothing was fetched: start: start: ConnectionError: no database")
        assert "show a page" not in [name for name, _ in list_next_steps(settings, status, result, total_pages=1)]
        assert await retry_failed_pages(frontier) == 1
    fails.clear()
    again = await run(crawler, PAGES, tmp_path, seeds=(), store=store)
    assert (again.dead, set(again.requests)) == ([], {f"{A}/"})


async def test_one_that_hangs_is_timed_out(tmp_path: Path) -> None:
    async def start() -> AsyncIterator[str]:
        await asyncio.Event().wait()
        yield f"{A}/"

    done = await run(make_crawler(start, start_timeout=0.05), PAGES, tmp_path, seeds=())
    assert done.dead[0].reason == "start: start: HandlerTimeout: the handler took longer than 0.05 s"


async def test_another_process_learns_the_seeds_before_it_handles_their_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This process has loaded its scope before another one runs the start."""
    monkeypatch.setattr(start_module, "PART_BYTES", 20)  # several facts
    crawler = make_crawler(lambda_start(f"{B}/list", f"{C}/", f"{C}/2"))
    code = CrawlCode("shop:crawler", crawler, "1")
    settings = make_settings(tmp_path, robots=False)
    async with open_workspace(settings, read_seeds([f"{A}/"]), code=code) as workspace:
        frontier = workspace.frontier
        actor = Actor(
            lambda url: answered(
                url, 200, b"<a href=/x>x</a><a href=http://c.example/3>3</a>", content_type="text/html"
            )
        )
        first, second = (make_handler(frontier, settings, actor, crawler) for _ in range(2))
        claim = await frontier.claim()
        assert claim is not None
        items = {item.key: item for item in claim.items}
        await second(items[f"{A}/"])
        assert not is_open(second)  # although it has looked
        await claim.settle([await first(items[START_KEY])])
        assert [len(part) async for part in read_start_seeds(frontier)] == [1, 1, 1]
        found = await frontier.claim()
        assert found is not None
        page = next(item for item in found.items if item.key == f"{B}/list")
        outcome = await second(page)
        assert isinstance(outcome, swath.Done)
        assert [getattr(new, "key", new) for new in outcome.discovered] == [f"{B}/x", f"{C}/3"]  # that was out of scope
        assert is_open(second)
        explained = await explain_in_crawl(frontier, f"{B}/unknown")
        assert explained.data == {"refused": "unlinked"}
        explained = await explain_in_crawl(frontier, "http://d.example/")
        assert explained.data == {"refused": "scope"}


def is_open(handler: PageHandler) -> bool:
    return handler.start.is_open


def make_handler(frontier: swath.Frontier, settings: Any, actor: Actor, crawler: Crawler) -> PageHandler:
    return handler_on(frontier, settings, actor, scope=load_scope(settings), extractor=PageExtractor(crawler))


async def test_a_machine_that_joins_needs_the_given_seeds_only(tmp_path: Path) -> None:
    code = CrawlCode("shop:crawler", make_crawler(lambda_start(f"{B}/list")), "1")

    async def begin(machine: str, store: str, *urls: str) -> None:
        settings = make_settings(tmp_path / machine, store=f"sqlite:///{tmp_path}/{store}.db")
        async with open_workspace(settings, read_seeds(urls), code=code):
            pass

    await begin("first", "seeds", f"{A}/")
    with pytest.raises(UsageError, match="has no seeds, which define the scope: give a machine that joins a crawl"):
        await begin("second", "seeds")
    await begin("second", "seeds", f"{A}/")
    await begin("third", "start")
    await begin("fourth", "start")
    await begin("fourth", "start", f"{A}/")
    with pytest.raises(UsageError, match="has no seeds, which define the scope"):
        await begin("third", "start")


async def test_code_that_lost_its_start_says_so(tmp_path: Path) -> None:
    crawler = make_crawler(lambda_start(f"{B}/list"))
    crawler.start_handler = None
    settings = make_settings(tmp_path)
    async with open_workspace(settings, read_seeds([f"{A}/"])) as workspace:
        await workspace.frontier.add(make_start_item())
        handler = make_handler(workspace.frontier, settings, Actor(answered), crawler)
        outcome = await handler(make_start_item())
    assert isinstance(outcome, swath.Dead)
    assert outcome.reason == "start: the crawler has no function with @crawler.start any more"


def wrong(one: Any, two: Any) -> Iterator[str]:
    yield ""


def test_mistakes_are_found_when_it_is_registered() -> None:
    with pytest.raises(UsageError, match="the start of a crawl takes nothing, or what the lifespan yields"):
        Crawler().start(wrong)
    crawler = Crawler()
    crawler.start(lambda_start())
    with pytest.raises(UsageError, match="the crawler has two starts: start and start"):
        crawler.start(lambda_start())
    with pytest.raises(UsageError, match="start_timeout=0: must be above 0"):
        Crawler(start_timeout=0)


def test_the_limit_of_bytes_names_the_start() -> None:
    start = seeds_module.make_start(lambda_start())
    collector = seeds_module.SeedCollector(seeds_module.make_start_page(), start, Crawler())
    with pytest.raises(InvalidYield, match="handler start yielded more than 50 MB for the start"):
        collector.collect(Request(f"{A}/{number}", payload="x" * 190_000) for number in range(1_000))


def test_the_documentation_shows_one() -> None:
    (shown,) = (text for text in read_examples() if "@crawler.start" in text)
    crawler = Crawler()
    visited: list[tuple[str, Any]] = []

    @crawler.default()
    def book(page: Page) -> None:
        visited.append((page.url, page.payload))

    exec(shown, {"crawler": crawler, "Request": Request, "AsyncIterator": AsyncIterator, "book": book})
    shop: dict[str, Any] = {f"https://books.example/catalogue/{number}": "" for number in (1, 2)}
    crawl(crawler, shop)
    assert sorted(visited) == [(url, {"number": number}) for number, url in enumerate(shop, 1)]
