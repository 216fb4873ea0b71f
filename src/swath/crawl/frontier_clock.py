"""FrontierClock: the time of the frontier's store, which all processes of a crawl share.

The clocks of the machines may differ by hours. So whatever one process stores for another to compare is a time of the
store, and a date from a host is compared with the host's own clock.
"""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from swath import Frontier, lease_clock, retry_while_unavailable
from swath.crawl.http.dates import parse_date
from swath.crawl.http.response import Response
from swath.crawl.pacing import parse_retry_after

READ_SECONDS = 60.0  # between two readings of the store's clock; in between, this machine's boot clock continues it
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class FrontierClock:
    """The clocks of the store, as far as this process knows them."""

    def __init__(self, frontier: Frontier, *, clock: Callable[[], float] = lease_clock) -> None:
        self._frontier = frontier
        self._clock = clock
        self._lock = asyncio.Lock()
        self._read_at: float | None = None  # on this machine's clock
        self._store_time = 0  # the store's time then

    async def now(self) -> int:
        """Return the store's own time, in microseconds."""
        if self._needs_reading():
            async with self._lock:
                if self._needs_reading():
                    found = await retry_while_unavailable(self._frontier.read_clock)
                    self._store_time = (found.now - EPOCH) // timedelta(microseconds=1)
                    self._read_at = self._clock()
        assert self._read_at is not None
        return self._store_time + round((self._clock() - self._read_at) * 1_000_000)

    def _needs_reading(self) -> bool:
        return self._read_at is None or self._clock() - self._read_at > READ_SECONDS

    async def read_wall(self) -> datetime:
        """Return the wall clock of the store."""
        return (await retry_while_unavailable(self._frontier.read_clock)).wall

    async def find_response_time(self, response: Response) -> datetime:
        """Return when a response was sent, by its Date header, or else by the store's wall clock."""
        return parse_date(response.headers.get("date")) or await self.read_wall()

    async def find_retry_after(self, response: Response) -> float | None:
        """Return the seconds that a response asks to wait; None if it does not."""
        value = response.headers.get("retry-after")
        if value is None or value.strip().isdigit():
            return parse_retry_after(value, now=EPOCH)  # a number is relative to no clock
        return parse_retry_after(value, now=await self.find_response_time(response))
