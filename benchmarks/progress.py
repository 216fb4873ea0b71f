"""Progress lines on standard error, with the time since the start."""

import sys
import time

_BEGAN = time.monotonic()


def say(text: str) -> None:
    minutes, seconds = divmod(int(time.monotonic() - _BEGAN), 60)
    print(f"[{minutes:2d}:{seconds:02d}] {text}", file=sys.stderr, flush=True)
