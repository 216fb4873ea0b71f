"""Times as stores keep them: whole microseconds since the epoch, which every database stores exactly."""

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

SECOND = 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Clock(Protocol):
    """A clock that replaces the store's own clock in tests."""

    def now(self) -> int:
        """Return microseconds since the epoch."""
        ...


class SystemClock:
    """The clock of this machine, for stores on this machine."""

    def now(self) -> int:
        return time.time_ns() // 1_000


class ManualClock:
    """A clock for tests. It moves only when `advance` is called."""

    def __init__(self, start: int = 1_000_000 * SECOND) -> None:
        self._now = start

    def now(self) -> int:
        return self._now

    def advance(self, seconds: float) -> None:
        """Move the clock forward, or back if `seconds` is negative."""
        self._now += to_microseconds(seconds)


def lease_clock() -> float:
    """Return seconds on a clock that cannot be set and that keeps running while the machine sleeps."""
    return time.clock_gettime(_LEASE_CLOCK)


_LEASE_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def to_microseconds(seconds: float) -> int:
    return round(seconds * SECOND)


def as_datetime(moment: int) -> datetime:
    """Convert a store's time to a datetime in UTC."""
    return _EPOCH + timedelta(microseconds=moment)


def from_datetime(moment: datetime) -> int:
    """Convert a datetime to a store's time. Check it with `is_moment` first."""
    return (moment - _EPOCH) // _MICROSECOND


def is_moment(moment: datetime) -> bool:
    """Return whether a datetime has a time zone and can be expressed in UTC."""
    if moment.utcoffset() is None:
        return False
    try:
        moment.astimezone(UTC)
    except OverflowError:
        return False
    return True
