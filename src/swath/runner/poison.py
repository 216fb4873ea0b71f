"""Suspects: items whose worker was lost before, one of which may have killed it.

Everything a process holds when it dies counts one loss. So that an item that kills its worker dies of it and its
neighbours do not, an item is held in ever smaller company the fewer losses it can afford, and alone for the last one.
"""

from collections.abc import Iterable

from swath.core.item import Item

COMPANY = (1, 8, 64)  # items in hand together where one of them dies of the next loss, the one after, the third
UNLIMITED = 1 << 30


def company(items: Iterable[Item], max_attempts: int) -> int | None:
    """How many items may be in hand where these are; None: any number."""
    return company_of(max((item.losses for item in items), default=0), max_attempts)


def company_of(losses: int, max_attempts: int) -> int | None:
    """The same, where the worst of them was lost so often."""
    if not losses or max_attempts - losses > len(COMPANY):
        return None
    return COMPANY[max(0, max_attempts - losses - 1)]


class Caution:
    """How many items to claim at once: no more than may be held where suspects were met, and then ever more."""

    def __init__(self) -> None:
        self.most = UNLIMITED

    def met(self, most: int | None) -> None:
        """A claim was made, whose items may be held in such a company."""
        self.most = min(self.most * 2, UNLIMITED) if most is None else most
