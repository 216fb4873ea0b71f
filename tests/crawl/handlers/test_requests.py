"""Requests with a method, headers and a body: what they are, what identifies them, and what becomes of them."""

import asyncio
import io
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from warcio.archiveiterator import ArchiveIterator

import swath
from swath.cli.show_command import ShowCommand
from swath.core.errors import UsageError
from swath.core.item import Done, Item
from swath.crawl import Crawler, InvalidYield, OutgoingRequest, Page, Request
from swath.crawl.archive import index
from swath.crawl.archive.last_lines import LastLines
from swath.crawl.archive.latest_items import select_latest
from swath.crawl.archive.lookup import find_captures
from swath.crawl.archive.warc_reader import read_response
from swath.crawl.handlers.collector import MAX_STORED
from swath.crawl.handlers.extractor import PageExtractor
from swath.crawl.handlers.replay import Replay
from swath.crawl.handlers.requests import MAX_BODY, check_request
from swath.crawl.http.response import Response
from swath.crawl.links import DATA
from swath.crawl.page_request import get_url, read_request, redirect_request, store_request
from swath.testing import crawl
from tests.crawl.handlers.running import make_settings, run
from tests.crawl.handling import answered, handling

A = "http://a.example"
ONE = Request(f"{A}/")
INVALID: list[tuple[dict[str, Any], str]] = [
    ({"method": "CONNECT"}, "pass a method of HTTP"),
    ({"method": "GET / HTTP/1.1\r\nX: y"}, "pass a method of HTTP"),
    ({"method": 5}, "pass a method of HTTP"),
    ({"body": "x"}, "a GET request has no body: pass method='POST'"),
    ({"method": "HEAD", "form": {"q": "x"}}, "a HEAD request has no body"),
    ({"method": "POST", "body": 5}, "of type int: pass bytes"),
    ({"method": "POST", "body": "x" * (MAX_BODY + 1)}, "100,001 bytes, the limit is 100,000"),
    ({"method": "POST", "body": "ü" * 50_000, "payload": "x" * 190_000}, f"the limit is {MAX_STORED:,}"),
    ({"headers": {"X": "a\r\nHost: b"}}, "is not a valid header"),
    ({"headers": {"X\0": "a"}}, "is not a valid header"),
    ({"headers": {"X: y\r\nZ": "a"}}, "is not a valid header"),
    ({"headers": {"X": "a\0"}}, "is not a valid header"),
    ({"headers": {"X": "ü"}}, "is not a valid header"),
    ({"headers": {"X": ""}}, "is not a valid header"),
    ({"headers": {"X": 5}}, "both must be a str"),
    ({"headers": {"X": "1", "x": "2"}}, "is there twice"),
    ({"headers": [("X", "y")]}, "of type list: pass a dict"),
    ({"headers": {f"X-{number}": "y" for number in range(101)}}, "the limit is 100"),
    ({"headers": {"X": "y" * 16_000}}, "the limit is 16,000"),
    ({"headers": {"Host": "b.example"}}, "Host cannot be set: it follows from the URL"),
    ({"headers": {"content-length": "5"}}, "cannot be set: it follows from the body"),
    ({"headers": {"User-Agent": "me"}}, "use --user-agent"),
    ({"headers": {"Connection": "close"}}, "cannot be set"),
    ({"headers": {"Transfer-Encoding": "chunked"}}, "cannot be set"),
    ({"headers": {"Proxy-Authorization": "x"}}, "cannot be set"),
    ({"key": ""}, "printable"),
    ({"key": "a\nb"}, "printable"),
    ({"key": 5}, "printable"),
    ({"key": "x" * 1_001}, "1,001 bytes, the limit is 1,000"),
]


@pytest.mark.parametrize(("request_", "message"), INVALID, ids=[message for _, message in INVALID])
def test_a_request_that_cannot_be_sent_is_refused_when_it_is_yielded(request_: dict[str, Any], message: str) -> None:
    crawler = Crawler()

    @crawler.default()
    def asking(page: Page) -> Iterator[Request]:
        yield Request("/x", **request_)

    with pytest.raises(InvalidYield) as caught:
        crawler.check(Page.from_html("", url=f"{A}/"))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "given",
    [
        {"method": "POST", "json": {"a": float("nan")}},
        {"method": "POST", "json": object()},
        {"method": "POST", "form": 5},
        {"method": "POST", "body": "\ud800"},
        {"method": "POST", "body": b"x", "form": {"q": "x"}},
    ],
)
def test_a_body_that_cannot_be_encoded_is_refused_at_once(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidYield):
        Request(A, **given)


def test_the_body_of_a_request() -> None:
    form = Request(A, method="post", form={"q": "café & co", "tag": ["a", "b"], "page": 2})
    assert (form.body, form.headers) == (
        b"q=caf%C3%A9+%26+co&tag=a&tag=b&page=2",
        {"Content-Type": "application/x-www-form-urlencoded"},
    )
    assert check_request(form).method == "POST"
    sent = Request(A, method="POST", json={"q": "é"}, headers={"content-type": "application/vnd.api+json"})
    assert (sent.body, sent.headers) == ('{"q":"é"}'.encode(), {"content-type": "application/vnd.api+json"})
    assert Request(A, method="POST", json={"q": 1}) == Request(
        A, method="POST", body='{"q":1}', headers={"Content-Type": "application/json"}
    )
    with pytest.raises(TypeError):
        Request(A, "POST")  # type: ignore[call-arg]


def test_a_key_is_stable_and_of_one_request() -> None:
    def key(**given: Any) -> str:
        request = check_request(Request(f"{A}/x", **given))
        assert not isinstance(request.body, str)
        return store_request(
            request.url, method=request.method, headers=request.headers, body=request.body, key=request.key
        )[0]

    assert key() == key(headers={"X": "y"}) == f"{A}/x"
    assert key(method="POST") == f"POST {A}/x"
    assert key(method="POST", form={"q": "x"}) == f"POST {A}/x 982d025f0bc78e6fb29a44085e571710"
    assert key(method="POST", form={"q": "y"}) != key(method="POST", form={"q": "x"})
    assert key(method="PUT", form={"q": "x"}) == key(method="POST", form={"q": "x"}).replace("POST", "PUT")
    assert key(method="POST", form={"q": "x"}, key="search x") == "search x"


@pytest.mark.parametrize(
    ("method", "status", "method_after"),
    [
        ("POST", 301, "GET"),
        ("POST", 302, "GET"),
        ("POST", 303, "GET"),
        ("POST", 307, "POST"),
        ("POST", 308, "POST"),
        ("PUT", 302, "PUT"),
        ("PUT", 303, "GET"),
        ("DELETE", 303, "GET"),
        ("HEAD", 303, "HEAD"),
        ("GET", 302, "GET"),
    ],
)
@pytest.mark.parametrize(
    ("target", "keeps_headers"),
    [
        (f"{A}/y", True),
        ("https://a.example/y", True),
        ("http://b.example/y", False),
        ("http://a.example:8080/y", False),
        ("http://www.a.example/y", False),
    ],
)
def test_redirects_are_followed_as_browsers_do(
    method: str, status: int, method_after: str, target: str, keeps_headers: bool
) -> None:
    body = b"\xff\0" if method in ("POST", "PUT") else None
    headers = {"Authorization": "secret", "Content-Type": "x/y"}
    key, stored = store_request(f"{A}/x", method=method, headers=headers, body=body, key=None)
    key, stored = redirect_request(Item(key, payload=stored), target, status)
    item = Item(key, payload=stored)
    assert get_url(item) == target
    after = read_request(item)
    expected = {"Authorization": "secret"} if keeps_headers else {}
    if method_after == "GET":
        assert key == target
        assert (None if after is None else (after.method, dict(after.headers), after.body)) == (
            ("GET", expected, b"") if expected else None
        )
        return
    assert after is not None
    assert (after.method, after.body) == (method_after, body or b"")
    assert after.headers == (expected | {"Content-Type": "x/y"} if body else expected)


def test_headers_do_not_leave_tls() -> None:
    key, stored = store_request("https://a.example/", method="GET", headers={"Cookie": "x"}, body=None, key=None)
    assert redirect_request(Item(key, payload=stored), f"{A}/", 302) == (f"{A}/", {})


def make_searcher() -> Crawler:
    crawler = Crawler(f"{A}/")

    @crawler.handler(r"/search")
    async def results(page: Page) -> AsyncIterator[Any]:
        yield {"found": page.text, "method": page.method, "key": page.key, "asked": page.payload}

    @crawler.default()
    def start(page: Page) -> Iterator[Any]:
        for text in ("a", "b", "b"):
            yield Request("/search", method="POST", form={"q": text}, payload=text)
        yield Request("/search", payload="plain")
        yield Request("/search", headers={"X-Token": "1"}, key="search with a header", payload="header")

    return crawler


SEARCH: dict[str, Any] = {
    f"{A}/": "<form action=/search method=post>",
    f"{A}/search": "a page",
    f"POST {A}/search": lambda body: f"found {body.decode()}",
}


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest) -> str | None:
    """The URL of the store; None for the default, SQLite."""
    if request.param == "sqlite":
        return None
    database: str = request.getfixturevalue("database")
    return f"{database}&schema=crawl" if "?" in database else f"{database}?schema=crawl"


def read_records(directory: Path, kind: str) -> list[tuple[str, str, bytes]]:
    """Return the target, first line and whole block of each record of a kind, except those for robots.txt."""
    found = []
    for path in directory.glob("*.warc.gz"):
        for record in ArchiveIterator(io.BytesIO(path.read_bytes()), no_record_parse=True):
            url = record.rec_headers.get_header("WARC-Target-URI") or ""
            if record.rec_type == kind and not url.endswith("/robots.txt"):
                block = record.raw_stream.read()
                found.append((url, block.partition(b"\r\n")[0].decode(), block))
    return found


async def test_pages_with_one_url_are_distinguished_by_their_requests(store: str | None, tmp_path: Path) -> None:
    done = await run(make_searcher(), SEARCH, tmp_path, store=store)
    assert done.requests == {f"{A}/": 1, f"{A}/search": 2, f"POST {A}/search": 2}
    items = {item["asked"]: item for item in done.items["item"]}
    assert {asked: (item["method"], item["found"]) for asked, item in items.items()} == {
        "a": ("POST", "found q=a"),
        "b": ("POST", "found q=b"),
        "plain": ("GET", "a page"),
        "header": ("GET", "a page"),
    }
    assert {item["_url"] for item in items.values()} == {f"{A}/search"}
    assert len({item["_id"] for item in items.values()}) == 4
    lines = {line.get("payload"): line for line in done.pages}
    assert (lines["a"]["url"], lines["a"]["method"]) == (f"{A}/search", "POST")
    assert lines["a"]["key"] == items["a"]["key"] != items["b"]["key"]
    assert {"method", "key"}.isdisjoint(lines["plain"])
    assert ("method" in lines["header"], lines["header"]["key"]) == (False, "search with a header")
    assert len(list(LastLines.find(done.pages).select(map(dict, done.pages)))) == 5
    # The archive has the requests as the server got them.
    assert sorted(block for _, _, block in read_records(tmp_path, "request")) == sorted(done.received)
    assert sum(first == "POST /search HTTP/1.1" for _, first, _ in read_records(tmp_path, "request")) == 2


@pytest.mark.parametrize("indexed", [False, True])
async def test_captures_of_a_url_are_distinguished_by_their_keys(indexed: bool, tmp_path: Path) -> None:
    done = await run(make_searcher(), SEARCH, tmp_path)
    committed = await read_lengths(tmp_path)
    if indexed:
        index.write_index(tmp_path, committed)
    keys = [line["key"] for line in done.pages if line.get("method") == "POST"]
    assert len(keys) == 2
    found = [read_response(tmp_path, find_captures(tmp_path, committed, key)[0]).body for key in keys]
    assert sorted(found) == [b"found q=a", b"found q=b"]
    gets = find_captures(tmp_path, committed, f"{A}/search")
    assert {read_response(tmp_path, entry).body for entry in gets} == {b"a page"}
    assert len(gets) == 2
    lines = list(index.read_cdxj_lines(tmp_path, committed))
    assert sum("?__wb_method=post " in line for line in lines) == 2
    assert lines == sorted(lines)


async def test_handlers_run_again_over_each_answer(tmp_path: Path) -> None:
    crawler = make_searcher()
    done = await run(crawler, SEARCH, tmp_path)
    committed = await read_lengths(tmp_path)
    extractor = PageExtractor(crawler)
    replay = Replay(tmp_path, extractor, limit=1_000_000)
    again = []
    async for _, extraction, _ in replay.run(lambda: index.read_pages(tmp_path, committed), wanted=lambda _: True):
        again += [json.loads(item.line) for item in extraction.items]
    extractor.close()
    assert sorted(again, key=str) == sorted(done.items["item"], key=str)


async def read_lengths(out: Path) -> dict[str, int]:
    async with swath.open(make_settings(out).store_url, create=False) as frontier:
        return await frontier.outputs()


async def test_the_rules_of_the_crawl_hold_for_the_url_of_a_request(tmp_path: Path) -> None:
    """Scope, exclusions, traps, robots.txt and private addresses, although the key is not a URL."""
    crawler = Crawler(f"{A}/", exclude=["/excluded"])

    @crawler.default()
    def start(page: Page) -> Iterator[Any]:
        if page.url == f"{A}/":
            for url in ("/private", "/excluded", "http://b.example/", "/a/a/a/a/a/a/a/a/", "http://10.0.0.1/x"):
                yield Request(url, method="POST", key=f"robots {url}")
            yield Request("http://b.example/y", method="POST", any_host=True, headers={"X-Token": "1"})
        yield {"url": page.url}

    answers: dict[str, Any] = {
        f"{A}/": "",
        f"{A}/robots.txt": "User-agent: *\nDisallow: /private\n",
        "POST http://b.example/y": (307, "", "Location: /z\r\n"),
        "POST http://b.example/z": "z",
    }
    done = await run(crawler, answers, tmp_path)
    assert done.requests == {f"{A}/": 1, "POST http://b.example/y": 1, "POST http://b.example/z": 1}
    assert [item["url"] for item in done.items["item"]] == [f"{A}/", "http://b.example/z"]
    refused = {line["url"]: line for line in done.pages if "excluded" in line}
    assert refused[f"{A}/private"]["excluded"] == "robots"
    assert refused[f"{A}/private"]["key"] == "robots /private"
    assert refused[f"{A}/private"]["method"] == "POST"
    assert done.stats.refused["exclude"] == 1
    assert done.stats.refused["scope"] == 2
    assert sum(done.stats.refused.values()) == 5
    assert b"X-Token: 1" in done.received[-1]


async def test_a_post_that_leads_to_a_page_of_the_crawl(tmp_path: Path) -> None:
    crawler = Crawler(f"{A}/")

    @crawler.default()
    def start(page: Page) -> Iterator[Any]:
        if page.url == f"{A}/":
            yield Request("/search", method="POST", form={"q": "x"}, payload=1, to=start, headers={"X-Token": "1"})
            yield Request("/search", method="POST", form={"q": "x"}, payload=2, key="own")
        yield {"url": page.url, "method": page.method, "payload": page.payload, "key": page.key}

    answers: dict[str, Any] = {
        f"{A}/": "",
        f"POST {A}/search": (303, "", "Location: /results\r\n"),
        f"{A}/results": "found",
    }
    done = await run(crawler, answers, tmp_path)
    assert done.requests == {f"{A}/": 1, f"POST {A}/search": 2, f"{A}/results": 2}
    items = {item["payload"]: (item["method"], item["key"]) for item in done.items["item"]}
    assert items[1] == ("GET", f"{A}/results")
    assert items[2] == ("GET", f"own {A}/results")
    assert sum(b"X-Token: 1" in request for request in done.received) == 2


async def test_a_robots_key_of_a_user_is_a_page() -> None:
    async with handling(lambda url: answered(url, body=b"x")) as (_, handler, actor):
        key, stored = store_request(f"{A}/x", method="POST", headers=None, body=None, key="robots http://a.example")
        outcome = await handler(Item(key, "a.example", payload={"depth": 1, DATA: None, **stored}))
        outcome = await handler(Item(key, "a.example", payload={"depth": 1, DATA: None, **stored}))
        assert actor.asked == [f"{A}/robots.txt", f"{A}/x"]
    assert isinstance(outcome, Done)


async def test_items_of_two_requests_at_the_same_moment_have_ids_of_their_own() -> None:
    crawler = Crawler()

    @crawler.default()
    async def item(page: Page) -> AsyncIterator[Any]:
        yield {"method": page.method}

    handler = crawler.handlers["item"]
    extractor = PageExtractor(crawler)
    ids = []
    for key in ("POST 1", "POST 2", "POST 2"):
        page = Page.from_html("", url=f"{A}/", method="POST", key=key)
        (line,) = (await extractor.extract(handler, page, size=0)).items
        ids.append(json.loads(line.line)["_id"])
    extractor.close()
    assert ids[0] != ids[1] == ids[2]


def test_the_referrer_of_a_page_is_a_url() -> None:
    crawler = Crawler(f"{A}/", depth=2)

    @crawler.default()
    def follow(page: Page) -> Iterator[Any]:
        yield {"url": page.url, "referrer": page.referrer, "depth": page.depth}
        yield Request("/next" if page.url.endswith("/form") else "/form", method="POST", form={"q": page.url})

    answers: dict[Any, Any] = {f"{A}/": "x", ("POST", f"{A}/form"): "x", ("POST", f"{A}/next"): "x"}
    result = crawl(crawler, answers)
    assert [(item["url"], item["referrer"], item["depth"]) for item in result.items["item"]] == [
        (f"{A}/", None, 0),
        (f"{A}/form", f"{A}/", 1),
        (f"{A}/next", f"{A}/form", 2),
    ]
    assert len(result.requested) == 3  # --depth holds


async def test_the_proxy_of_the_crawl_is_that_of_its_requests() -> None:
    seen: list[Any] = []
    async with handling(answered, proxy="http://127.0.0.1:9", robots=False) as (_, handler, actor):
        plain = actor.fetch

        async def fetch(url: str, **given: Any) -> Response:
            seen.append(given["outgoing"])
            return await plain(url)

        actor.fetch = fetch  # type: ignore[method-assign]
        key, stored = store_request(f"{A}/x", method="POST", headers={"X": "y"}, body=b"z", key=None)
        await handler(Item(key, "a.example", payload={"depth": 1, **stored}))
    (outgoing,) = seen
    assert outgoing == OutgoingRequest(f"{A}/x", "POST", {"X": "y"}, b"z", "http://127.0.0.1:9")


async def test_lanes_of_addresses_are_those_of_the_url() -> None:
    async with handling(answered, lane="ip", robots=False) as (_, handler, actor):
        actor.names["a.example"] = ["192.0.2.7"]
        key, stored = store_request(f"{A}/x", method="POST", headers=None, body=b"z", key="own")
        outcome = await handler(Item(key, "a.example", payload={"depth": 1, **stored}))
        assert isinstance(outcome, Done)
        (moved,) = outcome.discovered
        assert isinstance(moved, Item)
        assert (moved.key, moved.lane, get_url(moved)) == ("own", "192.0.2.7", f"{A}/x")
        await handler(moved)
        assert actor.asked == [f"{A}/x"]


def test_show_takes_the_key_of_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    crawler = Crawler(f"{A}/")

    @crawler.default()
    def start(page: Page) -> Iterator[Any]:
        if page.method == "GET":
            yield Request("/search", method="POST", form={"q": "a"})
            yield Request("/search", method="POST", form={"q": "b"}, key="search for b")

    asyncio.run(run(crawler, SEARCH, tmp_path))

    def show(text: str) -> int:
        settings = make_settings(tmp_path)
        return asyncio.run(ShowCommand(settings, "body", time=None, all_captures=False).run(text))

    assert show("search for b") == 0
    assert capsys.readouterr().out == "found q=b"
    assert show(f"{A}/search") == 1
    said = capsys.readouterr().err
    assert "was requested with other methods only" in said
    assert "`swath show 'search for b'`" in said
    key = said.partition(f"`swath show 'POST {A}/search ")[2].partition("'")[0]
    assert show(f"POST {A}/search {key}") == 0
    assert capsys.readouterr().out == "found q=a"
    with pytest.raises(UsageError, match="'two words' is not a URL, a host name or the key of a page"):
        show("two words")


async def test_the_latest_items_are_those_of_each_request(tmp_path: Path) -> None:
    """Several requests for one URL are pages of their own, not visits of one page."""
    done = await run(make_searcher(), SEARCH, tmp_path)
    items = [json.dumps(item).encode() for item in done.items["item"]]
    chosen = select_latest(done.pages, {"item": lambda: iter(items)}, directory=tmp_path)["item"]
    assert list(chosen()) == items
    (post,) = (page for page in done.pages if page.get("payload") == "a")
    again = {**post, "time": post["time"] + 1}
    chosen = select_latest([*done.pages, again], {"item": lambda: iter(items)}, directory=tmp_path)["item"]
    assert {json.loads(line)["asked"] for line in chosen()} == {"b", "plain", "header"}
