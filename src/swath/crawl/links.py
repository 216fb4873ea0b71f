"""LinkFilter: decide which links of a page become items.

Most links of a page were seen on earlier pages, so the filter remembers its decision about each URL: refused, or the
hash of its item. It drops a known item only after the frontier has confirmed that the item is committed.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Any, Final, cast

from swath import EncodedItem, Frontier, Item
from swath.crawl.handlers.hooks import LINK_HOOK, Link, LinkHook
from swath.crawl.handlers.requests import Request
from swath.crawl.page_request import get_url, store_request
from swath.crawl.parse.page import ParsedPage
from swath.crawl.priority import choose_priority
from swath.crawl.urls import normalise
from swath.crawl.urls.scope import Scope, get_scope_name
from swath.crawl.urls.traps import find_trap

LaneNamer = Callable[[str], str]

# Keys in the payload of an item that a handler asked for.
TO = "to"  # the name of its handler
DATA = "data"  # the payload of the request
ANY_HOST = "any_host"  # the scope does not apply
REQUESTED: Final = (TO, DATA, ANY_HOST)

MAX_DECISIONS = 200_000  # URLs that one process remembers: about 60 MB


class LinkFilter:
    """Turns URLs into items if they belong to the crawl and may be new."""

    def __init__(
        self,
        frontier: Frontier,
        scope: Scope,
        *,
        lane_of: LaneNamer,
        strip_tracking: bool,
        year: int,
        refused: Counter[str],
        priority_by: str = "none",
        hook: LinkHook | None = None,
    ) -> None:
        self._frontier = frontier
        self._scope = scope
        self._takes_seeds = False  # whether the links are seeds, which only explicit exclusions refuse
        self.lane_of = lane_of
        self._strip_tracking = strip_tracking
        self._year = year
        self._refused = refused
        self._priority_by = priority_by
        self._hook = hook
        self._decisions: dict[str, bytes | None] = {}  # None: refused

    def get_scope_name(self, url: str) -> str:
        """Return the name that stands for a URL in the scope."""
        return get_scope_name(url, self._scope.kind)

    def extend_scope(self, names: Iterable[str]) -> None:
        """Extend the scope by the names of further seeds."""
        self._scope = replace(self._scope, footprint=self._scope.footprint.extend(names))
        self._decisions.clear()

    def for_seeds(self) -> "LinkFilter":
        """Return a filter that takes seeds, which define the scope instead of obeying it."""
        filter = copy(self)
        filter._decisions = {}
        filter._takes_seeds = True
        filter._hook = None
        return filter

    def find_refusal(self, url: str, depth: int, *, any_host: bool = False) -> str | None:
        """Return why a URL is refused: it is out of scope, or a trap. Return None if it is not refused.

        With `any_host`, the URL may be as far from the seeds as it likes.
        """
        if self._takes_seeds:
            return self._scope.find_seed_refusal(url)
        return self._scope.find_refusal(url, depth, any_host=any_host) or find_trap(url, year=self._year)

    def find_exclusion(self, item: Item) -> tuple[str, str] | None:
        """Return the reason and the rule if the current settings exclude a queued page; None if they do not.

        The settings may have changed since the page was queued. Seeds define the scope, so they are always within it,
        also if this machine was started before they were added elsewhere.
        """
        payload = item.payload or {}
        depth = payload.get("depth", 0)
        is_seed = depth == 0 and "from" not in payload
        url = get_url(item)
        if is_seed:
            reason = self._scope.find_seed_refusal(url)
        else:
            reason = self._scope.find_refusal(url, depth, any_host=ANY_HOST in payload)
        return None if reason is None else (reason, self._scope.describe_rule(reason, url, depth))

    def select_links(self, parsed: ParsedPage, *, depth: int, referrer: str, sitemaps: bool) -> list[EncodedItem]:
        """Return items for the usual links of a page, and with `sitemaps` for the sitemaps that it names."""
        if parsed.nofollow:
            self._refused["nofollow"] += 1
            return []
        items = self.select_new_items(parsed.links or (), depth=depth + 1, referrer=referrer)
        if sitemaps and parsed.sitemaps:
            items += self.select_new_items(parsed.sitemaps, depth=depth, referrer=referrer, kind="sitemap")
        return items

    def select_requested(self, requests: Iterable[Request], *, depth: int, referrer: str | None) -> list[EncodedItem]:
        """Return items for the requests of a handler that belong to the crawl, without those known to be queued."""
        items: list[EncodedItem] = []
        for (is_plain, to, priority, any_host, _), group in groupby(requests, key=_get_options):
            same = list(group)
            payload = {TO: to, DATA: same[0].payload, ANY_HOST: any_host or None}
            given = {name: value for name, value in payload.items() if value is not None}
            if is_plain:
                urls = [request.url for request in same]
                items += self.select_new_items(urls, depth=depth, referrer=referrer, priority=priority, **given)
                continue
            for request in same:
                make_request = partial(
                    store_request,
                    method=request.method,
                    headers=request.headers,
                    body=cast("bytes | None", request.body),
                    key=request.key,
                )
                items += self.select_new_page(
                    request.url, make_request, depth=depth, referrer=referrer, priority=priority, **given
                )
        return items

    def select_new_page(
        self,
        link: str,
        make_request: Callable[[str], tuple[str, dict[str, Any]]],
        *,
        depth: int,
        referrer: str | None,
        priority: int | None = None,
        **payload: object,
    ) -> list[EncodedItem]:
        """Return the item of a page that is not fetched by a plain GET, or an empty list, as `select_new_items` does.

        `make_request` returns the key of the page, and what its payload says about its request.
        """
        url = self._strip(link)
        reason = self.find_refusal(url, depth, any_host=ANY_HOST in payload)
        if reason is not None:
            self._refused[reason] += 1
            return []
        if priority is None:
            priority = choose_priority(self._priority_by, depth)
        if self._hook is not None and not _is_followed_anyway(payload):
            level = self._call_hook(url, referrer, depth, priority)
            if level is None:
                return []
            priority = level
        key, stored = make_request(url)
        found = _describe_origin(depth, referrer)
        page = Item(key, self.lane_of(url), priority, {**found, **payload, **stored})
        return self._frontier.encode(page)

    def select_new_items(
        self,
        links: Iterable[str],
        *,
        depth: int,
        referrer: str | None,
        priority: int | None = None,
        **payload: object,
    ) -> list[EncodedItem]:
        """Return items for the links that belong to the crawl, without those known to be in the frontier.

        `payload` is added to that of each item. Without `priority`, --priority-by decides. Seeds have no `referrer`.
        """
        any_host = ANY_HOST in payload
        decisions, knows = self._decisions, self._frontier.knows
        if self._scope.depth is not None and depth > self._scope.depth:
            self._refused["depth"] += 1
            return []
        if priority is None:
            priority = choose_priority(self._priority_by, depth)
        found = _describe_origin(depth, referrer)
        asks_hook = self._hook is not None and not _is_followed_anyway(payload)
        kept: list[str] = []
        items: list[Item] = []
        for link in links:
            known = decisions.get(link, b"")
            if (known is None and not any_host) or (known and knows(known)):
                continue
            url = self._strip(link)
            reason = self.find_refusal(url, depth, any_host=any_host)
            if reason is not None:
                self._refused[reason] += 1
                self._remember(link, None)
                continue
            level = priority
            if asks_hook:
                chosen = self._call_hook(url, referrer, depth, priority)
                if chosen is None:
                    continue
                level = chosen
            kept.append(link)
            items.append(Item(url, self.lane_of(url), level, {**found, **payload}))
        encoded = self._frontier.encode(items, drop_known=False)
        for link, item in zip(kept, encoded, strict=True):
            self._remember(link, item.hash)
        return encoded

    def _call_hook(self, url: str, referrer: str | None, depth: int, priority: int) -> int | None:
        """Return the priority that the link hook gives to a link; None if it drops it."""
        assert self._hook is not None
        assert referrer is not None  # only seeds have none
        level = self._hook(Link(url, referrer, depth, priority))
        if level is None:
            self._refused[LINK_HOOK] += 1
        return level

    def _strip(self, url: str) -> str:
        """Remove session ids, and tracking parameters if the settings say so. Seeds stay as they are."""
        if self._takes_seeds:
            return url
        url = normalise.strip_session(url)
        return normalise.strip_tracking(url) if self._strip_tracking else url

    def _remember(self, link: str, decision: bytes | None) -> None:
        if len(self._decisions) >= MAX_DECISIONS:
            self._decisions.clear()
        self._decisions[link] = decision


def _is_followed_anyway(payload: Mapping[str, object]) -> bool:
    """Return whether an item is the target of a redirect, or a sitemap: then it is not a link of a page."""
    return "redirects" in payload or "kind" in payload


def _describe_origin(depth: int, referrer: str | None) -> dict[str, object]:
    """Return what the payload of an item says about where it was found."""
    return {"depth": depth} if referrer is None else {"depth": depth, "from": referrer}


def _get_options(request: Request) -> tuple[Any, ...]:
    """Return whether a request is a plain GET, and what the requests that one `Follow` stands for have in common."""
    is_plain = request.method == "GET" and not request.headers and request.key is None
    return is_plain, request.to, request.priority, request.any_host, id(request.payload)
