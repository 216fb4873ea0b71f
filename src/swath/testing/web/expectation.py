"""What a perfect, polite crawl does with a URL."""

from dataclasses import dataclass
from enum import Enum


class Fate(Enum):
    """MUST, TRY, MAY or NEVER, as `Verdict.fate` says.

    MUST: requested, and in the end answered in full with `Verdict.status`; that answer belongs in the archive.
    TRY: requested at least once, and the answer is broken, missing or an error that is worth a retry. Whether
    something of it is archived is the crawler's affair.
    MAY: requested or not, as the crawler sees fit: traps, what only a nofollow link names, robots.txt, sitemaps.
    NEVER: not requested: excluded by robots.txt, outside of the web, or a URL that no page links to.
    """

    MUST = "must"
    TRY = "try"
    MAY = "may"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The fate of one URL, and why."""

    fate: Fate
    kind: str  # "page", "file", "robots", "sitemap", "outside", "stray", or the name of a trouble
    status: int | None = None  # of the final answer, where the fate is MUST
    by_sitemap: bool = False  # only a sitemap or feed names it
    retries: int = 0  # so many requests fail before the good answer


OUTSIDE = Verdict(Fate.NEVER, "outside")
STRAY = Verdict(Fate.NEVER, "stray")
ROBOTS = Verdict(Fate.MAY, "robots")
SITEMAP = Verdict(Fate.MAY, "sitemap")
