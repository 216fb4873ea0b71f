"""Problems of the queue: too few lanes for the workers, one lane with most of the items, lost workers, and clocks."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from swath import Frontier, LaneInfo, Problem
from swath.cli.formatting import format_duration, pluralize

MAX_SECONDS = 2.0  # for reading the lanes, or the dead items
MIN_WAITING = 1_000  # ready items in a lane that is worth a word
MIN_LANES = 10  # with fewer, most of the items may well be in one of them
LARGE_SHARE = 0.5
MIN_LANE_SECONDS = 3_600.0  # a lane that is done sooner is no problem
CLOCK_SECONDS = 5.0  # of difference between this machine's clock and the store's
LOST = "its worker was lost without settling it"  # how the reason of such a dead item begins


@dataclass(slots=True)
class LaneTotals:
    """What a look at the lanes found, in bounded memory."""

    lanes: int = 0  # that have ready items, or items in flight
    waiting: int = 0  # ready items; delayed ones belong to no lane yet
    startable: int = 0  # items that could be in flight at once
    largest: LaneInfo | None = None
    complete: bool = False  # whether all lanes were read

    def add(self, lane: LaneInfo) -> None:
        total = lane.waiting + lane.in_flight
        if not total:
            return
        self.lanes += 1
        self.waiting += lane.waiting
        self.startable += 0 if lane.paused else total if lane.concurrency is None else min(total, lane.concurrency)
        if self.largest is None or lane.waiting > self.largest.waiting:
            self.largest = lane


async def read_lanes(frontier: Frontier) -> LaneTotals:
    """Read the lanes for at most MAX_SECONDS."""
    totals, ends_at = LaneTotals(), time.monotonic() + MAX_SECONDS
    async for lane in frontier.lanes():
        totals.add(lane)
        if time.monotonic() > ends_at:
            return totals
    totals.complete = True
    return totals


async def count_lost(frontier: Frontier) -> int:
    """Return how many items are dead because they lost too many workers, among those read in MAX_SECONDS."""
    lost, ends_at = 0, time.monotonic() + MAX_SECONDS
    async for item in frontier.dead():
        lost += item.reason.startswith(LOST)
        if time.monotonic() > ends_at:
            break
    return lost


async def read_skew(frontier: Frontier) -> float:
    """Return how many seconds this machine's wall clock is ahead of the store's, to the accuracy of one call."""
    before = time.time()
    reading = await frontier.read_clock()
    return (before + time.time()) / 2 - reading.wall.timestamp()


def check_skew(seconds: float) -> Iterator[Problem]:
    if abs(seconds) > CLOCK_SECONDS:
        side = "ahead of" if seconds > 0 else "behind"
        yield Problem(
            "clock",
            f"the clock of this machine is {format_duration(abs(seconds))} {side} the store's. Leases and intervals "
            "run on the store's clock, but times that this machine sets, such as not_before, are off",
            "synchronise the clocks of both machines, for example with chrony",
        )


def check_largest_lane(totals: LaneTotals) -> Iterator[Problem]:
    """Yield a problem if one paced lane holds most of the queue, so that it will run alone for long."""
    lane = totals.largest
    if lane is None or not totals.complete or totals.lanes < MIN_LANES or lane.waiting < MIN_WAITING:
        return
    seconds = lane.waiting * lane.min_interval / (lane.concurrency or 1)
    if lane.waiting > LARGE_SHARE * totals.waiting and seconds > MIN_LANE_SECONDS:
        yield Problem(
            "largest-lane",
            f"the lane {lane.lane} holds {lane.waiting:,} of {pluralize(totals.waiting, 'ready item')}, and at its "
            f"pace they take at least {format_duration(seconds)}",
            "exclude what is not needed there, drop items with `swath drop`, or give the lane other limits with "
            "`swath lanes set`",
        )


def check_workers(totals: LaneTotals, workers: int) -> Iterator[Problem]:
    """Yield a problem if the limits of the lanes keep some of the workers idle at any time."""
    if totals.complete and totals.lanes and totals.startable < workers:
        yield Problem(
            "idle-workers",
            f"{pluralize(workers, 'worker')}, but {pluralize(totals.lanes, 'lane')} with ready items, whose limits "
            f"allow {totals.startable:,} in flight",
            f"use --workers {max(1, totals.startable)}: more do not help until more lanes have ready items",
        )


def check_lost(lost: int) -> Iterator[Problem]:
    if lost:
        yield Problem(
            "lost-workers",
            f"{pluralize(lost, 'item')} dead because their workers were lost again and again: the handler kills its "
            "process, or the process stands still for longer than the lease",
            "look at them with `swath dead`, and pass a longer --lease if nothing was killed",
        )


def list_problems(totals: LaneTotals, *, workers: int | None, lost: int, skew: float) -> Iterable[Problem]:
    """Return all problems of a queue."""
    found = [*check_skew(skew), *check_largest_lane(totals), *check_lost(lost)]
    return found if workers is None else [*found, *check_workers(totals, workers)]
