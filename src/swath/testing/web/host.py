"""The build of an ordinary host: how many pages it has, how they hang together, and what they mention."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from swath.testing.web.expectation import Fate, Verdict
from swath.testing.web.paths import target_of
from swath.testing.web.plan import OUTSIDE_DOMAIN, Plan, ordinary_name

BRANCHES = 8  # pages that a page is the parent of
HOST_BRANCHES = 6  # hosts that a host's front page introduces
EVERY = 16  # one page in so many has each of the mentions below

# What some pages mention, on which turn, and whether a crawl goes there.
MENTIONS = {
    "private": (3, Verdict(Fate.NEVER, "disallowed")),
    "unfollowed": (5, Verdict(Fate.MAY, "nofollow")),
    "commented": (7, Verdict(Fate.NEVER, "comment")),
    "scripted": (11, Verdict(Fate.NEVER, "script")),
}


@dataclass(frozen=True)
class Host:
    """Host number i. Of its `size` pages the first `linked` hang in a tree; the rest only its sitemap names."""

    plan: Plan
    number: int

    @cached_property
    def name(self) -> str:
        return ordinary_name(self.number)

    @property
    def size(self) -> int:
        return self.plan.sizes[self.number]

    @property
    def has_rules(self) -> bool:
        """Hosts take turns: rules and sitemap, no robots.txt at all, an empty one, rules only."""
        return self.number % 4 in (0, 3)

    @property
    def has_sitemap(self) -> bool:
        return self.plan.sitemaps and self.number % 4 == 0

    @cached_property
    def linked(self) -> int:
        return self.size - (self.size // 10 if self.has_sitemap else 0)

    def target(self, number: int) -> str:
        return target_of(self.number, number)

    def url(self, number: int) -> str:
        return self.plan.url(self.name, target_of(self.number, number))

    def children(self, number: int) -> range:
        first = number * BRANCHES + 1
        return range(min(first, self.linked), min(first + BRANCHES, self.linked))

    def introduces(self) -> range:
        """The hosts that its front page links to, so that all can be reached from host 0."""
        first = self.number * HOST_BRANCHES + 1
        return range(min(first, self.plan.hosts), min(first + HOST_BRANCHES, self.plan.hosts))

    def is_file(self, number: int) -> bool:
        """Some of the pages that nothing hangs from are no HTML."""
        return 0 < number < self.linked <= number * BRANCHES + 1 and (number * 13 + self.number) % 9 == 0

    def mentions(self, number: int) -> Iterator[str]:
        """Targets that the page names without asking a crawl to go there."""
        for name, (turn, _) in MENTIONS.items():
            if number % EVERY == turn and (name != "private" or self.has_rules) and not self.is_file(number):
                yield f"/{name}/{number}"

    def mentioned(self, target: str) -> Verdict | None:
        """The fate of such a target."""
        parts = target.split("/")
        if len(parts) != 3 or parts[1] not in MENTIONS or not (parts[2].isascii() and parts[2].isdigit()):
            return None
        number = int(parts[2][:9])
        return MENTIONS[parts[1]][1] if number < self.size and target in self.mentions(number) else None

    def outside(self, number: int) -> str | None:
        """A link out of the web."""
        if number % EVERY != 1 or self.is_file(number):
            return None
        return f"{self.plan.scheme}://www{number % 5}.{OUTSIDE_DOMAIN}/{self.number}/{number}"
