"""Run handlers over the archive of a crawl, without a network."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from swath.crawl.archive import cdxj
from swath.crawl.archive.cdxj import IndexEntry
from swath.crawl.archive.warc_reader import ArchivedResponse, read_response
from swath.crawl.handlers.extractor import Extraction, HandlerFailure, PageExtractor
from swath.crawl.handlers.page import Page
from swath.crawl.handlers.registration import Handler
from swath.crawl.http.response import Response
from swath.files.errors import OutputDamaged

AHEAD: Final = 16  # pages that are handled at once; their results keep the order of the pages
READ_AT_ONCE: Final = 64  # pages that a thread reads at once: a thread for each takes half of the time of a page
READ_BYTES: Final = 4_000_000  # of their bodies

WantsPage = Callable[[Mapping[str, Any]], bool]  # of a line in the page list
ReadPages = Callable[[], Iterable[dict[str, Any]]]  # each call reads the page list again


class ReplayedPage(NamedTuple):
    """A page of the archive, and what its handler has yielded."""

    line: Mapping[str, Any]
    """Its line in the page list."""
    extraction: Extraction
    response: Response | None
    """As it is archived; None if the record cannot be read."""


class _ReadPage(NamedTuple):
    """A page whose handler is to run, or why it cannot be read."""

    line: Mapping[str, Any]
    handler: Handler
    response: Response | OutputDamaged


class PageReader:
    """Reads pages of an archive."""

    def __init__(self, directory: Path, *, limit: int) -> None:
        """`limit` is the maximum size of a decoded body."""
        self._directory = directory
        self._limit = limit
        self._originals: dict[str, IndexEntry] = {}  # digest -> record with this body, for revisit records

    def find_originals(self, read_wanted: ReadPages, read_pages: ReadPages) -> None:
        """Find the bodies that the revisit records of the wanted pages lack. Call this before `read`."""
        self._originals = _find_originals(read_wanted, read_pages)

    def read(self, line: Mapping[str, Any]) -> Response:
        """Return the response of a line in the page list. Its body may be in the record of another URL."""
        found = read_response(self._directory, cdxj.make_entry(line))
        if not found.is_revisit:
            return _make_response(line, found)
        if (original := self._originals.get(line["digest"])) is None:
            raise OutputDamaged(
                f"the body of {line['url']} is that of {line.get('duplicate_of')}, which is not in {self._directory}: "
                "see other directories"
            )
        return _make_response(line, found._replace(body=read_response(self._directory, original).body))

    def make_page(self, line: Mapping[str, Any], response: Response) -> Page:
        """Return the page as a handler gets it."""
        return Page(
            response,
            depth=line.get("depth", 0),
            referrer=line.get("referrer"),
            payload=line.get("payload"),
            method=line.get("method", "GET"),
            key=line.get("key"),
            limit=self._limit,
        )


class Replay:
    """Calls the handlers for pages of an archive."""

    def __init__(self, directory: Path, extractor: PageExtractor, *, limit: int) -> None:
        """`limit` is the maximum size of a decoded body."""
        self._reader = PageReader(directory, limit=limit)
        self._extractor = extractor
        self.without_handler = 0
        self.without_record = 0  # not archived: the page has noarchive, or the crawl had --no-warc

    async def run(self, read_pages: ReadPages, *, wanted: WantsPage) -> AsyncIterator[ReplayedPage]:
        """Yield what the handlers yield for the wanted pages, in the order of the page list."""
        await asyncio.to_thread(self._reader.find_originals, read_pages, read_pages)
        chosen = self._choose_all(read_pages(), wanted)
        reading = asyncio.create_task(asyncio.to_thread(self._read_some, chosen))
        running: deque[asyncio.Task[ReplayedPage]] = deque()
        try:
            while batch := await reading:
                reading = asyncio.create_task(asyncio.to_thread(self._read_some, chosen))  # while these are handled
                for page in batch:
                    running.append(asyncio.create_task(self._handle(*page)))
                    if len(running) >= AHEAD:
                        yield await running.popleft()
            while running:
                yield await running.popleft()
        finally:
            for task in (reading, *running):
                task.cancel()
            await asyncio.gather(reading, *running, return_exceptions=True)

    def _choose_all(
        self, pages: Iterable[Mapping[str, Any]], wanted: WantsPage
    ) -> Iterator[tuple[Mapping[str, Any], Handler]]:
        for page in pages:
            if wanted(page) and (handler := self._choose(page)) is not None:
                yield page, handler

    def _read_some(self, chosen: Iterator[tuple[Mapping[str, Any], Handler]]) -> Sequence[_ReadPage]:
        """Read the next pages. Runs in a thread."""
        batch: list[_ReadPage] = []
        size = 0
        while len(batch) < READ_AT_ONCE and size < READ_BYTES and (page := next(chosen, None)) is not None:
            line, handler = page
            try:
                response = self._reader.read(line)
                size += len(response.body)
                batch.append(_ReadPage(line, handler, response))
            except OutputDamaged as error:
                batch.append(_ReadPage(line, handler, error))
        return batch

    def _choose(self, page: Mapping[str, Any]) -> Handler | None:
        """Return the handler of a page as in a crawl; None if it has none or is not archived."""
        status = page.get("status")
        if status is None or "redirect" in page or page.get("kind", "page") != "page":
            return None
        handler = self._extractor.crawler.choose(page["url"], status=status, to=page.get("to"))
        if handler is None:
            self.without_handler += 1
        elif "file" not in page:
            self.without_record += 1
            return None
        return handler

    async def _handle(
        self, line: Mapping[str, Any], handler: Handler, response: Response | OutputDamaged
    ) -> ReplayedPage:
        if isinstance(response, OutputDamaged):
            return ReplayedPage(line, Extraction(handler.name, failure=HandlerFailure(f"{response}", "")), None)
        page = self._reader.make_page(line, response)
        extraction = await self._extractor.extract(handler, page, size=len(response.body))
        if extraction.retry is not None:
            reason = f"{handler.name}: asks for another fetch: {extraction.retry.reason}"
            extraction = Extraction(handler.name, failure=HandlerFailure(reason, ""))
        return ReplayedPage(line, extraction, response)


def _find_originals(read_wanted: ReadPages, read_pages: ReadPages) -> dict[str, IndexEntry]:
    """Return where the bodies are that the revisit records of the wanted pages lack, by digest."""
    missing = {page["digest"] for page in read_wanted() if "duplicate_of" in page and "file" in page}
    return {
        page["digest"]: cdxj.make_entry(page)
        for page in (read_pages() if missing else ())
        if page.get("digest") in missing and "duplicate_of" not in page and "file" in page
    }


def _make_response(line: Mapping[str, Any], archived: ArchivedResponse) -> Response:
    time = line["time"]
    return Response(
        line["url"], line["status"], "", b"", archived.head, archived.headers, archived.body, None, time, None, time
    )
