"""PageExtractor: call the handler of a page within limits of time and memory, and collect what it yields."""

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from swath.crawl.archive.record import ItemLine
from swath.crawl.handlers.collector import Collector
from swath.crawl.handlers.crawler import Crawler
from swath.crawl.handlers.errors import HandlerTimeout, PageRetry
from swath.crawl.handlers.failures import MAX_REASON_CHARS, describe_error, find_place, is_for_the_run, make_storable
from swath.crawl.handlers.handler_threads import HandlerThreads
from swath.crawl.handlers.page import Page
from swath.crawl.handlers.registration import Handler
from swath.crawl.handlers.requests import Request
from swath.crawl.handlers.start import SeedCollector, StartHandler, make_start_page

log = logging.getLogger("swath.crawl")

MAX_HUNG: Final = 100  # threads whose handler did not return in time
MAX_KINDS: Final = 50  # of failures that are logged


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

    def __init__(self, crawler: Crawler, *, state: Any = None) -> None:
        """`state` is what the lifespan of the crawler yields."""
        self.crawler: Final = crawler
        self._state = state
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

    async def wait_for_room(self, handler: Handler, *, size: int) -> None:
        """Wait until few pages wait for a thread. Call it before a page is parsed: its tree takes more memory.

        Meanwhile the page takes `size` bytes.
        """
        if handler.is_async:
            return
        self._bytes += size
        try:
            await self._threads.wait_for_room()
        finally:
            self._bytes -= size

    async def extract(self, handler: Handler, page: Page, *, size: int) -> Extraction:
        """Call a handler. `size` is the memory of the page in bytes. Errors of the handler are part of the result."""
        crawler = self.crawler
        page.state = self._state
        collector = Collector(
            page, handler, find_name=crawler.find_name, classes=crawler.classes, pipelines=crawler.pipelines
        )
        return await self._collect(handler, page, collector, size=size, limit=crawler.handler_timeout)

    async def extract_seeds(self, start: StartHandler) -> tuple[Extraction, set[str]]:
        """Call the start of the crawl. Return what it yields, and the URLs of seeds that had no scheme."""
        page = make_start_page()
        page.state = self._state
        collector = SeedCollector(page, start, self.crawler)
        extraction = await self._collect(start, page, collector, size=0, limit=self.crawler.start_timeout)
        return extraction, collector.bare

    async def _collect(
        self, handler: Handler, page: Page, collector: Collector, *, size: int, limit: float
    ) -> Extraction:
        self._bytes += size
        try:
            if handler.is_async:
                await self._call_in_loop(handler, page, collector, limit)
            else:
                await self._call_in_thread(handler, page, collector, size, limit)
        except PageRetry as retry:
            retry.reason = make_storable(str(retry.reason)[:MAX_REASON_CHARS])
            return Extraction(handler.name, retry=retry)
        except BaseException as error:
            if is_for_the_run(error) and (handler.is_async or not isinstance(error, KeyboardInterrupt)):
                raise
            return Extraction(handler.name, failure=self._describe_failure(handler, page, error))
        finally:
            collector.is_closed = True
            self._bytes -= size
        return Extraction(handler.name, collector.lines, collector.requests)

    async def _call_in_loop(self, handler: Handler, page: Page, collector: Collector, limit: float) -> None:
        scope = asyncio.timeout(limit)
        try:
            async with scope:
                await collector.collect_async(handler.function(page))
        except TimeoutError:
            if not scope.expired():
                raise  # the handler's own
            raise HandlerTimeout(f"the handler took longer than {limit:g} s") from None

    async def _call_in_thread(
        self, handler: Handler, page: Page, collector: Collector, size: int, limit: float
    ) -> None:
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

    def _describe_failure(self, handler: Handler, page: Page, error: BaseException) -> HandlerFailure:
        reason, trace = describe_error(handler.name, error)
        kind = (handler.name, type(error).__name__, find_place(error))
        if kind not in self._logged and len(self._logged) < MAX_KINDS:
            self._logged.add(kind)
            where = "the start of the crawl" if isinstance(handler, StartHandler) else f"page {page.url}"
            log.warning(
                "handler %s; %s; more failures of this kind are only counted\n%s", reason, where, trace.rstrip()
            )
        return HandlerFailure(reason, trace)


def _call(handler: Handler, page: Page, collector: Collector) -> None:
    collector.collect(handler.function(page))


def _give_up(future: "asyncio.Future[BaseException | None]", limit: float) -> None:
    if not future.done():
        future.set_result(HandlerTimeout(f"the handler took longer than {limit:g} s; its thread still runs"))
