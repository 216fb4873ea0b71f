"""`crawler.stream()`: a crawl in the caller's event loop that hands over each item after its commit."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from swath import Stop, UsageError
from swath.crawl import workspace
from swath.crawl.archive import index
from swath.crawl.archive.record import ItemLine
from swath.crawl.failed_pages import retry_failed_pages
from swath.crawl.handlers.code import CrawlCode, hash_sources
from swath.crawl.handlers.errors import LifespanFailed
from swath.crawl.handlers.items import ItemRecord, parse_record
from swath.crawl.handlers.script import UNNAMED, find_crawler_name
from swath.crawl.job import CrawlJob
from swath.crawl.preflight import check_settings
from swath.crawl.seeds import SeedRules, read_seeds
from swath.crawl.settings import CrawlSettings
from swath.crawl.settings_file import resolve_settings

if TYPE_CHECKING:
    from swath.crawl.handlers.crawler import Crawler

MAX_ITEMS: Final = 100  # items that wait for the caller; beyond it, no page is fetched
MAX_BYTES: Final = 16_000_000  # of these items, as JSON
ROOM_SECONDS: Final = 10.0  # how long a page waits for room before other processes may have it
CLOSED: Final = "stream closed"  # the reason of the stop


class Backlog:
    """Items that are committed and that the caller of a stream has not taken yet."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._items: deque[ItemLine] = deque()
        self._bytes = 0
        self._closed = False
        self._changed = asyncio.Event()  # there is an item, or the backlog is closed
        self._room = asyncio.Event()

    @property
    def is_full(self) -> bool:
        """Whether no page should be fetched."""
        return len(self._items) >= MAX_ITEMS or self._bytes >= MAX_BYTES

    async def wait_for_room(self) -> None:
        """Wait until there may be room again, or for ROOM_SECONDS."""
        if self._closed:
            return
        self._room.clear()
        timer = self._loop.call_later(ROOM_SECONDS, self._room.set)
        try:
            await self._room.wait()
        finally:
            timer.cancel()

    def add(self, items: Sequence[ItemLine]) -> None:
        """Add items that were committed. May be called in any thread."""
        if items:
            self._loop.call_soon_threadsafe(self._add, items)

    def _add(self, items: Sequence[ItemLine]) -> None:
        self._items.extend(items)
        self._bytes += sum(len(line) for _, line in items)
        self._changed.set()

    def close(self) -> None:
        """Let `get` return None once no item is left."""
        self._closed = True
        self._changed.set()
        self._room.set()

    async def get(self) -> ItemLine | None:
        """Return the next item; None if there are no more."""
        while not self._items:
            if self._closed:
                return None
            self._changed.clear()
            await self._changed.wait()
        item = self._items.popleft()
        self._bytes -= len(item.line)
        if len(self._items) <= MAX_ITEMS // 2 and self._bytes <= MAX_BYTES // 2:
            self._room.set()
        return item


async def stream_items(
    crawler: "Crawler", seeds: Sequence[str], given: Mapping[str, Any]
) -> AsyncGenerator[ItemRecord, None]:
    """Run a crawl and yield its items after their commit. Closing the generator stops the crawl cleanly."""
    backlog, stop = Backlog(), Stop()
    crawling = asyncio.create_task(_crawl(crawler, seeds, given, backlog, stop))
    crawling.add_done_callback(lambda _: backlog.close())
    try:
        while (item := await backlog.get()) is not None:
            yield parse_record(item)
        await crawling
    finally:
        await _finish(crawling, backlog, stop)


async def _finish(crawling: "asyncio.Task[None]", backlog: Backlog, stop: Stop) -> None:
    stop.request(CLOSED)
    backlog.close()
    try:
        await asyncio.wait([crawling])
    except asyncio.CancelledError:
        crawling.cancel()
        raise
    if not crawling.cancelled():
        crawling.exception()  # if it failed while the caller leaves, the caller's own error matters


async def _crawl(
    crawler: "Crawler", seeds: Sequence[str], given: Mapping[str, Any], backlog: Backlog, stop: Stop
) -> None:
    settings = await asyncio.to_thread(_resolve, crawler, given)
    code = CrawlCode(find_crawler_name(crawler) or UNNAMED, crawler, hash_sources(crawler))
    async with workspace.open_workspace(settings, read_seeds(seeds, SeedRules(settings)), code=code) as opened:
        if settings.retry_failed:
            await retry_failed_pages(opened.frontier)
        if not (await opened.frontier.status()).waiting:
            return
        await asyncio.to_thread(index.remove_index, settings.directory)
        job = CrawlJob(settings, opened.frontier, stop=stop, code=code, backlog=backlog)
        summary = await job.run()
        if summary.stopped_by == "done" and index.has_archive(settings.directory):
            await asyncio.to_thread(index.write_index, settings.directory, await opened.frontier.outputs())
    if job.lifespan_failure is not None:
        raise LifespanFailed(job.lifespan_failure)


def _resolve(crawler: "Crawler", given: Mapping[str, Any]) -> CrawlSettings:
    settings = resolve_settings({**crawler.settings, **given})
    if settings.processes > 1:
        raise UsageError(
            f"crawler.stream() with processes={settings.processes}: it runs in this process; run `swath crawl` for more"
        )
    check_settings(settings)
    return settings
