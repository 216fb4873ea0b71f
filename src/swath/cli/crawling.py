"""A crawl as its user meets it: begun, shown while it runs, summed up."""

import asyncio
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from io import TextIOWrapper
from pathlib import Path

import swath
from swath.cli import crawl_view as view
from swath.cli.exit_codes import ExitCode
from swath.cli.explain import explain_key
from swath.cli.formatting import pluralize
from swath.cli.terminal import is_terminal, open_live_display, print_error, print_facts, print_json_line
from swath.core.errors import UsageError
from swath.core.redact import mask_password
from swath.core.status import Status
from swath.crawl import fd_limit, workspace
from swath.crawl.archive import index
from swath.crawl.fleet import ChildFailed, Fleet
from swath.crawl.http.connect_to import ConnectTo
from swath.crawl.settings import CrawlSettings
from swath.crawl.urls.scope import build_scope
from swath.files.errors import translate_write_errors
from swath.runner.shutdown import Stop, stop_on_signals

REFRESH_SECONDS = 0.5
FAILED = "failed"  # what stopped a crawl all of whose processes ended with errors


class Crawling:
    """One `swath crawl`."""

    def __init__(self, settings: CrawlSettings, *, json: bool, quiet: bool) -> None:
        self._settings = settings
        self._json = json
        self._quiet = quiet
        self._stop = Stop()
        self._fleet = Fleet(settings, self._stop)
        self._workers = settings.workers * settings.processes

    async def run(self, urls: Sequence[str], seeds: str | None) -> int:
        settings = self._settings
        await asyncio.to_thread(_check, settings)
        with stop_on_signals(self._stop, asyncio.get_running_loop()):
            with translate_write_errors(settings.directory):
                prepared = await workspace.prepare(settings, _seeds(urls, seeds))
            before = await workspace.status(settings)
            self._say_what_begins(prepared, before)
            began = time.monotonic()
            stopped_by = "done"
            if before.waiting:
                try:
                    stopped_by = await self._crawl()
                except ChildFailed:
                    stopped_by = FAILED
        return await self._finish(stopped_by, time.monotonic() - began)

    async def _crawl(self) -> str:
        showing = asyncio.create_task(self._show())
        try:
            return (await self._fleet.run()).stopped_by
        finally:
            showing.cancel()
            await asyncio.gather(showing, return_exceptions=True)

    def _say_what_begins(self, prepared: workspace.Prepared, before: Status) -> None:
        for change in prepared.changes:
            print_error(change)
        if (advice := fd_limit.limit_workers(self._settings.workers).warning) is not None:
            print_error(advice)
        if not self._quiet and not self._json:
            print(view.beginning(self._settings, prepared, before), file=sys.stderr, flush=True)

    async def _show(self) -> None:
        if self._quiet:
            return
        if is_terminal() and not self._json:
            await self._show_panel()
        else:
            await self._show_lines()

    async def _show_panel(self) -> None:
        with open_live_display(transient=True) as draw:
            while True:
                draw(view.panel(self._settings, self._fleet.stats(), self._fleet.status, workers=self._workers))
                await asyncio.sleep(REFRESH_SECONDS)

    async def _show_lines(self) -> None:
        next_line = time.monotonic() + view.LINE_SECONDS
        while True:
            await asyncio.sleep(REFRESH_SECONDS)
            stats = self._fleet.stats()  # also between lines: the rate is measured from one look to another
            if time.monotonic() < next_line:
                continue
            next_line += view.LINE_SECONDS
            if self._json:
                print_json_line({"event": "progress", **stats, **view.frontier(self._fleet.status)})
                sys.stdout.flush()
            else:
                print(view.line(self._settings, stats, self._fleet.status), flush=True)

    async def _finish(self, stopped_by: str, seconds: float) -> int:
        settings = self._settings
        for failure in self._fleet.failures:
            print_error(failure if stopped_by == FAILED else f"{failure}; the others went on")
        status = await workspace.status(settings)
        if stopped_by == "done" and settings.warc:
            with translate_write_errors(settings.directory):
                await asyncio.to_thread(index.write_index, settings.directory, await workspace.committed(settings))
        stats = self._fleet.stats()
        if self._json:
            print_json_line(
                {"event": "summary", "stopped_by": stopped_by, "seconds": seconds, **stats, **view.frontier(status)}
            )
        elif not self._quiet:
            print_facts(view.ending(stopped_by), view.summary(settings, stats, status, seconds=seconds))
        if status.waiting:
            print_error(f"{pluralize(status.waiting, 'URL')} left: run the same command again to go on")
        elif not status.visits:
            print_error(f"no page was fetched. {await self._why_not()}")
            return ExitCode.NEGATIVE
        if stopped_by in ("SIGINT", "SIGTERM"):
            return ExitCode.INTERRUPTED
        return ExitCode.NEGATIVE if status.waiting or status.dead or stopped_by == FAILED else ExitCode.OK

    async def _why_not(self) -> str:
        """What became of the first seed."""
        settings = self._settings
        with (settings.directory / workspace.SEEDS).open() as seeds:
            first = seeds.readline().strip()
        async with swath.open(settings.store_url, create=False) as frontier:
            found = await explain_key(frontier, first)
        if not str(found.data.get("reason")).startswith("private:"):
            return found.sentence
        retry = f"swath dead retry --all --store '{mask_password(settings.store_url)}'"
        return f"{found.sentence} Such addresses are crawled with --allow-private, after `{retry}`"


def _check(settings: CrawlSettings) -> None:
    """What is wrong is said before anything is made."""
    if settings.scope == "any" and settings.contact is None:
        raise UsageError(workspace.want_contact("--scope any goes to hosts that nobody chose"))
    hosts: Sequence[str] = ()
    if settings.exclude_hosts is not None:
        try:
            hosts = Path(settings.exclude_hosts).read_text().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"--exclude-hosts {settings.exclude_hosts}: {_said(error)}") from error
    build_scope(settings.scope, include=settings.include, exclude=settings.exclude, excluded_hosts=hosts)
    ConnectTo.parse(settings.connect_to)


def _said(error: OSError | UnicodeDecodeError) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else "not in UTF-8"


def _seeds(urls: Sequence[str], file: str | None) -> Iterator[str]:
    yield from workspace.read_seeds(urls)
    if file == "-":
        if sys.stdin is None:
            raise UsageError("--seeds -: standard input is closed")
        lines = TextIOWrapper(sys.stdin.buffer, encoding="utf-8", errors="replace")
        yield from workspace.read_seeds(lines, file="standard input")
    elif file is not None:
        yield from workspace.read_seeds(_lines(Path(file)), file=file)


def _lines(path: Path) -> Iterable[str]:
    try:
        with path.open(encoding="utf-8", errors="replace") as lines:
            yield from lines
    except OSError as error:
        raise UsageError(f"--seeds {path}: {error.strerror}") from error
