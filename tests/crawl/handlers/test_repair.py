"""`swath extract --failed`: pages whose handler failed are settled from the archive, each item exactly once (INV-5)."""

import asyncio
import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import swath
from swath import DeadItem, Status
from swath.cli.export import Selection
from swath.cli.repair_command import RepairCommand
from swath.core.errors import UsageError
from swath.crawl import Crawler, Follow, Page, Request
from swath.crawl.archive import index
from swath.crawl.archive.item_files import list_kinds, read_item_lines
from swath.crawl.archive.lookup import find_captures, find_lines
from swath.crawl.failed_pages import retry_failed_pages
from swath.crawl.handlers import code
from swath.crawl.job import count_pages
from swath.crawl.repair import CrawlRepair
from tests.crawl.archives import check_warc_indexes
from tests.crawl.driving import environment, swath_command
from tests.crawl.handlers import repair_spider
from tests.crawl.handlers.running import Answer, Crawled, make_settings, run
from tests.crawl.handlers.test_run import SHOP, A, make_shop, store

__all__ = ["store"]
NAME = "shop:crawler"
Z = f"{A}/catalogue/z_3/"
SECONDS = 60.0


def make_fixed_shop() -> Crawler:
    crawler = Crawler(f"{A}/")

    @crawler.handler(r"/catalogue/")
    async def book(page: Page) -> AsyncIterator[dict[str, Any] | Follow]:
        yield {"title": page.css("h1").text(), "payload": page.payload, "depth": page.depth}
        yield Follow(["/catalogue/x_1/", "/catalogue/new_4/", "http://b.example/"], to="book", payload=7)

    @crawler.default()
    def listing(page: Page) -> None: ...

    return crawler


Repair = Callable[..., Any]


@pytest.fixture
def repair(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Repair:
    """Run the command with a crawler and return its exit code."""

    async def repair(crawler: Crawler, **options: Any) -> int:
        monkeypatch.setattr(code, "_provided", {NAME: crawler})
        given: dict[str, Any] = {"run": NAME, "select": [], "handler": None, "items": None, "store": None, **options}
        return await RepairCommand(str(tmp_path / "out"), **given).run()

    return repair


class Left:
    """What a crawl left, read from its frontier and its directory."""

    status: Status
    committed: Mapping[str, int]
    dead: Mapping[str, DeadItem]
    pages: int
    items: list[dict[str, Any]]
    lines: list[dict[str, Any]]  # the last one of each page

    @classmethod
    async def read(cls, out: Path, store: str | None) -> "Left":
        left = cls()
        async with swath.open(make_settings(out, store=store).store_url, create=False) as frontier:
            assert (await frontier.check()).ok
            left.status, left.committed = await frontier.status(), await frontier.outputs()
            left.dead = {dead.key: dead async for dead in frontier.dead()}
            left.pages = await count_pages(frontier)
        kinds = list_kinds(out, left.committed)
        left.items = [json.loads(line) for kind in kinds for line in read_item_lines(out, left.committed, kind)]
        lines = Selection().select(out, left.committed)
        left.lines = [line for line in lines if not line["url"].endswith("/robots.txt")]
        return left

    def line(self, url: str) -> Mapping[str, Any]:
        (line,) = [line for line in self.lines if line["url"] == url]
        return line


def read_ids(folder: Path) -> Counter[str]:
    """Count the ids of the items in the files that `--items all.jsonl` wrote."""
    lines = [line for path in folder.glob("all*.jsonl") for line in path.read_text().splitlines()]
    return Counter(json.loads(line)["_id"] for line in lines)


async def test_a_repaired_page_is_done_and_its_links_are_queued(
    repair: Repair, store: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    crawled = await run(make_shop(), SHOP, out, store=store)
    (failed,) = crawled.dead
    assert await repair(make_fixed_shop(), store=store, items=str(tmp_path / "all.jsonl")) == 0
    assert capsys.readouterr().out == (
        f"repaired\t1\nitems\t1\nrequests\t2\nBook file\t{tmp_path}/all-Book.jsonl, 2 items\n"
        f"item file\t{tmp_path}/all-item.jsonl, 3 items\n"
    )
    left = await Left.read(out, store)
    assert left.dead == {}
    assert left.pages == len(crawled.pages) == len(left.lines)
    (item,) = [item for item in left.items if item["_url"] == Z]
    assert (item["title"], item["payload"], item["depth"]) == (None, {"page": f"{A}/page-2"}, 2)
    assert len(left.items) == 1 + sum(map(len, crawled.items.values()))
    line = left.line(Z)
    assert "handler_error" not in line
    assert line == {
        **{name: value for name, value in crawled.page(Z).items() if name != "handler_error"},
        "repaired": line["repaired"],
    }
    assert read_ids(tmp_path) == Counter(item["_id"] for item in left.items)
    # The new page is fetched by the next crawl, within the scope, and known pages are not.
    again = await run(make_fixed_shop(), {f"{A}/catalogue/new_4/": "<h1>New"}, out, store=store)
    assert again.order == [f"{A}/catalogue/new_4/"]
    (new,) = [item for item in again.items["item"] if item["_url"] == f"{A}/catalogue/new_4/"]
    assert (new["title"], new["payload"], new["depth"]) == ("New", 7, 3)
    assert failed.key == Z


async def test_pages_of_two_hosts_with_one_key_are_repaired_each(repair: Repair, tmp_path: Path) -> None:
    """INV-7: a key is unique in its lane only."""
    urls = [f"http://{host}.example/search" for host in ("b", "c")]

    def make(*, fails: bool) -> Crawler:
        crawler = Crawler()

        @crawler.handler("/search")
        def search(page: Page) -> list[dict[str, str]]:
            if fails:
                raise ValueError
            return [{"url": page.url}]

        @crawler.default()
        def listing(page: Page) -> Iterator[Request]:
            for url in urls:
                yield Request(url, key="poetry", any_host=True)

        return crawler

    out = tmp_path / "out"
    await run(make(fails=True), {f"{A}/": "", **dict.fromkeys(urls, "")}, out)
    assert await repair(make(fails=False)) == 0
    left = await Left.read(out, None)
    assert left.dead == {}
    assert sorted((item["url"], item["_url"]) for item in left.items) == [(url, url) for url in urls]
    assert sorted(line["url"] for line in left.lines if line.get("key") == "poetry") == urls


async def test_the_line_of_a_repair_is_not_a_capture(repair: Repair, tmp_path: Path) -> None:
    out = tmp_path / "out"
    await run(make_shop(), SHOP, out)
    assert await repair(make_fixed_shop()) == 0
    committed = (await Left.read(out, None)).committed
    before = find_captures(out, committed, Z)
    assert len(before) == 1
    assert ["repaired" in line for line in find_lines(out, committed, Z)] == [False, True]
    assert sum(Z in line for line in index.read_cdxj_lines(out, committed)) == 1
    await asyncio.to_thread(index.write_index, out, committed)
    assert sum(Z in line for line in (out / index.FILE).read_text().splitlines()) == 1
    check_warc_indexes(out)
    shown = swath_command("extract", "--out", str(out), "--select", "title=p", "--all")
    assert sum(json.loads(line)["_url"] == Z for line in shown.out.splitlines()) == 1


async def test_a_page_that_fails_again_stays_dead_with_the_new_reason(
    repair: Repair, store: str | None, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    crawled = await run(make_shop(), SHOP, out, store=store)
    other = make_shop()

    def fails(page: Page) -> None:
        raise OverflowError("new")

    object.__setattr__(other.handlers["book"], "function", fails)
    assert await repair(other, store=store) == 1
    left = await Left.read(out, store)
    assert left.dead[Z].reason.startswith("handler: book: OverflowError: new (test_repair.py:")
    assert "OverflowError: new" in (left.dead[Z].error or "")
    assert left.line(Z)["handler_error"] == left.dead[Z].reason.removeprefix("handler: ")
    assert len(left.items) == sum(map(len, crawled.items.values()))
    assert await repair(make_fixed_shop(), store=store) == 0
    assert (await Left.read(out, store)).dead == {}


async def test_pages_that_failed_otherwise_or_were_reopened_are_left_alone(repair: Repair, tmp_path: Path) -> None:
    out = tmp_path / "out"
    away = f"{A}/away"
    seeds = [f"{A}/", "http://unknown.invalid/"]
    answers: dict[str, Answer] = {**SHOP, away: (500, "")}
    await run(make_shop(), answers, out, seeds=[*seeds, away], retries=0)
    assert await repair(make_fixed_shop(), handler="listing") == 0
    assert Z in (await Left.read(out, None)).dead
    async with swath.open(make_settings(out).store_url) as frontier:
        await retry_failed_pages(frontier)
    before = await Left.read(out, None)
    assert before.status.ready + before.status.delayed >= 1
    assert await repair(make_fixed_shop()) == 0
    after = await Left.read(out, None)
    assert (after.status.ready, after.status.done) == (before.status.ready, before.status.done)
    assert len(after.items) == len(before.items)


async def test_a_page_that_is_reopened_while_its_handler_runs_is_left_out(tmp_path: Path) -> None:
    """The others of its batch are settled, and what it yielded is not in the output."""
    out = tmp_path / "out"
    await run(repair_spider.make_crawler(broken=True), repair_spider.make_pages(), out, name="spider:crawler")
    settings = make_settings(out)
    async with swath.open(settings.store_url) as frontier:
        reopened = f"{A}/3"

        class Interfering(CrawlRepair):
            async def _settle(self, pages: Any, output: Any) -> None:
                await frontier.reopen(reopened)
                await super()._settle(pages, output)

        crawler = code.CrawlCode("spider:crawler", repair_spider.make_crawler(broken=False), "2")
        summary = await Interfering(settings, frontier, crawler).run(lambda page: True)
        assert (summary.repaired, summary.not_dead) == (repair_spider.PAGES - 1, 1)
    left = await Left.read(out, None)
    assert len(left.items) == 2 * (repair_spider.PAGES - 1)
    assert reopened not in {item["_url"] for item in left.items}
    assert "handler_error" in left.line(reopened)


async def test_a_page_that_dies_again_after_the_start_is_left_alone(tmp_path: Path) -> None:
    """The line of its new visit is not among those that are read, so the items would be those of the earlier one."""
    out = tmp_path / "out"
    await run(make_shop(), SHOP, out)
    async with swath.open(make_settings(out).store_url) as frontier:

        class Late(CrawlRepair):
            async def _make_link_filter(self) -> Any:
                assert await frontier.reopen(Z) == 1
                claim = await frontier.claim()
                assert claim is not None
                await claim.settle([item.dead(reason="handler: again") for item in claim.items])
                return await super()._make_link_filter()

        late = Late(make_settings(out), frontier, code.CrawlCode(NAME, make_fixed_shop(), "2"))
        summary = await late.run(lambda page: True)
        assert (summary.repaired, summary.not_dead) == (0, 1)
    assert (await Left.read(out, None)).dead[Z].reason == "handler: again"


async def test_a_handler_with_links_scope_adds_the_usual_links(repair: Repair, tmp_path: Path) -> None:
    def make(*, broken: bool) -> Crawler:
        crawler = Crawler(f"{A}/")

        @crawler.default(links="scope")
        def any_page(page: Page) -> Iterator[dict[str, int]]:
            yield {"n": 1 // (not broken)}

        return crawler

    out = tmp_path / "out"
    await run(make(broken=True), {f"{A}/": "<a href=/1>1</a><a href=/2 rel=nofollow>2</a>"}, out)
    assert await repair(make(broken=False)) == 0
    again = await run(make(broken=False), {f"{A}/1": "<p>"}, out)
    assert again.order == [f"{A}/1"]


async def test_repairs_are_refused_without_a_crawl_and_with_a_handler_less(repair: Repair, tmp_path: Path) -> None:
    await run(make_shop(), SHOP, tmp_path / "out")
    lacking = Crawler()

    @lacking.default()
    def listing(page: Page) -> None: ...

    with pytest.raises(UsageError, match="its pages may wait for the handler 'book', which shop:crawler lacks"):
        await repair(lacking)
    with pytest.raises(UsageError, match="has no such handler; did you mean book"):
        await repair(make_fixed_shop(), handler="boko")
    ran = swath_command("extract", "--failed", "--all", "--out", str(tmp_path / "out"), "--select", "a=a")
    assert (ran.code, ran.err) == (2, "swath: --failed repairs the last visit of each page: leave out --all\n")


def begin(out: Path, store: str | None, *, kill: str = "") -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "swath", "extract", "--failed", "--out", str(out)]
    command += ["--run", "tests.crawl.handlers.repair_spider:crawler", *(["--store", store] if store else [])]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(KILL=kill, REPAIR_BATCH="7")
    )


def finish(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    try:
        out, err = process.communicate(timeout=SECONDS)
    except BaseException:
        process.kill()
        process.communicate()
        raise
    return process.returncode, out, err


async def crawl_broken(out: Path, store: str | None) -> Crawled:
    name = "tests.crawl.handlers.repair_spider:crawler"
    crawled = await run(
        repair_spider.make_crawler(broken=True), repair_spider.make_pages(), out, store=store, name=name
    )
    assert len(crawled.dead) == repair_spider.PAGES
    return crawled


async def check_repaired(out: Path, store: str | None) -> None:
    left = await Left.read(out, store)
    assert sorted(item["part"] for item in left.items) == sorted(
        f"{n}.{part}" for n in range(repair_spider.PAGES) for part in (0, 1)
    )
    assert left.dead == {}
    assert left.pages == repair_spider.PAGES + 1
    assert left.status.ready + left.status.inbox == repair_spider.PAGES  # one link of each page
    assert not any("handler_error" in line for line in left.lines)
    assert measure(out) == left.committed


def measure(out: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in out.glob("*.gz")}


async def test_every_item_is_there_once_after_kills(store: str | None, tmp_path: Path) -> None:
    out = tmp_path / "out"
    await crawl_broken(out, store)
    for kill in ("handler:9", "write:1", "settled:2"):
        code, _, err = await asyncio.to_thread(finish, begin(out, store, kill=kill))
        assert code == -signal.SIGKILL, err
    code, _, err = await asyncio.to_thread(finish, begin(out, store))
    assert code == 0, err
    await check_repaired(out, store)


async def test_two_repairs_at_once_settle_each_page_once(store: str | None, tmp_path: Path) -> None:
    """Each has output files of its own, and the store refuses what the other has settled."""
    out = tmp_path / "out"
    await crawl_broken(out, store)
    both = [begin(out, store), begin(out, store)]
    ended = [await asyncio.to_thread(finish, process) for process in both]
    assert [code for code, _, _ in ended] == [0, 0], ended
    await check_repaired(out, store)


async def test_a_repair_while_the_crawl_has_its_files_open(repair: Repair, tmp_path: Path) -> None:
    from swath.crawl.archive.output import CrawlOutput
    from swath.crawl.workspace import get_output_name

    out = tmp_path / "out"
    await run(make_shop(), SHOP, out)
    committed = (await Left.read(out, None)).committed
    output = CrawlOutput(out, unique=get_output_name(out, 0), warc_size=1_000_000, about={})
    try:
        output.restore(committed)
        assert await repair(make_fixed_shop()) == 0
    finally:
        output.close()
    left = await Left.read(out, None)
    assert left.dead == {}
    assert {name for name in left.committed if "_10000." in name} == left.committed.keys() - committed.keys()
