"""Times as stores keep them: whole microseconds since the epoch, which every database stores exactly."""

import subprocess
import time
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Protocol

SECOND = 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Clock(Protocol):
    """A clock that replaces the store's own clock in tests."""

    def now(self) -> int:
        """Return microseconds since the epoch."""
        ...


class MachineClock(Protocol):
    """The two clocks of a machine, in microseconds: one that can be set, and one that only runs."""

    @property
    def boot(self) -> str:
        """Name the period in which `since_boot` runs without a break."""
        ...

    def since_boot(self) -> int:
        """Return the time since the boot. Nobody can set this clock, and it runs while the machine sleeps."""
        ...

    def wall(self) -> int:
        """Return the time since the epoch, as the machine's clock is set at the moment."""
        ...


class SystemClock:
    """The clocks of this machine."""

    @property
    def boot(self) -> str:
        return read_boot_id()

    def since_boot(self) -> int:
        return time.clock_gettime_ns(_LEASE_CLOCK) // 1_000

    def wall(self) -> int:
        return time.time_ns() // 1_000


class SingleClock:
    """A test's clock in the place of both clocks of a machine, which then never differ."""

    boot = "test"

    def __init__(self, clock: Clock) -> None:
        self.since_boot = self.wall = clock.now


class StoreClock:
    """The clock of a store on this machine: the time since the boot plus an offset.

    The offset is chosen once per boot, from the wall clock. So durations do not change when the wall clock is set, and
    a time of the store differs from the wall clock by what it was set by since.
    """

    def __init__(self, machine: MachineClock, offset: int) -> None:
        self._machine = machine
        self._offset = offset

    def now(self) -> int:
        return self._machine.since_boot() + self._offset

    def wall_ahead(self) -> int:
        """Return how far the wall clock is ahead of the store's."""
        return self._machine.wall() - self.now()

    def round_wall_ahead(self) -> int:
        """Return the same in whole seconds, for times that are shown: each call would return another difference."""
        return round_to_seconds(self.wall_ahead())

    def to_wall(self, moment: int) -> int:
        """Return what the wall clock shows at a time of the store, as it is set now."""
        return moment + self.round_wall_ahead()


def round_to_seconds(microseconds: int) -> int:
    return (microseconds + SECOND // 2) // SECOND * SECOND


def choose_offset(machine: MachineClock, *, latest: int) -> int:
    """Return the offset for this boot: the store continues with the wall clock, but not before its `latest` time."""
    return max(machine.wall(), latest) - machine.since_boot()


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


# On macOS, CLOCK_MONOTONIC follows the wall clock when that is set, and CLOCK_MONOTONIC_RAW runs while it sleeps.
_LEASE_CLOCK = next(
    getattr(time, name) for name in ("CLOCK_BOOTTIME", "CLOCK_MONOTONIC_RAW", "CLOCK_MONOTONIC") if hasattr(time, name)
)


@cache
def read_boot_id() -> str:
    """Return an id of this boot. All processes that see the same `lease_clock` have the same one."""
    if _LINUX_BOOT_ID.exists():  # containers see the id of their host; a time namespace has a clock of its own
        namespace = _TIME_NAMESPACE.readlink() if _TIME_NAMESPACE.is_symlink() else ""
        return f"{_LINUX_BOOT_ID.read_text().strip()} {namespace}".strip()
    try:
        done = subprocess.run(_MACOS_BOOT_ID, capture_output=True, text=True, timeout=5, check=True)
        found = done.stdout.strip()
    except (OSError, subprocess.SubprocessError):
        found = ""
    # Otherwise the minute of the boot by the wall clock: if that is set, it looks like another boot.
    return found or f"booted in minute {round((time.time() - lease_clock()) / 60)}"


_LINUX_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_TIME_NAMESPACE = Path("/proc/self/ns/time")
_MACOS_BOOT_ID = ("/usr/sbin/sysctl", "-n", "kern.bootsessionuuid")


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
