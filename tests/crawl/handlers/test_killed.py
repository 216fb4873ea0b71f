"""INV-5 for items: every item is in the output exactly once per visit, through SIGKILL at seeded points."""

import asyncio
import gzip
import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from swath.testing.web import DemoBook, Web, WebProcess, list_books, spawn
from swath.testing.web.shop import MAX_RESULTS
from tests.crawl.archives import archived_urls, check_records
from tests.crawl.driving import crawl_words, environment
from tests.crawl.handlers.running import read_frontier
from tests.crawl.handlers.search_spider import QUERIES

SOAK = os.environ.get("SWATH_SOAK") == "1"
SEEDS = [int(os.environ["SWATH_SEED"])] if "SWATH_SEED" in os.environ else range(1, 11) if SOAK else [1]
POINTS = ("handler", "write", "settled", "export")  # in this order: only a complete crawl exports all of its items
POINTS_OF_STORE = {"sqlite": POINTS, "postgres": ("handler", "settled")}  # all of them on both stores with `make soak`
KILLS = 12
WEB = Web(hosts=1, pages=1, faults=False, shops=3, books=21)
SECONDS = 100.0


@pytest.fixture(scope="module")
def spawned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebProcess]:
    with spawn(WEB, log=tmp_path_factory.mktemp("web") / "requests.jsonl") as spawned:
        yield spawned


def run(words: list[str], *, kill: str = "") -> tuple[int, str]:
    """Run a crawl that kills itself at a point, in a process group of its own."""
    command = [sys.executable, "-m", "swath", *words]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        env=environment(KILL=kill),
    )  # fmt: skip
    try:
        _, err = process.communicate(timeout=SECONDS)
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise
    return process.returncode, err


def _list_fields(book: DemoBook) -> dict[str, Any]:
    return {name: value for name, value in asdict(book).items() if name != "url"}


def check_items(out: Path, exported: Path) -> None:
    books = {book.url: _list_fields(book) for book in list_books(WEB)}
    found: dict[str, list[dict[str, Any]]] = {"Book": [], "item": []}
    for kind, items in found.items():
        path = exported.with_name(f"{exported.stem}-{kind}{exported.suffix}")
        items += [json.loads(line) for line in path.read_text().splitlines()]
    assert sorted(item["_url"] for item in found["Book"]) == sorted(books)
    for item in found["Book"]:
        expected = books[item["_url"]]
        assert {name: item[name] for name in expected} == expected
    ids = [item["_id"] for items in found.values() for item in items]
    assert len(ids) == len(set(ids)) == 3 * len(books)
    visits = {item["_url"]: item["_id"].rpartition("-")[0] for item in found["Book"]}
    assert sorted(item["_id"] for item in found["item"]) == sorted(
        f"{visit}-{number}" for visit in visits.values() for number in (1, 2)
    )
    archived = {url for url in archived_urls(out) if not url.endswith("/robots.txt")}
    assert archived == {url for url in WEB.urls_to_archive() if "//shop" in url}
    check_records(out)


def kill_until_done(words: list[str], chance: random.Random, *, points: Sequence[str], processes: int) -> int:
    """Run a crawl that is killed at each of the points in turn, and then let it end. Return how often it was killed."""
    killed = 0
    for point in points:
        number = 1 if point == "export" else chance.randint(1, 8)
        whole = "all:" if processes > 1 and chance.random() < 0.5 else ""
        code, err = run(words, kill=f"{whole}{point}:{number}")
        assert code in (0, 1, -signal.SIGKILL), err
        killed += code == -signal.SIGKILL or "exited with code -9" in err
    code, err = run(words)
    assert code == 0, err
    return killed


@pytest.mark.timeout(1_200 if SOAK else 240)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_every_item_is_there_exactly_once(
    kind: str, seed: int, spawned: WebProcess, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    processes = chance.randint(1, 4) if SOAK else {"sqlite": 1, "postgres": 2}[kind]
    options = [
        "--run",
        "tests.crawl.handlers.shop_spider:crawler",
        "--items",
        str(tmp_path / "items.jsonl"),
        "--lease",
        "1s",
    ]
    options += ["--processes", str(processes)]
    store = None
    if kind == "postgres":
        database: str = request.getfixturevalue("database")
        store = f"{database}&schema=crawl" if "?" in database else f"{database}?schema=crawl"
        options += ["--store", store]
    words = crawl_words(spawned, tmp_path / "out", *options, urls=WEB.shop_seeds)
    points = sorted(chance.choices(POINTS, k=KILLS), key=POINTS.index) if SOAK else POINTS_OF_STORE[kind]
    assert kill_until_done(words, chance, points=points, processes=processes) > 1
    check_items(tmp_path / "out", tmp_path / "items.jsonl")
    committed = asyncio.run(read_frontier(tmp_path / "out", store))
    assert {path.name: path.stat().st_size for path in (tmp_path / "out").glob("*.gz")} == committed


@pytest.mark.timeout(240)
@pytest.mark.parametrize("seed", SEEDS)
def test_items_of_posts_are_there_exactly_once(seed: int, spawned: WebProcess, tmp_path: Path) -> None:
    """A request that was interrupted reaches the server twice, and its page is settled once."""
    chance = random.Random(seed)
    out, exported = tmp_path / "out", tmp_path / "items.jsonl"
    options = ["--run", "tests.crawl.handlers.search_spider:crawler", "--items", str(exported), "--lease", "1s"]
    words = crawl_words(spawned, out, *options, urls=WEB.shop_seeds)
    before = len(spawned.requests)
    assert kill_until_done(words, chance, points=POINTS[:3] if SOAK else ("handler", "write"), processes=1) > 1
    searches = QUERIES * WEB.shops
    assert sum(request.target == "/search" for request in spawned.requests[before:]) > searches
    items = [json.loads(line) for line in exported.read_text().splitlines()]
    assert len({item["_id"] for item in items}) == len(items)
    found = {(item["_url"], item["query"]): item["titles"] for item in items if "titles" in item}
    titles: dict[str, list[str]] = {}
    for book in list_books(WEB):
        titles.setdefault(book.url.partition("/catalogue")[0], []).append(book.title)
    expected = {
        (f"{shop}/search", number): [title for title in of_shop if f"{number}" in title][:MAX_RESULTS]
        for shop, of_shop in titles.items()
        for number in range(QUERIES)
    }
    assert found == expected
    assert sum("titles" in item for item in items) == searches
    methods = Counter((item["query"], item["method"]) for item in items if "query" in item and "method" in item)
    assert methods == {(number, "POST"): WEB.shops for number in range(QUERIES)}
    books = Counter((item["book"], item["method"]) for item in items if "book" in item)
    assert books == {(book.url, method): 1 for book in list_books(WEB) for method in ("GET", "POST")}
    lists = [gzip.decompress(path.read_bytes()) for path in out.glob("pages-*")]
    lines = [json.loads(line) for text in lists for line in text.splitlines()]
    posts = [line["key"] for line in lines if line.get("method") == "POST"]
    assert len(posts) == len(set(posts)) == searches + 2 * WEB.shops
    check_records(out)
