"""Links: from what a page points to, to what is new work.

A page has many links and most of them were seen a moment ago, so what was decided of a URL is remembered: refused and
why, or the hash under which the frontier knows it. Only hashes whose commit is confirmed are left out (rule 7).
"""

from collections import Counter
from collections.abc import Callable, Iterable

from swath.core import codec
from swath.core.item import DEFAULT_PRIORITY, Item
from swath.core.store import EncodedItem
from swath.crawl.urls import normalise
from swath.crawl.urls.scope import Scope
from swath.crawl.urls.traps import trap
from swath.frontier import Frontier

REMEMBERED = 200_000  # URLs, about 60 MB


class Links:
    """Decides which links become items."""

    def __init__(
        self,
        frontier: Frontier,
        scope: Scope,
        *,
        lane: Callable[[str], str],
        strip_tracking: bool,
        year: int,
        refused: Counter[str],
    ) -> None:
        self._frontier = frontier
        self._scope = scope
        self.lane = lane
        self._strip_tracking = strip_tracking
        self._year = year
        self._refused = refused
        self._decided: dict[str, bytes | None] = {}  # None: refused

    def refuses(self, url: str, depth: int) -> str | None:
        """Why a URL is not to be fetched: out of scope, or a trap; None when it is."""
        return self._scope.reason(url, depth) or trap(url, year=self._year)

    def new(self, found: Iterable[str], *, depth: int, referrer: str, **more: object) -> list[EncodedItem]:
        """Items for those links that belong to the crawl and are not known to be in the frontier."""
        partitions = self._frontier.store.settings.partitions
        decided, recent = self._decided, self._frontier.recent
        if self._scope.depth is not None and depth > self._scope.depth:
            self._refused["depth"] += 1
            return []
        items = []
        for link in found:
            known = decided.get(link, b"")
            if known is None or (known and known in recent):
                continue
            url = self._tidy(link)
            reason = self.refuses(url, depth)
            if reason is not None:
                self._refused[reason] += 1
                self._remember(link, None)
                continue
            item = codec.new_item(
                Item(url, self.lane(url), DEFAULT_PRIORITY, {"depth": depth, "from": referrer, **more}), partitions
            )
            self._remember(link, item.hash)
            items.append(item)
        return items

    def _tidy(self, url: str) -> str:
        url = normalise.strip_session(url)
        return normalise.strip_tracking(url) if self._strip_tracking else url

    def _remember(self, link: str, decision: bytes | None) -> None:
        if len(self._decided) >= REMEMBERED:
            self._decided.clear()
        self._decided[link] = decision
