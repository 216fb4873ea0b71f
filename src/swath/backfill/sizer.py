"""Sizer: how many rows a slice should have, so that it takes as long as was asked for."""

import time
from collections.abc import Callable

SMALLEST, LARGEST = 1, 100_000
GROWTH = 2.0  # from one slice to the next, at the most
WEIGHT = 0.3  # of the last slice in what is believed of the next
SHARE = 0.5  # of the size: from there on one slice is believed when it was slow
BEST_FADES = 1.002  # with every slice, so that a table which becomes heavier is not slow for ever


class Sizer:
    """Learns from every slice. One for all workers of a process."""

    def __init__(self, size: int, *, target: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.size = max(SMALLEST, min(LARGEST, size))
        self.target = target
        self.clock = clock
        self._per_row: float | None = None
        self._best: float | None = None

    @property
    def slowdown(self) -> float:
        """How many times longer a row takes than at best."""
        return 1.0 if not self._best or self._per_row is None else self._per_row / self._best

    def took(self, rows: int, seconds: float) -> None:
        """A slice of so many rows took so long."""
        if rows < 1:
            return
        per_row = max(seconds, 1e-6) / rows
        # What a statement costs at all is divided by few rows in a remnant: that says little about a slice.
        share = min(1.0, rows / self.size)
        before = per_row if self._per_row is None else self._per_row
        self._per_row = before + share * WEIGHT * (per_row - before)
        self._best = per_row if self._best is None else min(per_row, self._best * BEST_FADES)
        wanted = self.target / max(self._per_row, per_row if share > SHARE else 0.0)
        self.size = int(max(SMALLEST, min(LARGEST, wanted, self.size * GROWTH)))

    def overran(self, rows: int) -> int:
        """So many rows were too many: how many to try instead."""
        fewer = max(SMALLEST, rows // 4)
        self.size = min(self.size, fewer)
        return fewer
