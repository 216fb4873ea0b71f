"""INV-5 for pages that are fetched with POST: their items are in the output exactly once, through SIGKILL."""

import gzip
import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from swath.testing.web import WebProcess, list_books, spawn
from swath.testing.web.shop import MAX_RESULTS
from tests.crawl.archives import check_records
from tests.crawl.driving import crawl_words
from tests.crawl.handlers.search_spider import QUERIES
from tests.crawl.handlers.test_killed import SEEDS, SOAK, WEB, kill_until_done


@pytest.fixture(scope="module")
def spawned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebProcess]:
    with spawn(WEB, log=tmp_path_factory.mktemp("web") / "requests.jsonl") as spawned:
        yield spawned


@pytest.mark.timeout(240)
@pytest.mark.parametrize("seed", SEEDS)
def test_items_of_posts_are_there_exactly_once(seed: int, spawned: WebProcess, tmp_path: Path) -> None:
    """A request that was interrupted reaches the server twice, and its page is settled once."""
    chance = random.Random(seed)
    out, exported = tmp_path / "out", tmp_path / "items.jsonl"
    options = ["--run", "tests.crawl.handlers.search_spider:crawler", "--items", str(exported), "--lease", "1s"]
    words = crawl_words(spawned, out, *options, urls=WEB.shop_seeds)
    before = len(spawned.requests)
    assert (
        kill_until_done(
            words,
            chance,
            points=("handler", "write", "settled") if SOAK else ("handler", "write"),
            processes=1,
            check=lambda: None,
        )
        > 1
    )
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
