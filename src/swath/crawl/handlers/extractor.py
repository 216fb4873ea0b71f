"""PageExtractor: call the handler of a page within limits of time and memory, and collect what it yields."""

import asyncio
import logging
import traceback
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from swath.crawl.archive.record import ItemLine
from swath.crawl.handlers.collector import Collector
from swath.crawl.handlers.crawler import Crawler
from swath.crawl.handlers.errors import HandlerTimeout, PageRetry
from swath.crawl.handlers.handler_threads import HandlerThreads
from swath.crawl.handlers.page import Page
from swath.crawl.handlers.registration import Handler
from swath.crawl.handlers.requests import Request

log = logging.getLogger("swath.crawl")

MAX_HUNG: Final = 100  # threads whose handler did not return in time
MAX_KINDS: Final = 50  # of failures that are logged
MAX_REASON_CHARS: Final = 600
MAX_TRACE_CHARS: Final = 8_000  # of the end, which names the exception
SWATH_FOLDER: Final = str(Path(__file__).parents[2])


class HandlerFailure(NamedTuple):
    """Why a handler failed: one line, and the traceback."""

    reason: str
    error: str


class Extraction(NamedTuple):
    """What the handler of a page has yielded, unless it failed or asks for a retry."""

    handler: str
    items: Sequence[ItemLine] = ()
    requests: Sequence[Request] = ()
    failure: HandlerFailure | None = None
    retry: PageRetry | None = None


class PageExtractor:
    """Calls the handlers of one process."""

    def __init__(self, crawler: Crawler) -> None:
        self.crawler: Final = crawler
        self._threads = HandlerThreads()
        self._bytes = 0  # of the pages in handlers
        self._hung = 0
        self._warned = False
        self._logged: set[tuple[str, str, str | None]] = set()

    def close(self) -> None:
        """End the threads. Those whose handler has not returned end with the process."""
        self._threads.close()

    @property
    def is_full(self) -> bool:
        """Whether no page should be fetched: the pages in handlers have too many bytes, or too many handlers hang."""
        if self._hung >= MAX_HUNG and not self._warned:
            self._warned = True
            log.warning("%d calls of handlers have not returned in time: no page is fetched until they do", self._hung)
        return self._bytes >= self.crawler.page_memory or self._hung >= MAX_HUNG

    async def extract(self, handler: Handler, page: Page, *, size: int) -> Extraction:
        """Call a handler. `size` is the memory of the page in bytes. Errors of the handler are part of the result."""
        collector = Collector(page, handler, find_name=self.crawler.find_name, classes=self.crawler.classes)
        self._bytes += size
        try:
            if handler.is_async:
                await self._call_in_loop(handler, page, collector)
            else:
                await self._call_in_thread(handler, page, collector, size)
        except PageRetry as retry:
            retry.reason = _make_storable(str(retry.reason)[:MAX_REASON_CHARS])
            return Extraction(handler.name, retry=retry)
        except Exception as error:  # noqa: BLE001  a handler's failure settles its page
            return Extraction(handler.name, failure=self._describe_failure(handler, page, error))
        finally:
            collector.is_closed = True
            self._bytes -= size
        return Extraction(handler.name, collector.lines, collector.requests)

    async def _call_in_loop(self, handler: Handler, page: Page, collector: Collector) -> None:
        limit = self.crawler.handler_timeout
        scope = asyncio.timeout(limit)
        try:
            async with scope:
                await collector.collect_async(handler.function(page))
        except TimeoutError:
            if not scope.expired():
                raise  # the handler's own
            raise HandlerTimeout(f"the handler took longer than {limit:g} s") from None

    async def _call_in_thread(self, handler: Handler, page: Page, collector: Collector, size: int) -> None:
        limit = self.crawler.handler_timeout
        call = self._threads.start(partial(_call, handler, page, collector))
        timer = asyncio.get_running_loop().call_later(limit, _give_up, call.future, limit)
        try:
            error = await call.future
        finally:
            timer.cancel()
            if not call.has_returned:  # the page stays in memory until the thread ends
                self._hung += 1
                self._bytes += size
                call.on_late_return = partial(self._forget_hung, size)
        if error is not None:
            raise error

    def _forget_hung(self, size: int) -> None:
        self._hung -= 1
        self._bytes -= size
        self._warned = False

    def _describe_failure(self, handler: Handler, page: Page, error: Exception) -> HandlerFailure:
        place = _find_place(error)
        text = " ".join(traceback.format_exception_only(error)[-1].split())
        name = type(error).__name__
        said = text.partition(": ")[2] if ": " in text else ""
        said = f": {said}"[:MAX_REASON_CHARS] if said else ""
        reason = _make_storable(f"{handler.name}: {name}{said}" + (f" ({place})" if place else ""))
        trace = _make_storable(_format_trace(error)[-MAX_TRACE_CHARS:])
        kind = (handler.name, name, place)
        if kind not in self._logged and len(self._logged) < MAX_KINDS:
            self._logged.add(kind)
            log.warning(
                "handler %s; page %s; more failures of this kind are only counted\n%s", reason, page.url, trace.rstrip()
            )
        return HandlerFailure(reason, trace)


def _call(handler: Handler, page: Page, collector: Collector) -> None:
    collector.collect(handler.function(page))


def _give_up(future: "asyncio.Future[BaseException | None]", limit: float) -> None:
    if not future.done():
        future.set_result(HandlerTimeout(f"the handler took longer than {limit:g} s; its thread still runs"))


def _find_place(error: Exception) -> str | None:
    """Return the file and line of the innermost frame that is not swath's."""
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    users = [(file, line) for file, line in frames if not file.startswith(SWATH_FOLDER)]
    return f"{Path(users[-1][0]).name}:{users[-1][1]}" if users else None


def _make_storable(text: str) -> str:
    """Replace lone surrogates, which neither a store nor the page list can hold."""
    return text.encode(errors="backslashreplace").decode()


def _format_trace(error: Exception) -> str:
    """Return the traceback without the frames above the handler, which are swath's."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(SWATH_FOLDER):
        trace = trace.tb_next
    try:
        return "".join(traceback.format_exception(type(error), error, trace or error.__traceback__))
    except Exception as broken:  # noqa: BLE001  formatting calls methods of the user's exception class
        return f"(its traceback cannot be shown: {type(broken).__name__})"
