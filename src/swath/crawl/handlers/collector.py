"""Collector: check what a handler yields for one page, and keep it until the page is settled."""

import json
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, Final

from swath.crawl.handlers.errors import InvalidYield
from swath.crawl.handlers.items import ItemLine, describe_wrong_value, format_item, is_item
from swath.crawl.handlers.page import Page
from swath.crawl.handlers.registration import Handler
from swath.crawl.handlers.requests import Follow, Request, Target
from swath.crawl.priority import TOP_LEVEL

MAX_BYTES: Final = 10_000_000  # of all that a handler yields for a page
LINK_BYTES: Final = 100  # counted for each link, in addition to its URL
MAX_PAYLOAD: Final = 200_000  # bytes of the payload of a Follow or Request


class Collector:
    """What one call of a handler has yielded."""

    def __init__(self, page: Page, handler: Handler, *, find_name: Callable[[Target], str | None]) -> None:
        """`find_name` returns the name of the handler that `to=` refers to, or raises InvalidYield."""
        self.values: list[Any] = []  # the items as they were yielded
        self.lines: list[ItemLine] = []  # and as they are written
        self.requests: list[Request] = []  # with absolute URLs and names of handlers
        self.is_closed = False  # the handler was abandoned
        self._page = page
        self._handler = handler
        self._find_name = find_name
        self._size = 0
        self._visit = make_visit_id(page.url, page.fetched_at)
        self._meta = {
            "_url": page.url,
            "_fetched_at": format_time(page.fetched_at),
            "_handler": handler.name,
            "_version": handler.version,
        }

    def collect(self, returned: object) -> None:
        """Add what a plain handler returned: an iterable of values, or None."""
        if returned is None:
            return
        if isinstance(returned, Awaitable | AsyncIterable):
            raise InvalidYield(
                f"handler {self._handler.name} returned {type(returned).__name__}: define it with `async def`"
            )
        for value in self._check_iterable(returned):
            self.add(value)

    async def collect_async(self, returned: object) -> None:
        """Add what an async handler returned: an async iterator, or an awaitable of an iterable or None."""
        if isinstance(returned, AsyncIterable):
            async for value in returned:
                self.add(value)
        elif isinstance(returned, Awaitable):
            self.collect(await returned)
        else:
            self.collect(returned)

    def _check_iterable(self, returned: object) -> Iterable[object]:
        """Return what is an iterable of values. A single value may be iterable, too, but is a mistake."""
        if isinstance(returned, Follow | Request) or is_item(returned):
            raise InvalidYield(
                f"handler {self._handler.name} returned one {type(returned).__name__}: yield it, or return a list"
            )
        if isinstance(returned, str | bytes) or not isinstance(returned, Iterable):
            raise InvalidYield(
                f"handler {self._handler.name} returned a value of type {type(returned).__name__}: yield values, or "
                "return a list of them"
            )
        return returned

    def add(self, value: object) -> None:
        """Check and add one value. Raise InvalidYield if it is not an item, a Follow or a Request."""
        if self.is_closed:
            raise InvalidYield("the handler was abandoned")  # ends a generator that runs in a thread
        match value:
            case Follow():
                for url in value.urls:
                    self._add_request(Request(url, value.to, value.priority, value.payload), strict=False)
            case Request():
                self._add_request(value, strict=True)
            case _:
                if value is None:
                    raise InvalidYield(describe_wrong_value(value))
                line = format_item(value, {**self._meta, "_id": f"{self._visit}-{len(self.lines)}"})
                self._count(len(line.line))
                self.values.append(value)
                self.lines.append(line)

    def _add_request(self, request: Request, *, strict: bool) -> None:
        """Add a page to fetch. If its URL is not one of http or https, raise InvalidYield if `strict`, or skip it."""
        url, priority = request.url, request.priority
        if not isinstance(url, str):
            raise InvalidYield(f"{url!r:.80} of type {type(url).__name__} is not a URL: pass a str")
        if priority is not None and (type(priority) is not int or not 0 <= priority <= TOP_LEVEL):
            raise InvalidYield(f"priority={priority!r:.80}: pass a whole number from 0 to {TOP_LEVEL}")
        to = self._find_name(request.to)
        self._count(LINK_BYTES + len(url) + (0 if request.payload is None else _check_payload(request.payload)))
        if (resolved := self._page.resolve(url)) is not None:
            self.requests.append(replace(request, url=resolved, to=to))
        elif strict:
            raise InvalidYield(f"Request({url[:200]!r}): this is not an http or https URL")

    def _count(self, size: int) -> None:
        self._size += size
        if self._size > MAX_BYTES:
            raise InvalidYield(
                f"handler {self._handler.name} yielded more than {MAX_BYTES // 1_000_000} MB for one page: yield less, "
                "or write files and yield their names"
            )


def _check_payload(payload: object) -> int:
    try:
        size = len(json.dumps(payload, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidYield(f"payload={payload!r:.80} cannot be written as JSON: {error}") from None
    if size > MAX_PAYLOAD:
        raise InvalidYield(f"payload={payload!r:.80} has {size:,} bytes as JSON, the limit is {MAX_PAYLOAD:,}")
    return size


def make_visit_id(url: str, fetched_at: datetime) -> str:
    """Return a text that identifies a visit of a page. It is the same when a handler runs over the archive."""
    return blake2b(f"{url} {format_time(fetched_at)}".encode(), digest_size=10).hexdigest()


def format_time(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
