"""Requests that are not a plain GET: what the server gets is what was asked for, and nothing of it stays behind."""

import asyncio
from pathlib import Path

import pytest

from swath.crawl.http.fetcher import Fetcher
from swath.crawl.http.outgoing import OutgoingRequest
from swath.crawl.http.response import Response
from tests.crawl.http2 import serving_http2
from tests.crawl.test_fetch import a_fetcher, hello
from tests.crawl.web import Exchange, Fixed, certificate, serving

BODY = b"q=caf%C3%A9&page=2"


async def send(fetcher: Fetcher, url: str, method: str = "GET", body: bytes = b"", **headers: str) -> Response:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return await fetcher.fetch(url, outgoing=OutgoingRequest(url, method, given, body))


@pytest.mark.parametrize(
    ("method", "body", "headers"),
    [
        ("POST", BODY, {"Content_Type": "application/x-www-form-urlencoded"}),
        ("POST", BODY, {}),
        ("POST", b"", {}),
        ("POST", b"\0\xff\r\n\r\n" * 10_000, {"Content_Type": "application/octet-stream"}),
        ("PUT", b"{}", {"Content_Type": "application/json", "X_Token": "1"}),
        ("PATCH", b"{}", {}),
        ("PATCH", b"", {}),
        ("DELETE", b"", {}),
        ("DELETE", b"x", {}),
        ("OPTIONS", b"", {}),
        ("PROPFIND", b"<x/>", {"Content_Type": "text/xml", "Depth": "1"}),
        ("HEAD", b"", {"X_Token": "1"}),
        ("GET", b"", {"Cookie": "a=b", "Accept": "application/json"}),
    ],
)
async def test_the_recorded_request_is_what_the_server_got(method: str, body: bytes, headers: dict[str, str]) -> None:
    async with serving(hello) as server, a_fetcher() as fetcher:
        response = await send(fetcher, server.url("/x?y"), method, body, **headers)
        assert [response.request] == server.requests
    assert (response.error, response.status, response.body) == (None, 200, b"" if method == "HEAD" else b"hello")
    assert response.request.startswith(f"{method} /x?y HTTP/1.1\r\n".encode())
    assert response.request.endswith(b"\r\n\r\n" + body)
    for name, value in headers.items():
        assert f"\r\n{name.replace('_', '-')}: {value}\r\n".encode() in response.request


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD", "GET"])
async def test_a_reused_handle_has_nothing_of_the_request_before(method: str) -> None:
    async def answer(exchange: Exchange) -> None:
        await exchange.send(
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", b"" if exchange.method == "HEAD" else b"hello"
        )

    async with serving(answer) as server, a_fetcher() as fetcher:
        plain = await fetcher.fetch(server.url("/"))
        body = BODY if method in ("POST", "PUT") else b""
        await send(fetcher, server.url("/"), method, body, X_Token="1", Accept="text/plain")
        assert len(fetcher._free) == 1
        after = await fetcher.fetch(server.url("/"))
        other = await send(fetcher, server.url("/"), "POST")
        assert server.connections == 1
    assert (after.request, after.body) == (plain.request, b"hello")
    assert b"X-Token" not in other.request
    assert b"text/plain" not in other.request
    assert server.requests[0] == server.requests[2]


async def test_a_body_of_the_request_before_is_not_kept_in_memory() -> None:
    body = bytearray(b"x")

    class Body(bytes):
        def __del__(self) -> None:
            body.clear()

    async with serving(hello) as server, a_fetcher() as fetcher:
        await send(fetcher, server.url("/"), "POST", Body(b"y" * 1_000))
        assert not body


async def test_a_proxy_of_one_request_is_used_for_this_request() -> None:
    """It resolves the name, and its own address need not be public; addresses in URLs are checked as before."""
    names = Fixed({"near.example": ["127.0.0.1"]})
    async with serving(hello) as proxy, a_fetcher(resolver=names, allow_private=False) as fetcher:
        url = f"http://127.0.0.1:{proxy.port}"
        far = OutgoingRequest("http://far.example/x", proxy=url)
        for _ in range(2):
            assert (await fetcher.fetch(far.url, outgoing=far)).status == 200
            refused = await fetcher.fetch("http://10.0.0.1/", outgoing=OutgoingRequest("http://10.0.0.1/", proxy=url))
            assert refused.error == "private"
            # The same handle without the proxy: the name is resolved here, and its address is checked again.
            assert (await fetcher.fetch(f"http://near.example:{proxy.port}/")).error == "private"
        assert len(fetcher._free) == 1
    assert [request.partition(b" HTTP")[0] for request in proxy.requests] == [b"GET http://far.example/x"] * 2
    assert names.asked == ["near.example"] * 2


async def test_a_request_without_the_proxy_of_the_crawl_is_checked() -> None:
    names = Fixed({"near.example": ["127.0.0.1"]})
    async with serving(hello) as proxy:
        fetcher = a_fetcher(proxy=f"http://127.0.0.1:{proxy.port}", resolver=names, allow_private=False)
        async with fetcher:
            direct = OutgoingRequest(f"http://near.example:{proxy.port}/")
            assert (await fetcher.fetch(direct.url, outgoing=direct)).error == "private"
            assert (await fetcher.fetch("http://far.example/x")).status == 200
            assert len(fetcher._free) == 1


async def test_a_socket_is_checked_after_a_request_with_a_proxy() -> None:
    """The check of each socket is off for the address of a proxy, and on again for the next request."""
    async with serving(hello) as proxy, a_fetcher(allow_private=False) as fetcher:
        with_proxy = OutgoingRequest("http://far.example/", proxy=f"http://127.0.0.1:{proxy.port}")
        assert (await fetcher.fetch(with_proxy.url, outgoing=with_proxy)).status == 200
        fetcher._allow_private = True  # of the addresses, so that only the check of the socket is left
        response = await fetcher.fetch(f"http://near.example:{proxy.port}/")
    assert (response.error, response.detail) == ("private", "127.0.0.1 is not a public address")


async def test_http_2_sends_methods_and_bodies(tmp_path: Path) -> None:
    _, context = certificate(tmp_path, "a.example")
    received: dict[int, bytes] = {}
    large = b"z" * 90_000
    async with serving_http2(context, b"hello", received=received) as port, a_fetcher() as fetcher:
        url = f"https://a.example:{port}/"
        for body in (BODY, b"", large):
            posted = await send(fetcher, url, "POST", body)
            assert (posted.error, posted.protocol, posted.body) == (None, "h2", b"hello")
            assert (await fetcher.fetch(url)).body == b"hello"
        assert (await send(fetcher, url, "HEAD")).body == b""
        assert (await fetcher.fetch(url)).body == b"hello"
        assert len(fetcher._free) == 1
    assert list(received.values()) == [BODY, b"", b"", b"", large, b"", b"", b""]


async def test_a_cancelled_post_leaves_a_clean_handle() -> None:
    async def answer(exchange: Exchange) -> None:
        if exchange.method == "GET":
            await exchange.ok()
        else:
            await asyncio.Event().wait()

    async with serving(answer) as server, a_fetcher() as fetcher:
        posting = asyncio.create_task(send(fetcher, server.url("/"), "POST", BODY, X_Token="1"))
        await server.until(lambda: len(server.requests) == 1)
        posting.cancel()
        await asyncio.gather(posting, return_exceptions=True)
        response = await fetcher.fetch(server.url("/"))
    assert (response.status, response.request) == (200, server.requests[1])
    assert b"X-Token" not in response.request
