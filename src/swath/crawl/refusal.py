"""Settle a page that is not fetched, or that could not be fetched, with its line in the page list."""

import time
from collections.abc import Mapping
from typing import Any, Final

from swath import Dead, Done, Item
from swath.crawl.archive.record import Capture
from swath.crawl.page_request import describe_identity, get_url
from swath.crawl.stats import CrawlStats

PRIVATE = "private"
REFUSED_PRIVATE = "refused private"  # counter of the frontier: pages that were refused without --allow-private
EXCLUDED = "excluded"  # in the result of a page that was not fetched, with one of the reasons of docs/crawl.md
FAILED = "failed"
NO_COUNTERS: Final[Mapping[str, int]] = {}


def refuse_page(
    item: Item, reason: str, rule: str, *, stats: CrawlStats, counters: Mapping[str, int] = NO_COUNTERS
) -> Done:
    """Return the outcome of a page that is not fetched. `rule` says what excludes it, in words or as it is written.

    No request is sent, so the lane can start its next page at once.
    """
    stats.refused[reason] += 1
    found = {EXCLUDED: reason, "rule": rule}
    return item.done(result=found, output=[_build_capture(item, found)], counters=counters, started=False)


def refuse_private_page(item: Item, detail: str, *, stats: CrawlStats) -> Done:
    """Return the outcome of a page whose host has no public address. A later run with --allow-private finds it."""
    rule = f"{detail}; --allow-private permits it"
    return refuse_page(item, PRIVATE, rule, stats=stats, counters={REFUSED_PRIVATE: 1})


def give_up_page(item: Item, reason: str, *, attempts: int, started: bool = True, error: str | None = None) -> Dead:
    """Return the outcome of a page that could not be fetched. Pass `started=False` if no request was sent this time."""
    line = _build_capture(item, {FAILED: reason, "attempts": attempts})
    return item.dead(reason=reason, error=error, output=[line], started=started)


def _build_capture(item: Item, fields: Mapping[str, Any]) -> Capture:
    return Capture(build_line(item, fields), None)


def build_line(item: Item, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry of the page list without a response."""
    payload = item.payload or {}
    about = {"kind": payload.get("kind", "page"), "depth": payload.get("depth", 0), "referrer": payload.get("from")}
    known = {name: value for name, value in about.items() if value is not None}
    return {"url": get_url(item), "time": time.time(), **describe_identity(item), **known, **fields}
