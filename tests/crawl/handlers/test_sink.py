"""`Crawler(sink=…)`: items go into a table of the user's, in the transaction that settles their pages (INV-5)."""

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

import swath
from swath import UsageError
from swath.cli.crawl_command import CrawlCommand
from swath.crawl import Crawler, ItemRecord, Page, SinkFailed
from swath.crawl.discard import discard_crawl
from swath.crawl.handlers.code import CrawlCode
from swath.crawl.repair import CrawlRepair
from swath.testing import crawl
from tests.crawl.archives import archived_urls
from tests.crawl.handlers.books import Book
from tests.crawl.handlers.running import make_settings, read_examples, read_frontier, run

A = "http://a.example"
PAGES: dict[str, Any] = {
    f"{A}/": "<h1>A</h1><a href=/b>b</a><a href=/c>c</a><a href=/d>d</a>",
    f"{A}/b": "<h1>B</h1><p class=price_color>£2",
    f"{A}/c": "<h1>A</h1>",
    f"{A}/d": "<h1>D</h1>",
}
CREATE = "CREATE TABLE book (id text PRIMARY KEY, kind text NOT NULL, title text NOT NULL UNIQUE, price text)"


class Table:
    """A table beside the frontier, and the sink for it."""

    def __init__(self, out: Path, database: str | None) -> None:
        self.store = None
        self._out = out
        self._database = database
        self.calls = 0
        if database is not None:
            self.store = f"{database}&schema=crawl" if "?" in database else f"{database}?schema=crawl"
            with psycopg.connect(database) as connection:
                connection.execute(CREATE)

    @property
    def sink(self) -> Callable[..., Any]:
        return self._write_sqlite if self._database is None else self._write_postgres

    def _write_sqlite(self, connection: sqlite3.Connection, items: Sequence[ItemRecord]) -> None:
        self.calls += 1
        connection.execute(CREATE.replace("TABLE", "TABLE IF NOT EXISTS"))
        rows = [(item["_id"], item.kind, item["title"], item["price"]) for item in items]
        connection.executemany("INSERT INTO book VALUES (?, ?, ?, ?)", rows)

    async def _write_postgres(self, connection: psycopg.AsyncConnection, items: Sequence[ItemRecord]) -> None:
        self.calls += 1
        async with connection.cursor() as cursor:
            await cursor.executemany(
                "INSERT INTO book VALUES (%(_id)s, %(kind)s, %(title)s, %(price)s)",
                [{**item, "kind": item.kind} for item in items],
            )

    def read(self) -> list[Any]:
        query = "SELECT kind, title, price, id FROM book ORDER BY title"
        if self._database is None:
            with closing(sqlite3.connect(self._out / "frontier.db")) as file:
                return file.execute(query).fetchall()
        with psycopg.connect(self._database) as connection:
            return connection.execute(query).fetchall()


@pytest.fixture(params=["sqlite", "postgres"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    return Table(tmp_path, None if request.param == "sqlite" else request.getfixturevalue("database"))


def make_crawler(sink: Any) -> Crawler:
    crawler = Crawler(f"{A}/", sink=sink)

    @crawler.default()
    def book(page: Page) -> list[Any]:
        return [Book(page.css("h1").must_text(), page.css(".price_color").text()), page.follow("a")]

    return crawler


async def test_items_are_rows_and_a_refused_row_makes_only_its_page_dead(
    table: Table, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    done = await run(make_crawler(table.sink), PAGES, tmp_path, store=table.store)
    rows = table.read()
    assert [row[:3] for row in rows] == [("Book", "A", None), ("Book", "B", "£2"), ("Book", "D", None)]
    assert len({row[3] for row in rows}) == 3
    (dead,) = done.dead
    assert dead.key == f"{A}/c"
    assert dead.reason.startswith("sink: the database refused a row: ")
    assert "unique" in dead.reason.lower()
    assert done.requests == dict.fromkeys(PAGES, 1)
    assert {url for url in archived_urls(tmp_path) if "robots" not in url} == set(PAGES)
    assert done.page(f"{A}/c")["handler_error"].startswith("the database refused a row: ")
    assert (done.stats.errors["sink"], done.stats.items) == (1, {"Book": 3})
    assert f"sink: {dead.reason.removeprefix('sink: ')}; page {A}/c; more" in caplog.text
    assert "page handler" not in caplog.text  # its errors are bugs of swath
    assert done.items == {}
    assert not any(name.startswith("items-") for name in await read_frontier(tmp_path, table.store))


async def test_a_sink_that_fails_ends_the_run_and_a_resume_continues(table: Table, tmp_path: Path) -> None:
    fails = [True]
    write = table.sink

    def fail(connection: Any, items: Any) -> Any:
        if fails:
            raise KeyError("wrong column")
        return write(connection, items)

    async def fail_async(connection: Any, items: Any) -> None:
        if (writing := fail(connection, items)) is not None:
            await writing

    crawler = make_crawler(fail if table.store is None else fail_async)
    with pytest.raises(SinkFailed, match=r"the sink fail\w* failed: KeyError: 'wrong column' \(test_sink.py:\d+\)"):
        await run(crawler, PAGES, tmp_path, store=table.store)
    fails.clear()
    done = await run(crawler, PAGES, tmp_path, store=table.store)
    assert done.summary.stopped_by == "done"
    assert [title for _, title, *_ in table.read()] == ["A", "B", "D"]


async def test_a_plain_sink_that_returns_an_awaitable_is_explained(table: Table, tmp_path: Path) -> None:
    async def write() -> None:
        raise AssertionError

    def forgets(connection: Any, items: Any) -> Any:
        return write()

    with pytest.raises(SinkFailed, match="define it with `async def`"):
        await run(make_crawler(forgets), PAGES, tmp_path, store=table.store)


async def test_a_sink_that_commits_is_explained(table: Table, tmp_path: Path) -> None:
    def commit(connection: sqlite3.Connection, items: object) -> None:
        connection.commit()

    async def commit_async(connection: psycopg.AsyncConnection, items: object) -> None:
        await connection.execute("COMMIT")

    crawler = make_crawler(commit if table.store is None else commit_async)
    with pytest.raises(SinkFailed, match="has ended the transaction: it must not commit"):
        await run(crawler, PAGES, tmp_path, store=table.store)


async def test_a_discarded_crawl_leaves_the_table(table: Table, tmp_path: Path) -> None:
    crawler = make_crawler(table.sink)
    await run(crawler, {f"{A}/": PAGES[f"{A}/"]}, tmp_path, store=table.store)
    await discard_crawl(make_settings(tmp_path, store=table.store))
    assert [title for _, title, *_ in table.read()] == ["A"]


async def test_a_repair_of_a_crawl_with_a_sink_is_refused(tmp_path: Path) -> None:
    async with swath.open("memory:") as frontier:
        repair = CrawlRepair(make_settings(tmp_path), frontier, CrawlCode("shop:crawler", make_crawler(print), "1"))
        with pytest.raises(UsageError, match="the items of shop:crawler go to its sink, which a repair does not fill"):
            await repair.run(lambda page: True)


def test_an_item_file_beside_a_sink_is_refused(tmp_path: Path) -> None:
    code = CrawlCode("shop:crawler", make_crawler(print), "1")
    settings = make_settings(tmp_path, run="shop:crawler", items="x.csv")
    with pytest.raises(UsageError, match=r"--items x\.csv: the items of shop:crawler go to its sink"):
        CrawlCommand(settings, code=code, json=False, quiet=False)


def test_a_crawl_in_memory_does_not_call_the_sink() -> None:
    result = crawl(make_crawler(lambda connection, items: 1 / 0), PAGES)
    assert [book["title"] for book in result.items["Book"]].count("A") == 2
    assert result.failed == {}


async def take_one(items: Any) -> None:
    raise AssertionError


@pytest.mark.parametrize("wrong", [3, take_one, dict])
def test_mistakes_are_found_when_the_crawler_is_made(wrong: Any) -> None:
    with pytest.raises(UsageError, match="sink="):
        Crawler(sink=wrong)


async def test_a_refusal_needs_a_sink() -> None:
    async def handler(item: swath.Item) -> None:
        raise AssertionError

    async with swath.open("memory:") as frontier:
        with pytest.raises(UsageError, match="on_refused= was given without sink="):
            await frontier.run(handler, on_refused=lambda item, output, message: item.dead(reason=message))


async def test_the_documentation_shows_one(tmp_path: Path) -> None:
    (shown,) = (text for text in read_examples() if "sink=" in text)
    names: dict[str, Any] = {}
    exec(shown, names)
    crawler = names["crawler"]
    pages = {"http://books.example/": "<h1>Sapiens</h1>"}
    await run(crawler, pages, tmp_path, seeds=["http://books.example/"])
    with closing(sqlite3.connect(tmp_path / "frontier.db")) as file:
        assert file.execute("SELECT title FROM book").fetchall() == [("Sapiens",)]
