"""Claim latency with 50 and 500 concurrent claimers, beside the floor with the same concurrency.

Ten processes run five or fifty coroutines each. A coroutine claims a batch, settles it and claims again, with no work
in between: a claimer waits for the store and for the other claimers, and for nothing else. The coroutines of a process
share its connections, as they do in a program that uses the frontier.
"""

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import NamedTuple

import swath
from benchmarks import sites
from benchmarks.children import Child, answer
from benchmarks.floor import Floor
from benchmarks.lab import Lab
from benchmarks.progress import say
from benchmarks.results import Figure, Results
from benchmarks.settings import ITEMS_PER_LANE, Settings
from benchmarks.sites import Site

CLAIMERS = (50, 500)
PROCESSES = 10
BATCH = 10
SIDES = ("swath", "floor")
ORDER = (*SIDES, *reversed(SIDES))  # forth and back, so that a drift of the machine affects both sides alike
WARM_UP_SECONDS = 0.5
HEAD_START = 0.05  # seconds until a round starts, so that every process has received it
ANSWER_SECONDS = 180.0
EMPTY_SECONDS = 5.0  # of claims without an item until a frontier counts as empty: another claimer may hold all lanes
DRY_SECONDS = 0.005  # between two of them


@dataclass(frozen=True, slots=True)
class Round:
    site: Site
    side: str
    claimers: int  # in this process
    batch: int
    warm_up: float  # seconds before the claims count
    seconds: float


class Claims(NamedTuple):
    """The claims of one coroutine: how long each took, and how many items they had together."""

    seconds: list[float]
    items: int


class Taken(NamedTuple):
    items: int
    settle: Callable[[], Awaitable[object]]


Take = Callable[[], Awaitable[Taken | None]]


def measure(lab: Lab, settings: Settings, results: Results) -> None:
    site = sites.load(lab, settings, lanes_per_partition=5 * BATCH)
    with ExitStack() as stack:
        fleet = [stack.enter_context(Child(work)) for _ in range(PROCESSES)]
        for claimers in CLAIMERS:
            if sites.is_worn(lab, settings):
                site = sites.load(lab, settings, lanes_per_partition=5 * BATCH)
            batch = choose_batch(site.lanes, claimers)
            claims: dict[str, list[list[Claims]]] = {side: [] for side in SIDES}
            for side in ORDER:
                question = Round(site, side, claimers // PROCESSES, batch, WARM_UP_SECONDS, settings.seconds / 2)
                claims[side].append(_round(fleet, question))
            figure: Figure = {
                "claimers": claimers,
                "processes": PROCESSES,
                "batch": batch,
                "items": site.lanes * ITEMS_PER_LANE,
                "lanes": site.lanes,
                "partitions": site.partitions,
                **{side: summarize(rounds, settings.seconds) for side, rounds in claims.items()},
            }
            results.add(figure)
            for side in SIDES:
                say(f"claimers, {lab.store}, {claimers} claimers, {side}: {_describe(figure[side])}")
    sites.drop(lab)


def choose_batch(lanes: int, claimers: int) -> int:
    """Return the batch; in a trial run fewer items, so that other lanes are ready while every claimer holds a batch."""
    return max(1, min(BATCH, lanes // (2 * claimers)))


def summarize(rounds: Sequence[Sequence[Claims]], seconds: float) -> Figure:
    """Return the rate, the quantiles of the latency, and what the slowest claimer got of an even share."""
    waits = [wait for claims in rounds for one in claims for wait in one.seconds]
    if len(waits) < 2:
        raise RuntimeError("fewer than two claims: measure for longer")
    items = [sum(one.items for one in of_one) for of_one in zip(*rounds, strict=True)]
    cuts = statistics.quantiles(waits, n=100, method="inclusive")
    return {
        "claims": len(waits),
        "claims_per_s": len(waits) / seconds,
        "items_per_s": sum(items) / seconds,
        "p50_ms": cuts[49] * 1e3,
        "p99_ms": cuts[98] * 1e3,
        "max_ms": max(waits) * 1e3,
        "slowest": min(items) * len(items) / sum(items),
    }


def _describe(side: Figure) -> str:
    return (
        f"{side['claims_per_s']:,.0f} claims/s, p50 {side['p50_ms']:.1f} ms, p99 {side['p99_ms']:.1f} ms, "
        f"max {side['max_ms']:.0f} ms, slowest {side['slowest']:.0%}"
    )


def _round(fleet: Sequence[Child], question: Round) -> list[Claims]:
    """Run one round and return the claims of every coroutine of the fleet."""
    for child in fleet:
        child.send(question)
    for child in fleet:
        child.receive(timeout=ANSWER_SECONDS)  # it has opened its connections
    start_at = time.monotonic() + HEAD_START
    for child in fleet:
        child.send(start_at)
    return [one for child in fleet for one in child.receive(timeout=question.seconds + ANSWER_SECONDS)]


# in the child process


def work(connection: Connection) -> None:
    """Run the rounds that the parent asks for, until it closes the connection."""
    with asyncio.Runner() as runner:
        while True:
            runner.run(_run_round(connection, connection.recv()))


async def _run_round(connection: Connection, question: Round) -> None:
    async with _open_side(question) as take:
        answer(connection, True)
        start_at: float = connection.recv()  # nothing else runs in this process
        await asyncio.sleep(start_at - time.monotonic())
        counted_from = start_at + question.warm_up
        until = counted_from + question.seconds
        claiming = [_claim_repeatedly(take, counted_from, until) for _ in range(question.claimers)]
        answer(connection, await asyncio.gather(*claiming))


@asynccontextmanager
async def _open_side(question: Round) -> AsyncIterator[Take]:
    if question.side == "swath":
        async with swath.open(question.site.swath_url, create=False) as frontier:
            yield partial(_take_from_swath, frontier, question.batch)
        return
    floor = sites.open_floor(question.site)
    try:
        yield partial(_take_from_floor, floor, question.batch)
    finally:
        await floor.close()


async def _take_from_swath(frontier: swath.Frontier, batch: int) -> Taken | None:
    claim = await frontier.claim(batch, lease=60.0)
    if claim is None:
        return None
    return Taken(len(claim.items), lambda: claim.settle([item.done() for item in claim.items]))


async def _take_from_floor(floor: Floor, batch: int) -> Taken | None:
    held = await floor.claim_in_loop(batch)
    return Taken(held.items, lambda: floor.settle_in_loop(held)) if held.items else None


async def _claim_repeatedly(take: Take, counted_from: float, until: float) -> Claims:
    """Claim and settle. Count the claims that began in the window, however long they took."""
    seconds: list[float] = []
    items = 0
    while (began := time.monotonic()) < until:
        taken = await _take_until_ready(take)
        if began >= counted_from:
            seconds.append(time.monotonic() - began)
            items += taken.items
        await taken.settle()
    return Claims(seconds, items)


async def _take_until_ready(take: Take) -> Taken:
    give_up_at = time.monotonic() + EMPTY_SECONDS
    while time.monotonic() < give_up_at:
        taken = await take()
        if taken is not None:
            return taken
        await asyncio.sleep(DRY_SECONDS)
    raise RuntimeError("no item was ready: the frontier is too small for this benchmark")
