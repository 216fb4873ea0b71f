"""AwakeClock: measure how long something takes, and leave out the time while this process does not run."""

import asyncio
from collections.abc import Callable

from swath import lease_clock

BEAT_SECONDS = 0.25
MISSED_SECONDS = 2 * BEAT_SECONDS  # a longer gap between two beats means that the process did not run


class AwakeClock:
    """A clock that stands still while the process is stopped, the machine sleeps, or the event loop is blocked.

    A response may arrive in that time and is read only afterwards, so it would look as if the host were slow.
    A timer reads the clock four times a second during a measurement.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, *, clock: Callable[[], float] = lease_clock) -> None:
        self._loop = loop
        self._clock = clock
        self._missed = 0.0  # so far
        self._read_at = clock()
        self._measuring = 0
        self._timer: asyncio.TimerHandle | None = None

    def read(self) -> float:
        """Return seconds since some moment."""
        now = self._clock()
        gap = now - self._read_at
        if gap > MISSED_SECONDS:
            self._missed += gap - BEAT_SECONDS
        self._read_at = now
        return now - self._missed

    def start(self) -> float:
        """Begin to measure, and return the time. Call `stop` once for each call."""
        self._measuring += 1
        if self._timer is None:
            self._timer = self._loop.call_later(BEAT_SECONDS, self._beat)
        return self.read()

    def stop(self) -> None:
        """End a measurement."""
        self._measuring -= 1

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _beat(self) -> None:
        self.read()
        self._timer = self._loop.call_later(BEAT_SECONDS, self._beat) if self._measuring else None
