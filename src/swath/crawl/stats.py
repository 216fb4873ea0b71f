"""Tally: what a crawl has done so far, counted by the process that did it."""

import time
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any

WINDOW = 10.0  # seconds over which "now" is measured
SLOWEST = 200  # hosts whose answer times are remembered


@dataclass(slots=True)
class Tally:
    """Counters of one process. Plain values, so that a parent can add up those of its children."""

    began: float = field(default_factory=time.monotonic)
    pages: int = 0
    bytes: int = 0
    in_flight: int = 0
    discovered: int = 0
    duplicates: int = 0
    robots_fetched: int = 0
    statuses: Counter[str] = field(default_factory=Counter)  # by class: 2xx …
    errors: Counter[str] = field(default_factory=Counter)  # by kind
    refused: Counter[str] = field(default_factory=Counter)  # links and pages that were not fetched, by reason
    slow: dict[str, float] = field(default_factory=dict)  # hosts, with the seconds of a late answer
    _window: deque[tuple[float, int]] = field(default_factory=deque)

    def page(self, status: int, size: int) -> None:
        self.pages += 1
        self.bytes += size
        self.statuses[f"{status // 100}xx"] += 1

    def took(self, host: str, seconds: float) -> None:
        """Remember slow hosts, the slowest of them."""
        if host in self.slow:
            self.slow[host] = (self.slow[host] + seconds) / 2
        elif len(self.slow) < SLOWEST:
            self.slow[host] = seconds
        elif seconds > 1.0:
            fastest = min(self.slow, key=self.slow.__getitem__)
            if self.slow[fastest] < seconds:
                del self.slow[fastest]
                self.slow[host] = seconds

    def rate(self, now: float | None = None) -> float:
        """Pages per second, lately."""
        now = time.monotonic() if now is None else now
        self._window.append((now, self.pages))
        while len(self._window) > 2 and now - self._window[0][0] > WINDOW:
            self._window.popleft()
        since, pages = self._window[0]
        return (self.pages - pages) / (now - since) if now > since else 0.0

    def as_dict(self) -> dict[str, Any]:
        return {
            "seconds": time.monotonic() - self.began,
            "pages": self.pages,
            "bytes": self.bytes,
            "in_flight": self.in_flight,
            "discovered": self.discovered,
            "duplicates": self.duplicates,
            "robots_fetched": self.robots_fetched,
            "statuses": dict(self.statuses),
            "errors": dict(self.errors),
            "refused": dict(self.refused),
            "slow": dict(sorted(self.slow.items(), key=lambda entry: -entry[1])[:5]),
        }
