"""CrawlStats: what one process of a crawl has done so far."""

import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from swath import Dead, Retry
from swath.crawl.archive.record import ItemLine
from swath.crawl.page_request import get_url

RATE_WINDOW = 10.0  # seconds over which the current rate is measured
MAX_SLOW_HOSTS = 200  # hosts whose response times are remembered
MIN_SLOW_SECONDS = 1.0  # only a response this slow replaces a remembered host
SHOWN_SLOW_HOSTS = 5
NAMED_SEEDS = 10  # failed seeds that are reported by name; the others are only counted


class SeedFailure(NamedTuple):
    """The latest failure of a seed."""

    url: str
    reason: str
    next_attempt_seconds: float | None  # None: it is dead


@dataclass(slots=True)
class CrawlStats:
    """Counters of one process."""

    began: float = field(default_factory=time.monotonic)
    workers: int = 0  # pages that may be in flight; 0 before the start
    pages: int = 0
    bytes: int = 0
    in_flight: int = 0
    discovered: int = 0
    duplicates: int = 0
    robots_fetched: int = 0
    statuses: Counter[str] = field(default_factory=Counter)  # by class: 2xx …
    errors: Counter[str] = field(default_factory=Counter)  # by kind
    refused: Counter[str] = field(default_factory=Counter)  # links and pages that were not fetched, by reason
    items: Counter[str] = field(default_factory=Counter)  # extracted items by kind
    slow: dict[str, float] = field(default_factory=dict)  # host -> seconds of its slow responses
    seed_failures: dict[str, SeedFailure] = field(default_factory=dict)  # the latest of the first NAMED_SEEDS
    other_seed_failures: int = 0  # further seeds that failed
    _window: deque[tuple[float, int]] = field(default_factory=deque)

    def count_page(self, status: int, size: int) -> None:
        self.pages += 1
        self.bytes += size
        self.statuses[f"{status // 100}xx"] += 1

    def count_items(self, items: Sequence[ItemLine]) -> None:
        for kind, _ in items:
            self.items[kind] += 1

    def record_response_time(self, host: str, seconds: float) -> None:
        """Remember the slowest hosts."""
        if host in self.slow:
            self.slow[host] = (self.slow[host] + seconds) / 2
        elif len(self.slow) < MAX_SLOW_HOSTS:
            self.slow[host] = seconds
        elif seconds > MIN_SLOW_SECONDS:
            fastest = min(self.slow, key=self.slow.__getitem__)
            if self.slow[fastest] < seconds:
                del self.slow[fastest]
                self.slow[host] = seconds

    def record_seed_failure(self, url: str, outcome: Dead | Retry) -> None:
        """Remember that a seed failed. Called for each attempt of a seed, or of a form of it, that failed."""
        if url in self.seed_failures or len(self.seed_failures) < NAMED_SEEDS:
            self.seed_failures[url] = SeedFailure(url, outcome.reason, _get_pause(outcome))
        elif not outcome.item.attempts and (url == get_url(outcome.item) or isinstance(outcome, Dead)):
            self.other_seed_failures += 1

    def rate(self, now: float | None = None) -> float:
        """Return the pages per second over the last RATE_WINDOW seconds."""
        now = time.monotonic() if now is None else now
        self._window.append((now, self.pages))
        while len(self._window) > 2 and now - self._window[0][0] > RATE_WINDOW:
            self._window.popleft()
        since, pages = self._window[0]
        return (self.pages - pages) / (now - since) if now > since else 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return the counters as plain values, which a child process can send to its parent."""
        return {
            "seconds": time.monotonic() - self.began,
            "workers": self.workers,
            "pages": self.pages,
            "bytes": self.bytes,
            "in_flight": self.in_flight,
            "discovered": self.discovered,
            "duplicates": self.duplicates,
            "robots_fetched": self.robots_fetched,
            "statuses": dict(self.statuses),
            "errors": dict(self.errors),
            "refused": dict(self.refused),
            "items": dict(self.items),
            "seed_failures": list(self.seed_failures.values()),
            "other_seed_failures": self.other_seed_failures,
            "slow": dict(sorted(self.slow.items(), key=lambda entry: -entry[1])[:SHOWN_SLOW_HOSTS]),
        }


def _merge_seed_failures(failures: Sequence[SeedFailure]) -> list[SeedFailure]:
    """Return one failure of each seed: the final one if there is one."""
    latest: dict[str, SeedFailure] = {}
    for failure in failures:
        known = latest.get(failure.url)
        if known is None or known.next_attempt_seconds is not None:
            latest[failure.url] = failure
    return list(latest.values())


def _get_pause(outcome: Dead | Retry) -> float | None:
    return outcome.after if isinstance(outcome, Retry) else None


def sum_stats(stats: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Add up the `as_dict` values of several processes."""
    total: dict[str, Any] = {}
    for one in stats:
        for name, value in one.items():
            match value:
                case dict() if name == "slow":
                    total[name] = {**total.get(name, {}), **value}
                case dict():
                    total[name] = dict(Counter(total.get(name, {})) + Counter(value))
                case list():
                    total[name] = _merge_seed_failures([*total.get(name, []), *value])
                case _ if name == "seconds":
                    total[name] = max(total.get(name, 0.0), value)
                case _:
                    total[name] = total.get(name, 0) + value
    return total
