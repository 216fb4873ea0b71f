"""Parse feeds and sitemaps: the lists of URLs that a site publishes.

The formats are sitemaps (urlset, sitemapindex, plain text, all optionally gzipped), RSS and Atom. XML is parsed as a
stream, so memory does not grow with the file. Entity declarations are refused, so there is nothing to expand or fetch.
Links before an error are kept: a feed with a stray `&` in its tenth entry yields nine.
"""

import codecs
import re
import zlib
from collections.abc import Iterator
from xml.parsers import expat

from swath.crawl.parse.charset import charset_from_body, charset_from_header, get_python_codec
from swath.crawl.parse.document import Link, ParsedDocument, clean_title
from swath.crawl.urls.normalise import MAX_TEXT, normalise

MAX_ENTRIES = 50_000  # the limit of the sitemap protocol
MAX_URL_TEXT = 20_000_000  # characters of all URLs: a long xml:base can turn a few bytes into 2,048 characters
MAX_UNPACKED = 50 * 1024 * 1024  # its limit on the size in bytes
MAX_DEPTH = 64
MAX_TOKEN = 256 * 1024  # expat scans an incomplete token again with each chunk
CHUNK = 64 * 1024
GZIP = b"\x1f\x8b"

_ILLEGAL = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]+")  # in runs: a gzip bomb may consist of nothing else
_ROOTS = frozenset({"urlset", "sitemapindex", "rss", "rdf", "feed"})


class _LimitReached(Exception):
    """Raised to stop the parser at the limit of entries."""


def parse_feed(body: bytes, url: str, content_type: str | None = None) -> ParsedDocument:
    """Return the links of a feed or sitemap at a normalised URL. The kind is `entry` for pages, `sitemap` for further
    sitemaps, and `next` or `alternate` as in the feed."""
    feed = _FeedBuilder(url)
    try:
        text = _decode_chunks(body, content_type)
        head = ""
        for head in text:
            if head.strip():
                break
        if head.lstrip("\ufeff \t\r\n").startswith("<"):
            _parse_xml(feed, head.lstrip("\ufeff \t\r\n"), text)
        else:
            _parse_text(feed, head.lstrip("\ufeff"), text)
    except _LimitReached:
        pass
    # Some decoders cannot stop at the end of a chunk and raise UnicodeError.
    except (expat.ExpatError, zlib.error, UnicodeError):
        feed.malformed = True
    return ParsedDocument(
        title=clean_title(feed.title),
        links=tuple(feed.links.values()),
        base=url,
        truncated=feed.truncated,
        malformed=feed.malformed,
    )


def _decode_chunks(body: bytes, content_type: str | None) -> Iterator[str]:
    """Yield the decompressed and decoded text in chunks, without characters that XML forbids."""
    chunks = _gunzip_chunks(body) if body[:2] == GZIP else (body[at : at + CHUNK] for at in range(0, len(body), CHUNK))
    first = next(chunks, b"")
    if first[:2] == b"\xff\xfe" or first[:2] == b"\xfe\xff":
        name = "utf-16"
    else:
        name = get_python_codec(charset_from_header(content_type) or charset_from_body(first) or "utf-8")
    decoder = codecs.getincrementaldecoder(name)("replace")
    yield _ILLEGAL.sub("", decoder.decode(first))
    for chunk in chunks:
        yield _ILLEGAL.sub("", decoder.decode(chunk))


def _gunzip_chunks(body: bytes) -> Iterator[bytes]:
    """Yield the content of a gzip file in chunks, up to the size limit."""
    total = place = 0
    data = b""
    unpacker = None
    while True:
        # In slices: at the end of each gzip member the remaining input is copied.
        while len(data) < len(GZIP) and place < len(body):
            data += body[place : place + CHUNK]
            place += CHUNK
        if unpacker is None:
            if data[:2] != GZIP:
                return
            unpacker = zlib.decompressobj(wbits=31)
        chunk = unpacker.decompress(data, CHUNK)
        total += len(chunk)
        if total > MAX_UNPACKED:
            raise zlib.error(f"more than {MAX_UNPACKED} bytes")
        if chunk:
            yield chunk
        elif not data and not unpacker.eof:
            raise zlib.error("the file ends prematurely")
        data = unpacker.unconsumed_tail
        if unpacker.eof:
            data, unpacker = unpacker.unused_data, None


def _parse_text(feed: "_FeedBuilder", head: str, text: Iterator[str]) -> None:
    rest = head
    while True:
        lines = rest.replace("\r", "\n").split("\n")
        more = next(text, None)
        last = lines.pop() if more is not None else ""
        for line in lines:
            if line.strip():
                feed.add(line.strip(), "entry", absolute=True)
        if more is None:
            return
        rest = last[:MAX_TEXT] + more


def _parse_xml(feed: "_FeedBuilder", head: str, text: Iterator[str]) -> None:
    parser = expat.ParserCreate("utf-8")
    parser.buffer_text = True
    # Pretend that there is an external DTD: then expat skips HTML entities, which are common in feeds.
    parser.UseForeignDTD(True)
    parser.StartElementHandler = feed.start
    parser.EndElementHandler = feed.end
    parser.CharacterDataHandler = feed.characters
    parser.EntityDeclHandler = feed.refuse
    given = 0
    chunk: str | None = head
    while chunk is not None:
        data = chunk.encode("utf-8", "replace")
        parser.Parse(data, False)
        given += len(data)
        if given - max(parser.CurrentByteIndex, 0) > MAX_TOKEN:
            raise expat.ExpatError("unterminated token")
        chunk = next(text, None)
    parser.Parse(b"", True)


class _FeedBuilder:
    """Collects the links while expat parses the document."""

    def __init__(self, url: str) -> None:
        self.title = ""
        self.links: dict[str, Link] = {}
        self.truncated = False
        self.malformed = False
        self._names: list[str] = []
        self._bases = [url]  # of the document, and of each open element (xml:base)
        self._text: list[str] | None = None
        self._size = 0
        self._url_text = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if len(self._names) >= MAX_DEPTH:
            raise expat.ExpatError("nested too deeply")
        name = tag.rpartition(":")[2].lower()
        if not self._names and name not in _ROOTS:
            raise expat.ExpatError(f"root element {name[:100]} is not a feed")
        self._names.append(name)
        base = attributes.get("xml:base")
        self._bases.append((normalise(base, self._bases[-1]) if base else None) or self._bases[-1])
        self._text = None
        if name == "link" and "href" in attributes:
            self._add_link(attributes)
        elif name in ("loc", "link", "title") or (name == "guid" and attributes.get("isPermaLink") != "false"):
            self._text, self._size = [], 0

    def characters(self, data: str) -> None:
        if self._text is not None and self._size <= MAX_TEXT:
            self._text.append(data)
            self._size += len(data)

    def end(self, tag: str) -> None:
        name = self._names.pop()
        if self._text is not None:
            text, self._text = "".join(self._text).strip(), None
            self._add_text(name, self._names[-1] if self._names else "", text)
        self._bases.pop()

    def _add_text(self, name: str, parent: str, text: str) -> None:
        match name, parent:
            case "loc", "url":
                self.add(text, "entry")
            case "loc", "sitemap":
                self.add(text, "sitemap")
            case "link", "item" | "entry":
                self.add(text, "entry")
            case "link", "channel":
                self.add(text, "alternate")
            case "guid", "item" if text.startswith(("http://", "https://")):
                self.add(text, "entry")
            case "title", "channel" | "feed" if not self.title:
                self.title = text
            case _:
                pass

    def _add_link(self, attributes: dict[str, str]) -> None:
        """Add a link element of Atom, or of a sitemap with alternate languages."""
        rel = attributes.get("rel", "alternate").lower()
        if rel not in ("alternate", "next"):
            return
        inside = self._names[-2] if len(self._names) > 1 else ""
        kind = "entry" if inside == "entry" else rel
        self.add(attributes["href"], kind)

    def add(self, text: str, kind: str, *, absolute: bool = False) -> None:
        """Add a URL if it is valid. With `absolute`, relative URLs are ignored, as in text files."""
        url = normalise(text, None if absolute else self._bases[-1])
        if not text or url is None or url in self.links:
            return
        self._url_text += len(url)
        if len(self.links) >= MAX_ENTRIES or self._url_text > MAX_URL_TEXT:
            self.truncated = True
            raise _LimitReached
        self.links[url] = Link(url, kind)

    def refuse(self, *declaration: object) -> None:
        raise expat.ExpatError("entity declarations are not allowed")
