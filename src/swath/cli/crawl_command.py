"""CrawlCommand: start a crawl, show its progress, and print its summary."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from swath import Frontier, Status, Stop, UsageError, stop_on_signals
from swath.cli import crawl_view as view
from swath.cli.exit_codes import ExitCode
from swath.cli.explain import explain_key
from swath.cli.formatting import escape, pluralize
from swath.cli.seed_input import SeedProgress, read_all_seeds
from swath.cli.terminal import is_terminal, open_live_display, print_error, print_facts, print_json_line
from swath.crawl import fd_limit, seeds
from swath.crawl.archive import index
from swath.crawl.fleet import ChildFailed, Fleet
from swath.crawl.http.connect_to import ConnectTo
from swath.crawl.job import count_pages
from swath.crawl.seed_list import Seed
from swath.crawl.settings import CrawlSettings
from swath.crawl.urls.scope import build_scope
from swath.crawl.workspace import Workspace, open_workspace
from swath.files.errors import translate_write_errors

REFRESH_SECONDS = 0.5
FAILED = "failed"  # what stopped a crawl whose processes all failed


class CrawlCommand:
    """One run of `swath crawl`. It opens the frontier once; only child processes open it again."""

    def __init__(self, settings: CrawlSettings, *, json: bool, quiet: bool) -> None:
        self._settings = settings
        self._json = json
        self._quiet = quiet
        self._stop = Stop()
        self._workers = settings.workers * settings.processes

    async def run(self, urls: Sequence[str], seeds_file: str | None, *, strict: bool = False) -> int:
        settings = self._settings
        await asyncio.to_thread(_check, settings)
        async with AsyncExitStack() as stack:
            with stop_on_signals(self._stop, asyncio.get_running_loop()):
                given = read_all_seeds(urls, seeds_file, seeds.SeedRules(settings), strict=strict)
                workspace = await self._load(stack, given)
                if workspace is None:
                    return ExitCode.INTERRUPTED
                frontier = workspace.frontier
                fleet = Fleet(settings, frontier, self._stop)
                before = await frontier.status()
                self._print_start(workspace, before)
                began = time.monotonic()
                stopped_by = "done"
                if before.waiting:
                    try:
                        stopped_by = await self._crawl(fleet)
                    except ChildFailed:
                        stopped_by = FAILED
            return await self._finish(frontier, fleet, stopped_by, time.monotonic() - began)

    async def _load(self, stack: AsyncExitStack, given: AsyncIterator[Seed]) -> Workspace | None:
        """Open the workspace and queue the seeds; return None if a signal stopped that."""
        settings, task = self._settings, asyncio.current_task()
        assert task is not None
        progress = SeedProgress(quiet=self._quiet)

        def cancel() -> None:
            task.cancel()

        self._stop.on_change = cancel
        try:
            with progress, translate_write_errors(settings.directory):
                return await stack.enter_async_context(open_workspace(settings, given, report=progress.report))
        except asyncio.CancelledError:
            if self._stop.reason is None:
                raise
            task.uncancel()
            print_error(f"stopped after {progress.describe()}: run the same command again to start the crawl")
            return None
        finally:
            self._stop.on_change = lambda: None

    async def _crawl(self, fleet: Fleet) -> str:
        showing = asyncio.create_task(self._show_progress(fleet))
        try:
            return (await fleet.run()).stopped_by
        finally:
            showing.cancel()
            await asyncio.gather(showing, return_exceptions=True)

    def _print_start(self, workspace: Workspace, before: Status) -> None:
        for change in () if self._quiet else workspace.changes:
            print(f"note: {escape(change)}", file=sys.stderr, flush=True)
        if (warning := fd_limit.limit_workers(self._settings.workers).warning) is not None:
            print_error(warning)
        if not self._quiet and not self._json:
            print(view.format_start(workspace, before), file=sys.stderr, flush=True)

    async def _show_progress(self, fleet: Fleet) -> None:
        if self._quiet:
            return
        if is_terminal() and not self._json:
            await self._show_panel(fleet)
        else:
            await self._show_lines(fleet)

    async def _show_panel(self, fleet: Fleet) -> None:
        with open_live_display(transient=True) as draw:
            while True:
                draw(view.build_panel(self._settings, fleet.stats(), fleet.status, workers=self._workers))
                await asyncio.sleep(REFRESH_SECONDS)

    async def _show_lines(self, fleet: Fleet) -> None:
        next_line = time.monotonic() + view.LINE_SECONDS
        while True:
            await asyncio.sleep(REFRESH_SECONDS)
            stats = fleet.stats()  # also between lines: each call is a sample for the rate
            if time.monotonic() < next_line:
                continue
            next_line += view.LINE_SECONDS
            if self._json:
                print_json_line(
                    {"event": "progress", **stats, **view.frontier_to_json(fleet.status, fleet.total_pages)}
                )
                sys.stdout.flush()
            else:
                print(view.format_line(self._settings, stats, fleet.status), flush=True)

    async def _finish(self, frontier: Frontier, fleet: Fleet, stopped_by: str, seconds: float) -> int:
        """Write the index, print the summary, and return the exit code."""
        settings = self._settings
        for failure in fleet.failures:
            print_error(failure if stopped_by == FAILED else f"{failure}; the other processes continued")
        status, total_pages = await frontier.status(), await count_pages(frontier)
        if stopped_by == "done" and settings.warc:
            with translate_write_errors(settings.directory):
                await asyncio.to_thread(index.write_index, settings.directory, await frontier.outputs())
        stats = fleet.stats()
        if self._json:
            fields = view.frontier_to_json(status, total_pages)
            print_json_line({"event": "summary", "stopped_by": stopped_by, "seconds": seconds, **stats, **fields})
        elif not self._quiet:
            rows = view.list_summary_rows(settings, stats, status, total_pages=total_pages, seconds=seconds)
            print_facts(view.format_end(stopped_by), rows)
        if status.waiting:
            print_error(f"{pluralize(status.waiting, 'URL')} left: run the same command again to continue")
        elif not total_pages:
            print_error(f"no page was fetched. {await self._explain_first_seed(frontier)}")
            return ExitCode.NEGATIVE
        if stopped_by in ("SIGINT", "SIGTERM"):
            return ExitCode.INTERRUPTED
        return ExitCode.NEGATIVE if status.waiting or status.dead or stopped_by == FAILED else ExitCode.OK

    async def _explain_first_seed(self, frontier: Frontier) -> str:
        found = await explain_key(frontier, seeds.read_first_seed(self._settings.directory))
        return found.sentence


def _check(settings: CrawlSettings) -> None:
    """Raise UsageError for settings that cannot work, before anything is created."""
    if settings.scope == "any" and settings.contact is None:
        raise UsageError(seeds.ask_for_contact("--scope any follows links to any host"))
    hosts: Sequence[str] = ()
    if settings.exclude_hosts is not None:
        try:
            hosts = Path(settings.exclude_hosts).read_text().splitlines()
        except OSError as error:
            raise UsageError(f"--exclude-hosts {settings.exclude_hosts}: {error.strerror or error}") from error
        except UnicodeDecodeError as error:
            raise UsageError(f"--exclude-hosts {settings.exclude_hosts}: not UTF-8") from error
    build_scope(settings.scope, include=settings.include, exclude=settings.exclude, excluded_hosts=hosts)
    ConnectTo.parse(settings.connect_to)
