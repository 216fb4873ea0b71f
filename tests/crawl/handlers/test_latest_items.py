"""`swath export --items --latest`: only the items of the last visit of each page, whatever that visit yielded."""

import csv
import json
import random
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

import swath
from swath.cli.item_export import export_items
from swath.core.errors import UsageError
from swath.crawl import Crawler, Page
from swath.crawl.archive import latest_items
from swath.crawl.archive.latest_items import select_latest
from swath.crawl.handlers.collector import format_time, make_visit_id
from tests.crawl.handlers.running import Answer, make_settings, read_frontier, run

A = "http://a.example"


def make_line(url: str, time: float, kind: str) -> bytes:
    fetched_at = format_time(datetime.fromtimestamp(time, UTC))
    item = {"kind": kind, "_url": url, "_fetched_at": fetched_at, "_id": f"{make_visit_id(url, fetched_at)}-0"}
    return json.dumps(item).encode() + b"\n"


def test_pages_of_two_hosts_may_have_the_same_key(tmp_path: Path) -> None:
    pages = [{"url": f"https://{host}.example/", "key": "poetry", "time": time, "status": 200}
             for time, host in enumerate("abb", 1_800_000_000)]  # fmt: skip
    items = [make_line("poetry", time, "item") for time in range(1_800_000_000, 1_800_000_003)]
    selected = select_latest(pages, {"item": lambda: iter(items)}, directory=tmp_path)
    assert list(selected["item"]()) == [items[0], items[2]]


@pytest.mark.parametrize("spooled", [100, latest_items.SPOOLED])
def test_items_of_the_last_visit_are_selected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spooled: int) -> None:
    """Compared with a model that keeps everything in memory."""
    monkeypatch.setattr(latest_items, "SPOOLED", spooled)  # small: on disk
    monkeypatch.setattr(latest_items, "READ_AT_ONCE", 3)
    chance = random.Random(1)
    pages: list[dict[str, Any]] = []
    items: dict[str, list[bytes]] = {"Book": [], "item": []}
    last: dict[str, float] = {}
    for _ in range(2_000):
        url, time = f"{A}/{chance.randrange(500)}", 1_800_000_000 + chance.randrange(10**9) / 1_000_003
        match chance.choice(["visit", "visit", "visit", "failed fetch", "robots"]):
            case "failed fetch":
                pages.append({"url": url, "time": time, "failed": "timeout"})
                continue
            case "robots":
                pages.append({"url": url, "time": time, "status": 200, "kind": "robots"})
                continue
        pages += [{"url": url, "time": time, "status": 200}] * chance.choice([1, 1, 2])  # a repair adds a line
        last[url] = max(time, last.get(url, time))
        for kind in chance.choice([[], ["Book"], ["Book", "item", "item"]]):
            items[kind].append(make_line(url, time, kind))
    expected = {
        kind: [line for line in lines if line in {make_line(url, time, kind) for url, time in last.items()}]
        for kind, lines in items.items()
    }
    sources = {kind: partial(iter, lines) for kind, lines in items.items()}
    selected = select_latest(pages, sources, directory=tmp_path)
    assert {kind: list(read()) for kind, read in selected.items()} == expected
    assert sum(map(len, expected.values())) < sum(map(len, items.values()))


@pytest.mark.parametrize("line", [b"{}\n", b"[\n", b'{"_url": "x", "_fetched_at": 1}\n', b"3\n"])
def test_an_item_that_was_changed_by_hand_is_reported(tmp_path: Path, line: bytes) -> None:
    with pytest.raises(UsageError, match="an item of the kind Book does not say which page it is from"):
        select_latest([], {"Book": partial(iter, [line])}, directory=tmp_path)


def make_crawler() -> Crawler:
    crawler = Crawler(f"{A}/")

    @crawler.default(links="scope")
    def titles(page: Page) -> Sequence[Mapping[str, str]]:
        return [{"title": title} for title in page.css("h1").texts()]

    return crawler


async def crawl(out: Path, store: str, answers: Mapping[str, Answer]) -> None:
    """Crawl some pages, or fetch them again."""
    async with swath.open(make_settings(out, store=store).store_url) as frontier:
        await frontier.reopen(list(answers))
    await run(make_crawler(), answers, out, store=store)


async def test_pages_that_were_visited_again_on_several_machines(tmp_path: Path, database: str) -> None:
    store = f"{database}&schema=crawl" if "?" in database else f"{database}?schema=crawl"
    here, there = tmp_path / "here", tmp_path / "there"
    links = "<a href=/kept>.</a><a href=/empty>.</a><a href=/gone>.</a><a href=/new>.</a>"
    first = {f"{A}/{name}": f"<h1>old {name}</h1>" for name in ("kept", "empty", "gone", "new")}
    await run(make_crawler(), {f"{A}/": links, **first}, here, store=store)
    later: dict[str, Answer] = {f"{A}/empty": "no title", f"{A}/gone": (404, ""), f"{A}/new": "<h1>new</h1><h1>2</h1>"}
    await crawl(there, store, later)
    directories = [(out, await read_frontier(out, store)) for out in (there, here)]
    (exported,) = export_items(directories, tmp_path / "all.csv")
    assert exported.items == 6
    for suffix in ("csv", "jsonl", "parquet"):
        (exported,) = export_items(directories, tmp_path / f"x.{suffix}", latest=True)
        assert exported.items == 3
    assert sorted(row["title"] for row in parquet.read_table(tmp_path / "x.parquet").to_pylist()) == TITLES
    with (tmp_path / "x.csv").open(newline="") as file:
        assert sorted(row["title"] for row in csv.DictReader(file)) == TITLES
    lines = (tmp_path / "x.jsonl").read_text().splitlines()
    assert sorted(json.loads(line)["title"] for line in lines) == TITLES


TITLES = ["2", "new", "old kept"]
