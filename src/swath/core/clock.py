"""The store's time, in whole microseconds since the epoch: one unit, exact in every store."""

import time
from datetime import UTC, datetime
from typing import Protocol

SECOND = 1_000_000


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


def microseconds(seconds: float) -> int:
    return round(seconds * SECOND)


def as_datetime(moment: int) -> datetime:
    """A store time as an aware datetime in UTC."""
    return datetime.fromtimestamp(moment / SECOND, tz=UTC)


def from_datetime(moment: datetime) -> int:
    """An aware datetime as a store time; naive ones are refused by whoever took it from the user."""
    return microseconds(moment.timestamp())
