"""Lines that tell, while it runs, what is being measured and what came out."""

import sys
import time

_BEGAN = time.monotonic()


def say(text: str) -> None:
    minutes, seconds = divmod(int(time.monotonic() - _BEGAN), 60)
    print(f"[{minutes:2d}:{seconds:02d}] {text}", file=sys.stderr, flush=True)
