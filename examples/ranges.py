"""Ranges: one item stands for a million numbers, and is split so that other workers can help."""

import asyncio

import swath

STEP = 50_000


async def add_up(item: swath.Item) -> swath.Outcome:
    lo, hi = item.payload["lo"], item.payload["hi"]
    upper = min(hi, lo + STEP)
    result = {"sum": sum(range(lo, upper))}
    return item.done(result=result) if upper == hi else item.split(at=upper, result=result)


async def main() -> None:
    total = 0

    async def add_to_total(item: swath.Item) -> swath.Outcome:
        nonlocal total
        outcome = await add_up(item)
        if isinstance(outcome, swath.Done | swath.Split):
            total += outcome.result["sum"]
        return outcome

    async with swath.open("memory:") as frontier:
        whole = {"lo": 0, "hi": 1_000_000}
        await frontier.add(swath.Item("numbers", payload=whole, span=2**40))
        await frontier.run(add_to_total, workers=4)
        (checkpoint,) = (await frontier.status()).checkpoints
        print(f"the sum is {total:,}; the checkpoint is at {checkpoint.position:,} of {checkpoint.end:,}")


if __name__ == "__main__":
    asyncio.run(main())
