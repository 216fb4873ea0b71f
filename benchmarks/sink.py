"""`frontier.run(sink=…)` beside `frontier.run` without a sink: what it costs to write one row for each item."""

import asyncio
import sqlite3
import statistics
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

import psycopg

import swath
from benchmarks.children import Child, answer
from benchmarks.flatness import PARTITIONS
from benchmarks.lab import Lab
from benchmarks.progress import say
from benchmarks.results import Results
from benchmarks.runner import ANSWER_SECONDS, Run, measure_rate
from benchmarks.settings import Settings

WORKERS = 500
MAX_ITEMS = 2_000_000
ORDER = (False, True, True, False) * 2  # with a sink or without, in turns
NAME = "sink"


def measure(lab: Lab, settings: Settings, results: Results) -> None:
    rates: dict[bool, list[float]] = {True: [], False: []}
    for with_sink in ORDER:
        lab.load(NAME, items=min(settings.items, MAX_ITEMS), partitions=PARTITIONS[lab.store])
        with Child(work) as child:
            child.send((Run(lab.url(NAME), WORKERS, settings.seconds), with_sink))
            rate = child.receive(timeout=settings.seconds + ANSWER_SECONDS)
        lab.drop(NAME)
        rates[with_sink].append(rate)
        say(f"sink, {lab.store}, {'with' if with_sink else 'without'} a sink: {rate:,.0f} items/s")
    with_it, without = statistics.median(rates[True]), statistics.median(rates[False])
    say(f"sink, {lab.store}: {with_it / without:.0%} of the speed without it")
    results.add({"with_per_s": with_it, "without_per_s": without, "ratio": with_it / without})


# In the process.


def work(connection: Connection) -> None:
    run, with_sink = connection.recv()
    answer(connection, asyncio.run(_measure(run, with_sink)))


async def _measure(run: Run, with_sink: bool) -> float:
    if not with_sink:
        return await measure_rate(run, _finish)
    async with swath.open(run.url, create=False) as frontier, frontier._store.transaction() as connection:
        creating = connection.execute("CREATE TABLE IF NOT EXISTS sink_rows (key text, lane text)")
        if not isinstance(creating, sqlite3.Cursor):
            await creating
    insert = _insert_sqlite if run.url.startswith("sqlite:") else _insert_postgres
    return await measure_rate(run, _finish_with_row, sink=insert)


async def _finish(item: swath.Item) -> None:
    """Every item is done."""


async def _finish_with_row(item: swath.Item) -> swath.Done:
    return item.done(rows=[(item.key, item.lane)])


def _insert_sqlite(connection: sqlite3.Connection, rows: Sequence[Any]) -> None:
    connection.executemany("INSERT INTO sink_rows VALUES (?, ?)", rows)


async def _insert_postgres(connection: psycopg.AsyncConnection[Any], rows: Sequence[Any]) -> None:
    async with connection.cursor() as cursor, cursor.copy("COPY sink_rows FROM STDIN") as copy:
        for row in rows:
            await copy.write_row(row)
