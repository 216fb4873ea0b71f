"""swath's backfill in a process of its own: python -m benchmarks.backfill.ours DB TABLE WORKERS TARGET_SECONDS

Measured is all that the command does from the look at the table to the last settlement, without the start of Python.
"""

import asyncio
import json
import sys
import time

from swath.backfill.job import Job, opened
from swath.backfill.settings import BackfillSettings
from swath.runner.shutdown import Stop

CHANGE = "email_lower = lower(email)"


async def backfill(settings: BackfillSettings) -> dict[str, object]:
    began = time.perf_counter()
    job = Job(settings, stop=Stop(), say=lambda text: print(text, file=sys.stderr))
    async with job.open() as ready:
        await ready.check()
        async with opened(settings) as frontier:
            await ready.begin(frontier)
            await ready.run(frontier)
    return {"seconds": time.perf_counter() - began, **job.tally.as_dict()}


def main() -> None:
    db, table, workers, target = sys.argv[1:]
    settings = BackfillSettings(
        db=db, table=table, set=CHANGE, workers=int(workers), target_time=float(target), name="swath_bench"
    )
    print(json.dumps(asyncio.run(backfill(settings))))


if __name__ == "__main__":
    main()
