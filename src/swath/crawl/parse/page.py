"""Read: from an answer to what it says: its title, where it leads, and what it asks of robots."""

from typing import NamedTuple

from swath.crawl.http.content_coding import DecodedBody, decode_content
from swath.crawl.http.response import Response
from swath.crawl.parse import charset
from swath.crawl.parse.content_type import detect_kind
from swath.crawl.parse.directives import ParsedDocument, parse_x_robots_tag
from swath.crawl.parse.feeds import parse_feed
from swath.crawl.parse.html import parse_html


class ParsedPage(NamedTuple):
    """What was read of a page. `wrong` names what its encoding hid."""

    title: str = ""
    links: tuple[str, ...] = ()
    sitemaps: tuple[str, ...] = ()
    nofollow: bool = False
    noindex: bool = False
    noarchive: bool = False
    canonical: str | None = None
    decode_error: str | None = None


def decode_body(response: Response, *, limit: int) -> DecodedBody:
    """A body without its content codings, and at most `limit` bytes of it."""
    return decode_content(response.body, response.headers.get_list("content-encoding"), limit=limit)


def parse_page(url: str, response: Response, *, limit: int, agent: str, sitemap: bool = False) -> ParsedPage:
    """Read a body of at most `limit` bytes without its content codings. Never raises: what cannot be read has no
    links."""
    return parse_decoded_page(url, response, decode_body(response, limit=limit), agent=agent, sitemap=sitemap)


def parse_decoded_page(
    url: str, response: Response, decoded: DecodedBody, *, agent: str, sitemap: bool = False
) -> ParsedPage:
    """The same for a body that has been unpacked."""
    headers = response.headers
    asked = parse_x_robots_tag(headers.get_all("x-robots-tag"), agent)
    wrong = decoded.error or ("cut at the limit" if decoded.truncated else None)
    content_type = headers.get("content-type")
    reading = _parse_document(decoded.body, url, content_type, agent, sitemap)
    if reading is None:
        return ParsedPage(noarchive=asked.noarchive, noindex=asked.noindex, decode_error=wrong)
    asked = asked.merge(reading.directives)
    links, sitemaps = [], []
    for target, named, nofollow in reading.links:
        if named == "sitemap":
            sitemaps.append(target)
        elif not nofollow:
            links.append(target)
    return ParsedPage(
        title=reading.title,
        links=tuple(links),
        sitemaps=tuple(sitemaps),
        nofollow=asked.nofollow,
        noindex=asked.noindex,
        noarchive=asked.noarchive,
        canonical=reading.canonical,
        decode_error=wrong,
    )


def _parse_document(
    body: bytes, url: str, content_type: str | None, agent: str, sitemap: bool
) -> ParsedDocument | None:
    kind = detect_kind(content_type, body, sitemap=sitemap)
    if kind in ("feed", "sitemap"):
        return parse_feed(body, url, content_type)
    if kind == "html":
        return parse_html(charset.decode_text(body, content_type)[0], url, agent=agent)
    return None
