"""Claim and settle: swath and its floor in alternation, in one to four processes that start together."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import NamedTuple

import swath
from benchmarks import sites
from benchmarks.children import Child, answer
from benchmarks.floor import Counted, Floor
from benchmarks.lab import Lab, SqliteLab
from benchmarks.progress import say
from benchmarks.results import Figure, Results
from benchmarks.settings import ITEMS_PER_LANE, Settings
from benchmarks.sites import Site
from benchmarks.work import KNOWN_SHARE, LINKS, Web
from swath.core.item import Item

LINKS_BATCH = 500
SIDES = ("swath", "floor", "floor in a loop")
TURNS = 3  # each goes forth and back, so that a drift of the machine affects all sides alike
WARM_UP_SECONDS = 0.3
HEAD_START = 0.05  # seconds until a round starts, so that every process has received it
ANSWER_SECONDS = 120.0
LANES_PER_PARTITION = 1_000  # at least: enough for the largest batch
DRY_TRIES = 100  # claims without an item until a frontier counts as empty

Cycle = Callable[[], Awaitable[Counted]]


@dataclass(frozen=True, slots=True)
class Round:
    side: str
    batch: int
    links: bool
    start_at: float  # on the monotonic clock, which all processes share
    seconds: float


class Measured(NamedTuple):
    items: int
    links: int
    cycles: int
    seconds: float  # from the common start to the end of the last cycle


@dataclass(frozen=True, slots=True)
class Case:
    batch: int
    links: bool
    processes: int

    def __str__(self) -> str:
        what = f"batch {self.batch}, {LINKS} links an item" if self.links else f"batch {self.batch}"
        return f"{what}, {self.processes} process{'es' if self.processes > 1 else ''}"


def measure(lab: Lab, settings: Settings, results: Results) -> None:
    _measure(lab, settings, results, list(_cases(settings)))
    alone = [case for case in _cases(settings) if case.processes == 1]
    if isinstance(lab, SqliteLab) and alone:
        # One row with synchronous=NORMAL shows the cost of syncing each commit.
        _measure(SqliteLab(lab.directory, synchronous="normal"), settings, results, alone)


def _cases(settings: Settings) -> Iterator[Case]:
    for processes in settings.processes:
        for batch in settings.batches:
            yield Case(batch, links=False, processes=processes)
        yield Case(min(LINKS_BATCH, max(settings.batches)), links=True, processes=processes)


def _measure(lab: Lab, settings: Settings, results: Results, cases: Sequence[Case]) -> None:
    site = sites.load(lab, settings, lanes_per_partition=LANES_PER_PARTITION)
    with ExitStack() as stack:
        fleet = [stack.enter_context(Child(work)) for _ in range(max(case.processes for case in cases))]
        _send_site(fleet, site)
        for case in cases:
            if sites.is_worn(lab, settings):
                _send_site(fleet, None)
                site = sites.load(lab, settings, lanes_per_partition=LANES_PER_PARTITION)
                _send_site(fleet, site)
            figure: Figure = {
                "synchronous": site.synchronous,
                "batch": case.batch,
                "links_per_item": LINKS if case.links else 0,
                "known_share": KNOWN_SHARE if case.links else None,
                "processes": case.processes,
                "items": site.lanes * ITEMS_PER_LANE,
                "lanes": site.lanes,
                "partitions": site.partitions,
                **_case(fleet[: case.processes], case, settings.seconds),
            }
            results.add(figure)
            say(f"moves, {lab.store} {site.synchronous}, {case}: {_describe(figure)}")
    sites.drop(lab)


def _case(fleet: Sequence[Child], case: Case, seconds: float) -> dict[str, float | None]:
    for side in SIDES:
        _round(fleet, case, side, WARM_UP_SECONDS)
    rounds: dict[str, list[list[Measured]]] = {side: [] for side in SIDES}
    for side in (*SIDES, *reversed(SIDES)) * TURNS:
        rounds[side].append(_round(fleet, case, side, seconds / (2 * TURNS)))
    items = {side: _rate(rounds[side], lambda one: one.items) for side in SIDES}
    ratios = {side: items["swath"] / rate if rate else None for side, rate in items.items()}
    return {
        "swath_items_per_s": items["swath"],
        "floor_items_per_s": items["floor"],
        "floor_in_loop_items_per_s": items["floor in a loop"],
        "swath_links_per_s": _rate(rounds["swath"], lambda one: one.links),
        "floor_links_per_s": _rate(rounds["floor"], lambda one: one.links),
        "ratio": ratios["floor"],
        "ratio_in_loop": ratios["floor in a loop"],
        "swath_slowest": _slowest(rounds["swath"]),
        "floor_slowest": _slowest(rounds["floor"]),
    }


def _round(fleet: Sequence[Child], case: Case, side: str, seconds: float) -> list[Measured]:
    """Run one window and return what each process measured."""
    question = Round(side, case.batch, case.links, time.monotonic() + HEAD_START, seconds)
    for child in fleet:
        child.send(question)
    return [child.receive(timeout=seconds + ANSWER_SECONDS) for child in fleet]


def _rate(rounds: Sequence[Sequence[Measured]], count: Callable[[Measured], int]) -> float:
    """Return the rate of all processes together, as the mean over the windows."""
    return sum(sum(count(one) / one.seconds for one in measured if one.items) for measured in rounds) / len(rounds)


def _slowest(rounds: Sequence[Sequence[Measured]]) -> float | None:
    """Return the items of the slowest process as a share of the mean of all processes."""
    totals = [sum(one.items for one in of_one) for of_one in zip(*rounds, strict=True)]
    return min(totals) * len(totals) / sum(totals) if len(totals) > 1 and sum(totals) else None


def _describe(figure: Figure) -> str:
    links = f" and {figure['swath_links_per_s']:,.0f} links/s" if figure["links_per_item"] else ""
    shares = f"{_share(figure['ratio'])} of the floor, {_share(figure['ratio_in_loop'])} of that in a loop"
    return f"{figure['swath_items_per_s']:,.0f} items/s{links}, {shares}"


def _share(ratio: float | None) -> str:
    return "no share" if ratio is None else f"{ratio:.0%}"


def _send_site(fleet: Sequence[Child], site: Site | None) -> None:
    for child in fleet:
        child.send(site)
    for child in fleet:
        child.receive(timeout=ANSWER_SECONDS)


# in the child process


def work(connection: Connection) -> None:
    """Open the frontiers that the parent names, and run rounds until the parent closes the connection."""
    bench: _Bench | None = None
    with asyncio.Runner() as runner:
        try:
            while True:
                question = connection.recv()
                if isinstance(question, Round):
                    assert bench is not None
                    answer(connection, bench.run(question))
                    continue
                if bench is not None:
                    bench.close()
                bench = None if question is None else _Bench(question, runner)
                answer(connection, True)
        finally:
            if bench is not None:
                bench.close()


class _Bench:
    """Both frontiers, open."""

    def __init__(self, site: Site, runner: asyncio.Runner) -> None:
        self._runner = runner
        self._floor = sites.open_floor(site)
        self._web = sites.make_web(site, "swath")
        self._frontier: swath.Frontier = runner.run(_open(site.swath_url))

    def close(self) -> None:
        self._runner.run(self._floor.close())
        self._runner.run(self._frontier.close())

    def run(self, question: Round) -> Measured:
        time.sleep(max(0.0, question.start_at - time.monotonic()))
        if question.side == "floor":
            return _floor_round(self._floor, question)
        return self._runner.run(_round_in_loop(self._cycle(question), question))

    def _cycle(self, question: Round) -> Cycle:
        if question.side == "swath":
            return partial(_swath_cycle, self._frontier, self._web, question.batch, links=question.links)
        return partial(self._floor.cycle_in_loop, question.batch, links=question.links)


async def _open(url: str) -> swath.Frontier:
    return await swath.open(url, create=False)


def _floor_round(floor: Floor, question: Round) -> Measured:
    tally = _Tally(question)
    while tally.is_running():
        tally.count(floor.cycle(question.batch, links=question.links))
    return tally.get_result()


async def _round_in_loop(cycle: Cycle, question: Round) -> Measured:
    tally = _Tally(question)
    while tally.is_running():
        tally.count(await cycle())
    return tally.get_result()


async def _swath_cycle(frontier: swath.Frontier, web: Web, batch: int, *, links: bool) -> Counted:
    claim = await frontier.claim(batch, lease=60.0)
    if claim is None:
        return Counted(0, 0)
    if links:
        outcomes = [item.done(discovered=[Item(*link) for link in web.links(item.lane)]) for item in claim.items]
    else:
        outcomes = [item.done() for item in claim.items]
    await claim.settle(outcomes)
    return Counted(len(claim.items), LINKS * len(claim.items) if links else 0)


class _Tally:
    def __init__(self, question: Round, clock: Callable[[], float] = time.monotonic) -> None:
        self._question = question
        self._clock = clock
        self._items = self._links = self._cycles = self._empty = 0
        self._last = question.start_at

    def is_running(self) -> bool:
        return self._clock() < self._question.start_at + self._question.seconds and self._empty < DRY_TRIES

    def count(self, counted: Counted) -> None:
        if not counted.items:
            self._empty += 1
            return
        self._empty = 0
        self._items += counted.items
        self._links += counted.links
        self._cycles += 1
        self._last = self._clock()

    def get_result(self) -> Measured:
        return Measured(self._items, self._links, self._cycles, max(self._last - self._question.start_at, 1e-9))
