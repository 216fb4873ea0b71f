"""The kind of a body: HTML, a feed, a sitemap, or something that is not parsed."""

import re
from typing import Literal

BodyKind = Literal["html", "feed", "sitemap", "other"]

SNIFFED = 1_024
MAX_HEADER = 200

_HTML = frozenset({"text/html", "application/xhtml+xml"})
_FEED = frozenset(
    {"application/rss+xml", "application/atom+xml", "application/rdf+xml", "application/feed+xml", "text/rss+xml"}
)
_XML = frozenset({"application/xml", "text/xml"})
_GZIP = frozenset({"application/gzip", "application/x-gzip"})
_UNKNOWN = frozenset({"", "unknown/unknown", "application/unknown", "*/*"})

_ROOT = re.compile(rb"<(?![?!])(?:[A-Za-z0-9_.-]{1,40}:)?([A-Za-z0-9_.-]{1,40})")
_COMMENTS = re.compile(rb"<!--.*?(?:-->|$)|<\?.*?(?:\?>|$)", re.DOTALL)
_ROOTS: dict[bytes, BodyKind] = {
    b"urlset": "sitemap",
    b"sitemapindex": "sitemap",
    b"rss": "feed",
    b"feed": "feed",
    b"rdf": "feed",
    b"html": "html",
}


def parse_media_type(content_type: str | None) -> str:
    """Return the media type of a Content-Type header in lowercase, without parameters."""
    return (content_type or "")[:MAX_HEADER].partition(";")[0].strip().lower()


def detect_kind(content_type: str | None, body: bytes, *, sitemap: bool = False) -> BodyKind:
    """Return the kind of a body by its header, or by its first element if the header is not conclusive.

    Pass `sitemap=True` if the URL is that of a sitemap: then text and gzip are sitemaps too.
    """
    named = parse_media_type(content_type)
    if sitemap and (named in _GZIP or named == "text/plain" or body[:2] == b"\x1f\x8b"):
        return "sitemap"
    if named in _HTML:
        # Some servers declare sitemaps and feeds as HTML; check the root if there is an XML declaration.
        is_xml = body[:100].lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<?xml")
        return (kind_from_root(body) or "html") if is_xml else "html"
    if named in _FEED:
        return "feed"
    if named in _XML or sitemap:
        return kind_from_root(body) or "other"
    if named in _UNKNOWN:
        found = kind_from_root(body)
        looks = body[:SNIFFED].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
        return found or ("html" if looks.startswith((b"<!doctype html", b"<head", b"<body", b"<title")) else "other")
    return "other"


def kind_from_root(body: bytes) -> BodyKind | None:
    """Return the kind of a body by its first element; None if the element is unknown."""
    head = body[:SNIFFED]
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        head = head.replace(b"\0", b"")
    found = _ROOT.search(_COMMENTS.sub(b"", head))
    return _ROOTS.get(found[1].lower()) if found else None
