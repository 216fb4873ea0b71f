"""Collector: check what a handler yields for one page, and keep it until the page is settled."""

import json
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import blake2b
from types import AsyncGeneratorType, GeneratorType
from typing import Any, Final

from swath.crawl.archive.record import ItemLine
from swath.crawl.handlers.errors import InvalidYield
from swath.crawl.handlers.items import describe_wrong_value, format_item, is_item, simplify
from swath.crawl.handlers.page import Page
from swath.crawl.handlers.pipeline import Pipeline
from swath.crawl.handlers.registration import Handler
from swath.crawl.handlers.requests import Follow, Request, ResolvedLinks, Target, check_request, set_url
from swath.crawl.page_request import store_request
from swath.crawl.priority import TOP_LEVEL

MAX_BYTES: Final = 10_000_000  # of all that a handler yields for a page
LINK_BYTES: Final = 100  # counted for each link, in addition to its URL
EMPTY_BYTES: Final = (
    100  # counted for an item that a pipeline drops and for a Follow: a handler may yield them endlessly
)
MAX_PAYLOAD: Final = 200_000  # bytes of the payload of a Follow or Request
MAX_STORED: Final = 230_000  # bytes of the payload, headers and body of a Request


class Collector:
    """What one call of a handler has yielded."""

    def __init__(
        self,
        page: Page,
        handler: Handler,
        *,
        find_name: Callable[[Target], str | None],
        classes: dict[str, type],
        pipelines: Sequence[Pipeline] = (),
        keep_values: bool = False,
        limit: int = MAX_BYTES,
        purpose: str = "one page",
    ) -> None:
        """`find_name` returns the name of the handler that `to=` refers to, or raises InvalidYield. `classes` has the
        class of each kind, and grows. `pipelines` are applied to each item in order.
        `limit` is the maximum size of everything, in bytes."""
        self.lines: list[ItemLine] = []  # the items as they are written
        self.values: list[Any] = []  # and as they were yielded, with `keep_values`
        self.requests: list[Request] = []  # with absolute URLs and names of handlers
        self.is_closed = False  # the handler was abandoned
        self._page = page
        self._handler = handler
        self._find_name = find_name
        self._classes = classes
        self._pipelines = pipelines
        self._keep_values = keep_values
        self._limit = limit
        self._purpose = purpose
        self._size = 0
        fetched_at = format_time(page.fetched_at)
        self._visit = make_visit_id(page.key, fetched_at)
        self._meta = {
            "_url": page.url,
            "_fetched_at": fetched_at,
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
            self._add_yielded(value, returned)

    async def collect_async(self, returned: object) -> None:
        """Add what an async handler returned: an async iterator, or an awaitable of an iterable or None."""
        if isinstance(returned, AsyncGenerator):
            async with aclosing(returned):
                async for value in returned:
                    self._add_yielded(value, returned)
        elif isinstance(returned, AsyncIterable):
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

    def _add_yielded(self, value: object, returned: object) -> None:
        """Add a value, and note in an error which `yield` it came from."""
        try:
            self.add(value)
        except InvalidYield as error:
            error.yielded_at = _find_yield(returned)
            raise

    def add(self, value: object) -> None:
        """Check and add one value. Raise InvalidYield if it is not an item, a Follow or a Request."""
        if self.is_closed:
            raise InvalidYield("the handler was abandoned")  # ends a generator that runs in a thread
        match value:
            case Follow():
                self._count(EMPTY_BYTES)
                options = Request("", to=value.to, priority=value.priority, payload=value.payload)
                self._add_requests(value.urls, options, strict=False)
            case Request():
                self._add_requests([value.url], check_request(value), strict=True)
            case None:
                raise InvalidYield(describe_wrong_value(value))
            case _:
                if self._pipelines and (value := self._apply_pipelines(value)) is None:
                    self._count(EMPTY_BYTES)
                    return
                line = format_item(value, {**self._meta, "_id": f"{self._visit}-{len(self.lines)}"})
                self._check_class(line.kind, value)
                self._count(len(line.line))
                self.lines.append(line)
                if self._keep_values:
                    self.values.append(value)

    def _apply_pipelines(self, value: object) -> object:
        """Return what the pipelines make of an item; None if one of them drops it."""
        if not is_item(value):
            raise InvalidYield(describe_wrong_value(value))
        for pipeline in self._pipelines:
            if (value := pipeline.apply(value, self._page)) is None:
                return None
        return value

    def _check_class(self, kind: str, value: object) -> None:
        """Raise InvalidYield if the items of a kind are of two classes, whose fields would be mixed in one output."""
        if isinstance(value, Mapping):
            return
        known, name = _get_full_name(self._classes.setdefault(kind, type(value))), _get_full_name(type(value))
        if known != name:
            raise InvalidYield(f"{known} and {name} would be written to the same output: rename one of the classes")

    def _add_requests(self, urls: Iterable[object], options: Request, *, strict: bool) -> None:
        """Add pages to fetch. If a URL is not one of http or https, raise InvalidYield if `strict`, or skip it."""
        to, priority, payload = self._find_name(options.to), options.priority, options.payload
        if priority is not None and (type(priority) is not int or not 0 <= priority <= TOP_LEVEL):
            raise InvalidYield(f"priority={priority!r:.80}: pass a whole number from 0 to {TOP_LEVEL}")
        size = LINK_BYTES
        if payload is not None:
            payload = simplify(payload, "payload")
            payload_size = len(json.dumps(payload))
            if not _is_unicode(payload):
                raise InvalidYield("the payload has text that is not valid Unicode: replace the surrogates in it")
            if payload_size > MAX_PAYLOAD:
                raise InvalidYield(f"the payload has {payload_size:,} bytes as JSON, the limit is {MAX_PAYLOAD:,}")
            size += payload_size
        size += self._measure_request(options, size)
        options = replace(options, to=to, payload=payload)
        is_resolved = isinstance(urls, ResolvedLinks)
        for url in urls:
            if not isinstance(url, str):
                raise InvalidYield(f"{url!r:.80} of type {type(url).__name__} is not a URL: pass a str")
            self._count(size + len(url))
            if (resolved := url if is_resolved else self._page.resolve(url)) is not None:
                self.requests.append(set_url(options, resolved))
            elif strict:
                raise InvalidYield(f"Request({url[:200]!r}): this is not an http or https URL")

    def _measure_request(self, request: Request, payload_size: int) -> int:
        """Return the bytes that the headers and body of a request take in the frontier, as JSON."""
        if not request.headers and not request.body:
            return 0
        assert not isinstance(request.body, str)
        _, stored = store_request(
            "", method=request.method, headers=request.headers, body=request.body, key=request.key
        )
        size = len(json.dumps(stored))
        if size + payload_size > MAX_STORED:
            raise InvalidYield(
                f"the payload, headers and body have {size + payload_size:,} bytes as JSON, the limit is {MAX_STORED:,}"
            )
        return size

    def _count(self, size: int) -> None:
        self._size += size
        if self._size > self._limit:
            raise InvalidYield(
                f"handler {self._handler.name} yielded more than {self._limit // 1_000_000} MB for {self._purpose}: "
                "yield less, or write files and yield their names"
            )


def _find_yield(returned: object) -> tuple[str, int, str] | None:
    """Return the file, line and function in which a generator is suspended."""
    while isinstance(returned, GeneratorType) and isinstance(returned.gi_yieldfrom, GeneratorType):
        returned = returned.gi_yieldfrom
    match returned:
        case GeneratorType():
            frame = returned.gi_frame
        case AsyncGeneratorType():
            frame = returned.ag_frame
        case _:
            return None
    return None if frame is None else (frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


def _get_full_name(found: type) -> str:
    return f"{found.__module__}.{found.__qualname__}"


def _is_unicode(payload: object) -> bool:
    try:
        json.dumps(payload, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def make_visit_id(key: str, fetched_at: str) -> str:
    """Return a text that identifies a visit of a page. It is the same when a handler runs over the archive."""
    return blake2b(f"{key} {fetched_at}".encode(), digest_size=10).hexdigest()


def format_time(moment: datetime) -> str:
    return f"{moment.astimezone(UTC).isoformat(timespec='microseconds').removesuffix('+00:00')}Z"
