"""Helpers for tests of code that uses swath: `crawl` runs a crawl in memory, `swath.testing.web` serves a demo web.

The demo web imports the standard library only; nothing else of swath imports this package.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from swath.testing.crawling import Answer, CrawlResult, crawl

__all__ = ["Answer", "CrawlResult", "crawl"]


def __getattr__(name: str) -> Any:
    """Import the crawler on first use: the demo web works without the packages that it needs."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from swath.testing import crawling

    return getattr(crawling, name)
