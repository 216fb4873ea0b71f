"""The web's own account of itself holds against a crawler that knows nothing of it."""

import hashlib
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swath.testing.web import FAULTS, DemoPage, Request, Requirement, Web, find_repeats, serve
from tests.testing.client import fetch
from tests.testing.digest import digest_of
from tests.testing.reference import crawl, links_of, text_of

ROOT = Path(__file__).parents[2]

PLAIN = Web(hosts=9, pages=300, faults=False, size=(600, 3000), links=(3, 10))
EVERYTHING = Web(hosts=3, pages=30, faults=frozenset(FAULTS), bomb_megabytes=1)


def test_a_web_is_the_same_in_every_process() -> None:
    environment = {"PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": "12345"}
    command = [sys.executable, "-m", "tests.testing.digest", "1"]
    assert subprocess.check_output(command, env=environment, text=True, cwd=ROOT).strip() == digest_of(1)
    assert digest_of(1) != digest_of(2)


async def test_a_crawl_of_a_plain_web_finds_precisely_what_is_expected() -> None:
    async with serve(PLAIN) as served:
        got = await crawl(served, PLAIN.seeds)
        assert PLAIN.check(served.requested_urls, got) == []
        assert find_repeats(served.log.requests) == {}
    furniture = {url for url in got if PLAIN.expectation(url).kind == "sitemap"}
    assert got.keys() - furniture == PLAIN.urls_to_archive()
    assert len(PLAIN.urls_to_archive()) == 300
    assert {entry.status for entry in got.values()} == {200}
    assert furniture


async def test_without_sitemaps_the_pages_that_only_they_name_stay_unknown() -> None:
    async with serve(PLAIN) as served:
        got = await crawl(served, PLAIN.seeds, sitemaps=False)
    assert got.keys() == PLAIN.urls_to_archive(sitemaps=False)
    only = PLAIN.urls_to_archive() - PLAIN.urls_to_archive(sitemaps=False)
    assert only
    assert only <= PLAIN.optional_urls(sitemaps=False)


async def test_every_host_can_be_reached_from_its_own_front_page() -> None:
    async with serve(PLAIN) as served:
        got = await crawl(served, ["http://h0003.demo.test/"])
    assert {url for url in got if "h0003" in url} == PLAIN.urls_to_archive(hosts={"h0003.demo.test"})


async def test_a_large_host_has_an_index_of_sitemaps() -> None:
    web = Web(hosts=1, pages=2500, faults=False)
    place = "http://h0000.demo.test/sitemap.xml"
    async with serve(web) as served:
        parts = list(links_of(place, await fetch(served, place)))
        listed = {url for part in parts for url in links_of(part, await fetch(served, part))}
    assert [part.rpartition("/")[2] for part in parts] == ["sitemap-0.xml", "sitemap-1.xml.gz", "sitemap-2.xml"]
    assert web.urls_to_archive() - web.urls_to_archive(sitemaps=False) < listed < web.urls_to_archive()


async def test_pages_say_what_the_plan_says_of_them() -> None:
    urls = sorted(PLAIN.urls_to_archive())[::4]
    voices = set()
    async with serve(PLAIN) as served:
        for url in urls:
            page = PLAIN.page(url)
            got = await fetch(served, url)
            if page is None:
                assert PLAIN.expectation(url).kind == "file"
                assert not got.headers["content-type"].startswith("text/html")
            else:
                voices.add((page.locale.charset, page.locale.declared_in))
                assert f"<title>{page.title}</title>" in text_of(got)
                assert got.headers["content-type"] == page.content_type
    assert {said for _, said in voices} == {"header", "meta", "bom"}
    assert {"utf-8", "iso-8859-1", "Shift_JIS"} <= {charset for charset, _ in voices}


def test_links_take_every_form() -> None:
    pages = [page for page in map(PLAIN.page, PLAIN.urls_to_archive()) if isinstance(page, DemoPage)]
    tags = Counter(link.tag for page in pages for link in page.links)
    assert tags.keys() == {"a", "area", "iframe", "next", "alternate", "canonical", "refresh"}
    hrefs = [link.href for page in pages for link in page.links]
    for form in ("../", "//h0", "HTTP://H0", ":80/", "#", "\t", "\n", "café", "日本"):
        assert any(form in href for href in hrefs), form
    assert any(page.base for page in pages)
    assert all(PLAIN.expectation(link.url).requirement is Requirement.MUST for page in pages for link in page.links)


def test_bodies_of_ordinary_pages_are_all_different() -> None:
    bodies = {
        hashlib.sha256(page.body()).digest() for page in map(PLAIN.page, PLAIN.urls_to_archive()) if page is not None
    }
    assert len(bodies) == sum(PLAIN.expectation(url).kind == "page" for url in PLAIN.urls_to_archive())


def test_the_sets_are_disjoint_and_agree_with_the_expectations() -> None:
    web = Web(hosts=5, pages=100)
    sets = {
        Requirement.MUST: web.urls_to_archive(),
        Requirement.TRY: web.urls_to_try(),
        Requirement.MAY: web.optional_urls(),
        Requirement.NEVER: web.forbidden_urls(),
    }
    assert sum(map(len, sets.values())) == len(frozenset().union(*sets.values()))
    for requirement, urls in sets.items():
        assert urls
        assert {web.expectation(url).requirement for url in urls} == {requirement}
    assert sum(1 for _ in web.expectations()) == sum(map(len, sets.values()))
    assert not web.urls_to_archive(retries=0) & web.urls_to_archive(hosts={"flaky-503.demo.test"})


@pytest.mark.parametrize(
    "url",
    [
        "http://h0000.demo.test/news/999999.html",
        "http://h0000.demo.test/private/4",
        "http://h0000.demo.test/private/-3",
        "http://h0000.demo.test/news",
        "http://h0000.demo.test:8080/",
        "https://h0000.demo.test/",
        "http://www1.outside.example/0/1",
        "http://10.0.0.1/",
        "http://[",
        "",
    ],
)
def test_what_nobody_links_to_is_never_requested(url: str) -> None:
    assert PLAIN.expectation(url).requirement is Requirement.NEVER


@given(host=st.sampled_from(sorted(EVERYTHING.sites)), tail=st.text())
def test_any_target_has_an_expectation_and_a_response(host: str, tail: str) -> None:
    for url in (tail, f"http://{host}{tail}", f"http://{host}/{tail}"):
        assert isinstance(EVERYTHING.expectation(url).requirement, Requirement)
        assert EVERYTHING.page(url) is None or EVERYTHING.expectation(url).kind == "page"
    assert EVERYTHING.respond(Request(host, f"/{tail}")).status in range(600)


def test_check_reports_missing_and_forbidden_urls() -> None:
    good = PLAIN.urls_to_archive()
    url, *_ = sorted(good)
    assert PLAIN.check(good, good) == []
    assert PLAIN.check(good, good - {url}) == [f"requested, not archived: {url} (page, status 200)"]
    assert PLAIN.check(good - {url}, good - {url}) == [f"not requested: {url} (page)"]
    shut = "http://h0000.demo.test/private/3"
    assert PLAIN.check(good | {shut}, good) == [f"requested although forbidden: {shut} (disallowed)"]


def test_sizes_add_up_and_fall() -> None:
    web = Web(hosts=1000, pages=50_000, faults=False)
    assert sum(web.sizes) == 50_000
    assert web.sizes[0] > 10 * web.sizes[99] > 0
    assert min(web.sizes) >= 1
    assert set(Web(hosts=10, pages=100, skew=0.0).sizes) == {10}


def test_a_web_of_millions_costs_nothing_until_it_is_asked() -> None:
    web = Web(hosts=5000, pages=50_000_000, faults=False)
    assert web.respond(Request("h4999.demo.test", "/")).status == 200
    assert web.expectation("http://h0000.demo.test/film/2000000.html").requirement is Requirement.MUST
    assert web.expectation("http://h0000.demo.test/news/2000000.html").requirement is Requirement.NEVER


def test_invalid_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one host and one page per host"):
        Web(hosts=10, pages=9)
    with pytest.raises(ValueError, match="unknown kinds of faults: gremlins"):
        _ = Web(faults=frozenset({"gremlins"})).sites
    with pytest.raises(ValueError, match="http or https"):
        Web(scheme="gopher")
