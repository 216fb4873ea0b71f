"""Parse the body of a response: its title, links and robots directives."""

from typing import NamedTuple

from swath.crawl.http.content_coding import DecodedBody, decode_content
from swath.crawl.http.response import Headers, Response
from swath.crawl.parse import charset
from swath.crawl.parse.content_type import detect_kind
from swath.crawl.parse.directives import parse_x_robots_tag
from swath.crawl.parse.document import ParsedDocument
from swath.crawl.parse.feeds import parse_feed
from swath.crawl.parse.html import parse_html, parse_refresh_target
from swath.crawl.urls.normalise import normalise

MIN_TEXT = 4_000_000  # bytes of memory that the text of a page may take, even if the size limit is smaller
MEMORY_FACTOR = 3
MEMORY_CONSTANT = 100_000_000  # bytes


class ParsedPage(NamedTuple):
    """A parsed page. `decode_error` describes a defect of its content coding, or that the body was truncated."""

    title: str = ""
    links: tuple[str, ...] = ()
    sitemaps: tuple[str, ...] = ()
    nofollow: bool = False
    noindex: bool = False
    noarchive: bool = False
    canonical: str | None = None
    decode_error: str | None = None


def decode_body(response: Response, *, limit: int) -> DecodedBody:
    """Return the body without its content codings, at most `limit` bytes."""
    return decode_content(response.body, response.headers.get_list("content-encoding"), limit=limit)


def parse_page(url: str, response: Response, *, limit: int, agent: str, sitemap: bool = False) -> ParsedPage:
    """Decode and parse a body, up to `limit` bytes. Never raises: a body that cannot be parsed has no links.

    It takes at most `MEMORY_FACTOR` times `limit` and `MEMORY_CONSTANT` bytes of memory, whatever the body contains.
    """
    decoded = decode_body(response, limit=limit)
    return parse_decoded_page(url, response, decoded, limit=limit, agent=agent, sitemap=sitemap)


def parse_decoded_page(
    url: str, response: Response, decoded: DecodedBody, *, limit: int, agent: str, sitemap: bool = False
) -> ParsedPage:
    """Parse a body whose content codings were removed."""
    headers = response.headers
    directives = parse_x_robots_tag(headers.get_all("x-robots-tag"), agent)
    content_type = headers.get("content-type")
    reading, truncated = _parse_document(decoded.body, url, content_type, agent, sitemap, max(limit, MIN_TEXT))
    decode_error = decoded.error or ("truncated at the limit" if decoded.truncated or truncated else None)
    links = [] if (target := _find_refresh_target(headers, url)) is None else [target]
    if reading is None:
        return ParsedPage(
            links=tuple(links),
            nofollow=directives.nofollow,
            noarchive=directives.noarchive,
            noindex=directives.noindex,
            decode_error=decode_error,
        )
    directives = directives.merge(reading.directives)
    sitemaps = []
    for target, named, nofollow in reading.links:
        if named == "sitemap":
            sitemaps.append(target)
        elif not nofollow and target not in links[:1]:
            links.append(target)
    return ParsedPage(
        title=reading.title,
        links=tuple(links),
        sitemaps=tuple(sitemaps),
        nofollow=directives.nofollow,
        noindex=directives.noindex,
        noarchive=directives.noarchive,
        canonical=reading.canonical,
        decode_error=decode_error,
    )


def _find_refresh_target(headers: Headers, url: str) -> str | None:
    """Return the normalised URL of a Refresh header, which works like `<meta http-equiv=refresh>`."""
    target = parse_refresh_target(headers.get("refresh") or "")
    return normalise(target, url) if target else None


def _parse_document(
    body: bytes, url: str, content_type: str | None, agent: str, sitemap: bool, limit: int
) -> tuple[ParsedDocument | None, bool]:
    """Return the content of a body, and whether its text was truncated at `limit` bytes of memory."""
    kind = detect_kind(content_type, body, sitemap=sitemap)
    if kind in ("feed", "sitemap"):
        return parse_feed(body, url, content_type), False
    if kind == "html":
        text, name, truncated = charset.decode_within(body, content_type, limit=limit)
        return parse_html(text, url, agent=agent, charset=name), truncated
    return None, False
