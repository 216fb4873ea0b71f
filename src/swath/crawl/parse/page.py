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
from swath.crawl.parse.page_text import PageText
from swath.crawl.urls.normalise import normalise

MIN_TEXT = 4_000_000  # bytes of memory that the text of a page may take, even if the size limit is smaller
MEMORY_FACTOR = 3
MEMORY_CONSTANT = 100_000_000  # bytes


class ParsedPage(NamedTuple):
    """A parsed page. `decode_error` describes a defect of its content coding, or that the body was truncated."""

    title: str = ""
    links: tuple[str, ...] | None = ()
    """None if they were not asked for."""
    sitemaps: tuple[str, ...] = ()
    nofollow: bool = False
    noindex: bool = False
    noarchive: bool = False
    canonical: str | None = None
    base: str | None = None
    """What the links of an HTML page are relative to."""
    decode_error: str | None = None
    text: PageText | None = None
    """The text of an HTML page, if it was asked for. It keeps the tree in memory."""


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
    url: str,
    response: Response,
    decoded: DecodedBody,
    *,
    limit: int,
    agent: str,
    sitemap: bool = False,
    text: PageText | None = None,
    links: bool = True,
    keep_text: bool = False,
) -> ParsedPage:
    """Parse a body whose content codings were removed. `text` is that of the body, if it is known.

    With `keep_text`, the result has the text of an HTML page. Without `links`, it has no links.
    """
    headers = response.headers
    directives = parse_x_robots_tag(headers.get_all("x-robots-tag"), agent)
    content_type = headers.get("content-type")
    kind = detect_kind(content_type, decoded.body, sitemap=sitemap)
    truncated = False
    if kind == "html" and text is None:
        text, truncated = decode_text(decoded.body, content_type, limit=limit)
    reading = _parse_document(kind, decoded.body, text, url, content_type, agent, links)
    decode_error = decoded.error or ("truncated at the limit" if decoded.truncated or truncated else None)
    targets = [] if (target := _find_refresh_target(headers, url)) is None else [target]
    if reading is None:
        return ParsedPage(
            links=tuple(targets),
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
        elif not nofollow and target not in targets[:1]:
            targets.append(target)
    return ParsedPage(
        title=reading.title,
        links=tuple(targets) if links else None,
        sitemaps=tuple(sitemaps),
        nofollow=directives.nofollow,
        noindex=directives.noindex,
        noarchive=directives.noarchive,
        canonical=reading.canonical,
        base=reading.base,
        decode_error=decode_error,
        text=text if keep_text else None,
    )


def decode_text(body: bytes, content_type: str | None, *, limit: int) -> tuple[PageText, bool]:
    """Return the text of a body, and whether it is truncated at `limit` bytes of memory, or at `MIN_TEXT`."""
    text, name, truncated = charset.decode_within(body, content_type, limit=max(limit, MIN_TEXT))
    return PageText(text, name), truncated


def _find_refresh_target(headers: Headers, url: str) -> str | None:
    """Return the normalised URL of a Refresh header, which works like `<meta http-equiv=refresh>`."""
    target = parse_refresh_target(headers.get("refresh") or "")
    return normalise(target, url) if target else None


def _parse_document(
    kind: str | None, body: bytes, text: PageText | None, url: str, content_type: str | None, agent: str, links: bool
) -> ParsedDocument | None:
    if kind in ("feed", "sitemap"):
        return parse_feed(body, url, content_type)
    if kind == "html" and text is not None:
        return parse_html(text, url, agent=agent, links=links)
    return None
