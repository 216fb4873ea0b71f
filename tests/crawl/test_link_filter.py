"""LinkFilter: which URLs become items, what their payloads say, and what is counted."""

import json
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import swath
from swath import Item
from swath.crawl import links as links_module
from swath.crawl.handlers.hooks import Link, LinkHook
from swath.crawl.handlers.requests import Request
from swath.crawl.links import LinkFilter
from swath.crawl.parse.page import ParsedPage
from swath.crawl.urls.scope import NameSet, Scope

A = "http://a.example/"
SCOPE = Scope("host", NameSet(["a.example"]), exclude=(re.compile("secret"),), depth=3)


@asynccontextmanager
async def filtering(scope: Scope = SCOPE, **options: Any) -> AsyncIterator[tuple[LinkFilter, Counter[str]]]:
    refused: Counter[str] = Counter()
    given: dict[str, Any] = {"lane_of": lambda url: "lane", "strip_tracking": True, "year": 2026, **options}
    async with swath.open("memory:") as frontier:
        yield LinkFilter(frontier, scope, refused=refused, **given), refused


def list_urls(items: Any) -> list[str]:
    return [item.key for item in items]


async def test_a_seed_is_excluded_by_name_only() -> None:
    async with filtering() as (links, refused):
        seeds = links.for_seeds()
        urls = ["http://b.example/", f"{A}secret", f"{A}?utm_source=x&a=1"]
        assert list_urls(seeds.select_new_items(urls, depth=0, referrer=None)) == [urls[0], urls[2]]
        assert refused == {"exclude": 1}
        refused.clear()
        assert list_urls(links.select_new_items(urls, depth=1, referrer=A)) == [f"{A}?a=1"]
        assert refused == {"exclude": 1, "scope": 1}
        assert (seeds.find_refusal(urls[1], 0), links.find_refusal(urls[1], 0)) == ("exclude", "exclude")
        assert (seeds.find_refusal(urls[0], 0), links.find_refusal(urls[0], 0)) == (None, "scope")
        assert links.find_refusal(urls[0], 0, any_host=True) is None


async def test_seeds_are_not_shown_to_the_link_hook() -> None:
    seen: list[Link] = []

    def hook(link: Link) -> Link | None:
        seen.append(link)
        return None if link.url.endswith("/no") else Link(link.url, link.referrer, link.depth, 6)

    async with filtering(hook=LinkHook(hook)) as (links, refused):
        assert [item.priority for item in links.for_seeds().select_new_items([A], depth=0, referrer=None)] == [3]
        (kept,) = links.select_new_items([f"{A}yes", f"{A}no"], depth=1, referrer=A)
        assert (kept.key, kept.priority) == (f"{A}yes", 6)
        assert seen == [Link(f"{A}yes", A, 1, 3), Link(f"{A}no", A, 1, 3)]
        assert refused == {"link hook": 1}
        assert len(links.select_new_items([f"{A}s.xml"], depth=1, referrer=A, kind="sitemap")) == 1
        assert len(links.select_new_items([f"{A}to"], depth=1, referrer=A, redirects=1)) == 1
        assert len(seen) == 2


@pytest.mark.parametrize(
    ("url", "payload", "reason"),
    [
        ("http://b.example/", {}, None),  # a seed that this machine does not know
        ("http://b.example/", {"depth": 0}, None),
        ("http://b.example/", {"depth": 0, "from": A}, "scope"),
        ("http://b.example/", {"depth": 1, "from": A}, "scope"),
        ("http://b.example/", {"depth": 1, "from": A, "any_host": True}, None),
        (f"{A}secret", {}, "exclude"),
        (A, {"depth": 3, "from": A}, None),
        (A, {"depth": 4, "from": A}, "depth"),
    ],
)
async def test_what_the_present_settings_exclude(url: str, payload: dict[str, Any], reason: str | None) -> None:
    async with filtering() as (links, _):
        found = links.find_exclusion(Item(url, payload=payload))
        assert (None if found is None else found[0]) == reason


async def test_links_beyond_the_depth_are_counted_once() -> None:
    async with filtering() as (links, refused):
        urls = [A, f"{A}x"]
        assert len(links.select_new_items(urls, depth=3, referrer=A)) == 2
        assert links.select_new_items(urls, depth=4, referrer=A) == []
        assert refused == {"depth": 1}


async def test_a_page_has_links_and_sitemaps() -> None:
    page = ParsedPage(links=(f"{A}x",), sitemaps=(f"{A}s.xml",))
    async with filtering() as (links, refused):
        found = links.select_links(page, depth=1, referrer=A, sitemaps=True)
        assert [(item.key, item.payload) for item in found] == [
            (f"{A}x", f'{{"depth":2,"from":"{A}"}}'),
            (f"{A}s.xml", f'{{"depth":1,"from":"{A}","kind":"sitemap"}}'),
        ]
        assert list_urls(links.select_links(page, depth=1, referrer=A, sitemaps=False)) == [f"{A}x"]
        assert links.select_links(page._replace(nofollow=True), depth=1, referrer=A, sitemaps=True) == []
        assert refused == {"nofollow": 1}
        assert links.select_links(ParsedPage(links=None), depth=1, referrer=A, sitemaps=True) == []


async def test_requests_carry_their_handler_and_data() -> None:
    requests = [
        Request(f"{A}1", to="read", payload={"a": 1}),
        Request("http://b.example/", any_host=True),
        Request("http://c.example/"),
        Request(f"{A}2", priority=7, method="POST", body=b"x"),
        Request("http://c.example/", method="POST"),
    ]
    async with filtering() as (links, refused):
        found = links.select_requested(requests, depth=1, referrer=A)
        assert [(item.key.split()[:2], item.priority) for item in found] == [
            ([f"{A}1"], 3), (["http://b.example/"], 3), (["POST", f"{A}2"], 7),
        ]  # fmt: skip
        assert [sorted(read_payload(item)) for item in found] == [
            ["data", "depth", "from", "to"], ["any_host", "depth", "from"], ["depth", "from", "request"],
        ]  # fmt: skip
        assert refused == {"scope": 2}


def read_payload(item: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(item.payload)
    return found


async def test_a_decision_is_remembered_until_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links_module, "MAX_DECISIONS", 3)
    async with filtering() as (links, refused):
        for _ in range(2):
            links.select_new_items(["http://b.example/"], depth=1, referrer=A)
        assert refused == {"scope": 1}
        links.select_new_items([f"{A}1", f"{A}2"], depth=1, referrer=A)
        assert len(links._decisions) == 3
        links.select_new_items([f"{A}3"], depth=1, referrer=A)
        assert list(links._decisions) == [f"{A}3"]
        links.extend_scope(["b.example"])
        assert list_urls(links.select_new_items(["http://b.example/"], depth=1, referrer=A)) == ["http://b.example/"]
        assert links.get_scope_name("http://b.example/x") == "b.example"
