"""What a correct and polite crawl does with a URL."""

from dataclasses import dataclass
from enum import Enum


class Requirement(Enum):
    """Whether a crawl has to request a URL.

    MUST: the crawl requests it, finally gets a complete response with `Expectation.status`, and archives that response.
    TRY: the crawl requests it at least once. The response is broken, missing, or an error that is worth a retry; the
    crawler decides whether to archive it.
    MAY: the crawler decides: traps, targets of nofollow links only, robots.txt, sitemaps.
    NEVER: the crawl does not request it: robots.txt excludes it, it is outside the web, or no page links to it.
    """

    MUST = "must"
    TRY = "try"
    MAY = "may"
    NEVER = "never"


class PageState(Enum):
    """What became of a URL when the crawl is complete."""

    FETCHED = "fetched"
    FAILED = "failed"
    EXCLUDED = "excluded"
    FALLBACK = "fallback"  # a bare host name that another URL of the host took the place of


@dataclass(frozen=True, slots=True)
class Expectation:
    """The requirement for one URL, and its reason."""

    requirement: Requirement
    kind: str  # "page", "file", "robots", "sitemap", "outside", "stray", or a kind of fault
    status: int | None = None  # of the final response, if the requirement is MUST
    by_sitemap: bool = False  # only a sitemap or feed lists it
    retries: int = 0  # number of requests that fail before the final response


OUTSIDE = Expectation(Requirement.NEVER, "outside")
STRAY = Expectation(Requirement.NEVER, "stray")
ROBOTS = Expectation(Requirement.MAY, "robots")
SITEMAP = Expectation(Requirement.MAY, "sitemap")
