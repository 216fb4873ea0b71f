"""What reading a page or a feed yields, and the directives that robots are given with it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

MAX_TITLE = 300
MAX_DIRECTIVES = 4_096  # characters read of all headers or of one meta element

# Directives that take a value, so that what stands before their colon is no crawler's name.
_VALUED = frozenset({"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"})


class Link(NamedTuple):
    """An address that was found: normalised, with the kind of element that named it."""

    url: str
    kind: str
    """a, area, frame, refresh, next, canonical, alternate, feed, sitemap, entry."""
    nofollow: bool = False


class Directives(NamedTuple):
    """What a page asks of robots: not to follow its links, not to be indexed, not to be kept."""

    nofollow: bool = False
    noindex: bool = False
    noarchive: bool = False

    def merge(self, other: "Directives") -> "Directives":
        """What both ask for together."""
        return Directives(
            self.nofollow or other.nofollow, self.noindex or other.noindex, self.noarchive or other.noarchive
        )


NO_DIRECTIVES = Directives()


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """What was read. `cut` says that there were more links than a page may have, `broken` that it ended early."""

    title: str = ""
    links: tuple[Link, ...] = ()
    base: str = ""
    canonical: str | None = None
    directives: Directives = NO_DIRECTIVES
    truncated: bool = False
    malformed: bool = False


def clean_title(text: str) -> str:
    """The title in one line, and not too long a line."""
    return " ".join(text[: 8 * MAX_TITLE].split())[:MAX_TITLE].rstrip()


def parse_directives(content: str) -> Directives:
    """What the words of a robots meta element ask for."""
    return _directives_from_words(word.strip() for word in content[:MAX_DIRECTIVES].lower().split(","))


def parse_x_robots_tag(values: Iterable[str], agent: str) -> Directives:
    """What `X-Robots-Tag` headers ask of everybody and of this agent; what they ask of others is not for us."""
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
