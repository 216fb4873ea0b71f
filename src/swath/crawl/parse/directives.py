"""Parse the directives for robots in meta elements and X-Robots-Tag headers."""

from collections.abc import Iterable
from typing import NamedTuple

MAX_DIRECTIVES = 4_096  # characters parsed per header or meta element

# Directives with a value: the word before their colon is not the name of a crawler.
_VALUED = frozenset({"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"})


class Directives(NamedTuple):
    """Directives for robots: do not follow links, do not index, do not archive."""

    nofollow: bool = False
    noindex: bool = False
    noarchive: bool = False

    def merge(self, other: "Directives") -> "Directives":
        """Return the union of both."""
        return Directives(
            self.nofollow or other.nofollow, self.noindex or other.noindex, self.noarchive or other.noarchive
        )


NO_DIRECTIVES = Directives()


def parse_directives(content: str) -> Directives:
    """Parse the content of a robots meta element."""
    return _directives_from_words(word.strip() for word in content[:MAX_DIRECTIVES].lower().split(","))


def parse_x_robots_tag(values: Iterable[str], agent: str) -> Directives:
    """Parse `X-Robots-Tag` headers. Directives for other agents are ignored."""
    agent = agent.lower()
    mine = []
    for value in values:
        for_us = True
        for word in value[:MAX_DIRECTIVES].lower().split(","):
            name, colon, rest = word.partition(":")
            if colon and name.strip() not in _VALUED:
                for_us, word = name.strip() == agent, rest
            if for_us:
                mine.append(word.strip())
    return _directives_from_words(mine)


def _directives_from_words(words: Iterable[str]) -> Directives:
    asked = set(words)
    if "none" in asked:
        asked |= {"nofollow", "noindex"}
    return Directives("nofollow" in asked, "noindex" in asked, "noarchive" in asked)
