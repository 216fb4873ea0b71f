"""A backfill as its user meets it: begun, shown while it runs, summed up."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Iterable

from swath.backfill import preflight
from swath.backfill.job import Begun, Job, Open, opened
from swath.backfill.operations import SetChange, SqlChange
from swath.backfill.progress import Progress, progress
from swath.backfill.settings import BackfillSettings
from swath.backfill.statement import set_statement, sql_statement
from swath.cli import backfill_view as view
from swath.cli.exit_codes import ExitCode
from swath.cli.formatting import format_duration, pluralize
from swath.cli.terminal import is_terminal, open_live_display, print_error, print_facts, print_json, print_json_line
from swath.core.errors import NotAFrontier
from swath.core.redact import mask_password
from swath.runner.shutdown import Stop, stop_on_signals

REFRESH_SECONDS = 0.5


class Backfilling:
    """One `swath backfill`."""

    def __init__(self, settings: BackfillSettings, *, json: bool, quiet: bool) -> None:
        self._settings = settings
        self._json = json
        self._quiet = quiet
        self._stop = Stop()
        self._job = Job(settings, stop=self._stop, say=self._say)

    async def run(self) -> int:
        job = self._job
        with stop_on_signals(self._stop, asyncio.get_running_loop()):
            async with job.open() as table:
                await table.check()
                await self._begun_before(table)  # what is refused changes nothing
                async with opened(self._settings) as frontier:
                    begun = await table.begin(frontier)
                    self._say_what_begins(begun)
                    began, stopped_by = time.monotonic(), "done"
                    if self._settings.follow or not begun.before.over:
                        showing = asyncio.create_task(self._show())
                        try:
                            stopped_by = (await table.run(frontier)).stopped_by
                        finally:
                            showing.cancel()
                            await asyncio.gather(showing, return_exceptions=True)
                    job.progress = now = await progress(frontier)
        assert now is not None
        return self._finish(stopped_by, now, time.monotonic() - began)

    def _say(self, words: str) -> None:
        if self._json:
            print_json_line({"event": "pace", "said": words})
        elif not self._quiet:
            print_error(words)

    def _say_what_begins(self, begun: Begun) -> None:
        if self._json:
            print_json_line(
                {
                    "event": "begin",
                    "resumed": begun.resumed,
                    "exactly_once": begun.exactly_once,
                    "upto": begun.before.upto,
                    "covered": begun.before.key,
                }
            )
        elif not self._quiet:
            print(view.beginning(begun, self._settings), file=sys.stderr, flush=True)

    async def _show(self) -> None:
        if self._quiet:
            return
        if is_terminal() and not self._json:
            with open_live_display(transient=True) as draw:
                while True:
                    draw(view.panel(self._job))
                    await asyncio.sleep(REFRESH_SECONDS)
        while True:
            await asyncio.sleep(view.LINE_SECONDS)
            if self._json:
                print_json_line({"event": "progress", **view.as_dict(self._job)})
                sys.stdout.flush()
            else:
                print(view.line(self._job), flush=True)

    def _finish(self, stopped_by: str, now: Progress, seconds: float) -> int:
        if self._json:
            print_json_line(
                {"event": "summary", "stopped_by": stopped_by, "seconds": seconds, "over": now.over,
                 **view.as_dict(self._job)}
            )  # fmt: skip
        elif not self._quiet:
            print_facts(view.ending(stopped_by, now), [*view.rows(self._job), ("time", format_duration(seconds))])
        where = mask_password(self._settings.store_url)
        if now.dead:
            print_error(
                f"{pluralize(now.dead, 'slice')} given up: `swath dead --store '{where}'` lists them, with "
                "`swath dead retry` and the same command they are done again"
            )
        if stopped_by in ("SIGINT", "SIGTERM"):
            print_error("run the same command again to go on")
            return ExitCode.INTERRUPTED
        return ExitCode.OK if now.over else ExitCode.NEGATIVE

    # without changing anything

    async def dry_run(self) -> int:
        """Say what would be done."""
        async with self._job.open() as table:
            await table.check()
            before = await self._begun_before(table)
            plan = [pair async for pair in _plan(table, before)]
        if self._json:
            print_json(_joined(plan))
        else:
            print_facts("nothing was changed: this is what would be done", plan)
        return ExitCode.OK

    async def _begun_before(self, table: Open) -> Progress | None:
        """How far it came; what the run itself would refuse is refused here."""
        try:
            async with opened(self._settings, create=False) as frontier:
                await table.begun(frontier)
                return await progress(frontier)
        except NotAFrontier:
            return None


def _joined(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Names and values, of several lines where lines without a name follow."""
    found: dict[str, str] = {}
    name = ""
    for given, value in pairs:
        name = given or name
        found[name] = f"{found[name]}\n{value}" if name in found else value
    return found


async def _plan(opened_table: Open, before: Progress | None) -> AsyncIterator[tuple[str, str]]:
    table, settings = opened_table.table, opened_table.job.settings
    description = table.description
    yield "table", description.name
    yield "key", ", ".join(f"{column.name} {column.type}" for column in description.key)
    rows = await table.estimate_rows()
    yield "rows", "unknown" if rows is None else f"about {rows:,}"
    yield "store", mask_password(settings.store_url)
    yield "each row", "exactly once" if opened_table.exactly_once else "at least once"
    if before is not None:
        yield "covered", f"up to {view.key(before.key)}, from a run before"
    after = before.key if before is not None else None
    upto = None if settings.last is None else await table.parse_key(settings.last)
    yield "up to", "as rows come" if settings.follow else view.key(upto or await table.find_last_key(after=after))
    end = await table.find_slice_end(settings.batch, after=after, upto=upto)
    if end is None:
        yield "first slice", "there is no row to change"
        return
    yield "first slice", f"{pluralize(end.rows, 'row')} up to {view.key(end.key)}"
    change = opened_table.change
    if isinstance(change, SetChange) and settings.set is not None:
        statement = set_statement(table, settings.set, settings.where, after=after, upto=end.key)
    elif isinstance(change, SqlChange) and settings.sql is not None:
        lo = await table.find_first_key(after=after, upto=end.key)
        statement = sql_statement(table, settings.sql, lo=lo or end.key, hi=end.key)
    else:
        return
    yield "statement", statement.sql.replace("\n", " ")
    for number, line in enumerate(await preflight.first_plan(table, statement)):
        yield "" if number else "plan", line
