"""The entry of a page without a response in the page list."""

import time
from typing import Any

import pytest

from swath import Item
from swath.crawl.refusal import build_line, give_up_page, refuse_page
from swath.crawl.stats import CrawlStats

URL = "http://a.example/x"


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (None, {"kind": "page", "depth": 0}),
        ({"depth": 3, "from": "http://a.example/"}, {"kind": "page", "depth": 3, "referrer": "http://a.example/"}),
        ({"kind": "feed", "depth": None}, {"kind": "feed"}),
    ],
)
def test_an_entry_says_where_the_page_was_found(payload: Any, expected: dict[str, Any]) -> None:
    before = time.time()
    line = build_line(Item(URL, payload=payload), {"failed": "dns"})
    assert before <= line.pop("time") <= time.time()
    assert line == {"url": URL, **expected, "failed": "dns"}


def test_a_refused_page_costs_no_start_and_is_counted_by_reason() -> None:
    stats = CrawlStats()
    outcome = refuse_page(Item(URL), "robots", "Disallow: /", stats=stats)
    assert stats.refused == {"robots": 1}
    assert outcome.result == {"excluded": "robots", "rule": "Disallow: /"}
    assert not outcome.started
    (capture,) = outcome.output
    assert capture.page["excluded"] == "robots"
    assert capture.archived is None


def test_a_page_that_was_given_up_says_after_how_many_attempts() -> None:
    outcome = give_up_page(Item(URL), "dns: no such host", attempts=3, started=False)
    assert (outcome.reason, outcome.started) == ("dns: no such host", False)
    (capture,) = outcome.output
    assert (capture.page["failed"], capture.page["attempts"]) == ("dns: no such host", 3)
