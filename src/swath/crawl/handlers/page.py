"""Page: what a handler sees of a page. It needs no network, so a handler can be tested, and run over the archive."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NoReturn

from swath import MAX_SECONDS, UsageError
from swath.crawl.archive.warc_reader import parse_response
from swath.crawl.handlers.errors import PageRetry
from swath.crawl.handlers.requests import Follow, ResolvedLinks, Target
from swath.crawl.handlers.selection import FoundNodes, Selection
from swath.crawl.handlers.tree import require_tree
from swath.crawl.handlers.xpath import XPathSelection, find_parts, parse_xpath_tree
from swath.crawl.http.content_coding import DecodedBody
from swath.crawl.http.response import Headers, Response
from swath.crawl.parse.charset import encode_query
from swath.crawl.parse.html import AGENT
from swath.crawl.parse.page import ParsedPage, decode_body, decode_text, parse_decoded_page
from swath.crawl.parse.page_text import PageText
from swath.crawl.urls.normalise import MAX_TEXT, normalise, normalise_all

MAX_BODY: Final = 50_000_000  # bytes of a decoded body of a page that was not made by a crawl
_HTML: Final = {"content-type": "text/html; charset=utf-8"}


class PageHeaders(Mapping[str, str]):
    """The headers of a response. Names are case-insensitive; several values of a name are joined with commas."""

    __slots__ = ("_headers",)

    def __init__(self, headers: Headers) -> None:
        self._headers = headers

    def __getitem__(self, name: str) -> str:
        value = self._headers.get_list(name.lower())
        if value is None:
            raise KeyError(name)
        return value

    def get_all(self, name: str) -> Sequence[str]:
        """Return every value of a header, in order."""
        return self._headers.get_all(name.lower())

    def __iter__(self) -> Iterator[str]:
        return iter(self._headers)

    def __len__(self) -> int:
        return len(self._headers)

    def __repr__(self) -> str:
        return repr(dict(self))


class Page:
    """A page that was fetched: its response, and how the crawl found it."""

    def __init__(
        self,
        response: Response,
        *,
        decoded: DecodedBody | None = None,
        parsed: ParsedPage | None = None,
        depth: int = 0,
        referrer: str | None = None,
        payload: Any = None,
        attempts: int = 0,
        method: str = "GET",
        key: str | None = None,
        limit: int = MAX_BODY,
    ) -> None:
        """Use `Page.from_html` instead. `decoded` and `parsed` are the body and its parts, if they are known.

        `limit` is the maximum size of the decoded body.
        """
        self.url: Final = response.url
        self.status: Final = response.status
        self.headers: Final = PageHeaders(response.headers)
        self.depth: Final = depth
        """The number of links from a seed."""
        self.referrer: Final = referrer
        """The URL of the page that linked to this one; None for a seed."""
        self.payload: Final = payload
        """The payload of the `Follow` or `Request` that led here."""
        self.method: Final = method
        """The method of the request."""
        self.key: Final = response.url if key is None else key
        """What identifies the page in the crawl: the URL, or the `key` of its `Request`."""
        self.attempts: Final = attempts
        """How often the page was fetched before, because a fetch failed or a handler asked for a retry."""
        self.state: Any = None
        """What the lifespan of the crawler yields; None if it has none."""
        self._response = response
        self._decoded = decoded
        self._limit = limit
        self._parsed = parsed
        self._text = None if parsed is None else parsed.text
        self._xpath_tree: Any = None
        self._base: str | None = None

    @classmethod
    def from_html(
        cls,
        html: str | bytes,
        *,
        url: str = "https://example.com/",
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        depth: int = 0,
        referrer: str | None = None,
        payload: Any = None,
        fetched_at: datetime = datetime(2030, 1, 1, tzinfo=UTC),
        method: str = "GET",
        key: str | None = None,
    ) -> "Page":
        """Return a page for a test. The default Content-Type is HTML in UTF-8; bytes are the body as received."""
        normal = normalise(url)
        if normal is None:
            raise UsageError(f"url={url!r} is not an http or https URL")
        body = html.encode() if isinstance(html, str) else html
        fields = {name.lower(): value for name, value in (headers or {}).items()}
        lines = "".join(f"{name}: {value}\r\n" for name, value in {**_HTML, **fields}.items())
        head = f"HTTP/1.1 {status}\r\n{lines}\r\n".encode("latin-1", "replace")
        time = fetched_at.timestamp()
        response = Response(normal, status, "http/1.1", b"", head, Headers(head), body, None, time, None, time)
        return cls(response, depth=depth, referrer=referrer, payload=payload, method=method, key=key)

    @classmethod
    def from_warc(
        cls,
        record: bytes,
        *,
        original: bytes | None = None,
        depth: int = 0,
        referrer: str | None = None,
        payload: Any = None,
    ) -> "Page":
        """Return the page of a WARC record, with its WARC header, of swath or any other program, compressed or not.

        A revisit record has no body: `original` is the record that it refers to.
        """
        found = parse_response(record)
        if found.is_revisit:
            if original is None:
                raise UsageError("a revisit record has no body: pass original=, the record that it refers to")
            found = found._replace(body=parse_response(original).body)
        url, status, time = normalise(found.url), found.status, found.time
        if url is None or status is None or time is None:
            raise UsageError(
                f"the WARC record has the URL {found.url!r:.200} and the date "
                f"{found.fields.get('warc-date')!r:.80}: it needs an http or https URL, and a date"
            )
        response = Response(
            url, status, "http/1.1", b"", found.head, found.headers, found.body, None, time, None, time
        )  # fmt: skip
        return cls(response, depth=depth, referrer=referrer, payload=payload)

    @property
    def fetched_at(self) -> datetime:
        """When the request was sent, in UTC."""
        return datetime.fromtimestamp(self._response.started, UTC)

    @property
    def body(self) -> bytes:
        """The body without content codings such as gzip. A body over the size limit is truncated."""
        if self._decoded is None:
            self._decoded = decode_body(self._response, limit=self._limit)
        return self._decoded.body

    @property
    def text(self) -> str:
        """The body as text, in the encoding that a browser would use."""
        return self._decode_text().text

    def json(self) -> Any:
        """Parse the body as JSON."""
        return json.loads(self.body)

    @property
    def title(self) -> str:
        """The title as one line; empty if there is none."""
        return self._parse().title

    def css(self, selector: str) -> Selection:
        """Return the elements that match a CSS selector.

        The first call builds the tree. Raise PageTooComplex if the page is too large or nested too deep for one.
        """
        return Selection(FoundNodes(require_tree(self._decode_text()), selector), selector, self._resolve_all)

    def xpath(self, expression: str) -> XPathSelection:
        """Return what an XPath expression matches. This needs the extra `xpath`.

        lxml parses the page a second time, so `css()` is faster. Raise PageTooComplex like `css()`.
        """
        if self._xpath_tree is None:
            self._xpath_tree = parse_xpath_tree(self._decode_text())
        return XPathSelection(find_parts(self._xpath_tree, expression), expression, self._resolve_all)

    def links(self) -> list[str]:
        """Return the URLs that a crawl without handlers would find on this page."""
        return list(self._parse(links=True).links or ())

    def follow(
        self,
        links: str | Selection | XPathSelection,
        *,
        to: Target = None,
        priority: int | None = None,
        payload: Any = None,
    ) -> Follow:
        """Return the links of all elements that match a CSS selector, for a handler to yield.

        Elements without an http or https URL are skipped. For URLs that are known, use `Follow(urls)`.
        """
        selected = self.css(links) if isinstance(links, str) else links
        return Follow(ResolvedLinks(selected.urls()), to=to, priority=priority, payload=payload)

    def retry(self, *, after: float, reason: str = "the handler asked for it") -> NoReturn:
        """Leave the handler, and fetch the page again `after` seconds from now. What it has yielded is discarded.

        The page fails if that happens more often than `--retries` allows.
        """
        if not 0 <= after <= MAX_SECONDS:
            raise UsageError(f"page.retry(after={after}): must be a number of seconds from 0 to {MAX_SECONDS:,}")
        raise PageRetry(after, reason)

    def resolve(self, link: str) -> str | None:
        """Return a link of this page as a normalised absolute URL; None if it is not an http or https URL."""
        return self._resolve_all([link])[0]

    def _resolve_all(self, links: Sequence[str]) -> list[str | None]:
        if not all(map(str.isascii, links)):
            charset = self._decode_text().charset
            links = [encode_query(link, charset, limit=MAX_TEXT) for link in links]
        return normalise_all(links, self._get_base())

    # Everything is parsed on first use, and once. Not with functools.cached_property: before Python 3.12 it has one
    # lock for the pages of all threads.

    def _decode_text(self) -> PageText:
        if self._text is None:
            content_type = self._response.headers.get("content-type")
            self._text, _ = decode_text(self.body, content_type, limit=self._limit)
        return self._text

    def _get_base(self) -> str:
        if self._base is None:
            self._base = self._parse().base or self.url
        return self._base

    def _parse(self, *, links: bool = False) -> ParsedPage:
        parsed = self._parsed
        if parsed is None or (links and parsed.links is None):
            decoded = DecodedBody(self.body)
            parsed = self._parsed = parse_decoded_page(
                self.url, self._response, decoded, limit=self._limit, agent=AGENT, text=self._text, links=links,
                keep_text=True,
            )  # fmt: skip
            self._text = self._text or parsed.text
        return parsed

    def __repr__(self) -> str:
        return f"<Page {self.url} status={self.status}>"
