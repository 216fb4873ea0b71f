"""Run handlers over the archive of a crawl, without a network."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
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

AHEAD: Final = 16  # pages that are read and handled at once; their results keep the order of the pages

ReadPages = Callable[[], Iterable[dict[str, Any]]]  # each call reads the page list again


class ReplayedPage(NamedTuple):
    """A page of the archive, and what its handler has yielded."""

    page: Mapping[str, Any]
    """Its line in the page list."""
    extraction: Extraction


class Replay:
    """Calls the handlers for pages of an archive."""

    def __init__(self, directory: Path, extractor: PageExtractor, *, limit: int) -> None:
        """`limit` is the maximum size of a decoded body."""
        self._directory = directory
        self._extractor = extractor
        self._limit = limit
        self._originals: dict[str, IndexEntry] = {}  # digest -> record with this body, for revisit records
        self.without_handler = 0
        self.without_record = 0  # not archived: the page has noarchive, or the crawl had --no-warc

    async def run(
        self, read_pages: ReadPages, *, wanted: Callable[[Mapping[str, Any]], bool]
    ) -> AsyncIterator[ReplayedPage]:
        """Yield what the handlers yield for the wanted pages, in the order of the page list."""
        self._originals = await asyncio.to_thread(_find_originals, read_pages)
        running: deque[asyncio.Task[ReplayedPage]] = deque()
        try:
            for page in read_pages():
                if not wanted(page) or (handler := self._choose(page)) is None:
                    continue
                running.append(asyncio.create_task(self._handle(page, handler)))
                if len(running) >= AHEAD:
                    yield await running.popleft()
            while running:
                yield await running.popleft()
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

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

    async def _handle(self, line: Mapping[str, Any], handler: Handler) -> ReplayedPage:
        try:
            archived = await asyncio.to_thread(self._read, line)
        except OutputDamaged as error:
            return ReplayedPage(line, Extraction(handler.name, failure=HandlerFailure(f"{error}", "")))
        page = Page(
            _make_response(line, archived),
            depth=line.get("depth", 0),
            referrer=line.get("referrer"),
            payload=line.get("payload"),
            method=line.get("method", "GET"),
            key=line.get("key"),
            limit=self._limit,
        )
        extraction = await self._extractor.extract(handler, page, size=len(archived.body))
        if extraction.retry is not None:
            reason = f"{handler.name}: asks for another fetch: {extraction.retry.reason}"
            extraction = Extraction(handler.name, failure=HandlerFailure(reason, ""))
        return ReplayedPage(line, extraction)

    def _read(self, line: Mapping[str, Any]) -> ArchivedResponse:
        """Return the headers of a page with its body, which may be in the record of another URL."""
        found = read_response(self._directory, cdxj.make_entry(line))
        if not found.is_revisit:
            return found
        if (original := self._originals.get(line["digest"])) is None:
            raise OutputDamaged(
                f"the body of {line['url']} is that of {line.get('duplicate_of')}, which is not in {self._directory}: "
                "see other directories"
            )
        return found._replace(body=read_response(self._directory, original).body)


def _find_originals(read_pages: ReadPages) -> dict[str, IndexEntry]:
    """Return where the bodies are that revisit records lack, by digest."""
    missing = {page["digest"] for page in read_pages() if "duplicate_of" in page and "file" in page}
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
