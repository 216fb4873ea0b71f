"""Fetching over TLS: certificates, old protocols, HTTP/2."""

import asyncio
import io
import ssl
import warnings
from pathlib import Path

import pytest
from warcio.archiveiterator import ArchiveIterator

from swath.crawl.archive import warc
from tests.crawl.http2 import serving_http2
from tests.crawl.test_fetch import a_fetcher, hello
from tests.crawl.test_fetch_hostile import PATIENT
from tests.crawl.web import Exchange, certificate, serving

Certificate = tuple[Path, ssl.SSLContext]


@pytest.fixture
def issued(tmp_path: Path) -> Certificate:
    return certificate(tmp_path, "a.example")


async def test_a_certificate_is_verified_when_that_is_asked_for(issued: Certificate) -> None:
    ca_file, context = issued
    async with serving(hello, tls=context) as server, a_fetcher(verify=True, ca_file=str(ca_file)) as fetcher:
        assert (await fetcher.fetch(server.url(scheme="https"))).status == 200
        other = await fetcher.fetch(server.url(scheme="https", host="b.example"))
        assert (other.error, other.status) == ("tls", 0)


async def test_without_our_authority_it_is_refused_by_the_systems_own(issued: Certificate) -> None:
    async with serving(hello, tls=issued[1]) as server, a_fetcher(verify=True) as fetcher:
        response = await fetcher.fetch(server.url(scheme="https"))
        assert response.error == "tls"
        assert "certificate" in response.detail


async def test_any_certificate_will_do_otherwise(issued: Certificate) -> None:
    async with serving(hello, tls=issued[1]) as server, a_fetcher() as fetcher:
        response = await fetcher.fetch(server.url(scheme="https", host="b.example"))
        assert (response.status, response.protocol, response.body) == (200, "http/1.1", b"hello")
        assert [response.request] == server.requests


async def test_old_servers_can_be_archived(issued: Certificate) -> None:
    context = issued[1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("DEFAULT@SECLEVEL=0")
    async with serving(hello, tls=context) as server:
        async with a_fetcher() as fetcher:
            assert (await fetcher.fetch(server.url(scheme="https"))).status == 200
        async with a_fetcher(verify=True) as fetcher:
            assert (await fetcher.fetch(server.url(scheme="https"))).error == "tls"


async def test_tls_that_is_none() -> None:
    async def noise(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.write(b"HTTP/1.1 400 Speak plainly\r\n\r\n")
        writer.close()

    listening = await asyncio.start_server(noise, "127.0.0.1", 0)
    async with listening, a_fetcher() as fetcher:
        port = listening.sockets[0].getsockname()[1]
        assert (await fetcher.fetch(f"https://a.example:{port}/")).error == "tls"


async def test_a_body_over_tls_that_breaks_off(issued: Certificate) -> None:
    async def break_off(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this")
        exchange.close()

    async with serving(break_off, tls=issued[1]) as server, a_fetcher(limits=PATIENT) as fetcher:
        response = await fetcher.fetch(server.url(scheme="https"))
    assert (response.status, response.truncated, response.body) == (200, "disconnect", b"only this")


async def test_http_2_is_spoken_where_it_is_offered(issued: Certificate) -> None:
    async with serving_http2(issued[1], b"hello") as port, a_fetcher() as fetcher:
        responses = await asyncio.gather(*(fetcher.fetch(f"https://a.example:{port}/{number}") for number in range(20)))
    for response in responses:
        assert (response.error, response.status, response.protocol, response.body) == (None, 200, "h2", b"hello")
        assert response.head.startswith(b"HTTP/2 200")
        assert response.headers.get("content-type") == "text/html"
        assert response.request.startswith(b"GET /")


async def test_http_2_ends_up_readable_in_the_archive(issued: Certificate) -> None:
    async with serving_http2(issued[1], b"hello") as port, a_fetcher() as fetcher:
        response = await fetcher.fetch(f"https://a.example:{port}/")
    record = warc.build_response(
        response.url,
        record_id=warc.new_record_id(),
        time=response.started,
        head=response.head,
        body=response.body,
        digest=warc.compute_payload_digest(response.body),
        address=response.address,
        protocol=response.protocol,
    )
    (read,) = ((one, one.content_stream().read()) for one in ArchiveIterator(io.BytesIO(record)))
    assert (read[0].http_headers.get_statuscode(), read[1]) == ("200", b"hello")
    assert read[0].http_headers.get_header("x-two") == "a"


async def test_a_stream_that_is_reset(issued: Certificate) -> None:
    async with serving_http2(issued[1], b"only this", reset=True) as port, a_fetcher() as fetcher:
        response = await fetcher.fetch(f"https://a.example:{port}/")
    assert (response.status, response.truncated, response.body) == (200, "disconnect", b"only")


async def test_a_stream_that_is_refused_on_a_new_connection_is_the_hosts_doing(issued: Certificate) -> None:
    """Whoever tries again on a new connection has no third way: it has to count, or the page is tried for ever."""
    async with serving_http2(issued[1], b"", refuse=True) as port, a_fetcher() as fetcher:
        responses = [await fetcher.fetch(f"https://a.example:{port}/", fresh=fresh) for fresh in (False, True, True)]
    assert [response.error for response in responses] == ["closed", "reset", "reset"]


async def test_http_2_can_be_left_out(issued: Certificate) -> None:
    async with serving_http2(issued[1], b"hello") as port, a_fetcher(http2=False, limits=PATIENT) as fetcher:
        response = await fetcher.fetch(f"https://a.example:{port}/")
    assert response.status == 0
