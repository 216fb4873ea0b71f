"""A frontier on a bench: in memory, with a clock to move by hand and faults to cause."""

import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from swath.backends.memory import MemoryStore
from swath.core.clock import ManualClock
from swath.core.item import Item
from swath.core.store import Settings
from swath.frontier import Frontier
from tests.faults import Faults
from tests.recorder import LogRecorder, Recorder


class LeaseTime:
    """The clock that holders count their leases on, which a test can put forward."""

    time_ns = staticmethod(time.time_ns)

    def __init__(self) -> None:
        self._ahead = 0.0

    def clock_gettime(self, clock: int) -> float:
        return time.clock_gettime(clock) + self._ahead

    def clock_gettime_ns(self, clock: int) -> int:
        return round(self.clock_gettime(clock) * 1e9)

    def advance(self, seconds: float) -> None:
        self._ahead += seconds


@dataclass
class Bench:
    """A frontier in memory, a clock to move, faults to cause, and what happened."""

    frontier: Frontier
    store: MemoryStore
    faults: Faults
    clock: ManualClock
    seen: Recorder
    log: LogRecorder

    async def state(self, key: str) -> str:
        return (await self.frontier.explain(key)).state

    async def data(self, key: str) -> dict[str, Any]:
        return (await self.frontier.explain(key)).data


@asynccontextmanager
async def bench(*, partitions: int = 1, **settings: int) -> AsyncIterator[Bench]:
    clock, seen, log = ManualClock(), Recorder(), LogRecorder()
    logging.getLogger("swath").addHandler(log)
    store = MemoryStore(Settings(partitions=partitions, **settings), clock=clock)
    faults = Faults(store)
    async with Frontier(faults.as_store, observer=seen) as frontier:
        yield Bench(frontier, store, faults, clock, seen, log)
    logging.getLogger("swath").removeHandler(log)


async def nothing(item: Item) -> None:
    """A handler for which every item is done."""
