"""RepairCommand: run the handlers of failed pages again, and settle the pages (`swath extract --failed`)."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

import swath
from swath.cli.command_log import open_command_log
from swath.cli.crawl_view import list_exported_rows
from swath.cli.exit_codes import ExitCode
from swath.cli.extract_command import check_handler, choose_pages, load_code
from swath.cli.item_export import ExportedItems, export_items, prepare_item_file, read_export
from swath.cli.terminal import print_facts, print_note
from swath.crawl.handlers.select import NAME as SELECT
from swath.crawl.repair import CrawlRepair, RepairSummary
from swath.crawl.settings import check_item_file
from swath.crawl.settings_file import locate_crawl, resolve_settings
from swath.logs.entries import Finished
from swath.logs.run_log import RunLog
from swath.logs.settings import NO_LOG, LogSettings


class RepairCommand:
    """One run of `swath extract --failed`."""

    def __init__(
        self,
        out: str,
        store: str | None,
        *,
        run: str | None,
        select: Sequence[str],
        items: str | None,
        handler: str | None,
        log: LogSettings = NO_LOG,
    ) -> None:
        self._log_settings = log
        if items is not None:
            check_item_file(items)
            prepare_item_file(Path(items))
        self._code = load_code(out, run, select)
        check_handler(self._code, handler)
        given = {**self._code.crawler.settings, "out": out, "store": locate_crawl(out, store).store}
        self._settings = resolve_settings(given)  # scope and lanes of the crawl
        self._file = None if items is None else Path(items)
        self._handler = handler
        self._exported: Sequence[ExportedItems] = ()

    async def run(self) -> int:
        began = time.monotonic()
        with open_command_log("extract --failed", self._settings, self._log_settings) as log:
            summary = await self._repair(log)
            counts = {"repaired": summary.repaired, "failed": summary.failed, "discovered": summary.discovered}
            log.write(Finished("done", time.monotonic() - began, counts))
        self._print_summary(summary)
        return ExitCode.NEGATIVE if summary.failed else ExitCode.OK

    async def _repair(self, log: RunLog) -> RepairSummary:
        settings = self._settings
        async with swath.open(settings.store_url, create=False, observer=log.observer) as frontier:
            log.worker = frontier.worker
            repair = CrawlRepair(settings, frontier, self._code)
            summary = await repair.run(choose_pages(self._code, self._handler))
            if self._file is not None:
                committed, columns = await read_export(settings, frontier)
                directories = [(settings.directory, committed)]
                self._exported = await asyncio.to_thread(export_items, directories, self._file, columns=columns)
        return summary

    def _print_summary(self, summary: RepairSummary) -> None:
        rows = [("repaired", f"{summary.repaired:,}"), ("items", f"{summary.stats.items.total():,}")]
        if len(summary.stats.items) > 1:
            rows += [(f"  {kind}", f"{count:,}") for kind, count in sorted(summary.stats.items.items())]
        others = (
            ("requests", summary.discovered),
            ("failed again", summary.failed),
            ("not dead any more", summary.not_dead),
            ("without a handler", summary.without_handler),
            ("not archived here", summary.without_record),
        )
        rows += [(name, f"{count:,}") for name, count in others if count]
        print_facts("", [*rows, *list_exported_rows(self._exported)])
        if summary.discovered:
            run = "" if self._code.name == SELECT else f" --run {self._code.name}"
            print_note(f"swath crawl{run} --out {self._settings.out} fetches the pages that are new to the crawl")
