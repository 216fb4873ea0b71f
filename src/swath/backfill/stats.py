"""Tally: what one process has done of a backfill."""

import time
from collections import Counter, deque
from typing import Any

RATE_SECONDS = 20.0


class Tally:
    """Counts, and the rate of late."""

    def __init__(self) -> None:
        self.slices = 0
        self.rows = 0
        self.changed = 0
        self.longest = 0.0  # seconds of a slice
        self.overruns: Counter[str] = Counter()
        self.began = time.monotonic()
        self._recent: deque[tuple[float, int]] = deque()

    def covered(self, rows: int, changed: int, seconds: float) -> None:
        self.slices += 1
        self.rows += rows
        self.changed += changed
        self.longest = max(self.longest, seconds)
        now = time.monotonic()
        self._recent.append((now, rows))
        self._forget(now)

    def overran(self, error: Exception) -> None:
        """A slice had to be made smaller."""
        self.overruns[_WORDS.get(type(error).__name__, type(error).__name__)] += 1

    @property
    def rate(self) -> float:
        """Rows a second."""
        now = time.monotonic()
        self._forget(now)
        seconds = min(RATE_SECONDS, now - self.began)
        return sum(rows for _, rows in self._recent) / seconds if seconds > 0 else 0.0

    def _forget(self, now: float) -> None:
        """Also where nobody asks for the rate, as with --quiet: there may be millions of slices (INV-9)."""
        while self._recent and self._recent[0][0] < now - RATE_SECONDS:
            self._recent.popleft()

    def as_dict(self) -> dict[str, Any]:
        return {
            "slices": self.slices,
            "rows": self.rows,
            "changed": self.changed,
            "rate": self.rate,
            "longest": self.longest,
            "overruns": dict(self.overruns),
        }


_WORDS = {
    "QueryCanceled": "took too long",
    "Interrupted": "took too long",
    "DeadlockDetected": "deadlock",
    "SerializationFailure": "serialisation failure",
    "LockNotAvailable": "waited too long for a lock",
}
