"""The tutorial's worker: python examples/tour.py, in as many processes as you like."""

import asyncio
import os
import random

import swath


async def visit(item: swath.Item) -> swath.Outcome:
    await asyncio.sleep(random.uniform(0.05, 0.2))  # the work
    if random.random() < 0.1:
        return item.retry(after=2, reason="the host was tired")
    found = []
    if item.key.count("/") < 6:
        found = [swath.Item(f"{item.key}/more", lane=item.lane)]
    return item.done(result={"by": os.getpid()}, discovered=found)


async def main() -> None:
    async with swath.open(os.environ.get("SWATH_STORE", "sqlite:///tour.db")) as frontier:
        print(await frontier.run(visit, workers=20))


if __name__ == "__main__":
    asyncio.run(main())
