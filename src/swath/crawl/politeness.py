"""Politeness: how long a host is left alone, as pure functions of what it said and how it answered."""

from datetime import datetime
from email.utils import parsedate_to_datetime

MAX_CRAWL_DELAY = 300.0  # seconds; who asks for more gets this
MAX_RETRY_AFTER = 6 * 3_600.0
MAX_INTERVAL = 900.0
SLOW_ANSWER = 2.0  # seconds after which an answer counts as slow
SLOW_FACTOR = 5.0  # a slow host is left alone for so many times as long as it took
LEAST_TROUBLED = 0.5  # seconds between requests to a host in trouble, where no delay was asked for at all
MOST_DOUBLINGS = 4  # a host that fails is visited this much less often, in powers of two
ROBOTS_TURNS = 30  # turns of a host after which a robots.txt that failed is asked for again
TOLERANCE = 1.25  # an interval that is as long as was asked for is changed when it is off by more than this


def least(delay: float, *, crawl_delay: float | None) -> float:
    """Seconds between requests to a host that were asked for, by us or by the host."""
    return max(delay, min(crawl_delay or 0.0, MAX_CRAWL_DELAY))


def interval(delay: float, *, crawl_delay: float | None, answer_seconds: float, errors: int) -> float:
    """Seconds between requests to a host: what was asked for, and more for one that is slow or fails again and
    again."""
    wanted = longer = least(delay, crawl_delay=crawl_delay)
    if delay and answer_seconds > SLOW_ANSWER:  # who asks for no delay at all has hosts of their own to load
        longer = max(longer, SLOW_FACTOR * answer_seconds)
    if errors > 1:
        longer = max(longer, max(wanted, LEAST_TROUBLED) * 2.0 ** min(errors - 1, MOST_DOUBLINGS))
    return max(wanted, min(longer, MAX_INTERVAL))


def differs(wanted: float, current: float, *, least: float) -> bool:
    """Whether an interval is too short, or off by so much that it is worth changing."""
    return current < least or wanted > current * TOLERANCE or current > wanted * TOLERANCE


def retry_after(value: str | None, *, now: datetime) -> float | None:
    """Seconds that a Retry-After header asks for, as a number or a date; None where it makes no sense."""
    if value is None:
        return None
    text = value.strip()[:64]
    if text.isascii() and text.isdigit():
        return min(float(text), MAX_RETRY_AFTER)
    try:
        seconds = (parsedate_to_datetime(text) - now).total_seconds()
    except (TypeError, ValueError, OverflowError, IndexError):
        return None
    return min(max(seconds, 0.0), MAX_RETRY_AFTER)


def backoff(attempts: int, *, delay: float) -> float:
    """Seconds until a page that failed is tried again: some turns of its host, and twice as many each time."""
    return min(max(delay, LEAST_TROUBLED) * 2.0 ** min(attempts + 1, 12), 3_600.0)


def robots_retry(delay: float) -> float:
    """Seconds until a robots.txt that failed is asked for again, the first time; its host is left alone meanwhile."""
    return min(max(ROBOTS_TURNS * delay, 1.0), 3_600.0)
