"""SliceSizer: choose how many rows a slice should have so that it takes a given time."""

import time
from collections.abc import Callable

SMALLEST, LARGEST = 1, 100_000  # rows
GROWTH = 2.0  # at most, from one slice to the next
WEIGHT = 0.3  # of the latest slice in the moving average
FULL_SHARE = 0.5  # of the size: a slow slice with more rows than this shrinks the next one at once
BEST_DECAY = 1.002  # per slice, so that a table whose rows grow heavier does not count as slow forever


class SliceSizer:
    """Learns from the duration of every slice. All workers of a process share one."""

    def __init__(
        self,
        size: int,
        *,
        target: float,
        smallest: int = SMALLEST,
        largest: int = LARGEST,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.size = max(smallest, min(largest, size))
        self.target = target
        self.clock = clock
        self._smallest = smallest
        self._largest = largest
        self._per_row: float | None = None
        self._best: float | None = None

    @property
    def slowdown(self) -> float:
        """The average time per row, as a multiple of the best time."""
        return 1.0 if not self._best or self._per_row is None else self._per_row / self._best

    def record(self, rows: int, seconds: float) -> None:
        """Learn that a slice with `rows` rows took `seconds`."""
        if rows < 1:
            return
        per_row = max(seconds, 1e-6) / rows
        # In a small remainder the fixed cost of a statement dominates, so it counts in proportion to its rows.
        share = min(1.0, rows / self.size)
        before = per_row if self._per_row is None else self._per_row
        self._per_row = before + share * WEIGHT * (per_row - before)
        self._best = per_row if self._best is None else min(per_row, self._best * BEST_DECAY)
        wanted = self.target / max(self._per_row, per_row if share > FULL_SHARE else 0.0)
        self.size = int(max(self._smallest, min(self._largest, wanted, self.size * GROWTH)))

    def record_overrun(self, rows: int) -> int:
        """Learn that `rows` rows were too many. Return how many to try instead."""
        fewer = max(self._smallest, rows // 4)
        self.size = min(self.size, fewer)
        return fewer
