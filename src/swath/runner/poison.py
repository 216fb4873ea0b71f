"""Poison items: items that kill the worker which runs them.

When a process dies, every item that it had in flight counts one loss, although only one of them may be to blame. To
let the poison item run out of attempts without its neighbours, the runner keeps fewer items in flight together with an
item the fewer losses that item has left, and none for the last one.
"""

from collections.abc import Iterable

from swath.core.item import Item

# The most items in flight together with one that dies of its next loss, of the loss after that, and of the third.
LIMITS = (1, 8, 64)
UNLIMITED = 1 << 30


def limit_in_flight(items: Iterable[Item], max_attempts: int) -> int | None:
    """Return how many items may be in flight together with these; None if there is no limit."""
    return limit_by_losses(max((item.losses for item in items), default=0), max_attempts)


def limit_by_losses(losses: int, max_attempts: int) -> int | None:
    """Return how many items may be in flight together with one that was lost `losses` times."""
    if not losses or max_attempts - losses > len(LIMITS):
        return None
    return LIMITS[max(0, max_attempts - losses - 1)]


class ClaimLimit:
    """How many items to claim at once. It drops when suspects are claimed, and doubles with each claim without any."""

    def __init__(self) -> None:
        self.items = UNLIMITED

    def adjust(self, limit: int | None) -> None:
        """Note a claim whose items may be in flight with at most `limit` items; None if there is no limit."""
        self.items = min(self.items * 2, UNLIMITED) if limit is None else limit
