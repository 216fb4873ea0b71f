"""PageProcessor: archive a page, parse it, call its handler, and collect what it discovers."""

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

from swath import Dead, Item, Outcome
from swath.crawl.archive import warc
from swath.crawl.archive.capture import CaptureBuilder
from swath.crawl.archive.record import Capture, ItemLine
from swath.crawl.fact_batcher import FactBatcher
from swath.crawl.fallback import TRIED, Fallback
from swath.crawl.handlers.columns import build_column_facts
from swath.crawl.handlers.extractor import Extraction, HandlerFailure, PageExtractor
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
        url = get_url(item)
        depth = payload.get("depth", 0)
        digest = warc.compute_payload_digest(response.body)
        result: dict[str, Any] = {"status": response.status}
        page: dict[str, Any] = {
            **describe_identity(item),
            "kind": payload.get("kind", "page"),
            "depth": depth,
            "referrer": payload.get("from"),
        }
        original = await self._captures.find_original(response, digest)
        discovered: list[Any] = []
        parsed: ParsedPage | None = None
        target = find_redirect_target(response)
        handler = self._choose_handler(item, response, target)
        extraction: Extraction | None = None
        hook_failed: HookFailed | None = None
        if target is not None:
            page["redirect"] = target
            discovered = self._follow_redirect(item, target, response.status, payload, result)
            await self._fallback.return_to_form(payload, target)
        else:
            decoded: DecodedBody | None = None
            if original is None and 200 <= response.status < 300 and response.body:
                follows = self._follows_scope(payload, handler)
                decoded, parsed = await self._parse(
                    url,
                    response,
                    sitemap=payload.get("kind") == "sitemap",
                    links=follows,
                    keep_text=handler is not None,
                )
                page |= {name: getattr(parsed, name) for name in ("title", "canonical", "noindex", "decode_error")}
                if follows:
                    sitemaps = self._settings.sitemaps
                    try:
                        discovered += self._links.select_links(parsed, depth=depth, referrer=url, sitemaps=sitemaps)
                    except HookFailed as failed:
                        hook_failed = failed
            if handler is not None:
                extraction = await self._extract(handler, item, response, decoded, parsed)
                page |= {"handler": handler.name, "to": payload.get(TO), "payload": payload.get(DATA)}
                try:
                    discovered += self._links.select_requested(extraction.requests, depth=depth + 1, referrer=url)
                except HookFailed as failed:
                    hook_failed = failed
        if original is not None:
            self._stats.duplicates += 1
            page["duplicate_of"] = original.url
        failure = None if extraction is None else extraction.failure
        if extraction is not None and extraction.retry is not None:
            retry = extraction.retry
            failures = item.attempts - item.losses  # attempts that were lost with a process do not count
            if failures < self._settings.retries:
                self._stats.errors["retry"] += 1
                return item.retry(after=retry.after, reason=f"{HANDLER_FAILED}: {retry.reason}")
            attempts = "1 attempt" if failures == 0 else f"{failures + 1} attempts"
            failure = HandlerFailure(f"{extraction.handler}: gave up after {attempts}: {retry.reason}", "")
        failed_part = HANDLER_FAILED
        if failure is None and hook_failed is not None:
            failed_part, failure = hook_failed.kind, HandlerFailure(hook_failed.reason, hook_failed.trace)
        if failure is not None:
            page["handler_error"] = failure.reason
        items = () if extraction is None or failure is not None else extraction.items
        await self._describe_kinds(items)
        directives = (
            parse_x_robots_tag(response.headers.get_all("x-robots-tag"), self._settings.user_agent)
            if parsed is None
            else parsed
        )
        archived = not directives.noarchive
        record_id = warc.new_record_id()
        capture = self._captures.build(
            response, page, digest=digest, record_id=record_id, original=original, archived=archived, items=items
        )
        if failure is not None:
            self._stats.errors[failed_part] += 1
            return item.dead(
                reason=f"{failed_part}: {failure.reason}",
                error=failure.error or None,
                output=[capture],
                counters=ONE_PAGE,
                lane_counters=ONE_PAGE,
            )
        facts = {}
        if archived and original is None:
            facts = self._captures.build_original_fact(response, digest, record_id)
        self._stats.discovered += len(discovered)
        self._stats.count_items(items)
        return item.done(
            result=result,
            discovered=discovered,
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

    def _choose_handler(self, item: Item, response: Response, target: str | None) -> Handler | None:
        """Return the handler of a page; None if it has none, such as a redirect or a sitemap."""
        payload = item.payload or {}
        if self._extractor is None or target is not None or payload.get("kind") == "sitemap" or response.status == 304:
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
