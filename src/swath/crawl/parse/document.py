"""The content of a parsed page or feed."""

from dataclasses import dataclass
from typing import NamedTuple

from swath.crawl.parse.directives import NO_DIRECTIVES, Directives

MAX_TITLE = 300


class Link(NamedTuple):
    """A link: the normalised URL and the kind of element that contains it."""

    url: str
    kind: str
    """a, area, frame, refresh, next, canonical, alternate, feed, sitemap, entry."""
    nofollow: bool = False


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """The content of a page or feed. `truncated` means that links were dropped at the limit, `malformed` that parsing
    stopped at an error."""

    title: str = ""
    links: tuple[Link, ...] = ()
    base: str = ""
    canonical: str | None = None
    directives: Directives = NO_DIRECTIVES
    truncated: bool = False
    malformed: bool = False


def clean_title(text: str) -> str:
    """Return the title as one line of limited length."""
    return " ".join(text[: 8 * MAX_TITLE].split())[:MAX_TITLE].rstrip()
