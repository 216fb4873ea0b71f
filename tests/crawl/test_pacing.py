"""How the interval between requests to a host is chosen."""

from datetime import UTC, datetime

import pytest

from swath.crawl import pacing
from swath.crawl.pacing import (
    MAX_CRAWL_DELAY,
    MAX_INTERVAL,
    MAX_RETRY_AFTER,
    choose_interval,
    compute_page_retry_pause,
    needs_change,
    parse_retry_after,
)

NOW = datetime(2030, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("delay", "crawl_delay", "seconds", "errors", "expected"),
    [
        (1.0, None, 0.1, 0, 1.0),
        (1.0, 10.0, 0.1, 0, 10.0),
        (70.0, 10.0, 0.1, 0, 70.0),
        (1.0, 1e9, 0.1, 0, MAX_CRAWL_DELAY),
        (1.0, None, 3.0, 0, 15.0),
        (70.0, None, 3.0, 0, 70.0),
        (1.0, None, 0.1, 1, 1.0),  # a single error changes nothing
        (1.0, None, 0.1, 2, 2.0),
        (1.0, None, 0.1, 4, 8.0),
        (1.0, None, 0.1, 1_000, 16.0),
        (0.0, None, 0.1, 0, 0.0),
        (0.0, None, 0.1, 3, 2.0),
        (0.0, None, 9.0, 0, 0.0),
        (70.0, None, 29.0, 1_000, MAX_INTERVAL),
        (1_000.0, None, 0.1, 5, 1_000.0),  # never less than required
    ],
)
def test_interval(delay: float, crawl_delay: float | None, seconds: float, errors: int, expected: float) -> None:
    assert choose_interval(delay, crawl_delay=crawl_delay, response_seconds=seconds, errors=errors) == expected


def test_small_changes_are_not_worth_a_transaction() -> None:
    assert not needs_change(1.0, wanted=1.1, required=1.0)
    assert not needs_change(1.1, wanted=1.0, required=1.0)
    assert needs_change(1.0, wanted=2.0, required=1.0)
    assert needs_change(2.0, wanted=1.0, required=1.0)
    assert needs_change(0.0, wanted=0.5, required=0.0)
    assert not needs_change(0.0, wanted=0.0, required=0.0)


def test_an_interval_is_never_shorter_than_required() -> None:
    assert needs_change(1.0, wanted=1.1, required=1.1)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ("120", 120.0),
        (" 0 ", 0.0),
        ("99999999999", MAX_RETRY_AFTER),
        ("9" * 1_000, MAX_RETRY_AFTER),
        ("Thu, 31 Jan 2030 12:02:00 GMT", 120.0),
        ("Thu, 31 Jan 2030 11:00:00 GMT", 0.0),
        ("Thu, 31 Jan 2130 11:00:00 GMT", MAX_RETRY_AFTER),
        ("soon", None),
        ("-5", None),
        ("١٢", None),  # digits to Python only
        ("Thu, 31 Jan 2030 12:02:00", None),  # without a time zone
        ("", None),
    ],
)
def test_retry_after(value: str | None, expected: float | None) -> None:
    assert parse_retry_after(value, now=NOW) == expected


def test_backoff_grows_with_the_delay_and_the_attempts() -> None:
    assert [compute_page_retry_pause(attempts, interval=1.0) for attempts in range(3)] == [2.0, 4.0, 8.0]
    assert compute_page_retry_pause(0, interval=70.0) == 140.0
    assert compute_page_retry_pause(0, interval=0.0) == 2 * pacing.MIN_FAILING_INTERVAL
    assert compute_page_retry_pause(10**6, interval=70.0) == 3_600.0
