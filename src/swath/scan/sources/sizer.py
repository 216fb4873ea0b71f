"""Sizer: how many rows a slice of a table should have."""

FIRST = 2_000  # rows, before anything is known
LEAST, MOST = 100, 100_000
TARGET = 0.25  # seconds that a slice should take: a stop waits for it, and a crash loses it


class Sizer:
    """Learns from every slice how many rows are checked in a moment. One for all workers of a process."""

    def __init__(self, *, most: int) -> None:
        self._most = most
        self.rows = min(FIRST, most)

    def took(self, rows: int, seconds: float) -> None:
        """A slice of so many rows took so long. What is left at the end of a table says nothing about the others."""
        if rows >= LEAST:
            self.rows = max(LEAST, min(self._most, int(rows * TARGET / max(seconds, 1e-6))))
