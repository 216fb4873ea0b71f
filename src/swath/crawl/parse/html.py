"""Extract the title, links and robots directives of an HTML page."""

import re
from collections.abc import Mapping

from swath.crawl.parse.charset import encode_query
from swath.crawl.parse.directives import NO_DIRECTIVES, Directives, parse_directives
from swath.crawl.parse.document import Link, ParsedDocument, clean_title
from swath.crawl.parse.elements import find_elements
from swath.crawl.parse.page_text import PageText
from swath.crawl.urls.normalise import MAX_TEXT, normalise, normalise_all

MAX_LINKS = 2_000
MAX_HREFS = 4 * MAX_LINKS  # distinct href values: several may be the same URL, or not a URL
AGENT = "swath"

# The relations of link elements that lead to a page or a feed.
_RELATIONS = ("canonical", "next", "alternate")
_PAGES = frozenset({"", "text/html", "application/xhtml+xml"})
_FEEDS = frozenset(
    {"application/rss+xml", "application/atom+xml", "application/rdf+xml", "application/xml", "text/xml"}
)
_REFRESH = re.compile(
    r"""\s*+[0-9.]++(?=[\s;,])\s*+[;,]?+\s*+(?:url\s*+=\s*+)?+(?:"([^"]*)|'([^']*)|(.*))""", re.I | re.DOTALL
)


def parse_html(page: PageText, url: str, *, agent: str = AGENT, links: bool = True) -> ParsedDocument:
    """Parse a page at a normalised URL. Links are in document order, without duplicates. A link is `nofollow` only if
    all of its occurrences are. Without `links`, most are not looked for."""
    title = ""
    base: str | None = None
    canonical: str | None = None
    directives = NO_DIRECTIVES
    hrefs: dict[str, tuple[str, bool]] = {}
    cut = False
    for name, attributes, inside in find_elements(page, links=links):
        kind, href = (name, attributes.get("href")) if name == "a" else _find_link(name, attributes)
        # A fragment of the same page is not a link.
        if kind and href and href[0] != "#" and len(href) <= MAX_TEXT:
            rel = attributes.get("rel")
            nofollow = rel is not None and "nofollow" in rel.lower().split()
            known = hrefs.get(href)
            if known is None:
                if len(hrefs) >= MAX_HREFS:
                    cut = True
                    break
                hrefs[href] = (kind, nofollow)
            elif known[1] and not nofollow:
                hrefs[href] = (known[0], False)
            if kind == "canonical" and canonical is None:
                canonical = href
        elif name == "title":
            title = title or clean_title(inside)
        elif name == "meta":
            directives = directives.merge(_parse_meta_directives(attributes, agent))
        elif name == "base" and base is None:
            base = attributes.get("href")
    # The base applies to the whole page, wherever the element is.
    base_url = normalise(base, url) or url if base else url
    found: dict[str, Link] = {}
    new = tuple.__new__  # faster than Link(…)
    targets = normalise_all((encode_query(href, page.charset, limit=MAX_TEXT) for href in hrefs), base_url)
    for target, (kind, nofollow) in zip(targets, hrefs.values(), strict=True):
        if target is None:
            continue
        if target not in found:
            if len(found) >= MAX_LINKS:
                cut = True
                break
            found[target] = new(Link, (target, kind, nofollow))
        elif found[target].nofollow and not nofollow:
            found[target] = found[target]._replace(nofollow=False)
    return ParsedDocument(
        title=title,
        links=tuple(found.values()),
        base=base_url,
        canonical=normalise(encode_query(canonical, page.charset, limit=MAX_TEXT), base_url) if canonical else None,
        directives=directives,
        truncated=cut,
    )


def _find_link(name: str, attributes: Mapping[str, str | None]) -> tuple[str, str | None]:
    """Return the kind of link that an element is, and its URL as written."""
    match name:
        case "a" | "area":
            return name, attributes.get("href")
        case "link":
            return _find_kind_of_relation(attributes.get("rel") or "", attributes.get("type") or ""), attributes.get(
                "href"
            )
        case "frame" | "iframe":
            return "frame", attributes.get("src")
        case "meta" if (attributes.get("http-equiv") or "").strip().lower() == "refresh":
            return "refresh", parse_refresh_target(attributes.get("content") or "")
        case _:
            return "", None


def _find_kind_of_relation(rel: str, content_type: str) -> str:
    relations = rel.lower().split()
    if "stylesheet" in relations:
        return ""
    kind = next((one for one in _RELATIONS if one in relations), "")
    if kind != "alternate":
        return kind
    media_type = content_type.partition(";")[0].strip().lower()
    return "feed" if media_type in _FEEDS else "alternate" if media_type in _PAGES else ""


def _parse_meta_directives(attributes: Mapping[str, str | None], agent: str) -> Directives:
    name = (attributes.get("name") or "").strip().lower()
    if name != "robots" and name != agent.lower():
        return NO_DIRECTIVES
    return parse_directives(attributes.get("content") or "")


def parse_refresh_target(content: str) -> str | None:
    """Return the URL in a Refresh header or the content of such a meta element, as written; None if it is invalid."""
    found = _REFRESH.match(content[:MAX_TEXT])
    return (found[1] or found[2] or found[3] or "").strip() if found else None
