"""Poison items: items that kill the worker which runs them.

When a process dies, every item that it had in flight counts one loss, although only one of them may be to blame. The
other items must not run out of attempts with the poison item. So the fewer losses an item has left, the fewer other
items the runner keeps in flight with it. An item that would die of its next loss runs alone.
"""

from collections.abc import Iterable

from swath.core.item import Item

# Maximum items in flight with an item that dies of its next loss, of its second next, and of its third next.
LIMITS = (1, 8, 64)
UNLIMITED = 1 << 30


def limit_in_flight(items: Iterable[Item], max_attempts: int) -> int | None:
    """Return how many items may be in flight together with these; None means unlimited."""
    return limit_by_losses(max((item.losses for item in items), default=0), max_attempts)


def limit_by_losses(losses: int, max_attempts: int) -> int | None:
    """Return how many items may be in flight together with an item that was lost `losses` times."""
    if not losses or max_attempts - losses > len(LIMITS):
        return None
    return LIMITS[max(0, max_attempts - losses - 1)]


class ClaimLimit:
    """How many items to claim at once. It drops when suspects are claimed, and doubles with each claim without any."""

    def __init__(self) -> None:
        self.items = UNLIMITED

    def adjust(self, limit: int | None) -> None:
        """Note the limit of items in flight that the last claim has set; None means unlimited."""
        self.items = min(self.items * 2, UNLIMITED) if limit is None else limit
