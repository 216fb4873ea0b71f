"""Hooks: what they may change, and that a broken one neither sends requests nor loses pages silently."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from swath.core.errors import UsageError
from swath.core.item import Dead, Item
from swath.crawl import Crawler, Link, OutgoingRequest, Page, Request
from swath.crawl.handlers import hooks
from swath.crawl.handlers.hooks import LinkHook, RequestHook
from swath.crawl.http.response import Response
from swath.crawl.links import LinkFilter
from swath.crawl.page_fetcher import PageFetcher
from swath.crawl.robots.cache import KEY_PREFIX
from swath.testing import crawl
from tests.crawl.handlers.running import run
from tests.crawl.handling import answered, handling
from tests.crawl.web import Exchange, serving

ROOT = Path(__file__).parents[3]
A = "http://a.example"
PAGES: dict[str, Any] = {
    f"{A}/": "<a href=/x>x</a><a href=/archive/y>y</a>",
    f"{A}/x": "x",
    f"{A}/archive/y": "y",
}


def make_crawler(**settings: Any) -> Crawler:
    """Return a crawler whose handler follows the scope."""
    crawler = Crawler(f"{A}/", **settings)

    @crawler.default(links="scope")
    def title(page: Page) -> Iterator[Any]:
        yield {"url": page.url}

    return crawler


async def test_a_request_hook_changes_headers_of_every_request(tmp_path: Path) -> None:
    crawler = make_crawler()
    seen: list[str] = []

    @crawler.request_hook
    def sign(request: OutgoingRequest) -> OutgoingRequest:
        seen.append(request.url)
        if request.url.endswith("/x"):
            return request
        return replace(request, headers={**request.headers, "X-Signature": str(len(request.url))})

    done = await run(crawler, PAGES, tmp_path)
    assert seen[0] == f"{A}/robots.txt"
    assert sorted(seen[1:]) == sorted(PAGES)
    signed = [request for request in done.received if b"\r\nX-Signature: " in request]
    assert len(signed) == 2
    assert len(done.received) == 3
    assert len(done.items["item"]) == 3


async def test_a_request_hook_sends_some_requests_through_a_proxy(tmp_path: Path) -> None:
    async def answer(exchange: Exchange) -> None:
        if exchange.method == "CONNECT":  # because of --connect-to
            await exchange.send(b"HTTP/1.1 200 OK\r\n\r\n")
        else:
            await exchange.ok(b"from the proxy", headers=b"Content-Type: text/html\r\n")

    async with serving(answer) as proxy:
        crawler = make_crawler()

        @crawler.request_hook
        def rotate(request: OutgoingRequest) -> OutgoingRequest:
            return replace(request, proxy=f"http://127.0.0.1:{proxy.port}") if request.url.endswith("/x") else request

        done = await run(crawler, PAGES, tmp_path)
    assert set(done.requests) == {f"{A}/", f"{A}/archive/y"}
    assert [request.split(b" ")[0] for request in proxy.requests] == [b"CONNECT", b"GET"]
    assert done.page(f"{A}/x")["size"] == len("from the proxy")


GARBAGE: list[tuple[Callable[[OutgoingRequest], Any], str]] = [
    (lambda request: None, "it returned None of type NoneType: return the request"),
    (lambda request: request.url, "of type str: return the request"),
    (lambda request: 1 / 0, "ZeroDivisionError: division by zero (test_hooks.py:"),
    (lambda request: replace(request, url=f"{A}/other"), "it changed the url of the request"),
    (lambda request: replace(request, method="DELETE"), "it changed the method of the request"),
    (lambda request: replace(request, body=b"x"), "it changed the body of the request"),
    (lambda request: replace(request, headers={"X": "a\r\nY: b"}), "is not a valid header"),
    (lambda request: replace(request, headers={"User-Agent": "b"}), "User-Agent cannot be set"),
    (lambda request: replace(request, headers=[("X", "y")]), "of type list: pass a dict"),  # type: ignore[arg-type]
    (lambda request: request.headers.update(x="y"), "'mappingproxy' object has no attribute 'update'"),  # type: ignore[attr-defined]
    (lambda request: replace(request, proxy="user:secret@gopher://x"), "must be a URL such as"),
    (lambda request: replace(request, proxy="socks5://127.0.0.1:1"), "with one of the schemes http, https, socks4a"),
    (lambda request: replace(request, proxy=5), "must be a URL such as"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("broken", "message"), GARBAGE, ids=[message for _, message in GARBAGE])
@pytest.mark.parametrize("robots", [True, False])
def test_a_broken_request_hook_sends_nothing(
    robots: bool, broken: Callable[[OutgoingRequest], Any], message: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Also no request for robots.txt; and no retries, which would repeat the failure."""
    crawler = make_crawler(robots=robots, retries=3)
    asked: list[str] = []

    def hook(request: OutgoingRequest) -> Any:
        asked.append(request.url)
        return broken(request)

    crawler.request_hook(hook)
    result = crawl(crawler, PAGES)
    assert asked == [f"{A}/robots.txt" if robots else f"{A}/"]
    assert result.requested == []
    (reason,) = result.failed.values()
    assert reason.startswith("request hook: hook: ")
    assert message in reason
    assert "secret" not in reason
    error = result.errors[f"{A}/"]
    assert ("Traceback" in error) != ("InvalidHookResult" in error)  # the frames would be swath's
    assert "handlers/hooks.py" not in error
    assert len([record for record in caplog.records if "request hook" in record.message]) == 1


async def test_a_page_whose_request_hook_failed_is_in_the_page_list(tmp_path: Path) -> None:
    crawler = make_crawler()

    @crawler.request_hook
    def picky(request: OutgoingRequest) -> OutgoingRequest:
        if request.url.endswith("/x"):
            raise ValueError("not this one")
        return request

    done = await run(crawler, PAGES, tmp_path)
    assert set(done.requests) == {f"{A}/", f"{A}/archive/y"}
    assert done.page(f"{A}/x")["failed"].startswith("request hook: picky: ValueError: not this one (test_hooks.py:")
    assert [item.key for item in done.dead] == [f"{A}/x"]
    assert done.stats.errors["request hook"] == 1


async def test_a_redirect_of_robots_txt_whose_request_hook_failed_is_dead() -> None:
    def broken(request: OutgoingRequest) -> OutgoingRequest:
        raise ValueError("broken")

    async with handling(answered) as (_, handler, actor):
        handler._fetcher._hook = RequestHook(broken)
        payload = {"origin": A, "url": "http://b.example/robots.txt", "redirects": 1, "lane": "a.example"}
        outcome = await handler(Item(f"{KEY_PREFIX}{A} http://b.example/robots.txt 5", "b.example", 7, payload))
    assert isinstance(outcome, Dead)
    assert (outcome.output, outcome.started, actor.asked) == (None, False, [])


def test_a_proxy_of_a_hook_and_lanes_of_addresses_exclude_each_other() -> None:
    hook = RequestHook(lambda request: replace(request, proxy="http://127.0.0.1:9"))
    fetcher = PageFetcher.__new__(PageFetcher)
    fetcher._settings = make_settings(lane="ip")
    with pytest.raises(hooks.HookFailed, match="it set a proxy, which hides the addresses that --lane ip needs"):
        fetcher._call_hook(hook, f"{A}/", None)


def make_settings(**options: Any) -> Any:
    from swath.crawl.settings import CrawlSettings

    return CrawlSettings(out="x", **options)


def test_the_documentation_shows_hooks_and_requests_that_work() -> None:
    shown = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/handlers.md").read_text(), re.MULTILINE | re.DOTALL)
    (requests,) = (text for text in shown if "def start(page: Page) -> Iterator[Request]" in text)
    (hooks_,) = (text for text in shown if "crawler.request_hook" in text)
    crawler = Crawler()

    @crawler.default()
    def books(page: Page) -> None: ...

    names: dict[str, Any] = {"crawler": crawler, "Request": Request, "Page": Page, "Iterator": Iterator, "books": books}
    exec(requests, names)
    crawler.handler("/start")(names["start"])
    yielded = crawler.check(Page.from_html("", url=f"{A}/start")).requests
    assert [(request.method, request.body) for request in yielded] == [
        ("POST", b"q=poetry&tag=new&tag=used"),
        ("POST", b'{"page":2}'),
        ("GET", None),
    ]
    exec(hooks_, names)
    assert crawler.on_request is not None
    assert crawler.on_request(OutgoingRequest(A)).proxy == "http://proxy.example:3128"
    assert crawler.on_link is not None
    found = [crawler.on_link(Link(f"{A}{path}", A, 1, 5)) for path in ("/archive/x", "/news/x", "/x")]
    assert found == [None, 6, 3]


def test_a_link_hook_drops_links_and_sets_priorities() -> None:
    crawler = Crawler(f"{A}/")
    seen: list[Link] = []

    @crawler.default(links="scope")
    def title(page: Page) -> Iterator[Any]:
        if page.url == f"{A}/":
            yield page.follow("b[data-src]", priority=2)
            yield Request("/post", method="POST", priority=1)
            yield Request("/archive/post", method="POST")
        yield {"url": page.url}

    @crawler.link_hook
    def choose(link: Link) -> Link | None:
        seen.append(link)
        if "/archive/" in link.url:
            return None
        return replace(link, priority=7) if link.url.endswith("last") else link

    pages: dict[Any, Any] = {
        f"{A}/": "<a href=/first>x</a><a href=/last>x</a><a href=/archive/y>y</a><b data-src=/followed>z</b>"
        "<a href=/moved>m</a><a href=http://out.example/>not in the scope</a>",
        f"{A}/first": "x<a href=/archive/y>y</a>",
        f"{A}/last": "x",
        f"{A}/followed": "x",
        ("POST", f"{A}/post"): "x",
        f"{A}/moved": (301, "", {"Location": "/archive/moved"}),
        f"{A}/archive/moved": "x",
        f"{A}/robots.txt": (200, f"Sitemap: {A}/archive/sitemap.xml", {"Content-Type": "text/plain"}),
    }
    result = crawl(crawler, pages)
    assert result.failed == {}
    assert set(result.requested) == {
        f"{A}/", f"{A}/last", f"{A}/first", f"{A}/followed", f"POST {A}/post", f"{A}/moved", f"{A}/archive/moved",
        f"{A}/archive/sitemap.xml",
    }  # fmt: skip
    assert result.requested.index(f"{A}/last") < result.requested.index(f"{A}/first")
    priorities = {link.url: link.priority for link in seen}
    assert (priorities[f"{A}/followed"], priorities[f"{A}/post"]) == (2, 1)
    assert {link.referrer for link in seen if link.url == f"{A}/archive/y"} == {f"{A}/", f"{A}/first"}
    assert {link.depth for link in seen} == {1, 2}
    assert "http://out.example/" not in priorities
    assert f"{A}/archive/sitemap.xml" not in priorities


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (lambda link: 1 / 0, "ZeroDivisionError: division by zero (test_hooks.py:"),
        (lambda link: True, "it returned True of type bool: return the link"),
        (lambda link: replace(link, url="http://b.example/"), "it changed the link"),
        (lambda link: replace(link, priority=8), "priority=8: pass a whole number from 0 to 7"),
        (lambda link: replace(link, priority=True), "priority=True: pass a whole number from 0 to 7"),
    ],
)
def test_what_a_link_hook_must_not_do(broken: Callable[[Link], Any], message: str) -> None:
    crawler = make_crawler()
    crawler.link_hook(broken)
    result = crawl(crawler, PAGES)
    assert result.requested == [f"{A}/"]
    assert message in result.failed[f"{A}/"]


@pytest.mark.parametrize("yields", [True, False])
async def test_a_broken_link_hook_fails_its_page(yields: bool, tmp_path: Path) -> None:
    """The page is archived and not requested again; its items and links are not committed."""
    crawler = Crawler(f"{A}/")

    @crawler.default(links=None if yields else "scope")
    def title(page: Page) -> Iterator[Any]:
        yield {"url": page.url}
        if yields:
            yield page.follow("a")

    @crawler.link_hook
    def broken(link: Link) -> Any:
        raise ValueError("no")

    done = await run(crawler, PAGES, tmp_path)
    assert done.requests == {f"{A}/": 1}
    assert done.items == {}
    (dead,) = done.dead
    assert dead.reason.startswith("link hook: broken: ValueError: no (test_hooks.py:")
    assert "Traceback" in (dead.error or "")
    line = done.page(f"{A}/")
    assert "file" in line
    assert f"link hook: {line['handler_error']}" == dead.reason


@pytest.mark.parametrize("kind", ["request_hook", "link_hook"])
def test_a_hook_is_checked_when_it_is_registered(kind: str) -> None:
    crawler = Crawler()
    register = getattr(crawler, kind)

    async def waits(value: Any) -> Any:
        return value

    def generates(value: Any) -> Any:
        yield value

    for function in (waits, generates, "text", lambda: None, lambda one, two: None):
        with pytest.raises(UsageError, match=f"cannot be a {kind.replace('_', ' ')}"):
            register(function)
    register(lambda value: value)
    with pytest.raises(UsageError, match=f"the crawler has two {kind.replace('_', ' ')}s"):
        register(lambda value: value)


async def test_an_unused_hook_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """No value is made for it, and a page without a special request takes the plain path of the fetcher."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a crawl without hooks made a value for them")

    monkeypatch.setattr("swath.crawl.page_fetcher.OutgoingRequest", refuse)
    monkeypatch.setattr("swath.crawl.links.Link", refuse)
    monkeypatch.setattr(LinkFilter, "_call_hook", refuse)
    monkeypatch.setattr(LinkHook, "__call__", refuse)
    outgoing: list[Any] = []

    def say(url: str) -> Response:
        return answered(url, body=b"<a href=/x>x</a>", Content_Type="text/html")

    async with handling(say, delay=0.0) as (frontier, handler, actor):
        plain = actor.fetch

        async def fetch(url: str, **given: Any) -> Response:
            outgoing.append(given["outgoing"])
            return await plain(url)

        actor.fetch = fetch  # type: ignore[method-assign]
        await frontier.add(Item(f"{A}/", "a.example", payload={"depth": 0}))
        await frontier.run(handler, until="idle", handle_signals=False, output=NoOutput())
        assert len(actor.asked) == 3
    assert outgoing == [None, None, None]


class NoOutput:
    def size(self, entry: Any) -> int:
        return 0

    def write(self, settlements: Any) -> Any:
        return [[] for _ in settlements]

    def keep(self) -> None:
        pass

    def restore(self, committed: Any) -> None:
        pass
