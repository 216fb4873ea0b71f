"""Run a program as on a machine whose wall clock is wrong, or is set while the program runs.

    python -m tests.skewed OFFSET_FILE swath.__main__ crawl …

The file contains the seconds by which the wall clock is wrong. It is read whenever the program reads the wall clock, so
a test sets that clock by replacing the file. Import this module before anything that reads the time.
"""

import datetime
import os
import runpy
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Read = Callable[[], float]
RealDatetime = datetime.datetime


class AnyDatetime(type):
    """Makes every real datetime an instance of the class that takes its place."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, RealDatetime)


def write_offset(path: Path, seconds: float) -> None:
    """Set the wall clock of the programs that run with this file."""
    new = path.with_name(f"{path.name}.new")
    new.write_text(str(seconds), encoding="ascii")
    new.replace(path)


def skew(offset: Read) -> None:
    """Replace what Python programs read the wall clock with."""
    real_time, real_gettime = time.time, time.clock_gettime

    class SkewedDatetime(RealDatetime, metaclass=AnyDatetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Any:
            return cls.fromtimestamp(real_time() + offset(), tz)

    def gettime(clock: int) -> float:
        return real_gettime(clock) + (offset() if clock == time.CLOCK_REALTIME else 0.0)

    time.time = lambda: real_time() + offset()
    time.time_ns = lambda: round((real_time() + offset()) * 1e9)
    time.clock_gettime = gettime
    datetime.datetime = SkewedDatetime  # type: ignore[misc]


def main() -> None:
    path, module, *words = sys.argv[1:]
    skew(lambda: float(Path(path).read_text(encoding="ascii")))
    sys.argv = [module, *words]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    assert "swath" not in sys.modules, f"{os.getpid()} has read the time before it was skewed"
    main()
