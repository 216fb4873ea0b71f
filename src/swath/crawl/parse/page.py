"""Read: from an answer to what it says: its title, where it leads, and what it asks of robots."""

from typing import NamedTuple

from swath.crawl.http.decode import Decoded, decode
from swath.crawl.http.response import Answer
from swath.crawl.parse import charset
from swath.crawl.parse.content_type import kind_of
from swath.crawl.parse.directives import Reading, x_robots_tag
from swath.crawl.parse.feeds import read_feed
from swath.crawl.parse.html import read_html


class Read(NamedTuple):
    """What was read of a page. `wrong` names what its encoding hid."""

    title: str = ""
    links: tuple[str, ...] = ()
    sitemaps: tuple[str, ...] = ()
    nofollow: bool = False
    noindex: bool = False
    noarchive: bool = False
    canonical: str | None = None
    wrong: str | None = None


def unpacked(answer: Answer, *, limit: int) -> Decoded:
    """A body without its content codings, and at most `limit` bytes of it."""
    return decode(answer.body, answer.headers.joined("content-encoding"), limit=limit)


def read(url: str, answer: Answer, *, limit: int, agent: str, sitemap: bool = False) -> Read:
    """Read a body of at most `limit` bytes without its content codings. Never raises: what cannot be read has no
    links."""
    return read_unpacked(url, answer, unpacked(answer, limit=limit), agent=agent, sitemap=sitemap)


def read_unpacked(url: str, answer: Answer, decoded: Decoded, *, agent: str, sitemap: bool = False) -> Read:
    """The same for a body that has been unpacked."""
    headers = answer.headers
    asked = x_robots_tag(headers.all("x-robots-tag"), agent)
    wrong = decoded.error or ("cut at the limit" if decoded.truncated else None)
    content_type = headers.get("content-type")
    reading = _reading(decoded.body, url, content_type, agent, sitemap)
    if reading is None:
        return Read(noarchive=asked.noarchive, noindex=asked.noindex, wrong=wrong)
    asked = asked.merged(reading.directives)
    links, sitemaps = [], []
    for target, named, nofollow in reading.links:
        if named == "sitemap":
            sitemaps.append(target)
        elif not nofollow:
            links.append(target)
    return Read(
        title=reading.title,
        links=tuple(links),
        sitemaps=tuple(sitemaps),
        nofollow=asked.nofollow,
        noindex=asked.noindex,
        noarchive=asked.noarchive,
        canonical=reading.canonical,
        wrong=wrong,
    )


def _reading(body: bytes, url: str, content_type: str | None, agent: str, sitemap: bool) -> Reading | None:
    kind = kind_of(content_type, body, sitemap=sitemap)
    if kind in ("feed", "sitemap"):
        return read_feed(body, url, content_type)
    if kind == "html":
        return read_html(charset.decode(body, content_type)[0], url, agent=agent)
    return None
