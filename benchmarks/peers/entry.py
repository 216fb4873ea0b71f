"""What every contestant does, and how its process reports it."""

import asyncio
import importlib
import logging
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Protocol

from benchmarks.children import answer
from benchmarks.work import Link, pages


@dataclass(frozen=True, slots=True)
class Task:
    module: str
    at: str  # a DSN, or the path of a file
    variant: str
    items: int
    limit: float  # seconds of working off, after which it is broken off


class Contestant(Protocol):
    async def open(self) -> None: ...

    async def add(self, items: Sequence[Link]) -> None:
        """Return when all are durable."""
        ...

    async def work(self, limit: float) -> int:
        """Work off what there is, or as much as goes in `limit` seconds, and return how many items that were."""
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Took:
    items: int
    seconds: float


def contend(connection: Connection) -> None:
    """Add, report, wait until the parent has looked at the disk, work off, report."""
    task: Task = connection.recv()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    module = importlib.import_module(task.module)
    make: Callable[[str, str], Contestant] = module.contestant
    run: Callable[..., None] = getattr(module, "run", asyncio.run)
    run(_contend(make(task.at, task.variant), task, connection))


async def _contend(contestant: Contestant, task: Task, connection: Connection) -> None:
    await contestant.open()
    try:
        items = list(pages(task.items))
        began = time.monotonic()
        await contestant.add(items)
        answer(connection, Took(len(items), time.monotonic() - began))
        await asyncio.to_thread(connection.recv)
        began = time.monotonic()
        done = await contestant.work(task.limit)
        answer(connection, Took(done, time.monotonic() - began))
        await asyncio.to_thread(connection.recv)
    finally:
        await contestant.close()
