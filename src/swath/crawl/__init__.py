"""A polite web crawler on the frontier: settings, workspace and seeds, jobs and processes, and what happens to a page.

Start with `page_handler`. The folders are topics: http, robots, parse, urls, archive, handlers. The crawler imports the
public API of swath and the modules that the jobs share; only the command line imports the crawler.

The names below are public: what a module with handlers imports.
"""

from typing import TYPE_CHECKING, Any

from swath import MissingExtra

if TYPE_CHECKING:
    from swath.crawl.handlers.crawler import CheckResult, Crawler
    from swath.crawl.handlers.errors import InvalidSelector, InvalidYield, NoMatch, PageRetry, PageTooComplex
    from swath.crawl.handlers.page import Page
    from swath.crawl.handlers.requests import Follow, Request
    from swath.crawl.handlers.selection import Selection
    from swath.crawl.handlers.xpath import XPathSelection

__all__ = [
    "CheckResult",
    "Crawler",
    "Follow",
    "InvalidSelector",
    "InvalidYield",
    "NoMatch",
    "Page",
    "PageRetry",
    "PageTooComplex",
    "Request",
    "Selection",
    "XPathSelection",
]

_MODULES = {
    **dict.fromkeys(("CheckResult", "Crawler"), "crawler"),
    **dict.fromkeys(("InvalidSelector", "InvalidYield", "NoMatch", "PageRetry", "PageTooComplex"), "errors"),
    "Page": "page",
    **dict.fromkeys(("Follow", "Request"), "requests"),
    "Selection": "selection",
    "XPathSelection": "xpath",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use: the command line imports this package without the packages of its extra."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    try:
        return getattr(import_module(f"swath.crawl.handlers.{_MODULES[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.startswith("swath"):
            raise
        raise MissingExtra(f"swath.crawl.{name} needs more packages: pip install 'swath[crawl]'") from error
