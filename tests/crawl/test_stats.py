"""What one process of a crawl counts, and the sums over several."""

from typing import Any

import pytest

from swath import Dead, Retry
from swath.core.item import Item
from swath.crawl.archive.record import ItemLine
from swath.crawl.stats import (
    MAX_SLOW_HOSTS,
    MIN_SLOW_SECONDS,
    NAMED_SEEDS,
    RATE_WINDOW,
    SHOWN_SLOW_HOSTS,
    CrawlStats,
    SeedFailure,
    sum_stats,
)


def fail(stats: CrawlStats, url: str, *, key: str | None = None, attempts: int = 0, dead: bool = False) -> None:
    one = Item(key or url, attempts=attempts)
    stats.record_seed_failure(url, one.dead(reason="gone") if dead else one.retry(after=5.0, reason="busy"))


def test_pages_are_counted_with_their_size_and_class() -> None:
    stats = CrawlStats()
    for status in (200, 299, 301, 404, 599):
        stats.count_page(status, 10)
    stats.count_items([ItemLine("Book", b"1"), ItemLine("Book", b"2"), ItemLine("item", b"3")])
    assert (stats.pages, stats.bytes) == (5, 50)
    shown = stats.as_dict()
    assert shown["statuses"] == {"2xx": 2, "3xx": 1, "4xx": 1, "5xx": 1}
    assert shown["items"] == {"Book": 2, "item": 1}
    assert (shown["workers"], shown["in_flight"], shown["discovered"], shown["duplicates"]) == (0, 0, 0, 0)
    assert (shown["robots_fetched"], shown["other_seed_failures"], shown["seed_failures"]) == (0, 0, [])
    assert 0 <= shown["seconds"] < 60


def test_the_rate_is_that_of_the_last_seconds() -> None:
    stats = CrawlStats()
    found = []
    for now, pages in [(0.0, 0), (0.0, 5), (5.0, 50), (RATE_WINDOW, 100), (RATE_WINDOW + 1, 100), (60.0, 100)]:
        stats.pages = pages
        found.append(stats.rate(now))
    # The first two samples are more than ten seconds old at last, and one of that age is kept to measure from.
    assert found == [0.0, 0.0, 10.0, 10.0, 50 / 6, 0.0]


def test_a_host_is_as_slow_as_its_last_responses() -> None:
    stats = CrawlStats()
    for seconds in (1.0, 2.0, 4.0):
        stats.record_response_time("a.example", seconds)
    assert stats.slow == {"a.example": 2.75}


def test_the_slowest_hosts_are_remembered() -> None:
    stats = CrawlStats()
    for number in range(MAX_SLOW_HOSTS):
        stats.record_response_time(f"h{number}", 0.5 + number)
    stats.record_response_time("quick", MIN_SLOW_SECONDS)  # not slow enough to look for a quicker one
    stats.record_response_time("slow", MIN_SLOW_SECONDS + 0.1)
    assert len(stats.slow) == MAX_SLOW_HOSTS
    assert "quick" not in stats.slow
    assert "h0" not in stats.slow
    stats.record_response_time("as quick", MIN_SLOW_SECONDS + 0.1)  # as the quickest of them
    assert "as quick" not in stats.slow
    assert list(stats.as_dict()["slow"]) == [f"h{MAX_SLOW_HOSTS - 1 - number}" for number in range(SHOWN_SLOW_HOSTS)]


def test_the_first_seeds_that_fail_are_named_and_the_others_counted() -> None:
    stats = CrawlStats()
    for number in range(NAMED_SEEDS):
        fail(stats, f"seed{number}")
    assert stats.other_seed_failures == 0
    fail(stats, "seed0", attempts=1, dead=True)  # named already: its latest failure counts
    assert stats.seed_failures["seed0"] == SeedFailure("seed0", "gone", None)
    assert stats.seed_failures["seed1"] == SeedFailure("seed1", "busy", 5.0)
    fail(stats, "more")
    assert stats.other_seed_failures == 1
    fail(stats, "more", attempts=1)  # the same one again
    fail(stats, "other", key="https://other/")  # a form of it, and the next form is tried
    assert stats.other_seed_failures == 1
    fail(stats, "other", key="https://other/", dead=True)  # the last form
    assert stats.other_seed_failures == 2
    assert len(stats.seed_failures) == NAMED_SEEDS


def test_sums_over_processes() -> None:
    waits, gone = SeedFailure("a", "busy", 5.0), SeedFailure("a", "gone", None)
    one: dict[str, Any] = {
        "seconds": 2.0, "pages": 3, "errors": {"dns": 1, "tls": 1}, "slow": {"a": 1.0}, "seed_failures": [waits],
    }  # fmt: skip
    other: dict[str, Any] = {
        "seconds": 1.0, "pages": 4, "errors": {"dns": 2}, "slow": {"b": 2.0, "a": 3.0}, "seed_failures": [gone],
    }  # fmt: skip
    expected = {
        "seconds": 2.0, "pages": 7, "errors": {"dns": 3, "tls": 1}, "slow": {"a": 3.0, "b": 2.0},
        "seed_failures": [gone],
    }  # fmt: skip
    assert sum_stats([one, other]) == expected
    assert sum_stats([other, one])["seed_failures"] == [gone], "a later attempt by another process does not undo it"
    assert sum_stats([]) == {}


@pytest.mark.parametrize(("outcome", "pause"), [(Item("a").dead(reason="x"), None), (Item("a").retry(after=3), 3)])
def test_when_a_seed_is_tried_again(outcome: Dead | Retry, pause: float | None) -> None:
    stats = CrawlStats()
    stats.record_seed_failure("a", outcome)
    assert stats.seed_failures["a"].next_attempt_seconds == pause
