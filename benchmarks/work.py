"""The work of the benchmarks: pages of hosts, and the links of a page.

Pages with a number are known, because they were loaded; the others are new. A lane is a host.
"""

import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from benchmarks.settings import ITEMS_PER_LANE

LINKS = 10  # per page
KNOWN_SHARE = 0.85
OWN_SHARE = 0.5  # share of the links that stay on the host of the page


class Link(NamedTuple):
    key: str
    lane: str


def lane_name(number: int) -> str:
    return f"host{number}.example"


def page(lane: str, number: int | str) -> str:
    return f"https://{lane}/articles/page-{number}"


def pages(count: int) -> Iterator[Link]:
    """Yield this number of pages, alternating between the hosts."""
    lanes = max(1, count // ITEMS_PER_LANE)
    for number in range(count):
        lane = lane_name(number % lanes)
        yield Link(page(lane, number // lanes), lane)


class Web:
    """A source of links: some lead to known pages, the others to new pages that no other process links to."""

    def __init__(self, *, lanes: int, name: str, seed: int) -> None:
        self._lanes = lanes
        self._name = name  # name of the process, so that no two processes link to the same new page
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
