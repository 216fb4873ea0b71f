"""The layout of an ordinary host: its number of pages, how they link, and what else they mention."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from swath.testing.web.expectation import Expectation, Requirement
from swath.testing.web.page_paths import page_target
from swath.testing.web.plan import OUTSIDE_DOMAIN, Plan, ordinary_host

BRANCHES = 8  # child pages of a page
HOST_BRANCHES = 6  # hosts that a front page links to
EVERY = 16  # each of the mentions below is on one page in 16

# Targets that some pages mention: the page number modulo EVERY, and the expectation.
MENTIONS = {
    "private": (3, Expectation(Requirement.NEVER, "disallowed")),
    "unfollowed": (5, Expectation(Requirement.MAY, "nofollow")),
    "commented": (7, Expectation(Requirement.NEVER, "comment")),
    "scripted": (11, Expectation(Requirement.NEVER, "script")),
}


@dataclass(frozen=True)
class HostLayout:
    """Host number i. Its first `linked` pages form a tree; only the sitemap lists the rest of its `size` pages."""

    plan: Plan
    number: int

    @cached_property
    def name(self) -> str:
        return ordinary_host(self.number)

    @property
    def size(self) -> int:
        return self.plan.sizes[self.number]

    @property
    def has_rules(self) -> bool:
        """Hosts alternate between: rules and sitemap, no robots.txt, an empty robots.txt, rules only."""
        return self.number % 4 in (0, 3)

    @property
    def has_sitemap(self) -> bool:
        return self.plan.sitemaps and self.number % 4 == 0

    @cached_property
    def linked(self) -> int:
        return self.size - (self.size // 10 if self.has_sitemap else 0)

    def target(self, number: int) -> str:
        return page_target(self.number, number)

    def url(self, number: int) -> str:
        return self.plan.url(self.name, page_target(self.number, number))

    def children(self, number: int) -> range:
        first = number * BRANCHES + 1
        return range(min(first, self.linked), min(first + BRANCHES, self.linked))

    def list_linked_hosts(self) -> range:
        """Return the hosts that the front page links to, so that all hosts can be reached from host 0."""
        first = self.number * HOST_BRANCHES + 1
        return range(min(first, self.plan.hosts), min(first + HOST_BRANCHES, self.plan.hosts))

    def is_file(self, number: int) -> bool:
        """Return whether the page is a file instead of HTML. Only leaves of the tree are."""
        return 0 < number < self.linked <= number * BRANCHES + 1 and (number * 13 + self.number) % 9 == 0

    def mentions(self, number: int) -> Iterator[str]:
        """Yield the targets that the page mentions and that a crawl need not request."""
        for name, (turn, _) in MENTIONS.items():
            if number % EVERY == turn and (name != "private" or self.has_rules) and not self.is_file(number):
                yield f"/{name}/{number}"

    def mention_expectation(self, target: str) -> Expectation | None:
        """Return the expectation for a target that a page mentions; None for any other target."""
        parts = target.split("/")
        if len(parts) != 3 or parts[1] not in MENTIONS or not (parts[2].isascii() and parts[2].isdigit()):
            return None
        number = int(parts[2][:9])
        return MENTIONS[parts[1]][1] if number < self.size and target in self.mentions(number) else None

    def outside_link(self, number: int) -> str | None:
        """Return a link to a host outside the web, if the page has one."""
        if number % EVERY != 1 or self.is_file(number):
            return None
        return f"{self.plan.scheme}://www{number % 5}.{OUTSIDE_DOMAIN}/{self.number}/{number}"
