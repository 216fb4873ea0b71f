"""Run `swath backfill`: check, start or resume, show progress, print the summary."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack

from swath import STOP_SECONDS, NotAFrontier, Stop, mask_password, stop_on_signals
from swath.backfill import preflight
from swath.backfill.job import BackfillJob, StartInfo, get_grace, open_frontier
from swath.backfill.operations import SetOperation, SqlOperation
from swath.backfill.progress import Progress, read_progress
from swath.backfill.settings import BackfillSettings
from swath.backfill.statement import build_set_statement, build_sql_statement
from swath.cli import backfill_view as view
from swath.cli import run_view
from swath.cli.command_log import drop_empty, open_command_log, shows_panel
from swath.cli.exit_codes import ExitCode
from swath.cli.formatting import format_duration, pluralize
from swath.cli.interrupts import SignalAnswer, cancel_on_stop
from swath.cli.terminal import (
    open_live_display,
    print_error,
    print_event,
    print_facts,
    print_json,
    print_line,
    print_progress,
)
from swath.logs.entries import Finished, Resumed, Throttled
from swath.logs.run_log import RunLog
from swath.logs.settings import NO_LOG, LogSettings

REFRESH_SECONDS = 0.5


class BackfillCommand:
    """One run of `swath backfill`."""

    def __init__(self, settings: BackfillSettings, *, json: bool, quiet: bool, log: LogSettings = NO_LOG) -> None:
        self._settings = settings
        self._log_settings = log
        self._json = json
        self._quiet = quiet
        self._stop = Stop()

    async def run(self) -> int:
        with open_command_log("backfill", self._settings, self._log_settings) as log:
            return await self._run(log)

    async def _run(self, log: RunLog) -> int:
        settings = self._settings

        def report(message: str) -> None:
            log.write(Throttled(message))
            self._report(message)

        answer = SignalAnswer(
            "the backfill",
            noun="slice",
            stop_seconds=get_grace(settings) + STOP_SECONDS,
            lease_seconds=settings.lease,
            quiet=self._quiet,
        )
        with stop_on_signals(self._stop, asyncio.get_running_loop(), on_signal=answer):
            async with AsyncExitStack() as stack:
                with cancel_on_stop(self._stop):
                    job = await stack.enter_async_context(BackfillJob.open(settings, stop=self._stop, report=report))
                    async with job.notice_changes():
                        await job.check()
                        await self._read_earlier_progress(job)  # refuse before anything is created
                        frontier = await stack.enter_async_context(open_frontier(settings, observer=log.observer))
                        log.worker = frontier.worker
                        start = await job.start(frontier)
                answer.count_in_flight = lambda: job.monitor.in_flight
                log.write(Resumed(start.resumed, {"upto": start.progress.upto, "covered": start.progress.key}))
                self._print_start(job, start)
                began, stopped_by = time.monotonic(), "done"
                if settings.follow or not start.progress.complete:
                    showing = asyncio.create_task(self._show(job))
                    try:
                        stopped_by = (await job.run(frontier)).stopped_by
                    finally:
                        showing.cancel()
                        await asyncio.gather(showing, return_exceptions=True)
                job.progress = await read_progress(frontier)
        seconds = time.monotonic() - began
        log.write(Finished(stopped_by, seconds, drop_empty(view.to_json(job, seconds=seconds))))
        return self._finish(job, stopped_by, seconds)

    def _report(self, message: str) -> None:
        if self._json:
            print_event("throttle", {"message": message})
        elif not self._quiet:
            print_error(message)

    def _print_start(self, job: BackfillJob, start: StartInfo) -> None:
        if self._json:
            print_event(
                "start",
                {
                    "resumed": start.resumed,
                    "exactly_once": job.exactly_once,
                    "upto": start.progress.upto,
                    "covered": start.progress.key,
                },
            )
        elif not self._quiet:
            print_line(view.describe_start(job, start), stderr=True)

    async def _show(self, job: BackfillJob) -> None:
        if self._quiet:
            return
        if shows_panel(self._log_settings, json=self._json):
            with open_live_display(transient=True) as draw:
                while True:
                    draw(view.make_progress_panel(job))
                    await asyncio.sleep(REFRESH_SECONDS)
        timer = run_view.LineTimer(time.monotonic())
        while True:
            await asyncio.sleep(REFRESH_SECONDS)
            if not timer.is_due(time.monotonic(), job.states, job.monitor.errors):
                continue
            if self._json:
                print_event("progress", view.to_json(job))
            else:
                print_progress(view.format_line(job))

    def _finish(self, job: BackfillJob, stopped_by: str, seconds: float) -> int:
        progress = job.progress
        assert progress is not None
        if self._json:
            print_event(
                "summary",
                {"stopped_by": stopped_by, "seconds": seconds, "complete": progress.complete,
                 **view.to_json(job, seconds=seconds)},
            )  # fmt: skip
        elif not self._quiet:
            rows = [*view.list_facts(job, seconds=seconds), ("time", format_duration(seconds))]
            print_facts(view.describe_end(stopped_by, progress), rows)
        store = mask_password(self._settings.store_url)
        if progress.dead:
            print_error(
                f"{pluralize(progress.dead, 'slice')} dead. List them with `swath dead --store '{store}'`; to try them "
                "again, run `swath dead retry` and then this command"
            )
        if stopped_by in ("SIGINT", "SIGTERM"):
            print_error("run the same command again to resume")
            return ExitCode.INTERRUPTED
        return ExitCode.OK if progress.complete else ExitCode.NEGATIVE

    async def dry_run(self) -> int:
        """Print what a run would do. Change nothing."""
        async with (
            BackfillJob.open(self._settings, stop=self._stop, report=self._report) as job,
            job.notice_changes(),
        ):
            await job.check()
            earlier = await self._read_earlier_progress(job)
            plan = [pair async for pair in _describe_plan(job, earlier)]
        if self._json:
            print_json(_join_lines(plan))
        else:
            print_facts("dry run: nothing was changed", plan)
        return ExitCode.OK

    async def _read_earlier_progress(self, job: BackfillJob) -> Progress | None:
        """Return the progress of an earlier run. Raise what the run itself would raise about its frontier."""
        try:
            async with open_frontier(self._settings, create=False) as frontier:
                await job.check_frontier(frontier)
                return await read_progress(frontier)
        except NotAFrontier:
            return None


def _join_lines(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the pairs as a dict. A pair without a name continues the value before it on a new line."""
    found: dict[str, str] = {}
    name = ""
    for given, value in pairs:
        name = given or name
        found[name] = f"{found[name]}\n{value}" if name in found else value
    return found


async def _describe_plan(job: BackfillJob, earlier: Progress | None) -> AsyncIterator[tuple[str, str]]:
    table, settings = job.table, job.settings
    description = table.description
    yield "table", description.name
    yield "key", ", ".join(f"{column.name} {column.type}" for column in description.key)
    rows = await table.estimate_rows()
    yield "rows", "unknown" if rows is None else f"about {rows:,}"
    yield "store", mask_password(settings.store_url)
    yield "each row", "exactly once" if job.exactly_once else "at least once"
    if earlier is not None:
        yield "covered", f"up to {view.format_key(earlier.key)}, by an earlier run"
    after = earlier.key if earlier is not None else None
    upto = None if settings.last is None else await table.parse_key(settings.last)
    if settings.follow:
        yield "up to", "new rows, until stopped"
    else:
        yield "up to", view.format_key(upto or await table.find_last_key(after=after))
    end = await table.find_slice_end(settings.batch, after=after, upto=upto)
    if end is None:
        yield "first slice", "no rows to change"
        return
    yield "first slice", f"{pluralize(end.rows, 'row')} up to {view.format_key(end.key)}"
    if isinstance(job.operation, SetOperation) and settings.set is not None:
        statement = build_set_statement(table, settings.set, settings.where, after=after, upto=end.key)
    elif isinstance(job.operation, SqlOperation) and settings.sql is not None:
        lo = await table.find_first_key(after=after, upto=end.key)
        statement = build_sql_statement(table, settings.sql, lo=lo or end.key, hi=end.key)
    else:
        return
    yield "statement", statement.sql.replace("\n", " ")
    for number, line in enumerate(await preflight.explain_statement(table, statement)):
        yield "" if number else "plan", line
