"""`swath extract`: handlers over the archive give what they gave in the crawl, without a network."""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from swath.cli.extract_command import ExtractCommand
from swath.core.errors import UsageError
from swath.crawl import Crawler, Page
from swath.crawl.handlers import code, replay
from tests.crawl.driving import swath_command
from tests.crawl.handlers.running import Answer, Crawled, run
from tests.crawl.handlers.test_run import SHOP, A, make_shop

NAME = "shop:crawler"
Extract = Callable[..., Any]


@pytest.fixture
def extract(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Extract:
    """Run the command with a crawler; return its exit code and the items by kind."""

    async def extract(crawler: Crawler | None, **options: Any) -> tuple[int, Mapping[str, list[dict[str, Any]]]]:
        monkeypatch.setattr(code, "_provided", {NAME: crawler})
        folder = tmp_path / "extracted"
        given: dict[str, Any] = {
            "run": None if crawler is None else NAME, "select": [], "handler": None,
            "all_visits": False, "items": str(folder / "items.jsonl"), **options,
        }  # fmt: skip
        done = await ExtractCommand(str(tmp_path / "out"), None, **given).run()
        found: dict[str, list[dict[str, Any]]] = {}
        for path in sorted(folder.iterdir()):
            kind = path.stem.removeprefix("items").removeprefix("-")
            found[kind] = [json.loads(line) for line in path.read_text().splitlines()]
            path.unlink()
        return done, found

    return extract


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def in_order(items: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    return {kind: sorted(found, key=lambda item: str(item["_id"])) for kind, found in items.items()}


async def test_a_replay_gives_the_items_of_the_crawl(
    extract: Extract, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the same ids: the payload of the link and the handler that it named are in the page list."""
    crawled = await run(make_shop(), SHOP, out)
    done, items = await extract(make_shop())
    assert done == 1  # the handler of one page fails again
    said = capsys.readouterr().out.splitlines()
    assert {"pages\t5", f"items\t{sum(map(len, items.values()))}", "failed\t1"} <= set(said)
    assert set(items) == {"Book", "item"}
    assert in_order(items) == in_order(crawled.items)


async def test_handler_chooses_pages_by_their_present_handler(extract: Extract, out: Path) -> None:
    await run(make_shop(), SHOP, out)
    seen: list[str] = []
    crawler = Crawler()

    @crawler.handler(r"/page-")
    def later(page: Page) -> None:
        seen.append(page.url)

    @crawler.default()
    def others(page: Page) -> None:
        seen.append("another page")

    assert await extract(crawler, handler="later") == (0, {"": []})
    assert seen == [f"{A}/page-2"]
    with pytest.raises(UsageError, match="--handler latr: shop:crawler has no such handler; did you mean later"):
        await extract(crawler, handler="latr")
    with pytest.raises(UsageError, match="has no such handler; it has later, others"):
        await extract(crawler, handler="x")


async def test_a_body_that_another_url_had_is_found(extract: Extract, out: Path) -> None:
    crawler = Crawler()

    @crawler.default(links="scope")
    def titles(page: Page) -> Iterator[dict[str, Any]]:
        yield {"title": page.css("h1").text()}

    same = "<h1>T</h1><a href=/1>1</a><a href=/2>2</a>"
    crawled = await run(crawler, {f"{A}/": same, f"{A}/1": same, f"{A}/2": same}, out)
    assert sum("duplicate_of" in page for page in crawled.pages) == 2
    assert [item["title"] for item in (await extract(crawler))[1][""]] == ["T"] * 3


async def test_pages_without_a_record_and_without_a_handler_are_counted(
    extract: Extract, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answers: dict[str, Answer] = {**SHOP, f"{A}/page-2": "<meta name=robots content=noarchive>"}
    await run(make_shop(), answers, out)
    crawler = Crawler()

    @crawler.handler("/$|page")
    def some(page: Page) -> None: ...

    assert (await extract(crawler))[0] == 0
    file = f"item file\t{out.parent}/extracted/items.jsonl, 0 items\n"
    assert capsys.readouterr().out == f"pages\t3\nitems\t0\nnot archived\t1\n{file}"
    other = Crawler()
    other.handler("page-2")(lambda_like)
    await extract(other)
    assert capsys.readouterr().out == f"pages\t0\nitems\t0\nwithout a handler\t3\nnot archived\t1\n{file}"


def lambda_like(page: Page) -> None:
    """Yields nothing."""


async def crawl_twice(out: Path) -> Crawled:
    """A page that fails, and is fetched again with --retry-failed."""
    import swath
    from swath.crawl.failed_pages import retry_failed_pages
    from tests.crawl.handlers.running import make_settings

    crawler = make_shop()
    await run(crawler, {f"{A}/": f"<article><a href={A}/catalogue/z_3/>"} | {f"{A}/catalogue/z_3/": "no title"}, out)
    async with swath.open(make_settings(out).store_url, create=False) as frontier:
        await retry_failed_pages(frontier)
    return await run(crawler, {f"{A}/catalogue/z_3/": "<h1>Z"}, out)


async def test_the_last_visit_counts_unless_all_are_asked_for(extract: Extract, out: Path) -> None:
    crawled = await crawl_twice(out)
    assert [book["title"] for book in crawled.items["Book"]] == ["Z"]
    done, items = await extract(make_shop())
    assert (done, [book["title"] for book in items[""]]) == (0, ["Z"])
    assert in_order({"Book": items[""]}) == in_order(crawled.items)
    done, items = await extract(make_shop(), all_visits=True)
    assert (done, [book["title"] for book in items[""]]) == (1, ["Z"])


def damage(out: Path) -> None:
    (warc,) = out.glob("swath-*.warc.gz")
    warc.write_bytes(b"\0" * warc.stat().st_size)


async def test_a_retry_and_a_damaged_record_are_failures(
    extract: Extract, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await run(make_shop(), {f"{A}/": "x"}, out)
    impatient = Crawler()

    @impatient.default()
    def again(page: Page) -> None:
        page.retry(after=1, reason="no")

    assert (await extract(impatient))[0] == 1
    assert f"{A}/: again: asks for another fetch: no" in capsys.readouterr().err
    damage(out)
    assert (await extract(make_shop()))[0] == 1
    assert "is damaged at byte" in capsys.readouterr().err


async def test_selectors_can_be_given_later(extract: Extract, out: Path) -> None:
    await run(make_shop(), SHOP, out)
    done, items = await extract(None, select=["title=h1"])
    assert (done, sorted(item["title"] for item in items[""])) == (0, ["X", "Y"])
    with pytest.raises(UsageError, match="give the code to run, with --run module:name or --select name=selector"):
        await extract(None)
    with pytest.raises(UsageError, match=r"the name must end in \.jsonl"):
        await extract(None, select=["title=h1"], items="x.txt")


async def test_the_command_prints_items_without_a_file(out: Path) -> None:
    await run(make_shop(), SHOP, out)
    ran = swath_command("extract", "--out", str(out), "--select", "title=h1")
    assert (ran.code, ran.err) == (0, "pages 5, items 2\n")
    assert sorted(json.loads(line)["title"] for line in ran.out.splitlines()) == ["X", "Y"]


@pytest.mark.parametrize(("pages", "size"), [(2, 10**6), (64, 1), (1, 10**6)])
async def test_pages_are_handled_in_the_order_of_the_list_in_batches_of_any_size(
    extract: Extract, out: Path, monkeypatch: pytest.MonkeyPatch, pages: int, size: int
) -> None:
    monkeypatch.setattr(replay, "READ_AT_ONCE", pages)
    monkeypatch.setattr(replay, "READ_BYTES", size)
    crawled = await run(make_shop(), SHOP, out)
    crawler = Crawler()

    @crawler.default()
    def name(page: Page) -> list[dict[str, str]]:
        return [{"url": page.url}]

    done, items = await extract(crawler)
    assert (done, [item["url"] for item in items[""]]) == (0, [page["url"] for page in crawled.pages])
