"""PageProcessor: archive a page, parse it, call its handler, and collect what it discovers."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple

from swath import Dead, EncodedItem, Item, Outcome
from swath.crawl.archive import warc
from swath.crawl.archive.capture import CaptureBuilder
from swath.crawl.archive.record import Capture, ItemLine, OriginalRecord
from swath.crawl.fact_batcher import FactBatcher
from swath.crawl.fallback import TRIED, Fallback
from swath.crawl.handlers.columns import build_column_facts
from swath.crawl.handlers.errors import PageRetry
from swath.crawl.handlers.extractor import Extraction, PageExtractor
from swath.crawl.handlers.hooks import HookFailed
from swath.crawl.handlers.page import Page
from swath.crawl.handlers.registration import Handler
from swath.crawl.http.content_coding import DecodedBody
from swath.crawl.http.redirect_target import find_redirect_target
from swath.crawl.http.response import Response
from swath.crawl.links import ANY_HOST, DATA, REQUESTED, TO, LinkFilter
from swath.crawl.page_request import REQUEST, describe_identity, get_url, redirect_request
from swath.crawl.parse.directives import parse_x_robots_tag
from swath.crawl.parse.feeds import GZIP
from swath.crawl.parse.page import ParsedPage, decode_body, parse_decoded_page
from swath.crawl.parse.page_text import estimate_memory
from swath.crawl.settings import CrawlSettings
from swath.crawl.stats import CrawlStats

PARSED_IN_THREAD = 200_000  # bytes; a thread parses larger decoded bodies, so that other fetches continue
PARSERS = 2  # large pages parsed at once: each takes several times its size in memory
PAGES = "pages"  # counter of the frontier for --max-pages, and of each lane for --max-pages-per-host
ONE_PAGE: Final = {PAGES: 1}
HANDLER_FAILED: Final = "handler"  # begins the reason of a page whose handler failed
log = logging.getLogger("swath.crawl")

SINK_FAILED: Final = "sink"  # begins the reason of a page whose items the database of the sink refuses
MAX_EXPANSION = 5  # maximum size of a decoded body, in multiples of --max-size


class PageFailure(NamedTuple):
    """Why a page is dead although it was fetched: the part that failed, one line, and the traceback."""

    part: str
    reason: str
    trace: str


@dataclass(slots=True)
class _Findings:
    """What is known of a page before it is settled."""

    line: dict[str, Any]  # its entry in the page list
    result: dict[str, Any]  # of its item
    discovered: list[Any] = field(default_factory=list)
    parsed: ParsedPage | None = None
    items: Sequence[ItemLine] = ()
    failure: PageFailure | None = None
    retry: PageRetry | None = None

    def collect(self, select_links: Callable[[], list[EncodedItem]]) -> None:
        """Add links, unless the link hook fails for one of them."""
        try:
            self.discovered += select_links()
        except HookFailed as failed:
            self.failure = PageFailure(failed.kind, failed.reason, failed.trace)


class PageProcessor:
    """Turns the response for a page into the outcome that settles it."""

    def __init__(
        self,
        settings: CrawlSettings,
        *,
        facts: FactBatcher,
        captures: CaptureBuilder,
        links: LinkFilter,
        fallback: Fallback,
        stats: CrawlStats,
        extractor: PageExtractor | None = None,
        has_sink: bool = False,
    ) -> None:
        """Pass `extractor` for a crawl with handlers, and `has_sink` if the run has a sink for extracted items."""
        self._settings = settings
        self._facts = facts
        self._described: set[str] = set()  # kinds of items whose columns the frontier has
        self._captures = captures
        self._links = links
        self._fallback = fallback
        self._stats = stats
        self._parsers = ThreadPoolExecutor(PARSERS, thread_name_prefix="swath-parse")
        self._extractor = extractor
        self._has_sink = has_sink

    async def process(self, item: Item, response: Response) -> Outcome:
        """Settle a page with its archive record, its entry in the page list, and the items it discovers."""
        payload: dict[str, Any] = item.payload or {}
        digest = warc.compute_payload_digest(response.body)
        original = await self._captures.find_original(response, digest)
        found = _Findings(
            line={
                **describe_identity(item),
                "kind": payload.get("kind", "page"),
                "depth": payload.get("depth", 0),
                "referrer": payload.get("from"),
            },
            result={"status": response.status},
        )
        target = find_redirect_target(response)
        if target is not None:
            found.line["redirect"] = target
            found.discovered = self._follow_redirect(item, target, response.status, payload, found.result)
            await self._fallback.return_to_form(payload, target)
        else:
            await self._read(item, response, found, is_duplicate=original is not None)
            if (retry := self._find_retry(item, found)) is not None:
                return retry
        if original is not None:
            self._stats.duplicates += 1
            found.line["duplicate_of"] = original.url
        return await self._settle(item, response, found, digest=digest, original=original)

    async def _read(self, item: Item, response: Response, found: "_Findings", *, is_duplicate: bool) -> None:
        """Parse a page, call its handler, and collect the links of both."""
        payload = item.payload or {}
        url, depth = get_url(item), payload.get("depth", 0)
        handler = self._choose_handler(item, response)
        if handler is not None:
            assert self._extractor is not None
            await self._extractor.wait_for_room(handler, size=len(response.body))
        decoded: DecodedBody | None = None
        if not is_duplicate and 200 <= response.status < 300 and response.body:
            follows = self._follows_scope(payload, handler)
            decoded, parsed = await self._parse(
                url,
                response,
                sitemap=payload.get("kind") == "sitemap",
                links=follows,
                keep_text=handler is not None,
            )
            found.parsed = parsed
            found.line |= {name: getattr(parsed, name) for name in ("title", "canonical", "noindex", "decode_error")}
            if follows:
                sitemaps = self._settings.sitemaps
                found.collect(partial(self._links.select_links, parsed, depth=depth, referrer=url, sitemaps=sitemaps))
        if handler is None:
            return
        extraction = await self._extract(handler, item, response, decoded, found.parsed)
        if found.parsed is not None:
            found.parsed = found.parsed._replace(text=None)  # frees the tree
        found.line |= {"handler": handler.name, "to": payload.get(TO), "payload": payload.get(DATA)}
        found.collect(partial(self._links.select_requested, extraction.requests, depth=depth + 1, referrer=url))
        found.items, found.retry = extraction.items, extraction.retry
        if extraction.failure is not None:
            found.failure = PageFailure(HANDLER_FAILED, *extraction.failure)

    def _find_retry(self, item: Item, found: "_Findings") -> Outcome | None:
        """Return the outcome of a page whose handler asks for a retry, unless --retries allows no more."""
        if (retry := found.retry) is None:
            return None
        failures = item.attempts - item.losses  # attempts that were lost with a process do not count
        if failures < self._settings.retries:
            self._stats.errors["retry"] += 1
            return item.retry(after=retry.after, reason=f"{HANDLER_FAILED}: {retry.reason}")
        attempts = "1 attempt" if failures == 0 else f"{failures + 1} attempts"
        reason = f"{found.line['handler']}: gave up after {attempts}: {retry.reason}"
        found.failure = PageFailure(HANDLER_FAILED, reason, "")
        return None

    async def _settle(
        self, item: Item, response: Response, found: "_Findings", *, digest: str, original: OriginalRecord | None
    ) -> Outcome:
        """Return the outcome of a page that was read: done, or dead if code of the user has failed."""
        failure, items = found.failure, found.items
        if failure is not None:
            found.line["handler_error"] = failure.reason
            items = ()
        await self._describe_kinds(items)
        directives = found.parsed or parse_x_robots_tag(
            response.headers.get_all("x-robots-tag"), self._settings.user_agent
        )
        archived = not directives.noarchive
        record_id = warc.new_record_id()
        capture = self._captures.build(
            response, found.line, digest=digest, record_id=record_id, original=original, archived=archived, items=items
        )
        if failure is not None:
            self._stats.errors[failure.part] += 1
            return item.dead(
                reason=f"{failure.part}: {failure.reason}",
                error=failure.trace or None,
                output=[capture],
                counters=ONE_PAGE,
                lane_counters=ONE_PAGE,
            )
        facts = {}
        if archived and original is None:
            facts = self._captures.build_original_fact(response, digest, record_id)
        self._stats.discovered += len(found.discovered)
        self._stats.count_items(items)
        return item.done(
            result=found.result,
            discovered=found.discovered,
            facts=facts,
            output=[capture],
            rows=items if self._has_sink and items else (),
            counters=ONE_PAGE,
            lane_counters=ONE_PAGE,
        )

    def refuse_items(self, item: Item, output: Sequence[Capture], message: str) -> Dead:
        """Return the outcome of a page whose items the database of the sink has refused: dead, and archived."""
        (capture,) = output
        if not self._stats.errors[SINK_FAILED]:
            log.warning("sink: %s; page %s; more refused rows are only counted", message, item.key)
        self._stats.errors[SINK_FAILED] += 1
        self._stats.items.subtract(kind for kind, _ in capture.items)
        page = {**capture.page, "handler_error": message}
        return item.dead(
            reason=f"{SINK_FAILED}: {message}",
            output=[capture._replace(page=page, items=())],
            counters=ONE_PAGE,
            lane_counters=ONE_PAGE,
        )

    async def _describe_kinds(self, items: Sequence[ItemLine]) -> None:
        """Store the columns of kinds that are new to this process, before the first item is settled."""
        if self._extractor is not None and (new := {kind for kind, _ in items} - self._described):
            if facts := build_column_facts(self._extractor.crawler.classes, new):
                await self._facts.learn(facts)
            self._described |= new

    def _choose_handler(self, item: Item, response: Response) -> Handler | None:
        """Return the handler of a page that is not a redirect; None if it has none, such as a sitemap."""
        payload = item.payload or {}
        if self._extractor is None or payload.get("kind") == "sitemap" or response.status == 304:
            return None
        return self._extractor.crawler.choose(response.url, status=response.status, to=payload.get(TO))

    def _follows_scope(self, payload: dict[str, Any], handler: Handler | None) -> bool:
        """Return whether to follow the usual links of a page: in a crawl with handlers, only if they ask for them."""
        if self._extractor is None or payload.get("kind") == "sitemap":
            return True
        return handler is not None and handler.follows_scope

    async def _extract(
        self,
        handler: Handler,
        item: Item,
        response: Response,
        decoded: DecodedBody | None,
        parsed: ParsedPage | None,
    ) -> Extraction:
        assert self._extractor is not None
        payload = item.payload or {}
        page = Page(
            response,
            decoded=decoded,
            parsed=parsed,
            depth=payload.get("depth", 0),
            referrer=payload.get("from"),
            payload=payload.get(DATA),
            attempts=item.attempts,
            method=payload.get(REQUEST, {}).get("method", "GET"),
            key=item.key,
            limit=self._settings.max_size * MAX_EXPANSION,
        )
        size = len(response.body)
        if decoded is not None:
            size += len(decoded.body)
        if parsed is None:
            size += estimate_memory(size)
        elif parsed.text is not None:
            size += estimate_memory(len(parsed.text.text))
        return await self._extractor.extract(handler, page, size=size)

    def _follow_redirect(
        self, item: Item, target: str, status: int, payload: dict[str, Any], result: dict[str, Any]
    ) -> list[Any]:
        """Return the target of a redirect as an item, so that pacing and robots.txt apply to it too."""
        depth, redirects = payload.get("depth", 0), payload.get("redirects", 0) + 1
        result["redirect"] = target
        if redirects > self._settings.max_redirects:
            result["refused"] = "redirects"
            self._stats.refused["redirects"] += 1
            return []
        any_host = ANY_HOST in payload
        if (reason := self._links.find_refusal(target, depth, any_host=any_host)) is not None:
            result["refused"] = reason
        kept = {name: payload[name] for name in ("kind", TRIED, *REQUESTED) if name in payload}
        kept |= {"redirects": redirects}
        if REQUEST in payload:
            make_request = partial(redirect_request, item, status=status)
            return self._links.select_new_page(
                target, make_request, depth=depth, referrer=get_url(item), priority=item.priority, **kept
            )
        return self._links.select_new_items([target], depth=depth, referrer=item.key, priority=item.priority, **kept)

    async def _parse(
        self, url: str, response: Response, *, sitemap: bool, links: bool, keep_text: bool
    ) -> tuple[DecodedBody, ParsedPage]:
        """Parse a page, in a thread if the decoded body is large: a few compressed kilobytes may become megabytes."""
        limit = self._settings.max_size * MAX_EXPANSION
        parse = partial(
            parse_decoded_page,
            url,
            response,
            limit=limit,
            agent=self._settings.user_agent,
            sitemap=sitemap,
            links=links,
            keep_text=keep_text,
        )
        if len(response.body) <= PARSED_IN_THREAD:
            decoded = decode_body(response, limit=min(limit, PARSED_IN_THREAD))
            if not decoded.truncated and decoded.body[:2] != GZIP:
                return decoded, parse(decoded)

        def decode_and_parse() -> tuple[DecodedBody, ParsedPage]:
            decoded = decode_body(response, limit=limit)
            return decoded, parse(decoded)

        return await asyncio.get_running_loop().run_in_executor(self._parsers, decode_and_parse)
