"""OriginFailure: an origin cannot be reached, because a request for its robots.txt got no response.

Its pages wait while the request is retried, at first after the same pauses as a page, and then they are dead. The
failure is a fact that all workers share, so that thousands of queued pages cost one request per pause. After it ends,
the next page that is due tries again.
"""

from typing import Any, NamedTuple

from swath.crawl.pacing import compute_page_retry_pause
from swath.crawl.robots.policy import DAY, SECOND

MIN_HOLD = 600 * SECOND  # how long a final failure holds: this, or as long as the origin has been failing
MAX_HOLD = DAY


class OriginFailure(NamedTuple):
    """The latest of the consecutive failures to request an origin's robots.txt. Times are those of the store."""

    reason: str
    since: int  # of the first failure
    tries: int
    is_final: bool  # pages that are due are dead; otherwise they wait
    until: int  # then the next page that is due tries again
    retry_mark: Any  # the value of RETRY_FACT: the failure holds only while that does not change

    @property
    def kind(self) -> str:
        return self.reason.partition(":")[0]


def next_failure(
    before: OriginFailure | None,
    *,
    reason: str,
    is_permanent: bool,
    now: int,
    retries: int,
    interval: float,
    retry_mark: Any,
) -> OriginFailure:
    """Return the failure of an origin after another request failed at `now`. `interval` is that of its lane."""
    if before is not None and before.retry_mark != retry_mark:
        before = None
    since = now if before is None else min(now, before.since)
    tries = 1 if before is None else before.tries + 1
    if is_permanent or tries > retries:
        hold = min(max(now - since, MIN_HOLD), MAX_HOLD)
        return OriginFailure(reason, since, tries, True, now + hold, retry_mark)
    pause = round(compute_page_retry_pause(tries - 1, interval=interval) * SECOND)
    return OriginFailure(reason, since, tries, False, now + pause, retry_mark)
