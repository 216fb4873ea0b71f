"""ExtractCommand: read pages from the archive, call their handlers, and write the items."""

import asyncio
import difflib
import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, closing
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

import swath
from swath import UsageError
from swath.cli.command_log import open_command_log
from swath.cli.crawl_view import list_exported_rows
from swath.cli.exit_codes import ExitCode
from swath.cli.item_export import ExportedItems, prepare_item_file, write_items
from swath.cli.terminal import print_error, print_facts, print_json_line, print_line
from swath.crawl.archive import index
from swath.crawl.archive.last_lines import LastLines
from swath.crawl.archive.output import check_kinds
from swath.crawl.archive.record import ItemLine
from swath.crawl.handlers.code import CrawlCode, load_settings_code
from swath.crawl.handlers.columns import describe_columns
from swath.crawl.handlers.extractor import PageExtractor
from swath.crawl.handlers.lifespan import open_lifespan
from swath.crawl.handlers.replay import ReadPages, Replay, WantsPage
from swath.crawl.page_processor import MAX_EXPANSION
from swath.crawl.settings import check_item_file
from swath.crawl.settings_file import locate_crawl, resolve_settings
from swath.logs.entries import Finished, Message
from swath.logs.run_log import RunLog
from swath.logs.settings import NO_LOG, LogSettings


class ExtractCommand:
    """One run of `swath extract`."""

    def __init__(
        self,
        out: str,
        store: str | None,
        *,
        run: str | None,
        select: Sequence[str],
        items: str | None,
        handler: str | None,
        all_visits: bool,
        log: LogSettings = NO_LOG,
    ) -> None:
        if items is not None:
            check_item_file(items)
            prepare_item_file(Path(items))
        self._log_settings = log
        self._settings = locate_crawl(out, store)
        self._code = load_code(out, run, select)
        check_handler(self._code, handler)
        self._file = None if items is None else Path(items)
        self._handler = handler
        self._all = all_visits
        self._pages = 0
        self._kinds: Counter[str] = Counter()  # items by kind
        self._failures = 0
        self._exported: Sequence[ExportedItems] = ()

    async def run(self) -> int:
        began = time.monotonic()
        with open_command_log("extract", self._settings, self._log_settings) as log:
            code = await self._run(log)
            counts = {"pages": self._pages, "items": dict(self._kinds), "failed": self._failures}
            log.write(Finished("done", time.monotonic() - began, counts))
            return code

    async def _run(self, log: RunLog) -> int:
        directory = self._settings.directory
        async with swath.open(self._settings.store_url, create=False) as frontier:
            committed = await frontier.outputs()
        crawler = self._code.crawler
        async with AsyncExitStack() as stack:
            state = await stack.enter_async_context(open_lifespan(crawler.open_lifespan, name=self._code.name))
            extractor = PageExtractor(crawler, state=state)
            replay = Replay(directory, extractor, limit=self._settings.max_size * MAX_EXPANSION)
            stack.callback(extractor.close)
            if self._file is None:
                await self._replay(replay, committed, _Printer(), log)
            else:
                folder = Path(stack.enter_context(TemporaryDirectory(prefix="extract-", dir=self._file.parent)))
                with closing(_KindFiles(folder)) as files:
                    await self._replay(replay, committed, files, log)
                classes = self._code.crawler.classes.items()
                columns = {kind: describe_columns(found) for kind, found in classes}
                self._exported = await asyncio.to_thread(write_items, files.list_sources(), self._file, columns=columns)
        self._print_summary(replay)
        return ExitCode.NEGATIVE if self._failures else ExitCode.OK

    async def _replay(
        self, replay: Replay, committed: Mapping[str, int], writer: "_Printer | _KindFiles", log: RunLog
    ) -> None:
        read = await asyncio.to_thread(self._make_reader, committed)
        async for page, extraction, _ in replay.run(read, wanted=choose_pages(self._code, self._handler)):
            self._pages += 1
            if extraction.failure is not None:
                self._failures += 1
                if not extraction.failure.error:  # the extractor logs the others, with their traceback
                    failure = f"{page['url']}: {extraction.failure.reason}"
                    print_error(failure)
                    log.write(Message("swath.crawl", failure, None), level=logging.WARNING)
                continue
            for item in extraction.items:
                self._kinds[item.kind] += 1
                writer.write(item)

    def _make_reader(self, committed: Mapping[str, int]) -> ReadPages:
        """Return a function that reads the lines of all pages, or of the last visits."""
        read = partial(index.read_pages, self._settings.directory, committed)
        if self._all:  # the line of a repair is about a visit that has a line already
            return lambda: (page for page in read() if "repaired" not in page)
        last = LastLines.find(read(), directory=self._settings.directory)
        return lambda: last.select(read())

    def _print_summary(self, replay: Replay) -> None:
        rows = [("pages", f"{self._pages:,}"), ("items", f"{self._kinds.total():,}")]
        if self._file is None and len(self._kinds) > 1:
            rows += [(f"  {kind}", f"{count:,}") for kind, count in sorted(self._kinds.items())]
        if self._failures:
            rows.append(("failed", f"{self._failures:,}"))
        if replay.without_handler:
            rows.append(("without a handler", f"{replay.without_handler:,}"))
        if replay.without_record:
            rows.append(("not archived", f"{replay.without_record:,}"))
        if self._file is None:
            print_line(", ".join(f"{name} {value}" for name, value in rows), stderr=True)
        else:
            print_facts("", [*rows, *list_exported_rows(self._exported)])


def load_code(out: str, run: str | None, select: Sequence[str]) -> CrawlCode:
    given: dict[str, Any] = {"out": out}
    if run is not None:
        given |= {"run": run, "select": tuple(select)}
    elif select:
        given["select"] = tuple(select)
    code = load_settings_code(resolve_settings(given))
    if code is None:
        raise UsageError("give the code to run, with --run module:name or --select name=selector")
    return code


def check_handler(code: CrawlCode, handler: str | None) -> None:
    """Raise UsageError if --handler names a handler that the code lacks."""
    handlers = code.crawler.handlers
    if handler is not None and handler not in handlers:
        near = difflib.get_close_matches(handler, handlers, n=1)
        meant = f"did you mean {near[0]}?" if near else f"it has {', '.join(handlers)}"
        raise UsageError(f"--handler {handler}: {code.name} has no such handler; {meant}")


def choose_pages(code: CrawlCode, handler: str | None) -> WantsPage:
    """Return a function that says of the line of a page whether it has this handler now; None: any."""

    def wants(page: Mapping[str, Any]) -> bool:
        if handler is None:
            return True
        found = code.crawler.choose(page["url"], status=page.get("status", 0), to=page.get("to"))
        return found is not None and found.name == handler

    return wants


class _Printer:
    """Writes items to standard output."""

    def write(self, item: ItemLine) -> None:
        print_json_line(json.loads(item.line))


class _KindFiles:
    """A temporary file for each kind of items."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, BinaryIO] = {}

    def write(self, item: ItemLine) -> None:
        file = self._files.get(item.kind)
        if file is None:
            check_kinds(len(self._files) + 1)
            file = self._files[item.kind] = (self._folder / item.kind).open("wb")
        file.write(item.line)

    def close(self) -> None:
        for file in self._files.values():
            file.close()

    def list_sources(self) -> Mapping[str, Callable[[], Iterator[bytes]]]:
        """Return functions that read the lines of each kind. Call `close` first."""
        return {kind: partial(_read_lines, self._folder / kind) for kind in sorted(self._files)}


def _read_lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from file
