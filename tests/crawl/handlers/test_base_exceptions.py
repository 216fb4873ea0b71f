"""What the user's code raises fails a page, the start, the lifespan or the sink, also if it is no `Exception`.

Otherwise a `sys.exit()` would end the crawl as if it were complete, and a CancelledError would fetch the page again.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from swath.crawl import Crawler, Link, OutgoingRequest, Page, SinkFailed
from swath.crawl.handlers.errors import LifespanFailed
from swath.testing import crawl
from tests.crawl.handlers.running import run

A = "http://a.example"
PAGES: dict[str, Any] = {f"{A}/": "<a href=/b>b</a>", f"{A}/b": "b"}


class Own(BaseException):
    """Not an Exception."""


class Hostile(Exception):
    """Nothing of it can be shown."""

    @property
    def __notes__(self) -> list[str]:  # type: ignore[override]
        raise SystemExit(0)

    @property
    def __cause__(self) -> BaseException:  # type: ignore[override]
        raise SystemExit(0)


RAISED = [SystemExit(0), asyncio.CancelledError(), GeneratorExit(), Own("mine"), Hostile("x")]
named = pytest.mark.parametrize("raised", RAISED, ids=lambda one: type(one).__name__)


@named
@pytest.mark.parametrize("kind", ["plain", "async", "pipeline", "request hook", "link hook"])
def test_a_page_fails(kind: str, raised: BaseException) -> None:
    crawler = Crawler(f"{A}/", retries=1)

    def act(url: str, at: str) -> None:
        if kind == at and url == f"{A}/b":
            raise raised

    if kind == "async":

        @crawler.default()
        async def visit_async(page: Page) -> AsyncIterator[Any]:
            yield {"url": page.url}
            yield page.follow("a")
            act(page.url, "async")
    else:

        @crawler.default()
        def visit(page: Page) -> Iterator[Any]:
            yield {"url": page.url}
            yield page.follow("a")
            act(page.url, "plain")

    @crawler.pipeline
    def pipe(item: dict[str, str]) -> dict[str, str]:
        act(item["url"], "pipeline")
        return item

    @crawler.request_hook
    def ask(request: OutgoingRequest) -> OutgoingRequest:
        act(request.url, "request hook")
        return request

    @crawler.link_hook
    def follow(link: Link) -> Link:
        act(link.url, "link hook")
        return link

    result = crawl(crawler, PAGES)
    failed = f"{A}/" if kind == "link hook" else f"{A}/b"
    assert list(result.failed) == [failed]
    assert f": {type(raised).__name__}" in result.failed[failed]
    assert result.failed[failed].startswith(kind if "hook" in kind else "handler")
    assert len(set(result.requested)) == len(result.requested)  # it is not fetched again
    assert len(result.items.get("item", [])) == (0 if kind == "link hook" else 1)


def test_a_thread_cannot_pretend_to_be_interrupted() -> None:
    crawler = Crawler(f"{A}/b")

    @crawler.default()
    def visit(page: Page) -> None:
        raise KeyboardInterrupt

    assert "KeyboardInterrupt" in crawl(crawler, PAGES).failed[f"{A}/b"]


@named
async def test_the_start_fails(raised: BaseException, tmp_path: Path) -> None:
    crawler = Crawler()

    @crawler.start
    async def start() -> AsyncIterator[str]:
        yield f"{A}/b"
        raise raised

    @crawler.default()
    def visit(page: Page) -> None: ...

    done = await run(crawler, PAGES, tmp_path)
    assert [dead.key for dead in done.dead] == ["crawler.start"]
    assert done.order == [f"{A}/"]


@named
@pytest.mark.parametrize("when", ["before the first page", "when it was closed"])
async def test_the_lifespan_fails(raised: BaseException, when: str, tmp_path: Path) -> None:
    @asynccontextmanager
    async def opened() -> AsyncIterator[None]:
        if when == "before the first page":
            raise raised
        yield
        raise raised

    crawler = Crawler(lifespan=opened)

    @crawler.default()
    def visit(page: Page) -> None: ...

    if when == "before the first page":
        with pytest.raises(LifespanFailed, match=f"{when}: .*{type(raised).__name__}"):
            await run(crawler, PAGES, tmp_path)
    else:
        done = await run(crawler, PAGES, tmp_path)
        assert done.stats.errors["lifespan"] == 1


@named
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_the_sink_ends_the_run(
    raised: BaseException, kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    store = None
    if kind == "postgres":
        database: str = request.getfixturevalue("database")
        store = f"{database}&schema=crawl" if "?" in database else f"{database}?schema=crawl"

    def write(connection: sqlite3.Connection, items: object) -> None:
        raise raised

    async def write_async(connection: psycopg.AsyncConnection, items: object) -> None:
        raise raised

    crawler = Crawler(sink=write if kind == "sqlite" else write_async)

    @crawler.default()
    def visit(page: Page) -> list[dict[str, str]]:
        return [{"url": page.url}]

    with pytest.raises(SinkFailed, match=type(raised).__name__):
        await run(crawler, PAGES, tmp_path, store=store)
