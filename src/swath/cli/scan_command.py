"""A scan as its user meets it: begun, shown while it runs, summed up."""

import asyncio
import sys
import time
from pathlib import Path

from swath import Stop, mask_password, stop_on_signals
from swath.cli import scan_view as view
from swath.cli.exit_codes import ExitCode
from swath.cli.formatting import pluralize
from swath.cli.terminal import is_terminal, open_live_display, print_error, print_facts, print_json_line
from swath.files.errors import translate_write_errors
from swath.import_path import import_function
from swath.scan import parquet_out, workspace
from swath.scan.job import Job
from swath.scan.report import Proof, proof
from swath.scan.settings import ScanSettings
from swath.scan.sources.registry import source_of
from swath.scan.sources.source import Source

REFRESH_SECONDS = 0.5
STOPS = ("SIGINT", "SIGTERM")


class Scanning:
    """One `swath scan`."""

    def __init__(self, settings: ScanSettings, *, json: bool, quiet: bool) -> None:
        self._settings = settings
        self._json = json
        self._quiet = quiet
        self._stop = Stop()

    async def run(self) -> int:
        source = await asyncio.to_thread(source_of, self._settings)
        try:
            return await self._run(source)
        finally:
            await asyncio.to_thread(source.close)

    async def _run(self, source: Source) -> int:
        settings = self._settings
        with stop_on_signals(self._stop, asyncio.get_running_loop()):
            if settings.out.endswith(".parquet"):
                parquet_out.need_arrow()  # what is missing is said before anything is done
            check = None if settings.check is None else import_function(settings.check, flag="--check")
            fix = None if settings.fix is None else import_function(settings.fix, flag="--fix")
            job = Job(settings, source, check=check, fix=fix, stop=self._stop)
            await asyncio.to_thread(source.state)
            with translate_write_errors(settings.out):
                prepared = await workspace.prepare(settings, source)
                before = await proof(settings)
                self._say_what_begins(prepared, before)
                stopped_by, began = "done", time.monotonic()
                if not before.complete:
                    stopped_by = await self._scan(job, prepared)
        return await self._finish(stopped_by, time.monotonic() - began)

    async def _scan(self, job: Job, prepared: workspace.Prepared) -> str:
        showing = asyncio.create_task(self._show(job))
        try:
            return (await job.run(prepared)).stopped_by
        finally:
            showing.cancel()
            await asyncio.gather(showing, return_exceptions=True)

    def _say_what_begins(self, prepared: workspace.Prepared, before: Proof) -> None:
        if not self._quiet and not self._json:
            print(view.beginning(prepared, before), file=sys.stderr, flush=True)

    async def _show(self, job: Job) -> None:
        if self._quiet:
            return
        rate = view.Rate()
        if is_terminal() and not self._json:
            await self._show_panel(job, rate)
        else:
            await self._show_lines(job, rate)

    async def _show_panel(self, job: Job, rate: view.Rate) -> None:
        with open_live_display(transient=True) as draw:
            while True:
                rate.seen(job.counts.records, time.monotonic())
                draw(view.panel(self._settings, job.counts, job.status, rate.now))
                await asyncio.sleep(REFRESH_SECONDS)

    async def _show_lines(self, job: Job, rate: view.Rate) -> None:
        next_line = time.monotonic() + view.LINE_SECONDS
        while True:
            await asyncio.sleep(REFRESH_SECONDS)
            rate.seen(job.counts.records, time.monotonic())
            if time.monotonic() < next_line:
                continue
            next_line += view.LINE_SECONDS
            if self._json:
                print_json_line({"event": "progress", **view.progress(job.counts, job.status, rate.now)})
                sys.stdout.flush()
            else:
                print(view.line(job.counts, job.status, rate.now), flush=True)

    async def _finish(self, stopped_by: str, seconds: float) -> int:
        settings = self._settings
        found = await proof(settings, with_examples=not (self._quiet or self._json))
        if settings.out.endswith(".parquet"):
            with translate_write_errors(settings.out):
                await asyncio.to_thread(parquet_out.write, Path(settings.out), settings.lines, found.length)
        if self._json:
            print_json_line({"event": "summary", "stopped_by": stopped_by, "seconds": seconds, **found.as_dict()})
        elif not self._quiet:
            print_facts(view.ending(found), view.summary(found, seconds))
        if found.status.waiting:
            print_error(f"{pluralize(found.status.waiting, 'slice')} left: run the same command again to go on")
        if found.status.dead:
            print_error(
                f"{pluralize(found.status.dead, 'slice')} given up: `swath dead --store "
                f"'{mask_password(settings.store_url)}'` lists them, `swath dead retry` opens them again"
            )
        if stopped_by in STOPS:
            return ExitCode.INTERRUPTED
        return ExitCode.OK if found.clean else ExitCode.NEGATIVE
