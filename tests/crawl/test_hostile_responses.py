"""Whatever a host answers, there is an outcome: nothing that it sends gets an exception out of a visit."""

import asyncio
import gzip
import zlib
from typing import get_args

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from swath.core.encoding import encode_outcome
from swath.core.item import Item, Outcome
from swath.crawl.archive.record import Capture, Exchange, build_records, format_page_line
from swath.crawl.http.response import FailureKind, Response, make_failure
from swath.crawl.parse.page import ParsedPage, parse_page
from swath.crawl.urls import normalise
from tests.crawl.handling import handling, said

URL = "http://host.example/dir/page"
NAMES = (
    "Content-Type", "Content-Encoding", "Location", "Retry-After", "X-Robots-Tag", "Cache-Control", "Expires",
    "Content-Length", "Refresh", "X", "", "\x00",
)  # fmt: skip
VALUES = (
    "text/html",
    "text/html; charset=utf-16",
    "text/html;charset=\x00",
    "application/xml",
    "text/xml; charset=klingon",
    "application/rss+xml",
    "text/plain",
    "gzip",
    "br",
    "zstd",
    "deflate, gzip, br",
    "gzip," * 50,
    "snail",
    "/",
    "//",
    "?",
    "http://[::1",
    "http://other.example/\xe9",
    "https://host.example:99999/",
    "javascript:void(0)",
    "mailto:a@b",
    "120",
    "-1",
    "9" * 400,
    "Wed, 99 Foo 2026 25:61:61 GMT",
    "Sun, 06 Nov 1994 08:49:37 GMT",
    "Thu, 01 Jan 0001 00:00:00 -9999",
    "noarchive, nofollow",
    "swath: none",
    "unavailable_after: x",
    "max-age=99999999999999",
    "no-store",
    "0",
)
PIECES = (
    b"<html>",
    b"<a href=",
    b"'",
    b'"',
    b">",
    b"</a>",
    b"<base href='//x",
    b"<meta http-equiv=refresh content='0;url=",
    b"<meta name=robots content=none>",
    b"<title>",
    b"</title>",
    b"<link rel=canonical href=",
    b"<!--",
    b"-->",
    b"<?xml version='1.0' encoding='utf-8'?>",
    b"<urlset><url><loc>",
    b"</loc></url></urlset>",
    b"<!DOCTYPE x [<!ENTITY a 'b'>]>",
    b"<sitemapindex><sitemap><loc>http://host.example/",
    b"&a;",
    b"&#x110000;",
    b"&#0;",
    b"<rss><channel><item><link>",
    b"User-agent: *\n",
    b"Disallow: /",
    b"Crawl-delay: ",
    b"9e999\n",
    b"Sitemap: ",
    b"http://host.example/",
    b"\0",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\x1f\x8b",
    b"%",
    b"%zz",
    b"../" * 30,
    b"xn--",
    b"\n",
)

values = st.sampled_from(VALUES) | st.text(st.characters(max_codepoint=255, exclude_characters="\r\n"), max_size=30)
header_lines = st.lists(st.tuples(st.sampled_from(NAMES), values), max_size=6)
plain = st.lists(st.sampled_from(PIECES) | st.binary(max_size=12), max_size=25).map(b"".join)
bodies = plain | plain.map(gzip.compress) | plain.map(zlib.compress) | plain.map(lambda body: gzip.compress(body)[:-5])
statuses = st.sampled_from((100, 200, 204, 206, 301, 302, 304, 308, 401, 404, 410, 429, 500, 503, 599)) | st.integers(
    0, 999
)


@st.composite
def responses(draw: st.DrawFn, url: str = URL) -> Response:
    if draw(st.integers(0, 9)) == 0:
        return make_failure(
            url, draw(st.sampled_from(get_args(FailureKind))), draw(st.text(max_size=20)), started=0.0, ended=5.0
        )
    status = draw(statuses)
    fields = "".join(f"{name}: {value}\r\n" for name, value in draw(header_lines))
    first = draw(st.sampled_from((f"HTTP/1.1 {status} x", f"HTTP/2 {status}", "HTTP/2")))
    head = f"{first}\r\n{fields}\r\n".encode("latin-1")
    truncated = draw(st.sampled_from((None, None, None, "length", "time", "disconnect")))
    return said(url, status, head, draw(bodies), truncated=truncated)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(response=responses(), sitemap=st.booleans())
def test_reading_never_raises(response: Response, sitemap: bool) -> None:
    found = parse_page(URL, response, limit=10_000, agent="swath", sitemap=sitemap)
    assert isinstance(found, ParsedPage)
    for url in (*(found.links or ()), *found.sitemaps):
        assert normalise.normalise(url) == url


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(said_first=st.lists(responses(), min_size=1, max_size=4), retries=st.integers(0, 2), attempts=st.integers(0, 3))
def test_every_visit_has_an_outcome(said_first: list[Response], retries: int, attempts: int) -> None:
    """For a page as for its robots.txt: an outcome that can be settled, with records that can be written."""

    async def visits() -> None:
        script = iter(said_first * 20)
        async with handling(lambda url: next(script)._replace(url=url), delay=0.0, retries=retries) as (
            _,
            handler,
            _,
        ):
            for kind in ({}, {"kind": "sitemap"}, {"redirects": 9}):
                item = Item(
                    URL, "host.example", payload={"depth": 0, **kind}, attempts=attempts, partition=0, position=1
                )
                outcome = await handler(item)
                _check(outcome)
            redirect = {"origin": "http://far.example", "url": URL, "redirects": 4, "lane": "far.example"}
            _check(
                await handler(
                    Item("robots http://far.example", "host.example", payload=redirect, partition=0, position=2)
                )
            )

    asyncio.run(visits())


def _check(outcome: object) -> None:
    assert isinstance(outcome, Outcome)
    encode_outcome(outcome, max_attempts=5, partitions=1)
    captures: list[Capture] = getattr(outcome, "output", None) or []
    for capture in captures:
        assert format_page_line(capture.page).endswith(b"\n")
        if capture.archived is not None:
            packed = build_records(capture.archived) if isinstance(capture.archived, Exchange) else capture.archived
            assert all(record.startswith(b"\x1f\x8b") for record in packed)
