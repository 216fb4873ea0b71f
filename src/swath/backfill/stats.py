"""BackfillStats: what one process has done for a backfill."""

import time
from collections import Counter, deque
from typing import Any

RATE_SECONDS = 20.0  # the window of the rate


class BackfillStats:
    """Counters, and the rate over the last seconds."""

    def __init__(self) -> None:
        self.slices = 0
        self.rows = 0
        self.changed = 0
        self.longest = 0.0  # seconds of a slice
        self.overruns: Counter[str] = Counter()  # by reason
        self.began = time.monotonic()
        self._recent: deque[tuple[float, int]] = deque()

    def record_slice(self, rows: int, changed: int, seconds: float) -> None:
        self.slices += 1
        self.rows += rows
        self.changed += changed
        self.longest = max(self.longest, seconds)
        now = time.monotonic()
        self._recent.append((now, rows))
        self._drop_old(now)

    def record_overrun(self, error: Exception) -> None:
        """Count a slice that has to be retried with fewer rows."""
        self.overruns[_REASONS.get(type(error).__name__, type(error).__name__)] += 1

    @property
    def rate(self) -> float:
        """Rows per second."""
        now = time.monotonic()
        self._drop_old(now)
        seconds = min(RATE_SECONDS, now - self.began)
        return sum(rows for _, rows in self._recent) / seconds if seconds > 0 else 0.0

    def _drop_old(self, now: float) -> None:
        """Bound the memory for millions of slices (INV-9), also when --quiet never asks for the rate."""
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


_REASONS = {
    "QueryCanceled": "timeout",
    "TimedOut": "timeout",
    "DeadlockDetected": "deadlock",
    "SerializationFailure": "serialization failure",
    "LockNotAvailable": "lock timeout",
}
