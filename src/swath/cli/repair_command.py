"""RepairCommand: run the handlers of failed pages again, and settle the pages (`swath extract --failed`)."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import swath
from swath.cli.exit_codes import ExitCode
from swath.cli.extract_command import check_handler, choose_pages, load_code
from swath.cli.item_export import export_items, read_export
from swath.cli.terminal import print_facts, print_note
from swath.crawl.handlers.select import NAME as SELECT
from swath.crawl.repair import CrawlRepair, RepairSummary
from swath.crawl.settings import check_item_file
from swath.crawl.settings_file import locate_crawl, resolve_settings


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
    ) -> None:
        if items is not None:
            check_item_file(items)
        self._code = load_code(out, run, select)
        check_handler(self._code, handler)
        given = {**self._code.crawler.settings, "out": out, "store": locate_crawl(out, store).store}
        self._settings = resolve_settings(given)  # scope and lanes of the crawl
        self._file = None if items is None else Path(items)
        self._handler = handler

    async def run(self) -> int:
        settings = self._settings
        async with swath.open(settings.store_url, create=False) as frontier:
            repair = CrawlRepair(settings, frontier, self._code)
            summary = await repair.run(choose_pages(self._code, self._handler))
            if self._file is not None:
                self._file.parent.mkdir(parents=True, exist_ok=True)
                committed, columns = await read_export(settings, frontier)
                await asyncio.to_thread(export_items, [(settings.directory, committed)], self._file, columns=columns)
        self._print_summary(summary)
        return ExitCode.NEGATIVE if summary.failed else ExitCode.OK

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
        print_facts("", [*rows, *((name, f"{count:,}") for name, count in others if count)])
        if summary.discovered:
            run = "" if self._code.name == SELECT else f" --run {self._code.name}"
            print_note(f"swath crawl{run} --out {self._settings.out} fetches the pages that are new to the crawl")
