"""frontier.run with 500 and 5,000 workers on a large frontier: the rate, and the memory, threads and connections."""

import asyncio
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psycopg

import swath
from benchmarks import flatness
from benchmarks.children import Child, answer
from benchmarks.lab import Lab, PostgresLab, SqliteLab
from benchmarks.progress import say
from benchmarks.results import Figure, Results
from benchmarks.settings import Settings
from swath.runner.execution import Handler

WORKERS = (500, 5_000)
ORDER = (500, 5_000, 5_000, 500) * 2  # alternate, as with the floor
WARM_UP_SECONDS = 1.0
SAMPLE_SECONDS = 0.2
FIRST_SECONDS = 20.0  # maximum time until the first item is settled
ANSWER_SECONDS = 120.0
LEFT_SHARE = 0.6  # reload the frontier if fewer of the items are ready


@dataclass(frozen=True, slots=True)
class Run:
    url: str
    workers: int
    seconds: float


@dataclass(slots=True)
class Needs:
    """The maximum of each value over all samples of a process."""

    rss_mb: float = 0.0
    threads: int = 0
    connections: int = 0


def measure(lab: Lab, settings: Settings, results: Results) -> None:
    name = flatness.get_frontier(lab, settings.items)
    figures: dict[int, list[Figure]] = {workers: [] for workers in WORKERS}
    for workers in ORDER:
        if asyncio.run(_ready(lab.url(name))) < LEFT_SHARE * settings.items:
            flatness.forget(lab, settings.items)
            name = flatness.get_frontier(lab, settings.items)
        figure = _run(lab, name, workers, settings.seconds)
        figures[workers].append(figure)
        say(
            f"runner, {lab.store}, {workers:,} workers: {figure['items_per_s']:,.0f} items/s, "
            f"{figure['rss_mb']:.0f} MB, {figure['threads']} threads, {figure['connections']} connections"
        )
    for workers in WORKERS:
        results.add({"workers": workers, "items": settings.items, **_combine(figures[workers])})


def _combine(figures: Sequence[Figure]) -> Figure:
    rate = sum(figure["items_per_s"] for figure in figures) / len(figures)
    return {
        "items_per_s": rate,
        **{name: max(figure[name] for figure in figures) for name in ("rss_mb", "threads", "connections")},
    }


def _run(lab: Lab, name: str, workers: int, seconds: float) -> Figure:
    with Child(work) as child:
        child.send(Run(lab.url(name), workers, seconds))
        needs = Needs()
        give_up = time.monotonic() + seconds + ANSWER_SECONDS
        while not child.ready(SAMPLE_SECONDS) and time.monotonic() < give_up:
            _sample(lab, name, child.pid, needs)
        rate = child.receive(timeout=ANSWER_SECONDS)
    return {"items_per_s": rate, "rss_mb": needs.rss_mb, "threads": needs.threads, "connections": needs.connections}


def _sample(lab: Lab, name: str, pid: int, needs: Needs) -> None:
    try:
        fields = dict(
            line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line
        )
    except OSError:
        return
    if "VmHWM" in fields:
        needs.rss_mb = max(needs.rss_mb, int(fields["VmHWM"].split()[0]) * 1024 / 1e6)
    needs.threads = max(needs.threads, int(fields["Threads"]))
    needs.connections = max(needs.connections, _connections(lab, name, pid))


def _connections(lab: Lab, name: str, pid: int) -> int:
    """Count the connections that the server sees, or how often the process has the SQLite file open."""
    if isinstance(lab, PostgresLab):
        with psycopg.connect(lab.dsn) as connection:
            row = connection.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'swath%'"
            ).fetchone()
        return int(row[0]) if row else 0
    assert isinstance(lab, SqliteLab)
    path = str(lab.path(name))
    found = 0
    try:
        for entry in os.scandir(f"/proc/{pid}/fd"):
            try:
                found += os.readlink(entry.path) == path
            except OSError:
                continue  # closed in the meantime
    except OSError:
        pass
    return found


async def _ready(url: str) -> int:
    async with swath.open(url, create=False) as frontier:
        return (await frontier.status()).ready


# in the child process


def work(connection: Connection) -> None:
    run: Run = connection.recv()
    answer(connection, asyncio.run(measure_rate(run, _do_nothing)))


async def measure_rate(run: Run, handler: Handler, **options: Any) -> float:
    """Return the items settled per second, by the store's own counters, once all workers have been busy."""
    async with swath.open(run.url, create=False) as frontier:
        running = asyncio.create_task(
            frontier.run(handler, workers=run.workers, until="stopped", handle_signals=False, **options)
        )
        await _wait_for_first(frontier, running)
        await asyncio.sleep(WARM_UP_SECONDS)
        before, began = (await frontier.status()).done, time.monotonic()
        await asyncio.sleep(run.seconds)
        after, ended = (await frontier.status()).done, time.monotonic()
        if running.done():
            await running  # raises the error that ended the run
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    return (after - before) / (ended - began)


async def _wait_for_first(frontier: swath.Frontier, running: "asyncio.Task[swath.Summary]") -> None:
    """Wait until the first items are settled."""
    start = (await frontier.status()).done
    give_up = time.monotonic() + FIRST_SECONDS
    while (await frontier.status()).done == start and not running.done():
        if time.monotonic() > give_up:
            raise RuntimeError(f"no item was settled within {FIRST_SECONDS:.0f} s")
        await asyncio.sleep(0.01)


async def _do_nothing(item: swath.Item) -> None:
    """Return None, which means that the item is done."""
