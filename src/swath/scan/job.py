"""ScanJob: one process of a scan, from opening its frontier and output to a clean end."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import swath
from swath import RunMonitor, Stop, Summary
from swath.gc_tuning import collect_garbage_rarely
from swath.logs.run_log import RunLog
from swath.scan import workspace
from swath.scan.checker import Checker
from swath.scan.counts import CounterNames
from swath.scan.handler import ScanHandler
from swath.scan.output import FindingsOutput
from swath.scan.progress import SAMPLES, ScanProgress, read_progress, sample_share
from swath.scan.settings import ScanSettings
from swath.scan.sources.source import Source
from swath.tables.definition import TableChanged
from swath.worker_threads import WorkerThreads

GRACE_SECONDS = 10.0  # for items in flight after a stop
REFRESH_SECONDS = 0.5  # between reads of the frontier's status and counters


class ScanJob:
    """One process of a scan. `progress` covers all processes and is refreshed while it runs."""

    def __init__(
        self,
        settings: ScanSettings,
        source: Source,
        *,
        check: Callable[..., Any] | None,
        fix: Callable[..., Any] | None,
        stop: Stop | None = None,
        log: RunLog | None = None,
    ) -> None:
        self.settings = settings
        self.stop = stop or Stop()
        self.monitor = RunMonitor(noun="slice", handler="check")
        self.progress: ScanProgress | None = None
        self._log = log
        self._handler: ScanHandler | None = None
        self._source = source
        self._checker = None if check is None else Checker(check, fix, source.fetch, self.monitor.record_error)

    @property
    def unsettled(self) -> int:
        """Records that this process has read in its running slices."""
        return 0 if self._handler is None else self._handler.unsettled

    async def run(self, prepared: workspace.PreparedScan) -> Summary:
        """Scan until everything is settled or a stop is requested."""
        settings = self.settings
        async with AsyncExitStack() as stack:
            stack.enter_context(collect_garbage_rarely())
            observer = None if self._log is None else self._log.observer
            frontier = await stack.enter_async_context(swath.open(settings.store_url, create=False, observer=observer))
            if self._log is not None:
                self._log.worker = frontier.worker
            output = FindingsOutput(settings.findings_path, name=workspace.get_output_name(settings))
            stack.callback(output.close)
            await asyncio.to_thread(output.restore, await frontier.outputs())
            threads = WorkerThreads()
            stack.callback(threads.close)
            handler = self._handler = ScanHandler(
                self._source,
                self._checker,
                CounterNames(prepared.mark, await frontier.counters()),
                source_name=settings.get_identity()["source"],
                mark=prepared.mark,
                workers=settings.workers,
                timeout=settings.timeout,
                stop=self.stop,
                threads=threads,
            )
            refreshing = asyncio.create_task(self._refresh(frontier))
            stack.callback(refreshing.cancel)
            summary = await frontier.run(
                handler,
                workers=settings.workers + self._source.readahead,
                lease=settings.lease,
                timeout=None,
                grace=GRACE_SECONDS,
                until="done",
                handle_signals=False,
                output=output,
                stop=self.stop,
                monitor=self.monitor,
            )
            if isinstance(handler.failure, TableChanged):
                raise TableChanged(
                    f"the table changed while the scan ran, so records may be missed: {handler.failure}. "
                    f"{workspace.advise_restart(settings)}"
                ) from handler.failure
            if handler.failure is not None:
                raise handler.failure
            if summary.stopped_by == "done":
                await workspace.record_end(frontier, prepared, worked=summary.done > 0)
            return summary

    async def _refresh(self, frontier: swath.Frontier) -> None:
        while True:
            try:
                await self._read_progress(frontier)
            except (swath.StoreUnavailable, swath.StoreFull):
                pass  # the runner reports it and waits
            await asyncio.sleep(REFRESH_SECONDS)

    async def _read_progress(self, frontier: swath.Frontier) -> None:
        """Read the progress, and record samples of it for every reader."""
        progress = await read_progress(frontier)
        assert progress is not None
        self.progress = progress
        if (samples := sample_share(progress)) is not None:
            await frontier.learn({SAMPLES: samples})
