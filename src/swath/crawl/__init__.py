"""A polite web crawler on the frontier: settings, workspace and seeds, jobs and processes, and what happens to a page.

Start with `page_handler`. The folders are topics: http, robots, parse, urls, archive, handlers. The crawler imports the
public API of swath and the modules that the jobs share; only the command line imports the crawler.

The names below are public: what a module with handlers imports.
"""

from typing import TYPE_CHECKING, Any

from swath import MissingExtra

if TYPE_CHECKING:
    from swath.crawl.handlers.crawler import CheckResult, Crawler
    from swath.crawl.handlers.errors import (
        InvalidSelector,
        InvalidYield,
        LifespanFailed,
        NoMatch,
        PageRetry,
        PageTooComplex,
        SinkFailed,
    )
    from swath.crawl.handlers.hooks import Link
    from swath.crawl.handlers.items import ItemRecord
    from swath.crawl.handlers.page import Page
    from swath.crawl.handlers.requests import Follow, Request
    from swath.crawl.handlers.selection import Selection
    from swath.crawl.handlers.xpath import XPathSelection
    from swath.crawl.http.outgoing import OutgoingRequest

__all__ = [
    "CheckResult",
    "Crawler",
    "Follow",
    "InvalidSelector",
    "InvalidYield",
    "ItemRecord",
    "LifespanFailed",
    "Link",
    "NoMatch",
    "OutgoingRequest",
    "Page",
    "PageRetry",
    "PageTooComplex",
    "Request",
    "Selection",
    "SinkFailed",
    "XPathSelection",
]

_MODULES = {
    **dict.fromkeys(("CheckResult", "Crawler"), "crawler"),
    **dict.fromkeys(
        ("InvalidSelector", "InvalidYield", "LifespanFailed", "NoMatch", "PageRetry", "PageTooComplex", "SinkFailed"),
        "errors",
    ),
    "ItemRecord": "items",
    **dict.fromkeys(("Link", "OutgoingRequest"), "hooks"),
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
