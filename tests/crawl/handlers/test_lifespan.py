"""`Crawler(lifespan=…)`: what handlers share is opened before the first page and closed after the last settlement."""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import swath
from swath import Stop
from swath.cli.crawl_command import CrawlCommand
from swath.cli.extract_command import ExtractCommand
from swath.core.errors import UsageError
from swath.crawl import Crawler, LifespanFailed, Page
from swath.crawl.handlers import code, lifespan
from swath.crawl.handlers.code import CrawlCode
from swath.crawl.job import CrawlJob
from swath.crawl.seeds import read_seeds
from swath.crawl.workspace import open_workspace
from swath.testing import crawl
from tests.crawl.driving import environment
from tests.crawl.handlers.running import make_settings, read_examples, run, serving_pages

A = "http://a.example"
REACHABLE = bool(os.environ.get("NEVER"))
PAGES: dict[str, Any] = {f"{A}/": "<a href=/b>b</a>", f"{A}/b": "b"}


def make_crawler(opened: Callable[..., Any]) -> Crawler:
    crawler = Crawler(f"{A}/", lifespan=opened)

    @crawler.default()
    async def shared(page: Page) -> list[Any]:
        page.state.append(page.url)
        return [{"seen": len(page.state)}, page.follow("a")]

    return crawler


async def test_it_is_open_from_the_first_page_to_the_last_settlement(tmp_path: Path) -> None:
    committed: list[int] = []
    states: list[list[str]] = []

    @asynccontextmanager
    async def opened() -> AsyncIterator[list[str]]:
        async with asyncio.timeout(60):  # refuses to end in another task than it began in
            states.append([])
            yield states[-1]
        async with swath.open(make_settings(tmp_path).store_url, create=False) as frontier:
            committed.append((await frontier.status()).done)

    done = await run(make_crawler(opened), PAGES, tmp_path)
    assert states == [[f"{A}/", f"{A}/b"]]
    assert committed == [2]
    assert [item["seen"] for item in done.items["item"]] == [1, 2]


def test_it_gets_the_crawler_if_it_takes_an_argument() -> None:
    @asynccontextmanager
    async def opened(crawler: Crawler) -> AsyncIterator[list[Any]]:
        yield [crawler]

    crawler = make_crawler(opened)
    assert crawl(crawler, PAGES).items["item"][-1]["seen"] == 3
    assert crawl(crawler, PAGES, state=[]).items["item"][-1]["seen"] == 2


def test_a_check_passes_the_state_itself() -> None:
    def opened() -> Any:
        raise AssertionError

    assert make_crawler(opened).check(Page.from_html(""), state=["x"]).items == [{"seen": 2}]


async def fail_at_start() -> AsyncIterator[None]:
    if not REACHABLE:
        raise ConnectionError("no database")
    yield


async def test_an_error_at_the_start_fetches_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    crawler = make_crawler(asynccontextmanager(fail_at_start))
    message = r"the lifespan of shop:crawler failed before the first page: ConnectionError: no database"
    with pytest.raises(LifespanFailed, match=message):
        await run(crawler, PAGES, tmp_path)
    assert "fail_at_start" in caplog.text  # the traceback


SPIDER = """
from contextlib import asynccontextmanager
from swath.crawl import Crawler

@asynccontextmanager
async def connect(crawler):
    raise ConnectionError("no database")
    yield

crawler = Crawler("http://a.example/", lifespan=connect)

@crawler.default()
def page(page):
    pass
"""


def test_the_command_says_so_and_exits_with_2(tmp_path: Path) -> None:
    (tmp_path / "spider.py").write_text(SPIDER)
    words = [sys.executable, "-m", "swath", "crawl", "--run", "spider:crawler", "--processes", "2"]
    ran = subprocess.run(
        words, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False, env=environment()
    )
    assert ran.returncode == 2
    assert ran.stderr.endswith("failed before the first page: ConnectionError: no database\n")
    assert ran.stderr.count("Traceback") == 2


HANGING = """
import asyncio, sys, time
from contextlib import asynccontextmanager
from swath.crawl import Crawler
from swath.crawl.handlers import lifespan

lifespan.CLOSE_SECONDS = lifespan.CANCEL_SECONDS = lifespan.BLOCKED_SECONDS = 0.1

@asynccontextmanager
async def connect():
    yield
    CLOSE

crawler = Crawler("http://127.0.0.1:65500/", lifespan=connect, allow_private=True, retries=0, delay=0.0)

@crawler.default()
def page(page):
    pass
"""


@pytest.mark.parametrize(
    ("close", "processes", "message"),
    [
        ("await asyncio.to_thread(time.sleep, 10_000)", "1", "was not closed within 0.1 s: it was cancelled"),
        ("await asyncio.to_thread(time.sleep, 10_000)", "2", "was not closed within 0.1 s: it was cancelled"),
        ("time.sleep(10_000)", "1", "blocks the process: it exits"),
    ],
)
def test_one_that_hangs_at_the_end_does_not_hang_the_process(
    close: str, processes: str, message: str, tmp_path: Path
) -> None:
    (tmp_path / "spider.py").write_text(HANGING.replace("CLOSE\n", f"{close}\n"))
    words = [sys.executable, "-m", "swath", "crawl", "--run", "spider:crawler", "--processes", processes]
    ran = subprocess.run(
        words, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False, env=environment()
    )
    assert ran.returncode == 1
    assert f"the lifespan of spider:crawler {message}" in ran.stderr
    if "cancelled" in message:
        assert "result\tnothing was fetched" in ran.stdout


async def crawl_until(tmp_path: Path, crawler: Crawler, stop: Stop, opening: asyncio.Event) -> swath.Summary:
    loaded = CrawlCode("shop:crawler", crawler, "1")
    settings = make_settings(tmp_path)
    async with open_workspace(settings, read_seeds([f"{A}/"]), code=loaded) as workspace:
        running = asyncio.create_task(CrawlJob(settings, workspace.frontier, stop=stop, code=loaded).run())
        await opening.wait()
        stop.request("SIGINT")
        return await running


async def test_a_stop_ends_one_that_hangs_at_the_start(tmp_path: Path) -> None:
    opening = asyncio.Event()

    @asynccontextmanager
    async def opened() -> AsyncIterator[None]:
        opening.set()
        await asyncio.Event().wait()
        yield

    summary = await crawl_until(tmp_path, make_crawler(opened), Stop(), opening)
    assert (summary.stopped_by, summary.done) == ("SIGINT", 0)


async def test_one_that_hangs_at_the_end_does_not_hang_the_crawl(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(lifespan, "CLOSE_SECONDS", 0.05)
    monkeypatch.setattr(lifespan, "CANCEL_SECONDS", 0.05)
    released = asyncio.Event()

    @asynccontextmanager
    async def opened() -> AsyncIterator[list[Any]]:
        yield []
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue

    done = await run(make_crawler(opened), PAGES, tmp_path)
    assert done.summary.stopped_by == "done"
    assert done.stats.errors == {"lifespan": 1}
    assert "the lifespan of shop:crawler was not closed within 0.05 s: it was cancelled" in caplog.text
    released.set()


async def test_an_error_at_the_end_is_reported_after_the_last_settlement(tmp_path: Path) -> None:
    @asynccontextmanager
    async def opened() -> AsyncIterator[list[Any]]:
        yield []
        raise OSError("cannot flush")

    done = await run(make_crawler(opened), PAGES, tmp_path / "job")
    assert (done.summary.stopped_by, done.summary.done) == ("done", 2)
    assert done.stats.errors == {"lifespan": 1}
    loaded = CrawlCode("shop:crawler", make_crawler(opened), "1")
    async with serving_pages(PAGES) as (connect_to, _):
        settings = make_settings(tmp_path / "command", connect_to=(connect_to,))
        assert await CrawlCommand(settings, code=loaded, json=True, quiet=True).run([A], None) == 1


async def test_one_that_fails_during_the_crawl_stops_it(tmp_path: Path) -> None:
    fails, failed = asyncio.Event(), asyncio.Event()

    async def fail() -> None:
        await fails.wait()
        raise OSError("connection lost")

    @asynccontextmanager
    async def opened() -> AsyncIterator[list[Any]]:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(fail())
                yield []
        finally:
            failed.set()

    crawler = Crawler(lifespan=opened, retries=0)

    @crawler.default()
    async def waits(page: Page) -> list[Any]:
        fails.set()
        await failed.wait()
        return [page.follow("a")]

    done = await run(crawler, PAGES, tmp_path)
    assert (done.summary.stopped_by, done.order) == ("lifespan", [f"{A}/"])
    assert done.stats.errors == {"lifespan": 1}


def test_extract_opens_it(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    @asynccontextmanager
    async def opened() -> AsyncIterator[list[Any]]:
        yield ["extract"]

    crawler = make_crawler(opened)
    asyncio.run(run(crawler, PAGES, tmp_path))
    monkeypatch.setitem(code._provided, "shop:crawler", crawler)
    command = ExtractCommand(
        str(tmp_path), None, run="shop:crawler", select=[], items=None, handler=None, all_visits=False
    )
    assert asyncio.run(command.run()) == 0
    assert sorted(re.findall(r'"seen":\s*(\d)', capsys.readouterr().out)) == ["2", "3"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (fail_at_start, "decorate it with @asynccontextmanager"),
        (asynccontextmanager(lambda one, two: fail_at_start()), "it takes the crawler, or nothing"),
        (3, "pass a function with @asynccontextmanager"),
    ],
)
def test_mistakes_are_found_when_the_crawler_is_made(wrong: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Crawler(lifespan=wrong)


def test_the_documentation_shows_one() -> None:
    (shown,) = (text for text in read_examples() if "lifespan=load_rates" in text)
    names: dict[str, Any] = {}
    exec(compile(shown, "handlers.md", "exec", dont_inherit=True), names)
    pages = {"https://books.example/": "<p class=price_color>£2</p>"}
    assert crawl(names["crawler"], pages).items["item"][0]["euros"] == 2.3
