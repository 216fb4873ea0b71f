"""Scanner: the handler of a scan; one item, from its claim to its outcome, whatever `check` does with its records."""

import asyncio
import logging
import time
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple

from swath import Item, Outcome, Stop, StoreUnavailable
from swath.scan.check_slots import Turns
from swath.scan.checker import BadCheck, Judge
from swath.scan.finding import Context, Finding
from swath.scan.item_scan import Look
from swath.scan.output import Entry
from swath.scan.sources.source import Source
from swath.worker_threads import WorkerThreads

READING = 5  # times the time limit of a check: how long a source may take for its next record
WATCH_SECONDS = 1.0  # between looks at what is under way
AWAY_SECONDS = 2.0  # before what a database that is away could not give is asked for again
MOST_HUNG = 50  # checks that never return, each of which holds a thread, before the scan is stopped
HUNG = "check-hung"

log = logging.getLogger("swath.scan")


class Scanner:
    """Looks at items. `failure` is what stopped the scan, if anything did."""

    def __init__(
        self,
        source: Source,
        judge: Judge | None,
        *,
        name: str,
        scan: str,
        workers: int,
        timeout: float,
        stop: Stop,
        threads: WorkerThreads,
    ) -> None:
        self.failure: BadCheck | None = None
        self._source = source
        self._judge = judge
        self._name = name
        self._scan = scan
        self._timeout = timeout
        self._stop = stop
        self._threads = threads
        self._turns = Turns(workers)
        self._async_turns = asyncio.Semaphore(workers)
        self._hung = 0

    async def __call__(self, item: Item) -> Outcome:
        hung: set[str] = set()
        while True:
            look = self._look(item, hung)
            try:
                entry = await self._watched(look)
            except StoreUnavailable as error:
                log.warning("%s: %s is left for %g s", error, item.key, AWAY_SECONDS)
                return item.release(after=AWAY_SECONDS)
            except BadCheck as error:
                self.failure = self.failure or error
                self._stop.request("bad-check")
                return item.release()
            if isinstance(entry, Entry):
                found = [_of_round(item, one) for one in look.discovered]
                return item.done(discovered=found, output=entry)
            if entry.key is None:
                return item.retry(
                    after=float(2**item.attempts), reason=f"reading did not go on for {READING * self._timeout:g} s"
                )
            hung.add(entry.key)
            self._hung += 1
            if self._hung >= MOST_HUNG:
                self.failure = BadCheck(
                    f"check did not return within {self._timeout:g} s for {self._hung} records, the last of them "
                    f"{entry.key!r:.100}: a longer --timeout may help, or a check that keeps a limit of its own"
                )
                self._stop.request("bad-check")
                return item.release()

    def _look(self, item: Item, hung: set[str]) -> Look:
        task = item.payload
        moment = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return Look(
            task,
            self._source,
            self._judge,
            Context(self._scan, self._name, task.get("round", 0), moment),
            hung=hung,
            hung_finding=Finding(HUNG, f"check did not return within {self._timeout:g} s"),
        )

    async def _watched(self, look: Look) -> "Entry | _Stuck":
        """What comes of a look, or where it was given up because it does not go on."""
        if self._judge is not None and self._judge.asynchronous:
            looking = asyncio.ensure_future(look.run_async(self._async_turns, self._threads.run, self._judge))
        else:
            looking = asyncio.ensure_future(self._threads.run(partial(look.run, self._turns)))
        seen, since = (look.current, look.steps), time.monotonic()
        try:
            while not looking.done():
                await asyncio.wait((looking,), timeout=min(WATCH_SECONDS, self._timeout / 4))
                now = look.current, look.steps
                if now[0] is not seen[0] or now[1] != seen[1] or look.waiting:
                    seen, since = now, time.monotonic()
                limit = READING * self._timeout if now[0] is None else self._timeout
                if not looking.done() and time.monotonic() - since > limit:
                    return _Stuck(None if now[0] is None else now[0].key)
            return looking.result()
        finally:
            look.abandoned = True
            self._turns.take_away(look)
            looking.cancel()


class _Stuck(NamedTuple):
    """The record whose check does not return; None where the source does not go on."""

    key: str | None


def _of_round(parent: Item, item: Item) -> Item:
    """What an item of a recheck discovers is looked at in the same round, also where it was looked at before."""
    number = parent.payload.get("round", 0)
    if not number:
        return item
    return item._replace(key=f"recheck {number}: {item.key}", payload={**item.payload, "round": number})
