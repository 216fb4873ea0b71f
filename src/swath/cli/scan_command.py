"""Run `swath scan`: prepare or resume, show progress, print the report."""

import asyncio
import sys
import time
from pathlib import Path

from swath import Stop, mask_password, stop_on_signals
from swath.cli import scan_view as view
from swath.cli.exit_codes import ExitCode
from swath.cli.formatting import pluralize
from swath.cli.terminal import is_terminal, open_live_display, print_error, print_facts, print_json_line, print_line
from swath.files.errors import translate_write_errors
from swath.import_path import import_function
from swath.scan import parquet_output, workspace
from swath.scan.job import ScanJob
from swath.scan.report import ScanReport, read_report
from swath.scan.settings import ScanSettings
from swath.scan.sources.registry import open_source
from swath.scan.sources.source import Source

REFRESH_SECONDS = 0.5
SIGNALS = ("SIGINT", "SIGTERM")


class ScanCommand:
    """One run of `swath scan`."""

    def __init__(self, settings: ScanSettings, *, json: bool, quiet: bool) -> None:
        self._settings = settings
        self._json = json
        self._quiet = quiet
        self._stop = Stop()

    async def run(self) -> int:
        source = await asyncio.to_thread(open_source, self._settings)
        try:
            return await self._run(source)
        finally:
            await asyncio.to_thread(source.close)

    async def _run(self, source: Source) -> int:
        settings = self._settings
        with stop_on_signals(self._stop, asyncio.get_running_loop()):
            if settings.out.endswith(".parquet"):
                parquet_output.import_pyarrow()  # fail before anything is created
            check = None if settings.check is None else import_function(settings.check, flag="--check")
            fix = None if settings.fix is None else import_function(settings.fix, flag="--fix")
            job = ScanJob(settings, source, check=check, fix=fix, stop=self._stop)
            await asyncio.to_thread(source.snapshot)
            with translate_write_errors(settings.out):
                prepared = await workspace.prepare(settings, source)
                before = await read_report(settings)
                self._print_start(prepared, before)
                stopped_by, began = "done", time.monotonic()
                if not before.complete:
                    stopped_by = await self._scan(job, prepared)
        return await self._finish(stopped_by, time.monotonic() - began)

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
        if is_terminal() and not self._json:
            await self._show_panel(job, rate)
        else:
            await self._show_lines(job, rate)

    async def _show_panel(self, job: ScanJob, rate: view.Rate) -> None:
        with open_live_display(transient=True) as draw:
            while True:
                rate.record(job.counts.records, time.monotonic())
                draw(view.make_progress_panel(self._settings, job.counts, job.status, rate.current))
                await asyncio.sleep(REFRESH_SECONDS)

    async def _show_lines(self, job: ScanJob, rate: view.Rate) -> None:
        next_line = time.monotonic() + view.LINE_SECONDS
        while True:
            await asyncio.sleep(REFRESH_SECONDS)
            rate.record(job.counts.records, time.monotonic())
            if time.monotonic() < next_line:
                continue
            next_line += view.LINE_SECONDS
            if self._json:
                print_json_line({"event": "progress", **view.progress_to_json(job.counts, job.status, rate.current)})
                sys.stdout.flush()
            else:
                print_line(view.format_line(job.counts, job.status, rate.current))

    async def _finish(self, stopped_by: str, seconds: float) -> int:
        settings = self._settings
        report = await read_report(settings, with_examples=not (self._quiet or self._json))
        if settings.out.endswith(".parquet"):
            with translate_write_errors(settings.out):
                await asyncio.to_thread(
                    parquet_output.write_parquet, Path(settings.out), settings.findings_path, report.length
                )
        if self._json:
            print_json_line({"event": "summary", "stopped_by": stopped_by, "seconds": seconds, **report.as_dict()})
        elif not self._quiet:
            print_facts(view.describe_end(report), view.list_facts(report, seconds))
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
