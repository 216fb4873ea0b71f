"""ShellCommand: open a page, and run a prompt or a script with it."""

import asyncio
import sys
import traceback
from code import InteractiveConsole
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from typing import Any

import typer

import swath
from swath.cli.command import run_command
from swath.cli.exit_codes import ExitCode
from swath.cli.formatting import format_size
from swath.cli.show_command import list_candidates
from swath.cli.terminal import print_error, print_line
from swath.crawl import Crawler, Follow, Page, Request
from swath.crawl.archive import index
from swath.crawl.archive.lookup import find_lines
from swath.crawl.handlers.code import load_code
from swath.crawl.handlers.replay import PageReader, ReadPages
from swath.crawl.page_processor import MAX_EXPANSION
from swath.crawl.page_session import FetchFailed, PageSession, make_session_settings
from swath.crawl.settings import CrawlSettings
from swath.crawl.settings_file import locate_crawl

SCRIPT = "<stdin>"


class ShellCommand:
    """One run of `swath shell`."""

    def __init__(
        self, url: str, *, run: str | None, out: str | None, store: str | None, given: Mapping[str, Any]
    ) -> None:
        """`given` has the settings of the network that the user gave."""
        self._url = url
        self._run = run
        self._out = out
        self._store = store
        self._given = given
        self._session: PageSession | None = None
        self._names: dict[str, Any] = {"Follow": Follow, "Page": Page, "Request": Request}

    def run(self) -> None:
        """Run the command in the main thread. The prompt must not be inside an event loop, because IPython has one."""
        try:
            run_command(self._store, self._open())
            if sys.stdin is not None and sys.stdin.isatty():
                self._prompt()
            else:
                self._run_script()
        finally:
            if self._session is not None:
                self._session.close()

    async def _open(self) -> int:
        crawler: Crawler | None = None
        if self._run is not None:
            crawler = load_code(self._run).crawler
            self._names |= {"crawler": crawler, "handlers": crawler.handlers}
        try:
            if self._out is None:
                settings = {} if crawler is None else crawler.settings
                self._session = PageSession(make_session_settings({**settings, **self._given}))
                self._names["fetch"] = self._fetch
                page = await asyncio.wrap_future(self._session.start_fetch(self._url))
            else:
                page = await self._read_archive(self._out)
        except FetchFailed as error:
            print_error(f"{error}")
            return ExitCode.NEGATIVE
        self._names["page"] = page
        return ExitCode.OK

    def _fetch(self, url: str) -> Page:
        """Fetch another page as politely as a crawl would, and make it `page`."""
        assert self._session is not None
        page = self._session.fetch(url)
        self._names["page"] = page
        return page

    async def _read_archive(self, out: str) -> Page:
        """Return the last visit of the page in the archive of a crawl."""
        settings = locate_crawl(out, self._store)
        async with swath.open(settings.store_url, create=False) as frontier:
            committed = await frontier.outputs()
            candidates = await list_candidates(frontier, self._url)
        for url in candidates:
            lines = await asyncio.to_thread(find_lines, settings.directory, committed, url)
            archived = [line for line in lines if "file" in line]
            if archived:
                read_all = partial(index.read_pages, settings.directory, committed)
                return await asyncio.to_thread(self._read_page, settings, archived[-1], read_all)
        raise FetchFailed(f"the archive in {settings.directory} does not have {candidates[0]}: swath show says why")

    @staticmethod
    def _read_page(settings: CrawlSettings, line: dict[str, Any], read_all: ReadPages) -> Page:
        reader = PageReader(settings.directory, limit=settings.max_size * MAX_EXPANSION)
        reader.find_originals(lambda: [line], read_all)
        return reader.make_page(line, reader.read(line))

    # running

    def _run_script(self) -> None:
        script = "" if sys.stdin is None else sys.stdin.read()
        try:
            exec(compile(script, SCRIPT, "exec"), self._names)
        except SystemExit:
            raise
        except KeyboardInterrupt:
            raise typer.Exit(ExitCode.INTERRUPTED) from None
        except BaseException as error:  # noqa: BLE001  whatever the user's script raises
            trace = error.__traceback__
            traceback.print_exception(type(error), error, None if trace is None else trace.tb_next)
            raise typer.Exit(ExitCode.NEGATIVE) from None

    def _prompt(self) -> None:
        for line in self._make_banner():
            print_line(line)
        if find_spec("IPython") is None:
            self._prompt_plainly()
            return
        from IPython import start_ipython  # type: ignore[import-not-found,unused-ignore]

        start_ipython(argv=["--no-banner"], user_ns=self._names)

    def _prompt_plainly(self) -> None:
        """Run Python's own prompt, with completion if the system has readline."""
        with suppress(ImportError):
            import readline
            import rlcompleter

            readline.set_completer(rlcompleter.Completer(self._names).complete)
            readline.parse_and_bind("tab: complete")
        InteractiveConsole(self._names).interact(banner="", exitmsg="")

    def _make_banner(self) -> list[str]:
        page: Page = self._names["page"]
        kind = page.headers.get("content-type", "unknown type")
        lines = [
            f"page is {page.url}",
            f"  status {page.status}, {kind}, {format_size(len(page.body))}",
            "",
            "Try:",
            '  page.css("h1").text()     text of the first match; texts(), attr("href"), url(), must_text()',
            "  page.links()              what a crawl without handlers would follow",
            "  page.title, page.text, page.body, page.headers, page.json()",
        ]
        if "fetch" in self._names:
            lines.append("  fetch(url)                another page, which is then `page`")
        if "crawler" in self._names:
            lines.append("  crawler.check(page)       what the handler of the page yields")
        lines += ["Ctrl-D leaves.", ""]
        return lines
