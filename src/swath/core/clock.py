"""The store's time, in whole microseconds since the epoch: one unit, exact in every store."""

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

SECOND = 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Clock(Protocol):
    """Where a test takes the place of the store's own clock."""

    def now(self) -> int:
        """Microseconds since the epoch."""
        ...


class SystemClock:
    """The clock of this machine, for stores that live on it."""

    def now(self) -> int:
        return time.time_ns() // 1_000


class ManualClock:
    """A clock that a test moves by hand."""

    def __init__(self, start: int = 1_000_000 * SECOND) -> None:
        self._now = start

    def now(self) -> int:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += microseconds(seconds)


def lease_clock() -> float:
    """Return seconds on a clock that nobody can set and that keeps running while the machine sleeps."""
    return time.clock_gettime(_LEASE_CLOCK)


_LEASE_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def microseconds(seconds: float) -> int:
    return round(seconds * SECOND)


def as_datetime(moment: int) -> datetime:
    """A store time as an aware datetime in UTC."""
    return _EPOCH + timedelta(microseconds=moment)


def from_datetime(moment: datetime) -> int:
    """A datetime that `is_moment` as a store time."""
    return (moment - _EPOCH) // _MICROSECOND


def is_moment(moment: datetime) -> bool:
    """Whether a datetime has a time zone, and its year in UTC four digits."""
    if moment.utcoffset() is None:
        return False
    try:
        moment.astimezone(UTC)
    except OverflowError:
        return False
    return True
