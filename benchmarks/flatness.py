"""Claim latency by size of the frontier.

Rounds of claims alternate between the frontiers, from the smallest to the largest, so that other load on the machine
affects all of them alike. Every settled item adds a new one to its lane, so a frontier keeps its size.
"""

import asyncio
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import swath
from benchmarks.lab import Lab, PostgresLab
from benchmarks.progress import say
from benchmarks.results import Figure, Results
from benchmarks.settings import ITEMS_PER_LANE, Settings
from benchmarks.work import page
from swath.core.item import Item

BATCH = 50
ROUND = 20  # claims of one frontier before the next frontier
WARM_UP = 20  # claims
MOST_CLAIMS = 100_000
PARTITIONS = {"sqlite": 1, "postgres": 8}  # few, so that even the smallest frontier has a full batch in each
BLOCKED_OF_TEN = 9

_loaded: set[str] = set()


@dataclass(slots=True)
class Samples:
    """What each claim took."""

    seconds: list[float] = field(default_factory=list)
    reads: list[int] = field(default_factory=list)  # system calls of this process that read from a file


def get_frontier(lab: Lab, items: int) -> str:
    """Return the name of a loaded frontier of this size. Other parts use it too."""
    name = f"flat_{items}"
    if (key := f"{lab.store} {name}") not in _loaded:
        lab.load(name, items=items, partitions=PARTITIONS[lab.store])
        _loaded.add(key)
    return name


def forget(lab: Lab, items: int) -> None:
    if (key := f"{lab.store} flat_{items}") in _loaded:
        lab.drop(f"flat_{items}")
        _loaded.discard(key)


def clean(lab: Lab, settings: Settings) -> None:
    for items in settings.sizes:
        forget(lab, items)


def measure(lab: Lab, settings: Settings, results: Results) -> None:
    names = {items: get_frontier(lab, items) for items in settings.sizes}
    _variant("all lanes ready", lab, names, settings, results)
    if isinstance(lab, PostgresLab):
        _variant("all lanes ready, snapshot pinned", lab, names, settings, results, meanwhile=lab.pin_snapshot)
    try:
        for name in names.values():
            lab.block(name, lanes_of_ten=BLOCKED_OF_TEN)
        _variant("9 of 10 lanes not ready", lab, names, settings, results)
    finally:
        for name in names.values():
            lab.block(name, lanes_of_ten=0)


def _variant(
    variant: str,
    lab: Lab,
    names: Mapping[int, str],
    settings: Settings,
    results: Results,
    *,
    meanwhile: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> None:
    with meanwhile():
        urls = {items: lab.url(name) for items, name in names.items()}
        measured = asyncio.run(_measure_claims(urls, settings.seconds, variant))
    smallest = None
    for items, samples in sorted(measured.items()):
        figure: Figure = {
            "variant": variant,
            "items": items,
            "lanes": items // ITEMS_PER_LANE,
            "partitions": PARTITIONS[lab.store],
            "batch": BATCH,
            **summary(samples.seconds),
            "reads_p50": statistics.median(samples.reads) if lab.store == "sqlite" else None,
        }
        smallest = smallest or figure
        figure["p99_to_smallest"] = figure["p99_ms"] / smallest["p99_ms"]
        results.add(figure)
        say(
            f"flatness, {lab.store}, {variant}, {items:,} items: p50 {figure['p50_ms']:.2f} ms, "
            f"p99 {figure['p99_ms']:.2f} ms ({figure['p99_to_smallest']:.2f}) over {figure['claims']:,} claims"
            + (f", {figure['reads_p50']:.0f} page reads" if figure["reads_p50"] is not None else "")
        )


async def _measure_claims(urls: Mapping[int, str], seconds: float, variant: str) -> dict[int, Samples]:
    """Return the samples by size, measuring each size for `seconds`."""
    new = f"{variant.replace(' ', '').replace(',', '')}-{os.getpid()}"
    measured = {items: Samples() for items in urls}
    async with AsyncExitStack() as stack:
        frontiers = {items: await stack.enter_async_context(swath.open(url)) for items, url in urls.items()}
        found = 0
        for frontier in frontiers.values():
            await _claim_repeatedly(frontier, WARM_UP, f"{new}-warm", Samples())
        end = time.monotonic() + seconds * len(urls)
        while time.monotonic() < end and found < MOST_CLAIMS:
            found += ROUND
            for items, frontier in frontiers.items():
                await _claim_repeatedly(frontier, ROUND, f"{new}-{found}", measured[items])
    return measured


async def _claim_repeatedly(frontier: swath.Frontier, count: int, new: str, samples: Samples) -> None:
    looking = _count_reads() - _count_reads()  # less than 0: counting reads a file, too
    for number in range(count):
        reads = _count_reads()
        began = time.perf_counter()
        claim = await frontier.claim(BATCH, lease=60.0)
        samples.seconds.append(time.perf_counter() - began)
        samples.reads.append(_count_reads() - reads + looking)
        if claim is None:
            raise RuntimeError("no item was ready: the frontier is too small for this benchmark")
        outcomes = [
            item.done(discovered=[Item(page(item.lane, f"{new}-{number}-{item.position}"), item.lane)])
            for item in claim.items
        ]
        await claim.settle(outcomes)


def _count_reads() -> int:
    """Return how often this process has read from a file; always 0 where the kernel does not count that."""
    try:
        lines = Path("/proc/self/io").read_text().splitlines()
    except OSError:
        return 0
    return next(int(line.removeprefix("syscr:")) for line in lines if line.startswith("syscr:"))


def summary(seconds: Sequence[float]) -> dict[str, float]:
    """Return p50, p99 and maximum in milliseconds, and the ratio of the medians of the last and the first quarter."""
    cuts = statistics.quantiles(seconds, n=100, method="inclusive")
    quarter = max(1, len(seconds) // 4)
    return {
        "claims": len(seconds),
        "p50_ms": cuts[49] * 1e3,
        "p99_ms": cuts[98] * 1e3,
        "max_ms": max(seconds) * 1e3,
        "last_to_first_quarter": statistics.median(seconds[-quarter:]) / statistics.median(seconds[:quarter]),
    }
