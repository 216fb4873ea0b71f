"""Histogram: how often something took how long."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final, NamedTuple

# Upper bounds in seconds. A claim on SQLite takes about 1 ms, a settlement with a sync 5 to 50 ms.
BOUNDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class HistogramCounts(NamedTuple):
    """What a histogram has counted: an entry for each bound, and one for what exceeds them all."""

    counts: Sequence[int]
    seconds: float  # the sum

    @property
    def total(self) -> int:
        return sum(self.counts)

    def add(self, other: "HistogramCounts") -> "HistogramCounts":
        counts = [ours + theirs for ours, theirs in zip(self.counts, other.counts, strict=True)]
        return HistogramCounts(counts, self.seconds + other.seconds)


class Histogram:
    """Counts durations by BOUNDS."""

    __slots__ = ("_counts", "_seconds")

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS) + 1)
        self._seconds = 0.0

    def record(self, seconds: float) -> None:
        self._counts[bisect_left(BOUNDS, seconds)] += 1
        self._seconds += seconds

    def read(self) -> HistogramCounts:
        return HistogramCounts(tuple(self._counts), self._seconds)
