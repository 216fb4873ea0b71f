"""A crawler as plain as can be: html.parser and urllib, no politeness, one request at a time."""

import codecs
import gzip
import re
from collections import deque
from collections.abc import Iterable, Iterator
from html import unescape
from html.parser import HTMLParser
from urllib.parse import quote, urljoin, urlsplit

from swath.testing.web import WebServer
from tests.testing.client import Got, fetch

_CODECS = {"shift_jis": "cp932", "iso-8859-1": "cp1252"}
_LINKS = {"a": "href", "area": "href", "iframe": "src", "frame": "src"}
_RELATIONS = {"next", "canonical", "alternate"}


class LinkParser(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.base: str | None = None
        self.hrefs: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        relations = set(values.get("rel", "").lower().split())
        if tag == "base":
            self.base = self.base or values.get("href")
        elif tag in _LINKS and _LINKS[tag] in values and "nofollow" not in relations:
            self.hrefs.append(values[_LINKS[tag]])
        elif tag == "link" and relations & _RELATIONS:
            self.hrefs.append(values["href"])
        elif tag == "meta" and values.get("http-equiv", "").lower() == "refresh":
            self.hrefs.append(values["content"].partition("url=")[2])


def text_of(got: Got) -> str:
    body = got.unpacked()
    if body.startswith(codecs.BOM_UTF8):
        return body.decode("utf-8-sig")
    said = re.search(r"charset=([\w-]+)", got.headers.get("content-type", ""))
    meta = re.search(rb'<meta charset="([\w-]+)"', body[:1024])
    charset = said[1] if said else meta[1].decode() if meta else "utf-8"
    return body.decode(_CODECS.get(charset.lower(), charset))


def normal(base: str, href: str) -> str | None:
    """The absolute form, as far as the ordinary hosts need it."""
    parts = urlsplit(urljoin(base, re.sub(r"[\t\r\n]", "", href).strip()))
    if parts.scheme not in ("http", "https") or parts.hostname is None:
        return None
    path = quote(parts.path or "/", safe="/%")
    return f"{parts.scheme}://{parts.hostname}{path}" + (f"?{parts.query}" if parts.query else "")


def links_of(url: str, got: Got) -> Iterator[str]:
    kind = got.headers.get("content-type", "")
    if kind.startswith(("application/xml", "application/gzip")):
        body = gzip.decompress(got.body) if "gzip" in kind else got.unpacked()
        yield from (unescape(found) for found in re.findall(r"<loc>(.*?)</loc>", body.decode()))
    elif kind.startswith("text/html"):
        parser = LinkParser()
        parser.feed(text_of(got))
        for href in parser.hrefs:
            found = normal(parser.base or url, href)
            if found is not None:
                yield found


async def crawl(served: WebServer, seeds: Iterable[str], *, sitemaps: bool = True) -> dict[str, Got]:
    """Everything below demo.test that links lead to and robots.txt allows."""
    queue = deque(seeds)
    seen = set(queue)
    got: dict[str, Got] = {}
    shut: dict[str, bool] = {}
    while queue:
        url = queue.popleft()
        host = urlsplit(url).netloc
        if not host.endswith(".demo.test"):
            continue
        found: list[str] = []
        if host not in shut:
            robots = await fetch(served, f"http://{host}/robots.txt")
            rules = robots.body.decode() if robots.status == 200 else ""
            shut[host] = "Disallow: /private/" in rules
            if sitemaps:
                found += re.findall(r"^Sitemap: (.*)$", rules, re.MULTILINE)
        if shut[host] and urlsplit(url).path.startswith("/private/"):
            continue
        got[url] = await fetch(served, url)
        found += links_of(url, got[url])
        queue.extend(dict.fromkeys(link for link in found if link not in seen))
        seen.update(found)
    return got
