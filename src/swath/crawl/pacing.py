"""Pacing: how long to wait between requests to a host.

Pure functions compute the interval from --delay, from what the host asks for, and from how it responds. `LanePacing`
sets it as the lane's interval, which all processes of the crawl follow, and stores it as a fact.
"""

from datetime import datetime

from swath import Frontier, lease_clock, retry_while_unavailable, seconds_left
from swath.crawl.fact_batcher import FactBatcher
from swath.crawl.http.dates import parse_date

MAX_CRAWL_DELAY = 300.0  # seconds; a longer Crawl-delay is cut to this
MAX_RETRY_AFTER = 6 * 3_600.0
MAX_INTERVAL = 900.0
MAX_PAUSE = 3_600.0  # seconds before the next attempt at a page or a robots.txt that failed
SLOW_RESPONSE = 2.0  # seconds; a response that takes longer is slow
SLOW_FACTOR = 5.0  # the interval of a slow host, in multiples of its response time
MIN_FAILING_INTERVAL = 0.5  # seconds between requests to a failing host if --delay is 0
MAX_DOUBLINGS = 4  # how often consecutive failures double a host's interval
MAX_PAUSE_DOUBLINGS = 12
ROBOTS_RETRY_INTERVALS = 30  # intervals of a host before the second attempt at its robots.txt
TOLERANCE = 1.25  # an interval changes only if it is off by more than this factor

FACT_PREFIX = "pace "  # key of the fact that remembers a lane's interval: this prefix and the lane's name
MAX_LANES = 50_000  # lanes that one process remembers


def compute_required_interval(delay: float, *, crawl_delay: float | None) -> float:
    """Return the seconds between requests that --delay and the host's Crawl-delay ask for."""
    return max(delay, min(crawl_delay or 0.0, MAX_CRAWL_DELAY))


def choose_interval(delay: float, *, crawl_delay: float | None, response_seconds: float, errors: int) -> float:
    """Return the seconds between requests: the required interval, or more if the host is slow or keeps failing."""
    required = longer = compute_required_interval(delay, crawl_delay=crawl_delay)
    if delay and response_seconds > SLOW_RESPONSE:  # --delay 0 means that the user may put load on these hosts
        longer = max(longer, SLOW_FACTOR * response_seconds)
    if errors > 1:
        longer = max(longer, max(required, MIN_FAILING_INTERVAL) * 2.0 ** min(errors - 1, MAX_DOUBLINGS))
    return max(required, min(longer, MAX_INTERVAL))


def needs_change(current: float, *, wanted: float, required: float) -> bool:
    """Return whether an interval is too short, or far enough off to be worth a write to the store."""
    return current < required or wanted > current * TOLERANCE or current > wanted * TOLERANCE


def parse_retry_after(value: str | None, *, now: datetime) -> float | None:
    """Return the seconds that a Retry-After header asks for, as a number or a date; None if it is not valid.

    `now` is the time of the response by the clock that the date follows.
    """
    if value is None:
        return None
    text = value.strip()[:64]
    if text.isascii() and text.isdigit():
        return min(float(text), MAX_RETRY_AFTER)
    date = parse_date(text)
    return None if date is None else min(max((date - now).total_seconds(), 0.0), MAX_RETRY_AFTER)


def compute_page_retry_pause(attempts: int, *, interval: float) -> float:
    """Return the seconds before the next attempt at a page: some intervals of its host, doubled each time."""
    return min(max(interval, MIN_FAILING_INTERVAL) * 2.0 ** min(attempts + 1, MAX_PAUSE_DOUBLINGS), MAX_PAUSE)


def compute_robots_retry_pause(delay: float) -> float:
    """Return the seconds before the second attempt at a robots.txt."""
    return min(max(ROBOTS_RETRY_INTERVALS * delay, 1.0), MAX_PAUSE)


class LanePace:
    """What this process knows about the pace of one lane."""

    __slots__ = ("blocked_until", "closes_connections", "crawl_delay", "errors", "interval")

    def __init__(self, interval: float) -> None:
        self.interval = interval  # as stored in the lane
        self.errors = 0  # consecutive
        self.crawl_delay: float | None = None
        self.blocked_until = 0.0  # on `lease_clock`
        self.closes_connections = False  # the host closed a reused connection, so use new ones


class LanePacing:
    """The paces of the lanes that this process visits."""

    def __init__(self, frontier: Frontier, facts: FactBatcher, *, delay: float) -> None:
        self._frontier = frontier
        self._facts = facts
        self._delay = delay
        self._paces: dict[str, LanePace] = {}

    async def load(self, lane: str) -> None:
        """Read the interval of a lane from the store, unless this process knows it."""
        if lane not in self._paces:
            interval = await self._facts.get(FACT_PREFIX + lane)
            if lane not in self._paces:
                self._remember(lane, LanePace(self._delay if interval is None else interval))

    def _remember(self, lane: str, pace: LanePace) -> LanePace:
        if len(self._paces) >= MAX_LANES:
            self._paces.clear()
        self._paces[lane] = pace
        return pace

    def get(self, lane: str) -> LanePace:
        return self._paces.get(lane) or self._remember(lane, LanePace(self._delay))

    def is_paced(self, lane: str) -> bool:
        return self._delay > 0 or self.get(lane).interval > 0

    async def record_response(self, lane: str, seconds: float, *, failed: bool) -> None:
        """Slow down if the host is slow or fails, and speed up again when it recovers.

        INV-2: learn nothing from a visit whose lease has ended. This process may have been stopped for as long.
        """
        if seconds_left() <= 0:
            return
        pace = self.get(lane)
        pace.errors = pace.errors + 1 if failed else 0
        wanted = choose_interval(
            self._delay, crawl_delay=pace.crawl_delay, response_seconds=seconds, errors=pace.errors
        )
        await self._set_interval(lane, pace, wanted)

    async def apply_crawl_delay(self, lane: str, crawl_delay: float) -> None:
        """Slow down to a host's Crawl-delay.

        Another host served the robots.txt, so its response time says nothing about this one: never speed up here.
        """
        await self.load(lane)
        pace = self.get(lane)
        pace.crawl_delay = crawl_delay
        wanted = choose_interval(self._delay, crawl_delay=crawl_delay, response_seconds=0.0, errors=pace.errors)
        await self._set_interval(lane, pace, max(wanted, pace.interval))

    async def _set_interval(self, lane: str, pace: LanePace, wanted: float) -> None:
        required = compute_required_interval(self._delay, crawl_delay=pace.crawl_delay)
        if needs_change(pace.interval, wanted=wanted, required=required):
            pace.interval = wanted
            await retry_while_unavailable(lambda: self._frontier.limit(lane, min_interval=wanted, audit=False))
            await self._facts.learn({FACT_PREFIX + lane: wanted})

    async def block(self, lane: str, seconds: float) -> None:
        """Block a lane for some seconds. A longer block stays, even if another process set it."""
        if seconds_left() <= 0:
            return  # INV-2, as above
        pace = self.get(lane)
        until = lease_clock() + seconds
        if seconds and until > pace.blocked_until:
            pace.blocked_until = until
            await retry_while_unavailable(lambda: self._frontier.block(lane, seconds=seconds, at_least=True))
