"""Fetching from servers that behave."""

import asyncio
import gzip
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop

from swath.core.errors import UsageError
from swath.crawl.http.connect_to import ConnectTo
from swath.crawl.http.fetcher import Fetcher
from swath.crawl.http.outgoing import OutgoingRequest
from swath.crawl.http.response import Limits, Response
from tests.crawl.web import LOCAL, Exchange, Fixed, serving

AGENT = "swath/test (+https://example.com)"


def a_fetcher(**settings: Any) -> Fetcher:
    given: dict[str, Any] = {"resolver": LOCAL, "user_agent": AGENT, "allow_private": True}
    return Fetcher(**given | settings)


async def send(fetcher: Fetcher, url: str, **request: Any) -> Response:
    """Send a request that is not a plain GET."""
    return await fetcher.fetch(url, outgoing=OutgoingRequest(url, **request))


async def hello(exchange: Exchange) -> None:
    await exchange.ok(headers=b"Content-Type: text/html\r\nX-Two: a\r\nX-Two: b\r\n")


async def test_an_answer_has_all_that_an_archive_keeps() -> None:
    async with serving(hello) as server, a_fetcher() as fetcher:
        response = await fetcher.fetch(server.url("/a?b=c"))
    assert (response.error, response.status, response.body, response.truncated) == (None, 200, b"hello", None)
    assert response.head == (
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Type: text/html\r\nX-Two: a\r\nX-Two: b\r\n\r\n"
    )
    assert response.protocol == "http/1.1"
    assert response.address == "127.0.0.1"
    assert response.url == server.url("/a?b=c")
    assert response.headers.get("content-type") == "text/html"
    assert response.headers.get_all("x-two") == ["a", "b"]
    assert response.headers.get_list("x-two") == "a, b"
    assert response.headers.get("x-none") is None
    assert response.first_byte is not None
    assert response.started <= response.first_byte <= response.ended


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/a/../b/./c",
        "//x",
        "/?",
        "/?a=b?c",
        "/%7Euser/%2F%00",
        "/a'b(c)*!;,=+$&|{}^`[]\"<>~",
        "/x#fragment",
        "",
        "?q",
    ],
)
async def test_the_request_is_recorded_as_it_was_sent(path: str) -> None:
    async with serving(hello) as server, a_fetcher() as fetcher:
        response = await fetcher.fetch(server.url(path))
        assert response.error is None
        assert [response.request] == server.requests


async def test_headers_are_sent_and_recorded() -> None:
    async with serving(hello) as server, a_fetcher() as fetcher:
        first = await send(fetcher, server.url(), headers={"If-None-Match": '"x"', "Accept-Language": "de"})
        second = await fetcher.fetch(server.url())
        assert [first.request, second.request] == server.requests
    assert b'\r\nIf-None-Match: "x"\r\nAccept-Language: de\r\n' in first.request
    assert f"User-Agent: {AGENT}".encode() in first.request
    assert b"If-None-Match" not in second.request
    assert b"Accept-Encoding: gzip, deflate, br, zstd\r\n" in second.request


async def test_a_header_that_was_given_takes_the_place_of_the_standard_one() -> None:
    async with serving(hello) as server, a_fetcher() as fetcher:
        response = await send(fetcher, server.url(), headers={"accept": "text/plain"})
        assert [response.request] == server.requests
    assert response.request.lower().count(b"\naccept:") == 1
    assert b"\r\naccept: text/plain\r\n" in response.request


@pytest.mark.parametrize(
    ("name", "value"), [("X", "y\r\nZ: z"), ("X\nY", "z"), ("X", ""), ("X", "ü"), ("", "y"), ("X:", "y"), ("X", "\0")]
)
async def test_what_is_no_header_is_refused(name: str, value: str) -> None:
    async with a_fetcher() as fetcher:
        with pytest.raises(UsageError, match="is not a valid header"):
            await send(fetcher, "http://a.example/", headers={name: value})
    with pytest.raises(UsageError, match="is not a valid header"):
        a_fetcher(user_agent="two\nlines")


async def test_content_codings_stay_on_and_chunks_come_off() -> None:
    packed = gzip.compress(b"hello" * 1000)

    async def chunked(exchange: Exchange) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"
        middle = len(packed) // 2
        pieces = [b"%x\r\n%s\r\n" % (len(part), part) for part in (packed[:middle], packed[middle:])]
        await exchange.send(head, *pieces, b"0\r\nX-Trailer: t\r\nHTTP/1.1: 200 OK\r\n\r\n")

    async with serving(chunked) as server, a_fetcher() as fetcher:
        response = await fetcher.fetch(server.url())
    assert response.body == packed
    assert response.head.endswith(b"chunked\r\n\r\n")
    assert "x-trailer" not in response.headers


async def test_interim_answers_are_not_the_answer() -> None:
    async def hints(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n")
        await exchange.ok()

    async with serving(hints) as server, a_fetcher() as fetcher:
        response = await fetcher.fetch(server.url())
    assert (response.status, response.body) == (200, b"hello")
    assert response.head == b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"


async def test_redirects_are_not_followed_and_cookies_not_kept() -> None:
    async def elsewhere(exchange: Exchange) -> None:
        await exchange.send(
            b"HTTP/1.1 302 Found\r\nLocation: /other\r\nSet-Cookie: a=b; Path=/\r\nContent-Length: 0\r\n\r\n"
        )

    async with serving(elsewhere) as server, a_fetcher() as fetcher:
        for _ in range(2):
            response = await fetcher.fetch(server.url("/first"))
            assert (response.status, response.headers.get("location")) == (302, "/other")
    assert len(server.requests) == 2
    assert all(b"/first" in request and b"ookie" not in request for request in server.requests)


async def test_credentials_go_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".netrc").write_text("machine a.example login me password secret\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    async with serving(hello) as server, a_fetcher() as fetcher:
        await fetcher.fetch(server.url().replace("http://", "http://user:pass@"))
        await fetcher.fetch(server.url())
    assert all(b"uthorization" not in request for request in server.requests)


async def test_a_proxy_in_the_environment_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with serving(hello) as server, a_fetcher() as fetcher:
        assert (await fetcher.fetch(server.url())).status == 200


async def test_a_proxy_that_was_given_is_used_and_does_the_resolving() -> None:
    names = Fixed()
    async with serving(hello) as proxy:
        fetcher = a_fetcher(proxy=f"http://127.0.0.1:{proxy.port}", resolver=names, allow_private=False)
        async with fetcher:
            response = await fetcher.fetch("http://far.example/x")
            refused = await fetcher.fetch("http://10.0.0.1/")
    assert (response.status, refused.error) == (200, "private")
    assert proxy.requests[0].startswith(b"GET http://far.example/x HTTP/1.1\r\n")
    assert (names.asked, len(proxy.requests)) == ([], 1)


async def test_one_address_of_a_host_can_be_asked_for() -> None:
    """And no other is connected to, unless it is none of the host's any more."""
    names = Fixed({"a.example": ["127.0.0.1", "127.0.0.2"]})
    async with serving(hello) as server, a_fetcher(resolver=names, keep_alive=0) as fetcher:
        assert list(await fetcher.resolve(server.url())) == ["127.0.0.1", "127.0.0.2"]
        assert (await fetcher.fetch(server.url(), address="127.0.0.2")).error == "refused"
        assert (await fetcher.fetch(server.url(), address="127.0.0.1")).status == 200
        assert (await fetcher.fetch(server.url(), address="127.0.0.3")).status == 200
    assert server.connections == 2


async def test_connections_are_used_again_while_they_are_wanted() -> None:
    async with serving(hello) as server, a_fetcher() as fetcher:
        for _ in range(5):
            await fetcher.fetch(server.url())
        assert server.connections == 1
    async with serving(hello) as server, a_fetcher(keep_alive=0) as fetcher:
        for _ in range(3):
            await fetcher.fetch(server.url())
        await server.until(lambda: server.open == 0)
        assert server.connections == 3


async def test_open_connections_are_bounded() -> None:
    release = asyncio.Event()

    async def slow(exchange: Exchange) -> None:
        if exchange.path == "/slow":
            await release.wait()
        await exchange.ok()

    async with serving(slow) as server, a_fetcher(connections=10) as fetcher:
        await asyncio.gather(*(fetcher.fetch(server.url(host=f"h{number}.example")) for number in range(100)))
        await server.until(lambda: server.open <= 10)
        assert server.connections == 100
        # Those that are kept give way to those that are wanted.
        fetches = [
            asyncio.ensure_future(fetcher.fetch(server.url("/slow", host=f"n{number}.example"))) for number in range(30)
        ]
        await server.until(lambda: server.connections == 110 and server.open <= 10)
        release.set()
        assert {response.status for response in await asyncio.gather(*fetches)} == {200}


async def test_connect_to_maps_hosts_and_skips_their_resolution() -> None:
    names = Fixed()
    async with serving(hello) as server:
        rules = ConnectTo.parse([f"one.example:80:127.0.0.1:{server.port}", f":8080:127.0.0.1:{server.port}"])
        async with a_fetcher(resolver=names, connect_to=rules) as fetcher:
            assert (await fetcher.fetch("http://one.example/")).status == 200
            assert (await fetcher.fetch("http://any.example:8080/")).status == 200
            assert (await fetcher.fetch("http://other.example/")).error == "dns-negative"
            assert (await fetcher.fetch("http://one.example/again")).status == 200
    assert names.asked == ["other.example"]
    assert [b"Host: one.example\r\n" in request for request in server.requests] == [True, False, True]


async def test_handles_go_from_host_to_host_mapped_or_not() -> None:
    """One handle in turn for hosts that are mapped, resolved and spelt out: none inherits the way of the one before."""
    async with serving(hello) as mapped, serving(hello) as named:
        rules = ConnectTo.parse([f"mapped.example::127.0.0.1:{mapped.port}"])
        async with a_fetcher(connect_to=rules, connections=1, keep_alive=0) as fetcher:
            urls = ["http://mapped.example/", named.url(), named.url(host="b.example"), named.url(host="127.0.0.1")]
            for url in [*urls, *reversed(urls), *urls[::2], *urls[1::2]]:
                assert (await fetcher.fetch(url)).status == 200, url
            assert (len(fetcher._free), len(mapped.requests), len(named.requests)) == (1, 3, 9)


async def test_a_handle_that_returns_to_its_host_is_bound_to_its_address() -> None:
    """Even if another transfer used the host in between: otherwise libcurl would resolve the name itself."""
    both = asyncio.Barrier(2)

    async def together(exchange: Exchange) -> None:
        await both.wait()
        await exchange.ok()

    async with serving(together) as server, a_fetcher(keep_alive=0) as fetcher:
        for hosts in (("a.example", "a.example"), ("b.example", "a.example"), ("a.example", "b.example")):
            responses = await asyncio.gather(*(fetcher.fetch(server.url(host=host)) for host in hosts))
            assert [response.error for response in responses] == [None, None], hosts


async def test_a_name_that_moves_is_followed() -> None:
    names = Fixed(everything=["127.0.0.9"])
    async with serving(hello) as server, a_fetcher(resolver=names, keep_alive=0) as fetcher:
        assert (await fetcher.fetch(server.url())).error == "refused"
        names.everything = ["127.0.0.1"]
        assert (await fetcher.fetch(server.url())).status == 200
        names.everything = ["127.0.0.9"]
        assert (await fetcher.fetch(server.url())).error == "refused"


async def test_a_thousand_slow_answers_at_once() -> None:
    release = asyncio.Event()

    async def slow(exchange: Exchange) -> None:
        await release.wait()
        await exchange.ok(exchange.path.encode())

    async with serving(slow) as server, a_fetcher(connections=1_000) as fetcher:
        fetches = [asyncio.ensure_future(fetcher.fetch(server.url(f"/{number}"))) for number in range(1_000)]
        await server.until(lambda: len(server.requests) == 1_000)
        assert fetcher.in_flight == 1_000
        release.set()
        responses = await asyncio.gather(*fetches)
    assert [response.body for response in responses] == [b"/%d" % number for number in range(1_000)]


async def test_a_cancelled_fetch_is_gone_at_once_and_the_handle_clean() -> None:
    async def stuck(exchange: Exchange) -> None:
        if exchange.path == "/stuck":
            await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\nX-Stuck: 1\r\n\r\npart")
            await asyncio.Event().wait()
        await exchange.ok()

    async with serving(stuck) as server, a_fetcher() as fetcher:
        fetch = asyncio.ensure_future(fetcher.fetch(server.url("/stuck")))
        await server.until(lambda: len(server.requests) == 1)
        fetch.cancel()
        with pytest.raises(asyncio.CancelledError):
            await fetch
        assert fetcher.in_flight == 0
        await server.until(lambda: server.open == 0)
        response = await fetcher.fetch(server.url())
        assert (response.body, "x-stuck" in response.headers) == (b"hello", False)


async def test_closing_ends_what_is_under_way() -> None:
    async def stuck(exchange: Exchange) -> None:
        await asyncio.Event().wait()

    async with serving(stuck) as server:
        fetcher = a_fetcher()
        fetches = [asyncio.ensure_future(fetcher.fetch(server.url())) for _ in range(10)]
        await server.until(lambda: len(server.requests) == 10)
        await fetcher.close()
        results = await asyncio.gather(*fetches, return_exceptions=True)
        assert all(isinstance(result, asyncio.CancelledError) for result in results)
        await server.until(lambda: server.open == 0)
        with pytest.raises(UsageError, match="closed"):
            await fetcher.fetch(server.url())


@pytest.mark.parametrize(
    "url", ["ftp://a.example/", "http://", "http://a b/", "http:///x", "http://a\\@b/", "javascript:x"]
)
async def test_what_is_no_url_of_the_web_is_an_error(url: str) -> None:
    async with a_fetcher() as fetcher:
        assert (await fetcher.fetch(url)).error == "url"


async def test_limits_are_checked() -> None:
    with pytest.raises(UsageError, match="size=0 must be above 0"):
        Limits(size=0)


@pytest.mark.parametrize(
    "test",
    [
        test_an_answer_has_all_that_an_archive_keeps,
        test_a_thousand_slow_answers_at_once,
        test_a_cancelled_fetch_is_gone_at_once_and_the_handle_clean,
        test_closing_ends_what_is_under_way,
        test_open_connections_are_bounded,
    ],
)
def test_on_uvloop(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    uvloop.run(test())
