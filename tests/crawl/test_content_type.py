"""What a body is."""

import gzip

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swath.crawl.parse.content_type import detect_kind, parse_media_type

XML = b'<?xml version="1.0"?>\n<!-- made by hand -->\n'


@pytest.mark.parametrize(
    ("content_type", "body", "kind"),
    [
        ("text/html", b"", "html"),
        ("Text/HTML; charset=utf-8", b"<p>", "html"),
        ("application/xhtml+xml", XML + b"<html>", "html"),
        ("text/html", XML + b"<!DOCTYPE html><html>", "html"),
        ("text/html", XML + b"<urlset>", "sitemap"),
        ("text/html", XML + b"<rss>", "feed"),
        ("text/html", b"<p><rss>", "html"),
        ("application/rss+xml", b"", "feed"),
        ("application/atom+xml; charset=utf-8", b"", "feed"),
        ("text/rss+xml", b"", "feed"),
        ("application/xml", XML + b"<urlset xmlns='x'>", "sitemap"),
        ("text/xml", b"\xef\xbb\xbf" + XML + b"<sitemapindex>", "sitemap"),
        ("text/xml", "<sitemapindex>".encode("utf-16"), "sitemap"),
        ("text/xml", XML + b"<rdf:RDF>", "feed"),
        ("text/xml", XML + b"<feed>", "feed"),
        ("text/xml", XML + b"<svg>", "other"),
        ("text/xml", b"<!-- <rss> -->", "other"),
        ("text/xml", b"<?xml <rss>", "other"),
        ("text/xml", b"", "other"),
        ("text/plain", b"<html>", "other"),
        ("application/pdf", b"<html>", "other"),
        ("image/svg+xml", b"<html>", "other"),
        ("application/json", b"{}", "other"),
        (None, b"  <!DOCTYPE HTML><p>", "html"),
        ("", b"<html lang=de>", "html"),
        ("unknown/unknown", XML + b"<rss>", "feed"),
        (None, b"%PDF-1.4", "other"),
        (None, b"", "other"),
    ],
)
def test_what_a_body_is(content_type: str | None, body: bytes, kind: str) -> None:
    assert detect_kind(content_type, body) == kind


@pytest.mark.parametrize(
    ("content_type", "body", "kind"),
    [
        ("application/gzip", b"", "sitemap"),
        ("application/octet-stream", gzip.compress(b"x", mtime=0), "sitemap"),
        ("text/plain; charset=utf-8", b"https://example.com/", "sitemap"),
        ("application/octet-stream", XML + b"<urlset>", "sitemap"),
        ("application/octet-stream", b"GIF89a", "other"),
        ("text/html", b"<html>", "html"),
        ("application/rss+xml", b"", "feed"),
    ],
)
def test_what_was_fetched_as_a_sitemap(content_type: str, body: bytes, kind: str) -> None:
    assert detect_kind(content_type, body, sitemap=True) == kind


def test_the_media_type() -> None:
    assert parse_media_type(" Text/HTML ;charset=x") == "text/html"
    assert parse_media_type(None) == ""
    assert len(parse_media_type("x" * 10_000)) < 1_000


@settings(deadline=None)
@given(st.none() | st.text(max_size=30), st.binary(max_size=100), st.booleans())
def test_every_body_is_something(content_type: str | None, body: bytes, sitemap: bool) -> None:
    assert detect_kind(content_type, body, sitemap=sitemap) in ("html", "feed", "sitemap", "other")
    assert detect_kind("text/xml", b"<" + body, sitemap=sitemap) in ("html", "feed", "sitemap", "other")
