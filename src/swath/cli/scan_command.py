"""Run `swath scan`: prepare or resume, show progress, print the report."""

import asyncio
import time
from contextlib import AsyncExitStack
from pathlib import Path

from swath import STOP_SECONDS, Stop, mask_password, stop_on_signals
from swath.cli import run_view
from swath.cli import scan_view as view
from swath.cli.command_log import drop_empty, open_command_log, shows_panel
from swath.cli.exit_codes import ExitCode
from swath.cli.formatting import pluralize
from swath.cli.interrupts import SignalAnswer, cancel_on_stop
from swath.cli.scan_progress import progress_to_json
from swath.cli.terminal import open_live_display, print_error, print_event, print_facts, print_line, print_progress
from swath.files.errors import translate_write_errors
from swath.import_path import import_function
from swath.logs.entries import Finished, Resumed
from swath.logs.run_log import RunLog
from swath.logs.settings import NO_LOG, LogSettings
from swath.scan import parquet_output, workspace
from swath.scan.job import GRACE_SECONDS, ScanJob
from swath.scan.report import ScanReport, read_report
from swath.scan.settings import ScanSettings
from swath.scan.sources.registry import open_source
from swath.scan.sources.source import Source

REFRESH_SECONDS = 0.5
SIGNALS = ("SIGINT", "SIGTERM")


class ScanCommand:
    """One run of `swath scan`."""

    def __init__(self, settings: ScanSettings, *, json: bool, quiet: bool, log: LogSettings = NO_LOG) -> None:
        self._settings = settings
        self._log_settings = log
        self._json = json
        self._quiet = quiet
        self._stop = Stop()

    async def run(self) -> int:
        with open_command_log("scan", self._settings, self._log_settings) as log:
            return await self._run(log)

    async def _run(self, log: RunLog) -> int:
        settings = self._settings
        answer = SignalAnswer(
            "the scan",
            noun="slice",
            stop_seconds=GRACE_SECONDS + STOP_SECONDS,
            lease_seconds=settings.lease,
            quiet=self._quiet,
        )
        async with AsyncExitStack() as stack:
            with stop_on_signals(self._stop, asyncio.get_running_loop(), on_signal=answer):
                with cancel_on_stop(self._stop):
                    source = await asyncio.to_thread(open_source, settings)
                    stack.push_async_callback(asyncio.to_thread, source.close)
                job = self._make_job(source, log)
                with translate_write_errors(settings.out):
                    with cancel_on_stop(self._stop):
                        await asyncio.to_thread(source.snapshot)
                        prepared = await workspace.prepare(settings, source)
                        before = await read_report(settings)
                    answer.count_in_flight = lambda: job.monitor.in_flight
                    status = before.status
                    log.write(Resumed(status.done > 0, {"waiting": status.waiting, "dead": status.dead}))
                    self._print_start(prepared, before)
                    stopped_by, began = "done", time.monotonic()
                    if not before.complete:
                        stopped_by = await self._scan(job, prepared)
            return await self._finish(job, log, stopped_by, time.monotonic() - began)

    def _make_job(self, source: Source, log: RunLog) -> ScanJob:
        """Import what the settings name, before anything is created."""
        settings = self._settings
        if settings.out.endswith(".parquet"):
            parquet_output.import_pyarrow()
        check = None if settings.check is None else import_function(settings.check, flag="--check")
        fix = None if settings.fix is None else import_function(settings.fix, flag="--fix")
        return ScanJob(settings, source, check=check, fix=fix, stop=self._stop, log=log)

    async def _scan(self, job: ScanJob, prepared: workspace.PreparedScan) -> str:
        showing = asyncio.create_task(self._show(job))
        try:
            return (await job.run(prepared)).stopped_by
        finally:
            showing.cancel()
            await asyncio.gather(showing, return_exceptions=True)

    def _print_start(self, prepared: workspace.PreparedScan, before: ScanReport) -> None:
        if not self._quiet and not self._json:
            print_line(view.describe_start(prepared, before), stderr=True)

    async def _show(self, job: ScanJob) -> None:
        if self._quiet:
            return
        rate = view.Rate()
        if shows_panel(self._log_settings, json=self._json):
            await self._show_panel(job, rate)
        else:
            await self._show_lines(job, rate)

    async def _show_panel(self, job: ScanJob, rate: view.Rate) -> None:
        with open_live_display(transient=True) as draw:
            while True:
                rate.record(job, time.monotonic())
                draw(view.make_progress_panel(job, rate.current, job.monitor.states, job.monitor.errors))
                await asyncio.sleep(REFRESH_SECONDS)

    async def _show_lines(self, job: ScanJob, rate: view.Rate) -> None:
        timer = run_view.LineTimer(time.monotonic())
        while True:
            await asyncio.sleep(REFRESH_SECONDS)
            rate.record(job, time.monotonic())
            states, errors = job.monitor.states, job.monitor.errors
            if not timer.is_due(time.monotonic(), states, errors):
                continue
            if self._json:
                known = {} if job.progress is None else progress_to_json(job.progress)
                about = {"rate": rate.current, "unsettled": job.unsettled, **known} | run_view.to_json(states, errors)
                print_event("progress", about)
            else:
                rows = view.list_run_rows(self._settings, states, errors)
                print_progress(view.format_line(job.progress, rate.current, rows, unsettled=job.unsettled))

    async def _finish(self, job: ScanJob, log: RunLog, stopped_by: str, seconds: float) -> int:
        settings = self._settings
        report = await read_report(settings, with_examples=not (self._quiet or self._json))
        summary = {**report.as_dict(), **run_view.to_json((), job.monitor.errors)}
        log.write(Finished(stopped_by, seconds, drop_empty(summary)))
        if settings.out.endswith(".parquet"):
            with translate_write_errors(settings.out):
                await asyncio.to_thread(
                    parquet_output.write_parquet, Path(settings.out), settings.findings_path, report.length
                )
        if self._json:
            print_event("summary", {"stopped_by": stopped_by, "seconds": seconds, **summary})
        elif not self._quiet:
            rows = [*view.list_facts(report, seconds), *run_view.list_error_rows(job.monitor.errors)]
            print_facts(view.describe_end(report), rows)
        if report.status.waiting:
            print_error(f"{pluralize(report.status.waiting, 'slice')} left. Run the same command again to resume")
        if report.status.dead:
            print_error(
                f"{pluralize(report.status.dead, 'slice')} dead. List them with `swath dead --store "
                f"'{mask_password(settings.store_url)}'`; to check them again, run `swath dead retry` and then this "
                "command"
            )
        if stopped_by in SIGNALS:
            return ExitCode.INTERRUPTED
        return ExitCode.OK if report.clean else ExitCode.NEGATIVE
