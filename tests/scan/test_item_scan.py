"""One item of a scan, watched from the event loop while it runs."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from swath import Item
from swath.scan.checker import Checker
from swath.scan.finding import Finding, LineContext
from swath.scan.item_scan import ItemScan
from swath.scan.record import Record
from swath.scan.sources.source import ReadStep, Source, Task
from tests.recorder import PATIENCE

CONTEXT = LineContext("mark", "source", 0, "now")


class Two(Source):
    """Two records, one at a time."""

    def snapshot(self) -> Mapping[str, Any]:
        return {}

    def explain_change(self, before: Mapping[str, Any]) -> str | None:
        return None

    def list_first_items(self, snapshot: Mapping[str, Any]) -> Sequence[Item]:
        return []

    def read(self, task: Task) -> Iterator[ReadStep]:
        yield [Record("a", 1)]
        yield [Record("b", 2)]

    def fetch(self, keys: Sequence[str]) -> Iterator[ReadStep]:
        yield from ()


async def run_blocking(call: Callable[[], Any]) -> Any:
    return call()


async def test_a_scan_says_whether_it_waits_for_a_slot_or_checks_a_record() -> None:
    """A check cannot hang while it waits to be called."""
    checking, go_on = asyncio.Event(), asyncio.Event()

    async def check(record: Any) -> Finding:
        checking.set()
        await go_on.wait()
        return Finding("found")

    checker = Checker(check, None, lambda keys: iter(()), lambda *args, **more: None)
    scan = ItemScan({}, Two(), checker, CONTEXT, hung=(), hung_finding=Finding("hung"))
    slots = asyncio.Semaphore(0)
    running = asyncio.create_task(scan.run_async(slots, run_blocking, checker))
    async with asyncio.timeout(PATIENCE):
        while not scan.waiting:  # noqa: ASYNC110  it is read, not awaited
            await asyncio.sleep(0)
        assert (scan.steps, scan.current, checking.is_set()) == (1, None, False)
        slots.release()
        await checking.wait()
        assert scan.current is not None
        assert (scan.waiting, scan.current.key) == (False, "a")
        go_on.set()
        lines = await running
    assert (lines.count(b"\n"), scan.steps, scan.counts.records) == (2, 2, 2)
