"""Settle a page that is not fetched, or that could not be fetched, with its line in the page list."""

import time
from typing import Any

from swath import Dead, Done, Item
from swath.crawl.archive.record import Capture
from swath.crawl.stats import CrawlStats

EXCLUDED = "excluded"  # in the result of a page that was not fetched, with one of the reasons of docs/crawl.md
FAILED = "failed"


def refuse_page(item: Item, reason: str, rule: str, *, stats: CrawlStats) -> Done:
    """Return the outcome of a page that is not fetched. `rule` says what excludes it, in words or as it is written.

    No request is sent, so the lane can start its next page at once.
    """
    stats.refused[reason] += 1
    found = {EXCLUDED: reason, "rule": rule}
    return item.done(result=found, output=[_build_line(item, found)], started=False)


def give_up_page(item: Item, reason: str, *, attempts: int, started: bool = True) -> Dead:
    """Return the outcome of a page that could not be fetched. Pass `started=False` if no request was sent this time."""
    line = _build_line(item, {FAILED: reason, "attempts": attempts})
    return item.dead(reason=reason, output=[line], started=started)


def _build_line(item: Item, fields: dict[str, Any]) -> Capture:
    """Return an entry of the page list without a response."""
    payload = item.payload or {}
    about = {"kind": payload.get("kind", "page"), "depth": payload.get("depth", 0), "referrer": payload.get("from")}
    known = {name: value for name, value in about.items() if value is not None}
    return Capture({"url": item.key, "time": time.time(), **known, **fields}, None)
