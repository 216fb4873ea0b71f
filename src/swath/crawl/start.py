"""The start of a crawl: an item of the frontier whose handler yields seeds.

As its seeds commit with its settlement, the whole fleet has them once. They extend the scope like seeds that were
given: facts that commit with them tell every process. A process that has not read these facts looks for them before
it handles a page, because the page may be one of these seeds, or come from one.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import groupby
from typing import Any, Final

from swath import EncodedItem, Frontier, Item, Outcome, UsageError, retry_while_unavailable
from swath.crawl.fact_batcher import FactBatcher
from swath.crawl.fallback import BARE
from swath.crawl.handlers.extractor import PageExtractor
from swath.crawl.handlers.requests import Request
from swath.crawl.handlers.start import START_KEY
from swath.crawl.links import LinkFilter
from swath.crawl.priority import TOP_LEVEL
from swath.crawl.seeds import ask_for_contact
from swath.crawl.settings import MAX_HOSTS_WITHOUT_CONTACT, CrawlSettings
from swath.crawl.urls import normalise

START_FACT: Final = "crawl start"  # key of the fact with the number of the facts that have the seeds
SEEDS_FACT: Final = "crawl start "  # key of these: this prefix and a number from 0
START_FAILED: Final = "start"  # begins the reason if the function fails
PART_BYTES: Final = 200_000  # of the URLs in one fact


def make_start_item() -> Item:
    """Return the item that runs the start. Adding it again does not run it again (INV-7)."""
    return Item(START_KEY, START_KEY, TOP_LEVEL, {"kind": "start"})


class StartGate:
    """Runs the start in this process if this process claims it, and learns its seeds if another one does."""

    def __init__(
        self,
        frontier: Frontier,
        settings: CrawlSettings,
        *,
        facts: FactBatcher,
        links: LinkFilter,
        extractor: PageExtractor | None,
    ) -> None:
        self._frontier = frontier
        self._settings = settings
        self._facts = facts
        self._links = links
        self._extractor = extractor
        self._loading = asyncio.Lock()
        self.is_open = False  # whether the scope has the seeds of the start

    @staticmethod
    def is_start(item: Item) -> bool:
        """Return whether an item is the start instead of a page, for which a user may choose the same key."""
        return item.key == START_KEY and (item.payload or {}).get("kind") == "start"

    async def load(self) -> None:
        """Add the seeds of the start to the scope, if they are committed. Call it before each page until `is_open`."""
        if await self._facts.get(START_FACT) is not None:
            async with self._loading:
                if not self.is_open:
                    await self._extend_scope()
                    self.is_open = True
        elif self._extractor is None or self._extractor.crawler.start_handler is None:
            self.is_open = True

    async def _extend_scope(self) -> None:
        if self._settings.scope == "any":
            return
        names: set[str] = set()
        async for urls in read_start_seeds(self._frontier):
            names.update(map(self._links.get_scope_name, urls))
        self._links.extend_scope(names)

    async def run(self, item: Item) -> Outcome:
        """Call the user's function, and return the outcome with its seeds."""
        start = None if self._extractor is None else self._extractor.crawler.start_handler
        if self._extractor is None or start is None:
            return item.dead(reason=f"{START_FAILED}: the crawler has no function with @crawler.start any more")
        found, bare = await self._extractor.extract_seeds(start)
        if found.failure is not None:
            return item.dead(reason=f"{START_FAILED}: {found.failure.reason}", error=found.failure.error)
        try:
            self._check_hosts(found.requests)
            items = self._make_items(found.requests, bare)
        except UsageError as error:
            return item.dead(reason=f"{START_FAILED}: {error}")
        near = dict.fromkeys(request.url for request in found.requests if not request.any_host)
        parts = dict(enumerate(_divide(list(near))))
        facts: dict[str, Any] = {f"{SEEDS_FACT}{number}": part for number, part in parts.items()}
        return item.done(
            result={"seeds": len(found.requests)},
            discovered=items,
            facts={**facts, START_FACT: {"parts": len(parts), "seeds": len(found.requests)}},
        )

    def _check_hosts(self, requests: Sequence[Request]) -> None:
        if self._settings.contact is None:
            hosts = {normalise.host(request.url) for request in requests}
            if len(hosts) > MAX_HOSTS_WITHOUT_CONTACT:
                raise UsageError(ask_for_contact(f"the seeds are on {len(hosts):,} hosts"))

    def _make_items(self, requests: Sequence[Request], bare: set[str]) -> list[EncodedItem]:
        links = self._links.for_seeds()
        items: list[EncodedItem] = []
        for is_bare, group in groupby(requests, key=lambda request: request.url in bare):
            if is_bare:
                items += links.select_new_items((one.url for one in group), depth=0, referrer=None, **{BARE: True})
            else:
                items += links.select_requested(group, depth=0, referrer=None)
        return items


async def read_start_seeds(frontier: Frontier) -> AsyncIterator[Sequence[str]]:
    """Yield the URLs of the seeds that the start has committed, some at a time."""
    found = (await retry_while_unavailable(lambda: frontier.facts([START_FACT]))).get(START_FACT)
    for number in range(0 if found is None else found["parts"]):
        key = f"{SEEDS_FACT}{number}"
        yield (await retry_while_unavailable(lambda key=key: frontier.facts([key])))[key]  # type: ignore[misc]


def _divide(urls: Sequence[str]) -> Iterator[list[str]]:
    """Divide URLs into parts that each fit into one fact."""
    part: list[str] = []
    size = 0
    for url in urls:
        if part and size + len(url) > PART_BYTES:
            yield part
            part, size = [], 0
        part.append(url)
        size += len(url)
    if part:
        yield part
