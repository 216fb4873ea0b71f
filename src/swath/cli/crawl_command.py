"""CrawlCommand: start a crawl, show its progress, and print its summary."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

from swath import STOP_SECONDS, Frontier, RunState, Status, Stop, UsageError, stop_on_signals
from swath.cli import crawl_view as view
from swath.cli import run_view
from swath.cli.command_log import drop_empty, open_command_log, shows_panel
from swath.cli.confirm import confirm
from swath.cli.crawl_summary import FAILED, describe_end, list_next_steps, print_summary
from swath.cli.exit_codes import ExitCode
from swath.cli.failed_seeds import FailedSeeds
from swath.cli.formatting import pluralize
from swath.cli.interrupts import SignalAnswer, cancel_on_stop
from swath.cli.item_export import ExportedItems, export_items, prepare_item_file, read_export
from swath.cli.seed_input import SeedProgress, read_all_seeds
from swath.cli.terminal import (
    is_terminal,
    open_live_display,
    print_error,
    print_event,
    print_line,
    print_progress,
)
from swath.crawl import fd_limit, seeds
from swath.crawl.archive import index
from swath.crawl.discard import discard_crawl, read_contents
from swath.crawl.failed_pages import retry_failed_pages
from swath.crawl.fleet import ChildFailed, Fleet
from swath.crawl.handlers.code import CrawlCode
from swath.crawl.handlers.lifespan import leave_process
from swath.crawl.job import GRACE_SECONDS, LIFESPAN, count_pages, read_status
from swath.crawl.page_processor import HANDLER_FAILED
from swath.crawl.preflight import check_settings
from swath.crawl.seed_list import Seed
from swath.crawl.settings import CrawlSettings, list_warnings
from swath.crawl.workspace import Workspace, open_workspace
from swath.files.errors import translate_write_errors
from swath.logs.entries import Failed, Finished, Message, Resumed
from swath.logs.run_log import RunLog

REFRESH_SECONDS = 0.5
RUN_AGAIN = "run the same command again to continue"
_HOW_TO_CONTINUE = {"max-pages": "run it with a higher --max-pages, or without it, to continue"}  # by what stopped it


class CrawlCommand:
    """One run of `swath crawl`. It opens the frontier once; only child processes open it again."""

    def __init__(
        self,
        settings: CrawlSettings,
        *,
        code: CrawlCode | None = None,
        fresh: bool = False,
        yes: bool = False,
        json: bool,
        quiet: bool,
    ) -> None:
        """`fresh` discards an earlier crawl, after the user has confirmed it or if `yes` is given."""
        if settings.items is not None and code is not None and code.crawler.sink is not None:
            raise UsageError(
                f"--items {settings.items}: the items of {code.name} go to its sink; `swath extract --items` writes "
                "those of archived pages to a file"
            )
        self._settings = settings
        self._code = code
        self._fresh = fresh
        self._yes = yes
        self._json = json
        self._quiet = quiet
        self._stop = Stop()
        self._failed_seeds = FailedSeeds(json=json)

    async def run(self, urls: Sequence[str], seeds_file: str | None, *, strict: bool = False) -> int:
        await asyncio.to_thread(check_settings, self._settings)
        if self._settings.items is not None:
            await asyncio.to_thread(prepare_item_file, Path(self._settings.items))
        with open_command_log("crawl", self._settings, self._settings.log) as log:
            return await self._run(urls, seeds_file, log, strict=strict)

    async def _run(self, urls: Sequence[str], seeds_file: str | None, log: RunLog, *, strict: bool) -> int:
        settings = self._settings
        async with AsyncExitStack() as stack:
            answer = SignalAnswer(
                "the crawl",
                noun="page",
                stop_seconds=GRACE_SECONDS + STOP_SECONDS,
                lease_seconds=settings.lease_seconds,
                quiet=self._quiet,
            )
            with stop_on_signals(self._stop, asyncio.get_running_loop(), on_signal=answer):
                given = read_all_seeds(urls, seeds_file, seeds.SeedRules(settings), strict=strict)
                workspace = await self._load(stack, given, log)
                if workspace is None:
                    log.write(Failed("stopped before the crawl began"))
                    return ExitCode.INTERRUPTED
                frontier = workspace.frontier
                log.worker = frontier.worker
                fleet = Fleet(settings, frontier, self._stop, code=self._code, observer=log.observer)
                retried = await retry_failed_pages(frontier) if settings.retry_failed else 0
                answer.count_in_flight = lambda: fleet.in_flight
                before = await frontier.status()
                log.write(Resumed(workspace.resumed, {"waiting": before.waiting, "dead": before.dead}))
                self._print_start(workspace, before, retried, log)
                began = time.monotonic()
                stopped_by = "done"
                if before.waiting:
                    with translate_write_errors(settings.directory):
                        await asyncio.to_thread(index.remove_index, settings.directory)
                    try:
                        stopped_by = await self._crawl(fleet)
                    except ChildFailed:
                        stopped_by = FAILED
            code = await self._finish(frontier, fleet, log, stopped_by, time.monotonic() - began)
        if fleet.lifespan_hangs:
            leave_process(code)
        return code

    async def _load(self, stack: AsyncExitStack, given: AsyncIterator[Seed], log: RunLog) -> Workspace | None:
        """Open the workspace and queue the seeds; return None if a signal stopped that."""
        settings = self._settings
        progress = SeedProgress(quiet=self._quiet)
        discard = partial(self._discard_crawl, progress) if self._fresh else None
        try:
            with progress, translate_write_errors(settings.directory), cancel_on_stop(self._stop):
                opening = open_workspace(
                    settings,
                    given,
                    discard=discard,
                    report=progress.report,
                    code=self._code,
                    observer=log.observer,
                )
                return await stack.enter_async_context(opening)
        except KeyboardInterrupt:
            print_error(f"stopped after {progress.describe()}: run the same command again to start the crawl")
            return None

    async def _discard_crawl(self, progress: SeedProgress) -> None:
        """Discard the crawl that the directory holds, after naming what is lost."""
        contents = await read_contents(self._settings)
        if contents is None:
            return
        with progress.hide():
            if not self._yes or not self._quiet:
                print_error(f"--fresh discards {view.format_contents(contents)}")
            if not self._yes:
                _confirm_discard()
        await discard_crawl(self._settings)

    async def _crawl(self, fleet: Fleet) -> str:
        watching = [asyncio.create_task(work) for work in (self._show_progress(fleet), self._report_seeds(fleet))]
        try:
            return (await fleet.run()).stopped_by
        finally:
            for task in watching:
                task.cancel()
            await asyncio.gather(*watching, return_exceptions=True)
            self._failed_seeds.report_rest(fleet.stats())

    async def _report_seeds(self, fleet: Fleet) -> None:
        while True:
            self._failed_seeds.report(fleet.stats())
            await asyncio.sleep(REFRESH_SECONDS)

    def _print_start(self, workspace: Workspace, before: Status, retried: int, log: RunLog) -> None:
        notes = list(workspace.changes)
        if self._settings.retry_failed:
            notes.append(f"{pluralize(retried, 'failed page')} made ready again")
        elif workspace.resumed and before.dead:
            notes.append(
                f"{pluralize(before.dead, 'page')} failed in earlier runs: --retry-failed tries "
                f"{'it' if before.dead == 1 else 'them'} again"
            )
        for note in () if self._quiet else notes:
            print_line(f"note: {note}", stderr=True)
        limited = fd_limit.limit_workers(self._settings.workers).warning
        for warning in [*list_warnings(self._settings), *([] if limited is None else [limited])]:
            print_error(warning)
            log.write(Message("swath.crawl", warning, None), level=logging.WARNING)
        if not self._quiet and not self._json:
            print_line(view.format_start(workspace, before), stderr=True)

    async def _show_progress(self, fleet: Fleet) -> None:
        if self._quiet:
            return
        if shows_panel(self._settings.log, json=self._json):
            await self._show_panel(fleet)
        else:
            await self._show_lines(fleet)

    async def _show_panel(self, fleet: Fleet) -> None:
        with open_live_display(transient=True) as draw:
            while True:
                stats, status = fleet.stats(), fleet.status
                states = self._list_states(fleet, stats)
                draw(view.build_panel(self._settings, stats, status, states, fleet.errors))
                await asyncio.sleep(REFRESH_SECONDS)

    def _list_states(self, fleet: Fleet, stats: Mapping[str, Any]) -> Sequence[RunState]:
        return view.add_pacing(fleet.states, self._settings, stats, fleet.status)

    async def _show_lines(self, fleet: Fleet) -> None:
        timer = run_view.LineTimer(time.monotonic())
        while True:
            await asyncio.sleep(REFRESH_SECONDS)
            stats = fleet.stats()  # also between lines: each call is a sample for the rate
            states, errors = self._list_states(fleet, stats), fleet.errors
            if not timer.is_due(time.monotonic(), states, errors):
                continue
            if self._json:
                about = view.frontier_to_json(fleet.status, fleet.total_pages) | run_view.to_json(states, errors)
                print_event("progress", {**_to_json(stats), **about})
            else:
                print_progress(view.format_line(self._settings, stats, fleet.status, states, errors))

    async def _finish(self, frontier: Frontier, fleet: Fleet, log: RunLog, stopped_by: str, seconds: float) -> int:
        """Write the index, print the summary, and return the exit code."""
        settings = self._settings
        for failure in fleet.failures:
            print_error(failure if stopped_by == FAILED else f"{failure}; the other processes continued")
        status, total_pages = await read_status(frontier, self._code), await count_pages(frontier)
        if stopped_by == "done" and index.has_archive(settings.directory):
            with translate_write_errors(settings.directory):
                await asyncio.to_thread(index.write_index, settings.directory, await frontier.outputs())
        exported: Sequence[ExportedItems] = ()
        if settings.items is not None:
            committed, columns = await read_export(settings, frontier)
            directories = [(settings.directory, committed)]
            exported = await asyncio.to_thread(export_items, directories, Path(settings.items), columns=columns)
        stats = fleet.stats()
        result = await describe_end(frontier, settings, status, stopped_by=stopped_by, total_pages=total_pages)
        fields = view.frontier_to_json(status, total_pages) | run_view.to_json((), fleet.errors)
        log.write(Finished(stopped_by, seconds, drop_empty({"result": result, **_to_json(stats), **fields})))
        next_steps = list(
            list_next_steps(settings, status, result, total_pages=total_pages, can_repair=self._can_repair(stats))
        )
        if self._json:
            print_event("summary", {
                "result": result, "stopped_by": stopped_by, "seconds": seconds, **_to_json(stats),
                **fields, "next": [command for _, command in next_steps],
                "item_files": {one.kind: str(one.path) for one in exported},
            })  # fmt: skip
        elif not self._quiet:
            rows = [
                *view.list_summary_rows(settings, stats, status, total_pages=total_pages, seconds=seconds),
                *view.list_exported_rows(exported),
                *run_view.list_error_rows(fleet.errors, name=view.HANDLER_ERRORS),
            ]
            print_summary(settings, result, rows, next_steps)
        if (self._quiet or self._json or not is_terminal()) and (status.waiting or not total_pages):
            hint = f": {_HOW_TO_CONTINUE.get(stopped_by, RUN_AGAIN)}" if status.waiting else ""
            print_error(f"{result}{hint}")
        if stopped_by in ("SIGINT", "SIGTERM"):
            return ExitCode.INTERRUPTED
        complete = not status.waiting and not status.dead and total_pages and stopped_by != FAILED
        complete = complete and LIFESPAN not in stats.get("errors", ())
        return ExitCode.OK if complete else ExitCode.NEGATIVE

    def _can_repair(self, stats: Mapping[str, Any]) -> bool:
        """Return whether handlers failed in this run on pages that `swath extract --failed` can repair."""
        if self._code is None or self._code.crawler.sink is not None or not self._settings.warc:
            return False
        return HANDLER_FAILED in stats.get("errors", ())


def _confirm_discard() -> None:
    refusal = "nothing was discarded"
    if not confirm("Discard it and start over?", refusal=refusal, advice="add --yes to discard it without a question"):
        raise UsageError(refusal)


def _to_json(stats: Mapping[str, Any]) -> dict[str, Any]:
    """Return statistics for a JSON line. Seeds that failed have events of their own."""
    shown = {name: value for name, value in stats.items() if name not in ("seed_failures", "other_seed_failures")}
    return shown | {"seeds_failed": len(stats.get("seed_failures", ())) + stats.get("other_seed_failures", 0)}
