"""The work of a crash test: a graph that is the same in every process, so that the end is known beforehand."""

import random
from dataclasses import asdict, dataclass
from typing import Any

from swath import Item
from swath.core.item import Outcome
from swath.frontier import Frontier

DEFAULT_CONCURRENCY = 2  # of the many small lanes
SLOW, BRISK, HOT = "slow", "brisk", "hot"
FREE_LANES = 3
BRANCHES = 3  # items that an item discovers
PLANNED = "planned"  # the reason of items that are meant to end up dead


@dataclass(frozen=True, slots=True)
class Limits:
    """What a lane must keep to. `concurrency` 0 means no limit."""

    min_interval: float
    concurrency: int


LIMITS = {
    SLOW: Limits(0.03, 1),
    BRISK: Limits(0.02, 3),
    HOT: Limits(0.0, 24),
    **{f"free/{number}": Limits(0.0, 0) for number in range(FREE_LANES)},
}


def limits_of(lane: str) -> Limits:
    return LIMITS.get(lane, Limits(0.0, DEFAULT_CONCURRENCY))


@dataclass(frozen=True, slots=True)
class Workload:
    """Items 0 to `items` - 1. The first ones are paced and lead nowhere; the roots after them lead to all others."""

    items: int
    slow: int = 0
    brisk: int = 0
    roots: int = 100
    lanes: int = 200  # small ones
    retries: bool = True
    releases: bool = True
    deaths: bool = True

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def _first_root(self) -> int:
        return self.slow + self.brisk

    @property
    def _first_found(self) -> int:
        return self._first_root + self.roots

    def item(self, number: int) -> Item:
        return Item(f"n/{number}", lane=self.lane(number), priority=3 + number % 2)

    def lane(self, number: int) -> str:
        if number < self.slow:
            return SLOW
        if number < self._first_root:
            return BRISK
        mixed = number * 2_654_435_761 % 2**32
        share = mixed % 100
        if share < 20:
            return HOT
        if share < 45:
            return f"free/{mixed // 100 % FREE_LANES}"
        return f"small/{mixed // 100 % self.lanes}"

    def children(self, number: int) -> range:
        if number < self._first_root:
            return range(0)
        start = self._first_found + (number - self._first_root) * BRANCHES
        return range(min(start, self.items), min(start + BRANCHES, self.items))

    def dies(self, number: int) -> bool:
        return self.deaths and number % 101 == 7 and not self.children(number)

    def outcome(self, item: Item, random_: random.Random, *, fence: int, worker: str) -> Outcome:
        """What to say of an item. The result tells whose it is."""
        number = int(item.key.removeprefix("n/"))
        if self.releases and random_.random() < 0.02:
            return item.release()
        if self.retries and number % 13 == 3 and item.attempts == 0:
            return item.retry(after=0.01 * (number % 5), reason="once more")
        if self.dies(number):
            return item.dead(reason=PLANNED)
        found = [*self.children(number), number * 31 % self.items]  # the last one is known, or will be
        return item.done(result={"fence": fence, "worker": worker}, discovered=[self.item(child) for child in found])

    # for whoever sets up and looks at the end

    async def begin(self, frontier: Frontier) -> None:
        for lane, limits in LIMITS.items():
            await frontier.limit(lane, min_interval=limits.min_interval, concurrency=limits.concurrency or None)
        await frontier.add([self.item(number) for number in range(min(self._first_found, self.items))])

    @property
    def expected_dead(self) -> dict[str, str]:
        """Keys, with their reasons."""
        return {f"n/{number}": PLANNED for number in range(self.items) if self.dies(number)}

    @property
    def expected_done(self) -> set[str]:
        return {f"n/{number}" for number in range(self.items)} - self.expected_dead.keys()
