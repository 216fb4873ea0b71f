"""Run swath's backfill as its own process: python -m benchmarks.backfill.ours DB TABLE WORKERS TARGET_SECONDS

The time covers everything from opening the table to the last settlement, but not the start of Python.
"""

import asyncio
import json
import sys
import time

from swath import Stop
from swath.backfill.job import BackfillJob, open_frontier
from swath.backfill.settings import BackfillSettings

CHANGE = "email_lower = lower(email)"


async def backfill(settings: BackfillSettings) -> dict[str, object]:
    began = time.perf_counter()
    async with BackfillJob.open(settings, stop=Stop(), report=lambda text: print(text, file=sys.stderr)) as job:
        await job.check()
        async with open_frontier(settings) as frontier:
            await job.start(frontier)
            await job.run(frontier)
    return {"seconds": time.perf_counter() - began, **job.stats.as_dict()}


def main() -> None:
    db, table, workers, target = sys.argv[1:]
    settings = BackfillSettings(
        db=db, table=table, set=CHANGE, workers=int(workers), target_time=float(target), name="swath_bench"
    )
    print(json.dumps(asyncio.run(backfill(settings))))


if __name__ == "__main__":
    main()
