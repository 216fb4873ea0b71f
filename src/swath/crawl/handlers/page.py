"""Page: what a handler sees of a page. It needs no network, so a handler can be tested, and run over the archive."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NoReturn

from selectolax.lexbor import LexborHTMLParser

from swath import MAX_SECONDS, UsageError
from swath.crawl.handlers.errors import PageRetry
from swath.crawl.handlers.requests import Follow, Target
from swath.crawl.handlers.selection import Selection, find_nodes
from swath.crawl.handlers.tree import parse_tree
from swath.crawl.http.content_coding import DecodedBody
from swath.crawl.http.response import Headers, Response
from swath.crawl.parse.charset import decode_within, encode_query
from swath.crawl.parse.html import AGENT
from swath.crawl.parse.page import MIN_TEXT, ParsedPage, decode_body, parse_decoded_page
from swath.crawl.urls.normalise import MAX_TEXT, has_scheme, normalise

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
        self._response = response
        self._decoded = decoded
        self._limit = limit
        self._parsed = parsed
        self._text: tuple[str, str] | None = None  # and its encoding
        self._tree: LexborHTMLParser | None = None
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
        return self._decode_text()[0]

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
        return Selection(find_nodes(self._parse_tree(), selector), selector, self.resolve)

    def links(self) -> list[str]:
        """Return the URLs that a crawl without handlers would find on this page."""
        return list(self._parse().links)

    def follow(
        self, links: str | Selection, *, to: Target = None, priority: int | None = None, payload: Any = None
    ) -> Follow:
        """Return the links of all elements that match a CSS selector, for a handler to yield.

        Elements without an http or https URL are skipped. For URLs that are known, use `Follow(urls)`.
        """
        selected = self.css(links) if isinstance(links, str) else links
        return Follow(tuple(selected.urls()), to=to, priority=priority, payload=payload)

    def retry(self, *, after: float, reason: str = "the handler asked for it") -> NoReturn:
        """Leave the handler, and fetch the page again `after` seconds from now. What it has yielded is discarded.

        The page fails if that happens more often than `--retries` allows.
        """
        if not 0 <= after <= MAX_SECONDS:
            raise UsageError(f"page.retry(after={after}): must be a number of seconds from 0 to {MAX_SECONDS:,}")
        raise PageRetry(after, reason)

    def resolve(self, link: str) -> str | None:
        """Return a link of this page as a normalised absolute URL; None if it is not an http or https URL."""
        encoded = encode_query(link, self._decode_text()[1], limit=MAX_TEXT)
        return normalise(encoded, None if has_scheme(link) else self._get_base())

    # Everything is parsed on first use, and once. Not with functools.cached_property: before Python 3.12 it has one
    # lock for the pages of all threads.

    def _decode_text(self) -> tuple[str, str]:
        if self._text is None:
            content_type = self._response.headers.get("content-type")
            text, name, _ = decode_within(self.body, content_type, limit=max(self._limit, MIN_TEXT))
            self._text = text, name
        return self._text

    def _parse_tree(self) -> LexborHTMLParser:
        if self._tree is None:
            self._tree = parse_tree(self.text)
        return self._tree

    def _get_base(self) -> str:
        if self._base is None:
            written = next((node.attributes.get("href") for node in find_nodes(self._parse_tree(), "base[href]")), None)
            self._base = (normalise(written, self.url) if written else None) or self.url
        return self._base

    def _parse(self) -> ParsedPage:
        if self._parsed is None:
            decoded = DecodedBody(self.body)
            self._parsed = parse_decoded_page(self.url, self._response, decoded, limit=self._limit, agent=AGENT)
        return self._parsed

    def __repr__(self) -> str:
        return f"<Page {self.url} status={self.status}>"
