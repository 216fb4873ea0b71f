"""Job: one process of a scan, from opening its frontier and output to a clean end."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import swath
from swath import Status, Stop, Summary
from swath.gc_tuning import collect_garbage_rarely
from swath.scan import workspace
from swath.scan.checker import Judge
from swath.scan.counts import Counts
from swath.scan.handler import Scanner
from swath.scan.output import FindingsOutput
from swath.scan.settings import ScanSettings
from swath.scan.sources.source import Source
from swath.worker_threads import WorkerThreads

GRACE = 10.0  # seconds that items have to end after a stop
LOOK_SECONDS = 0.5  # between looks at the frontier


class Job:
    """What one process does of a scan."""

    def __init__(
        self,
        settings: ScanSettings,
        source: Source,
        *,
        check: Callable[..., Any] | None,
        fix: Callable[..., Any] | None,
        stop: Stop | None = None,
    ) -> None:
        self.settings = settings
        self.stop = stop or Stop()
        self.status: Status | None = None  # of the whole frontier, a moment ago
        self._source = source
        self._judge = None if check is None else Judge(check, fix, source.fetch)
        self._output: FindingsOutput | None = None

    @property
    def counts(self) -> Counts:
        """What this output holds, this run's part and what came before it."""
        return Counts() if self._output is None else self._output.counts

    async def run(self, prepared: workspace.Prepared) -> Summary:
        """Scan until everything is settled or somebody asks for a stop."""
        settings = self.settings
        async with AsyncExitStack() as stack:
            stack.enter_context(collect_garbage_rarely())
            frontier = await stack.enter_async_context(swath.open(settings.store_url, create=False))
            self._output = FindingsOutput(settings.lines, name=workspace.output_name(settings))
            stack.callback(self._output.close)
            await asyncio.to_thread(self._output.restore, await frontier.outputs())
            threads = WorkerThreads()
            stack.callback(threads.close)
            scanner = Scanner(
                self._source,
                self._judge,
                name=settings.saved()["source"],
                scan=prepared.scan,
                workers=settings.workers,
                timeout=settings.timeout,
                stop=self.stop,
                threads=threads,
            )
            looking = asyncio.create_task(self._look(frontier))
            stack.callback(looking.cancel)
            summary = await frontier.run(
                scanner,
                workers=settings.workers + self._source.ahead,
                lease=settings.lease,
                timeout=None,
                grace=GRACE,
                until="done",
                handle_signals=False,
                output=self._output,
                stop=self.stop,
            )
            if scanner.failure is not None:
                raise scanner.failure
            if summary.stopped_by == "done":
                await workspace.ended(frontier, prepared, worked=summary.done > 0)
            return summary

    async def _look(self, frontier: swath.Frontier) -> None:
        """Keep an eye on the frontier, for whoever shows it."""
        while True:
            try:
                self.status = await frontier.status()
            except swath.StoreUnavailable:
                pass  # the runner says so, and waits
            await asyncio.sleep(LOOK_SECONDS)
