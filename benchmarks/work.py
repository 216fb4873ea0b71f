"""The work that everything is measured on: pages of hosts, and what a page links to.

Page `n` of a host is known when it was loaded; the others are new. A lane is a host.
"""

import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from benchmarks.settings import ITEMS_PER_LANE

LINKS = 10  # of a page
KNOWN_SHARE = 0.85
OWN_SHARE = 0.5  # of the links that stay on the host of the page


class Link(NamedTuple):
    key: str
    lane: str


def lane_name(number: int) -> str:
    return f"host{number}.example"


def page(lane: str, number: int | str) -> str:
    return f"https://{lane}/articles/page-{number}"


def pages(count: int) -> Iterator[Link]:
    """So many pages, round the hosts."""
    lanes = max(1, count // ITEMS_PER_LANE)
    for number in range(count):
        lane = lane_name(number % lanes)
        yield Link(page(lane, number // lanes), lane)


class Web:
    """Links as pages have them: some to pages that are known, some to ones that nobody else will find."""

    def __init__(self, *, lanes: int, name: str, seed: int) -> None:
        self._lanes = lanes
        self._name = name  # of the process, so that no two find the same new page
        self._random = random.Random(seed)
        self._found = 0

    def links(self, lane: str, count: int = LINKS) -> Sequence[Link]:
        chance = self._random.random
        found = []
        for _ in range(count):
            there = lane if chance() < OWN_SHARE else lane_name(int(chance() * self._lanes))
            if chance() < KNOWN_SHARE:
                number: int | str = int(chance() * ITEMS_PER_LANE)
            else:
                self._found += 1
                number = f"{self._name}-{self._found}"
            found.append(Link(page(there, number), there))
        return found
