"""PageProcessor: archive a page, parse it, and collect the links it discovers."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

from swath import Item, Outcome
from swath.crawl.archive import warc
from swath.crawl.archive.capture import CaptureBuilder
from swath.crawl.fallback import TRIED, Fallback
from swath.crawl.http.redirect_target import find_redirect_target
from swath.crawl.http.response import Response
from swath.crawl.links import LinkFilter
from swath.crawl.parse.directives import parse_x_robots_tag
from swath.crawl.parse.feeds import GZIP
from swath.crawl.parse.page import ParsedPage, decode_body, parse_decoded_page, parse_page
from swath.crawl.settings import CrawlSettings
from swath.crawl.stats import CrawlStats

PARSED_IN_THREAD = 200_000  # bytes; a thread parses larger decoded bodies, so that other fetches continue
PARSERS = 2  # large pages parsed at once: each takes several times its size in memory
PAGES = "pages"  # counter of the frontier for --max-pages, and of each lane for --max-pages-per-host
ONE_PAGE: Final = {PAGES: 1}
MAX_EXPANSION = 5  # maximum size of a decoded body, in multiples of --max-size


class PageProcessor:
    """Turns the response for a page into the outcome that settles it."""

    def __init__(
        self,
        settings: CrawlSettings,
        *,
        captures: CaptureBuilder,
        links: LinkFilter,
        fallback: Fallback,
        stats: CrawlStats,
    ) -> None:
        self._settings = settings
        self._captures = captures
        self._links = links
        self._fallback = fallback
        self._stats = stats
        self._parsers = ThreadPoolExecutor(PARSERS, thread_name_prefix="swath-parse")

    async def process(self, item: Item, response: Response) -> Outcome:
        """Settle a page with its archive record, its entry in the page list, and the items it discovers."""
        payload: dict[str, Any] = item.payload or {}
        depth = payload.get("depth", 0)
        digest = warc.compute_payload_digest(response.body)
        result: dict[str, Any] = {"status": response.status}
        page: dict[str, Any] = {"kind": payload.get("kind", "page"), "depth": depth, "referrer": payload.get("from")}
        original = await self._captures.find_original(response, digest)
        discovered: list[Any] = []
        parsed: ParsedPage | None = None
        target = find_redirect_target(response)
        if target is not None:
            page["redirect"] = target
            discovered = self._follow_redirect(item, target, depth, payload, result)
            await self._fallback.return_to_form(payload, target)
        elif original is None and 200 <= response.status < 300 and response.body:
            parsed = await self._parse(item.key, response, sitemap=payload.get("kind") == "sitemap")
            page |= {name: getattr(parsed, name) for name in ("title", "canonical", "noindex", "decode_error")}
            discovered = self._follow_links(item, parsed, depth)
        if original is not None:
            self._stats.duplicates += 1
            page["duplicate_of"] = original.url
        directives = (
            parse_x_robots_tag(response.headers.get_all("x-robots-tag"), self._settings.user_agent)
            if parsed is None
            else parsed
        )
        archived = not directives.noarchive
        record_id = warc.new_record_id()
        capture = self._captures.build(
            response, page, digest=digest, record_id=record_id, original=original, archived=archived
        )
        facts = {}
        if archived and original is None:
            facts = self._captures.build_original_fact(response, digest, record_id)
        self._stats.discovered += len(discovered)
        return item.done(
            result=result,
            discovered=discovered,
            facts=facts,
            output=[capture],
            counters=ONE_PAGE,
            lane_counters=ONE_PAGE,
        )

    def _follow_redirect(
        self, item: Item, target: str, depth: int, payload: dict[str, Any], result: dict[str, Any]
    ) -> list[Any]:
        """Return the target of a redirect as an item, so that pacing and robots.txt apply to it too."""
        redirects = payload.get("redirects", 0) + 1
        result["redirect"] = target
        if redirects > self._settings.max_redirects:
            result["refused"] = "redirects"
            self._stats.refused["redirects"] += 1
            return []
        if (reason := self._links.find_refusal(target, depth)) is not None:
            result["refused"] = reason
        kept = {name: payload[name] for name in ("kind", TRIED) if name in payload}
        return self._links.select_new_items([target], depth=depth, referrer=item.key, redirects=redirects, **kept)

    def _follow_links(self, item: Item, parsed: ParsedPage, depth: int) -> list[Any]:
        if parsed.nofollow:
            self._stats.refused["nofollow"] += 1
            return []
        items = self._links.select_new_items(parsed.links, depth=depth + 1, referrer=item.key)
        if self._settings.sitemaps and parsed.sitemaps:
            items += self._links.select_new_items(parsed.sitemaps, depth=depth, referrer=item.key, kind="sitemap")
        return items

    async def _parse(self, url: str, response: Response, *, sitemap: bool) -> ParsedPage:
        """Parse a page, in a thread if the decoded body is large: a few compressed kilobytes may become megabytes."""
        limit, agent = self._settings.max_size * MAX_EXPANSION, self._settings.user_agent
        if len(response.body) <= PARSED_IN_THREAD:
            decoded = decode_body(response, limit=min(limit, PARSED_IN_THREAD))
            if not decoded.truncated and decoded.body[:2] != GZIP:
                return parse_decoded_page(url, response, decoded, limit=limit, agent=agent, sitemap=sitemap)
        parse = partial(parse_page, url, response, limit=limit, agent=agent, sitemap=sitemap)
        return await asyncio.get_running_loop().run_in_executor(self._parsers, parse)
