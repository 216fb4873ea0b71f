"""ScanHandler: process one item of a scan, even if the user's check raises or never returns."""

import asyncio
import logging
import time
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple

from swath import Item, Outcome, Stop, StoreUnavailable
from swath.scan.check_slots import CheckSlots
from swath.scan.checker import BadCheck, Checker
from swath.scan.counts import CounterNames
from swath.scan.finding import Finding, LineContext
from swath.scan.item_scan import ItemScan
from swath.scan.sources.source import Source
from swath.tables.definition import TableChanged
from swath.worker_threads import WorkerThreads

READ_FACTOR = 5  # times --timeout: how long a source may take to read its next records
WATCH_SECONDS = 1.0  # between checks of a running scan's progress
UNAVAILABLE_SECONDS = 2.0  # before an item is retried because its database was unavailable
MAX_HUNG = 50  # checks that hang, each in its own thread, before the scan stops
HUNG = "check-hung"

log = logging.getLogger("swath.scan")


class ScanHandler:
    """Handles the items of a scan. `failure` is the error that stopped it, if any."""

    def __init__(
        self,
        source: Source,
        checker: Checker | None,
        counter_names: CounterNames,
        *,
        source_name: str,
        mark: str,
        workers: int,
        timeout: float,
        stop: Stop,
        threads: WorkerThreads,
    ) -> None:
        self.failure: BadCheck | TableChanged | None = None
        self._source = source
        self._checker = checker
        self._counter_names = counter_names
        self._source_name = source_name
        self._mark = mark
        self._timeout = timeout
        self._stop = stop
        self._threads = threads
        self._slots = CheckSlots(workers)
        self._async_slots = asyncio.Semaphore(workers)
        self._hung = 0
        self._running: set[ItemScan] = set()

    @property
    def unsettled(self) -> int:
        """Records of the running slices that were read so far."""
        return sum(scan.counts.records + scan.counts.rechecked for scan in self._running)

    async def __call__(self, item: Item) -> Outcome:
        hung: set[str] = set()
        while True:
            scan = self._make_scan(item, hung)
            try:
                result = await self._run(scan)
            except StoreUnavailable as error:
                log.warning("%s; retrying %s in %g s", error, item.key, UNAVAILABLE_SECONDS)
                return item.release(after=UNAVAILABLE_SECONDS)
            except BadCheck as error:
                self.failure = self.failure or error
                self._stop.request("bad-check")
                return item.release()
            except TableChanged as error:
                self.failure = self.failure or error
                self._stop.request("table-changed")
                return item.release()
            if isinstance(result, bytes):
                discovered = [_join_round(item, found) for found in scan.discovered]
                counters = self._counter_names.to_counters(scan.counts)
                return item.done(discovered=discovered, output=result, counters=counters)
            if result.key is None:
                return item.retry(
                    after=float(2**item.attempts),
                    reason=f"the source returned no record for {READ_FACTOR * self._timeout:g} s",
                )
            hung.add(result.key)
            self._hung += 1
            if self._hung >= MAX_HUNG:
                self.failure = BadCheck(
                    f"check did not return within {self._timeout:g} s for {self._hung} records, most recently "
                    f"{result.key!r:.100}. Use a longer --timeout, or limit the time inside the check"
                )
                self._stop.request("bad-check")
                return item.release()

    def _make_scan(self, item: Item, hung: set[str]) -> ItemScan:
        task = item.payload
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return ItemScan(
            task,
            self._source,
            self._checker,
            LineContext(self._mark, self._source_name, task.get("round", 0), now),
            hung=hung,
            hung_finding=Finding(HUNG, f"check did not return within {self._timeout:g} s"),
        )

    async def _run(self, scan: ItemScan) -> "bytes | _Hung":
        """Return the lines of a scan, or where it hung. A hanging thread keeps running, but loses its slot."""
        if self._checker is not None and self._checker.is_async:
            running = asyncio.ensure_future(scan.run_async(self._async_slots, self._threads.run, self._checker))
        else:
            running = asyncio.ensure_future(self._threads.run(partial(scan.run, self._slots)))
        pause = min(WATCH_SECONDS, self._timeout / 4)
        seen, silent = (scan.current, scan.steps), 0.0
        self._running.add(scan)
        try:
            while not running.done():
                began = time.monotonic()
                await asyncio.wait((running,), timeout=pause)
                silent += min(time.monotonic() - began, pause)  # while the process is stopped, no check runs either
                now = scan.current, scan.steps
                if now[0] is not seen[0] or now[1] != seen[1] or scan.waiting:
                    seen, silent = now, 0.0
                limit = READ_FACTOR * self._timeout if now[0] is None else self._timeout
                if not running.done() and silent > limit:
                    return _Hung(None if now[0] is None else now[0].key)
            return running.result()
        finally:
            scan.abandoned = True
            self._running.discard(scan)
            self._slots.release(scan)
            running.cancel()


class _Hung(NamedTuple):
    """The key of the record whose check does not return; None if the source does not return."""

    key: str | None


def _join_round(parent: Item, item: Item) -> Item:
    """Put an item that a recheck discovered into the same round, so that its key is new."""
    number = parent.payload.get("round", 0)
    if not number:
        return item
    return item._replace(key=f"recheck {number}: {item.key}", payload={**item.payload, "round": number})
