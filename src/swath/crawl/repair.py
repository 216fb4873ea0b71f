"""Repair: run the handlers of failed pages again over the archive, and settle the pages in the frontier.

A page whose handler failed is dead, and archived. After a fix, its handler runs over the archived page, without a
network. What it yields commits with the page in one transaction (INV-5), like in a crawl: items in output files of this
process, requests in the frontier, and a line in the page list that replaces the earlier line of the same visit.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from swath import Dead, DeadItem, Done, Frontier, InvalidOutcome, UsageError
from swath.crawl import seeds, workspace
from swath.crawl.archive import index
from swath.crawl.archive.last_lines import LastLines
from swath.crawl.archive.output import CrawlOutput
from swath.crawl.archive.record import Capture
from swath.crawl.handlers.code import CODE_FACT, CrawlCode, check_code, merge_code
from swath.crawl.handlers.columns import build_column_facts
from swath.crawl.handlers.extractor import Extraction, PageExtractor
from swath.crawl.handlers.hooks import LINK_HOOK, HookFailed
from swath.crawl.handlers.lifespan import open_lifespan
from swath.crawl.handlers.replay import Replay, ReplayedPage, WantsPage
from swath.crawl.ip_lanes import HostLanes
from swath.crawl.lanes import get_lane_namer
from swath.crawl.links import LinkFilter
from swath.crawl.page_processor import HANDLER_FAILED, MAX_EXPANSION
from swath.crawl.page_request import get_url
from swath.crawl.parse.page import parse_page
from swath.crawl.settings import CrawlSettings
from swath.crawl.start import read_start_seeds
from swath.crawl.stats import CrawlStats
from swath.files.errors import OutputBusy

FIRST_NUMBER: Final = 10_000  # the output files of repairs have numbers that no process of a crawl has
MAX_REPAIRS: Final = 50  # at once in one directory
BATCH: Final = 500  # pages that wait to be settled; those of one partition commit together
BATCH_BYTES: Final = 16_000_000  # and what their handlers yielded
LINK_BYTES: Final = 300  # counted for each item that a page discovered
FAILED: Final = f"{HANDLER_FAILED}: "


@dataclass(slots=True)
class RepairSummary:
    """What a repair did."""

    repaired: int = 0
    failed: int = 0  # pages whose handler failed again
    discovered: int = 0  # requests of the handlers, without those known to be in the frontier
    not_dead: int = 0  # pages that were re-opened or repaired meanwhile
    without_handler: int = 0
    without_record: int = 0
    stats: CrawlStats = field(default_factory=CrawlStats)  # of the items


class _Repaired(NamedTuple):
    """A page whose handler has run, ready to be settled."""

    outcome: Done | Dead
    capture: Capture

    @property
    def size(self) -> int:
        found = len(self.outcome.discovered) if isinstance(self.outcome, Done) else 0
        return self.capture.size + LINK_BYTES * found


class CrawlRepair:
    """Settles the dead pages whose handler failed."""

    def __init__(self, settings: CrawlSettings, frontier: Frontier, code: CrawlCode) -> None:
        self.summary = RepairSummary()
        self._settings = settings
        self._frontier = frontier
        self._code = code
        self._waiting: defaultdict[int, list[_Repaired]] = defaultdict(list)  # by partition
        self._count = 0  # pages in `_waiting`
        self._size = 0  # and their bytes

    async def run(self, wanted: WantsPage) -> RepairSummary:
        """Repair all pages that are dead at the start. `wanted` chooses among those whose handler failed."""
        crawler = self._code.crawler
        if crawler.sink is not None:
            raise UsageError(
                f"--failed: the items of {self._code.name} go to its sink, which a repair does not fill; `swath crawl "
                "--retry-failed` fetches the pages again"
            )
        async with open_lifespan(crawler.open_lifespan, name=self._code.name) as state:
            return await self._run(wanted, PageExtractor(crawler, state=state))

    async def _run(self, wanted: WantsPage, extractor: PageExtractor) -> RepairSummary:
        settings, directory = self._settings, self._settings.directory
        await self._check_code()
        began = (await self._frontier.read_clock()).wall  # items that die later have lines that are not read
        committed = await workspace.read_committed_lengths(self._frontier, settings)
        output = await asyncio.to_thread(self._open_output)
        try:
            await asyncio.to_thread(output.restore, committed)
            links = await self._make_link_filter()
            last = await asyncio.to_thread(LastLines.find, index.read_pages(directory, committed), directory=directory)
            replay = Replay(directory, extractor, limit=settings.max_size * MAX_EXPANSION)
            pages = replay.run(
                lambda: last.select(index.read_pages(directory, committed)),
                wanted=lambda page: "handler_error" in page and wanted(page),
            )
            async for page in pages:
                dead = await self._find_dead(page.line, began)
                if dead is None:
                    self.summary.not_dead += 1
                else:
                    self._add(dead, page, links)
                    await self._settle_some(output, until=BATCH)
            await self._settle_some(output, until=1)
        finally:
            extractor.close()
            await asyncio.to_thread(output.close)
        self.summary.without_handler = replay.without_handler
        self.summary.without_record = replay.without_record
        return self.summary

    async def _check_code(self) -> None:
        """Check that the code has the handlers that pages may wait for, as at the start of a crawl."""
        if not await workspace.check_is_crawl(self._frontier, self._settings):
            raise UsageError(f"there is no crawl in {self._settings.out} yet")
        known = (await self._frontier.facts([CODE_FACT])).get(CODE_FACT)
        check_code(self._code, known, out=self._settings.out, same=False)
        # The next crawl must have the handlers that the requests of this repair name.
        await self._frontier.learn({CODE_FACT: merge_code(self._code, known)})

    def _open_output(self) -> CrawlOutput:
        """Open output files that no other process writes to: a crawl or other repairs may be running."""
        directory = self._settings.directory
        for number in range(FIRST_NUMBER, FIRST_NUMBER + MAX_REPAIRS):
            try:
                unique = workspace.get_output_name(directory, number)
                return CrawlOutput(directory, unique=unique, warc_size=None, about={})
            except OutputBusy:
                pass
        raise UsageError(f"{MAX_REPAIRS} repairs write to {directory}: wait until one of them ends")

    async def _make_link_filter(self) -> LinkFilter:
        settings = self._settings
        lane_of = HostLanes().lane_of if settings.lane == "ip" else get_lane_namer(settings.lane)
        started = [url async for urls in read_start_seeds(self._frontier) for url in urls]
        return LinkFilter(
            self._frontier,
            await asyncio.to_thread(seeds.load_scope, settings, started),
            lane_of=lane_of,
            strip_tracking=settings.strip_tracking,
            year=datetime.now(UTC).year,
            refused=self.summary.stats.refused,
            priority_by=settings.priority_by,
            hook=self._code.crawler.on_link,
        )

    async def _find_dead(self, line: Mapping[str, Any], began: datetime) -> DeadItem | None:
        """Return the dead item of a page whose handler failed before the repair.

        Pages of several lanes may have the same key, if the user has chosen it.
        """
        async for dead in self._frontier.dead(line.get("key", line["url"])):
            if get_url(dead.item) != line["url"]:
                continue
            if dead.reason.startswith((FAILED, f"{LINK_HOOK}: ")) and dead.settled_at <= began:
                return dead
        return None

    def _add(self, dead: DeadItem, page: ReplayedPage, links: LinkFilter) -> None:
        """Let a page wait to be settled."""
        extraction = page.extraction
        line = {**page.line, "handler": extraction.handler, "repaired": time.time()}
        del line["handler_error"]
        outcome: Done | Dead
        if (failure := extraction.failure) is not None:
            line["handler_error"] = failure.reason
            outcome = dead.item.dead(reason=f"{FAILED}{failure.reason}", error=failure.error or None)
        else:
            try:
                discovered = self._select_links(page, extraction, links)
            except HookFailed as failed:
                line["handler_error"] = failed.reason
                extraction = extraction._replace(items=())
                outcome = dead.item.dead(reason=f"{failed}", error=failed.trace)
            else:
                outcome = dead.item.done(result={"status": line["status"]}, discovered=discovered)
        repaired = _Repaired(outcome, Capture(line, None, extraction.items))
        self._waiting[dead.partition].append(repaired)
        self._count += 1
        self._size += repaired.size

    def _select_links(self, page: ReplayedPage, extraction: Extraction, links: LinkFilter) -> list[Any]:
        """Return what the page discovers, as in a crawl: the usual links if its handler asks for them, and requests."""
        url, depth = page.line["url"], page.line.get("depth", 0)
        discovered: list[Any] = []
        handler = self._code.crawler.handlers[extraction.handler]
        if handler.follows_scope and page.response is not None and "duplicate_of" not in page.line:
            settings = self._settings
            limit = settings.max_size * MAX_EXPANSION
            parsed = parse_page(url, page.response, limit=limit, agent=settings.user_agent)
            discovered += links.select_links(parsed, depth=depth, referrer=url, sitemaps=settings.sitemaps)
        return discovered + links.select_requested(extraction.requests, depth=depth + 1, referrer=url)

    async def _settle_some(self, output: CrawlOutput, *, until: int) -> None:
        """Settle the pages of one partition after the other, the most first, until fewer than `until` wait."""
        while self._count >= until or self._size >= BATCH_BYTES:
            partition = max(self._waiting, key=lambda number: len(self._waiting[number]))
            pages = self._waiting.pop(partition)
            self._count -= len(pages)
            self._size -= sum(page.size for page in pages)
            await self._settle(pages, output)

    async def _settle(self, pages: list[_Repaired], output: CrawlOutput) -> None:
        """Settle pages of one partition in one transaction, without those that are not dead any more."""
        kinds = {kind for page in pages for kind, _ in page.capture.items}
        await self._frontier.learn(build_column_facts(self._code.crawler.classes, kinds))
        while pages:
            (moves,) = await asyncio.to_thread(output.write, [[[page.capture] for page in pages]])
            try:
                await self._frontier.repair([page.outcome for page in pages], outputs=moves)
            except InvalidOutcome:
                await asyncio.to_thread(output.restore, await self._frontier.outputs())
                left = [page for page in pages if await self._is_dead(page.outcome)]
                if len(left) == len(pages):
                    raise
                self.summary.not_dead += len(pages) - len(left)
                pages = left
            else:
                output.keep()
                self._count_settled(pages)
                return

    async def _is_dead(self, outcome: Done | Dead) -> bool:
        """Return whether an item is still dead at its position: a re-opened one has another."""
        places = [(dead.partition, dead.position) async for dead in self._frontier.dead(outcome.item.key)]
        return (outcome.item.partition, outcome.item.position) in places

    def _count_settled(self, pages: list[_Repaired]) -> None:
        for outcome, capture in pages:
            if isinstance(outcome, Dead):
                self.summary.failed += 1
                continue
            self.summary.repaired += 1
            self.summary.discovered += len(outcome.discovered)
            self.summary.stats.count_items(capture.items)
