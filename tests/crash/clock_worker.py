"""One process of tests/crash/test_clocks.py: `python -m tests.skewed OFFSET tests.crash.clock_worker URL LOG`.

It logs when each handler starts and ends, on the monotonic clock, which all processes of the machine share.
"""

import asyncio
import json
import sys
import time
from pathlib import Path

import swath
from swath import Item

LEASE_SECONDS = 1.0
WORK_SECONDS = 0.02
WORKERS = 10


async def main(url: str, path: Path) -> None:
    with path.open("a", buffering=1, encoding="utf-8") as log:

        def write(kind: str, item: Item) -> None:
            log.write(json.dumps([kind, time.monotonic(), item.lane, item.key]) + "\n")

        async def handler(item: Item) -> None:
            write("start", item)
            await asyncio.sleep(WORK_SECONDS)
            if swath.seconds_left() > 0:  # otherwise it is not settled
                write("end", item)

        async with swath.open(url) as frontier:
            await frontier.run(handler, workers=WORKERS, lease=LEASE_SECONDS)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
