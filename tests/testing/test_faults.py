"""Each kind of fault behaves as its name says, over a real socket."""

import asyncio
import gzip
import time
import zlib
from collections.abc import AsyncIterator
from email.utils import parsedate_to_datetime

import pytest

from swath.testing.web import FAULTS, Request, Requirement, Web, WebServer, find_too_early, serve
from swath.testing.web.content_coding import encode_brotli, encode_zstd, make_gzip_bomb
from swath.testing.web.faults.robots import SPELLINGS
from tests.testing.client import Got, fetch
from tests.testing.reference import links_of, normal

SOON = 0.3  # seconds after which a test takes silence for an answer

WEB = Web(hosts=1, pages=1, slow_seconds=0.05, huge_bytes=1_000_000, bomb_megabytes=3, trap_depth=40)
TRAPS = [kind for kind in FAULTS if kind.startswith("trap-")]


@pytest.fixture
async def served() -> AsyncIterator[WebServer]:
    async with serve(WEB) as served:
        yield served


def url_of(kind: str, target: str = "/") -> str:
    return f"http://{kind}.demo.test{target}"


async def chain(served: WebServer, url: str, *, most: int = 20) -> list[tuple[str, int]]:
    """The URLs and statuses that redirects lead through."""
    path: list[tuple[str, int]] = []
    for _ in range(most):
        got = await fetch(served, url)
        path.append((url, got.status))
        target = normal(url, got.headers["location"]) if got.headers.get("location") else None
        if target is None:
            break
        url = target
    return path


async def test_what_must_be_archived_answers_in_full_after_the_failures_that_it_says(served: WebServer) -> None:
    for url, expectation in WEB.expectations():
        if expectation.requirement is not Requirement.MUST:
            continue
        for _ in range(expectation.retries):
            assert (await fetch(served, url)).status in (0, 429, 503), url
        got = await fetch(served, url)
        assert got.status == expectation.status, url
        assert got.end == "whole" or "unusual" in url, url


def test_every_kind_has_hosts_that_the_front_page_links_to() -> None:
    everything = Web(hosts=1, pages=1, faults=frozenset(FAULTS))
    assert {expectation.kind for _, expectation in everything.expectations()} >= FAULTS.keys()
    named = _hrefs(everything, url_of("faults"))
    fronts = {url for url in everything.urls_to_archive() if url.endswith(".demo.test/") and "h0000" not in url}
    assert fronts - {url_of("faults")} <= named
    assert "trap-counter.demo.test" not in Web().sites


def _hrefs(web: Web, url: str) -> set[str]:
    (step,) = web.respond(Request(url.split("/")[2], "/")).steps
    assert isinstance(step, bytes)
    _, _, body = step.partition(b"\r\n\r\n")
    return set(links_of(url, Got(200, {"content-type": "text/html; charset=utf-8"}, body, "whole")))


@pytest.mark.parametrize("status", [204, 301, 302, 303, 307, 308, 400, 401, 403, 404, 410, 418, 451])
async def test_statuses(served: WebServer, status: int) -> None:
    got = await fetch(served, url_of("statuses", f"/{status}"))
    assert got.status == status
    assert ("location" in got.headers) == (300 <= status < 400)
    assert got.body or status == 204


@pytest.mark.parametrize("status", [429, 500, 502, 503, 599])
async def test_errors_stay(served: WebServer, status: int) -> None:
    for _ in range(5):
        assert (await fetch(served, url_of("errors", f"/{status}"))).status == status


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("form", ["seconds", "date"])
async def test_retry_after(served: WebServer, status: int, form: str) -> None:
    url = url_of(f"retry-after-{status}-{form}", "/later")
    got = await fetch(served, url)
    assert got.status == status
    value = got.headers["retry-after"]
    if form == "seconds":
        assert int(value) == 1
    else:
        assert 1 <= parsedate_to_datetime(value).timestamp() - time.time() + 0.5 <= 3
    assert (await fetch(served, url)).status == 200
    assert len(find_too_early(served.log.requests)) == 1


async def test_redirects_in_a_chain(served: WebServer) -> None:
    path = await chain(served, url_of("redirects", "/chain/3"))
    assert [status for _, status in path] == [302, 302, 302, 200]


@pytest.mark.parametrize("target", ["/loop/a", "/self"])
async def test_redirects_that_never_end(served: WebServer, target: str) -> None:
    path = await chain(served, url_of("redirects", target))
    assert len(path) == 20
    assert len(set(path)) <= 2


@pytest.mark.parametrize(
    ("target", "end"),
    [
        ("/away", "http://elsewhere.demo.test/found"),
        ("/no-scheme", "http://elsewhere.demo.test/no-scheme-end"),
        ("/relative/here", "http://redirects.demo.test/relative-end"),
        ("/with-links", "http://redirects.demo.test/plain-end"),
    ],
)
async def test_redirects_to_other_places(served: WebServer, target: str, end: str) -> None:
    assert (await chain(served, url_of("redirects", target)))[-1] == (end, 200)


async def test_redirects_to_where_nobody_goes(served: WebServer) -> None:
    for name, location in {"ten": "http://10.0.0.1/", "metadata": "http://169.254.169.254/latest/meta-data/"}.items():
        got = await fetch(served, url_of("redirects", f"/private/{name}"))
        assert (got.status, got.headers["location"]) == (302, location)
        assert location in WEB.forbidden_urls()
        assert WEB.expectation(location).requirement is Requirement.NEVER
    got = await fetch(served, url_of("redirects", "/no-target/file"))
    assert got.headers["location"] == "file:///etc/passwd"
    got = await fetch(served, url_of("redirects", "/no-location"))
    assert (got.status, "location" in got.headers) == (301, False)


@pytest.mark.parametrize("target", ["/first-byte", "/dribble", "/dribbled-headers"])
async def test_slow_answers_take_the_time_that_they_say_and_end(served: WebServer, target: str) -> None:
    began = time.monotonic()
    got = await fetch(served, url_of("slow", target))
    assert (got.status, got.end) == (200, "whole")
    assert time.monotonic() - began >= WEB.slow_seconds * 0.9


@pytest.mark.parametrize("target", ["/hang", "/hang-in-headers", "/hang-in-body"])
async def test_answers_that_hang(served: WebServer, target: str) -> None:
    got = await fetch(served, url_of("slow", target), wait=SOON)
    assert got.end == "silent"
    assert bool(got.body) == (target == "/hang-in-body")


async def test_an_answer_that_drips_without_end(served: WebServer) -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(fetch(served, url_of("slow", "/drip"), wait=SOON), 3 * SOON)


@pytest.mark.parametrize(
    ("name", "end", "status"),
    [
        ("reset-in-body", "reset", 200),
        ("reset-at-once", "reset", 0),
        ("closed-at-once", "closed", 0),
        ("closed-in-headers", "closed", 200),
        ("length-too-long", "closed", 200),
        ("length-too-short", "whole", 200),
        ("length-negative", "closed", 200),
        ("chunk-size-garbage", "garbled", 200),
        ("chunks-cut", "closed", 200),
        ("chunks-unended", "closed", 200),
        ("status-garbage", "closed", 0),
        ("headless", "closed", 0),
        ("noise", "closed", 0),
        ("interim-forever", "closed", 100),
    ],
)
async def test_broken_answers(served: WebServer, name: str, end: str, status: int) -> None:
    got = await fetch(served, url_of("broken", f"/{name}"))
    assert (got.end, got.status) == (end, status)
    if name == "length-too-short":
        assert len(got.body) > int(got.headers["content-length"]) == 100
    if name == "length-too-long":
        assert len(got.body) < int(got.headers["content-length"])


async def test_codings_are_sent_to_those_who_take_them(served: WebServer) -> None:
    for coding in ("gzip", "deflate", "br", "zstd"):
        plain = await fetch(served, url_of("codings", f"/{coding}"), accept="identity")
        packed = await fetch(served, url_of("codings", f"/{coding}"), accept=coding)
        assert "content-encoding" not in plain.headers
        assert packed.headers["content-encoding"] == coding
        assert packed.body != plain.body
        if coding in ("gzip", "deflate"):
            assert packed.unpacked() == plain.body
    raw = await fetch(served, url_of("codings", "/deflate-raw"))
    assert b"/deflate-raw/behind" in zlib.decompress(raw.body, -15)


@pytest.mark.parametrize("name", ["gzip-cut", "gzip-garbage", "gzip-checksum", "gzip-not", "gzip-trailing"])
async def test_codings_that_are_broken(served: WebServer, name: str) -> None:
    got = await fetch(served, url_of("codings", f"/{name}"))
    assert got.headers["content-encoding"] == "gzip"
    with pytest.raises((EOFError, zlib.error, gzip.BadGzipFile)):
        got.unpacked()


def test_brotli_and_zstandard_are_framed_as_their_standards_say() -> None:
    assert encode_brotli(b"") == b"\x06"
    assert encode_brotli(b"abc") == bytes.fromhex("200010") + b"abc\x03"
    assert encode_brotli(bytes(70_000))[:3] == bytes.fromhex("f0ff1f")
    assert encode_zstd(b"abc") == bytes.fromhex("28b52ffd a0 03000000 190000") + b"abc"
    assert encode_zstd(b"") == bytes.fromhex("28b52ffd a0 00000000 010000")
    assert len(encode_zstd(bytes(300_000))) == 300_000 + 9 + 3 * 3


async def test_large_answers(served: WebServer) -> None:
    body = await fetch(served, url_of("large", "/body"))
    assert len(body.body) >= WEB.huge_bytes
    bombed = await fetch(served, url_of("large", "/bomb"))
    assert len(bombed.body) < 10_000
    assert len(bombed.unpacked()) == WEB.bomb_megabytes << 20
    assert gzip.decompress(make_gzip_bomb(2)) == bytes(2 << 20)
    twice = await fetch(served, url_of("large", "/bomb-twice"))
    assert len(gzip.decompress(gzip.decompress(twice.body))) == WEB.bomb_megabytes << 20
    assert len((await fetch(served, url_of("large", "/header"))).headers["x-long"]) == 400_000
    assert len((await fetch(served, url_of("large", "/headers"))).headers) > 10_000


async def test_charsets(served: WebServer) -> None:
    got = await fetch(served, url_of("charsets", "/shift-jis-by-meta"))
    assert got.headers["content-type"] == "text/html"
    assert "/日本" in got.body.decode("cp932")
    got = await fetch(served, url_of("charsets", "/utf-8-is-latin-1"))
    with pytest.raises(UnicodeDecodeError):
        got.body.decode()
    got = await fetch(served, url_of("charsets", "/unknown"))
    assert got.headers["content-type"].endswith("klingon")


async def test_twins_are_alike_and_other_pages_are_not(served: WebServer) -> None:
    bodies = [
        (await fetch(served, f"http://twins-{host}.demo.test/{copy}/1")).body
        for host in "ab"
        for copy in ("one", "two", "three")
    ]
    assert len(bodies) == 6
    assert len(set(bodies)) == 1
    assert (await fetch(served, "http://twins-a.demo.test/one/2")).body not in bodies


async def test_binary_and_nul(served: WebServer) -> None:
    assert b"\0" in (await fetch(served, url_of("binary", "/nul"))).body
    got = await fetch(served, url_of("binary", "/noise"))
    assert got.headers["content-type"] == "text/html"
    with pytest.raises(UnicodeDecodeError):
        got.body.decode()


async def test_markup_that_is_no_link_is_never_followed(served: WebServer) -> None:
    for name in ("comment", "script", "textarea"):
        got = await fetch(served, url_of("html", f"/{name}"))
        behind = f"/behind/{name}-is-no-link"
        assert behind.encode() in got.body
        assert url_of("html", behind) in WEB.forbidden_urls()


async def test_hints(served: WebServer) -> None:
    assert (await fetch(served, url_of("hints", "/tag-nofollow"))).headers["x-robots-tag"] == "nofollow"
    assert b'name="Robots" content="NOFOLLOW"' in (await fetch(served, url_of("hints", "/meta-nofollow"))).body
    assert WEB.expectation(url_of("hints", "/meta-nofollow/behind")).requirement is Requirement.MAY


@pytest.mark.parametrize("kind", TRAPS)
async def test_traps_lead_on_and_on_and_still_end(kind: str) -> None:
    web = Web(hosts=1, pages=1, faults=frozenset({kind}), trap_depth=40)
    async with serve(web) as served:
        queue, seen = [url_of(kind)], {url_of(kind)}
        while queue:
            url = queue.pop()
            for link in links_of(url, await fetch(served, url)):
                if link not in seen:
                    seen.add(link)
                    queue.append(link)
    inside = {url for url in seen if web.expectation(url).kind == "trap"}
    assert len(inside) >= 39
    assert {web.expectation(url).requirement for url in inside} == {Requirement.MAY}
    assert seen - inside == web.urls_to_archive(hosts={f"{kind}.demo.test"})
    assert not inside & web.optional_urls()


@pytest.mark.parametrize("how", ["503", "closed"])
async def test_hosts_that_are_down_at_first(served: WebServer, how: str) -> None:
    statuses = [(await fetch(served, url_of(f"down-at-first-{how}", "/robots.txt"))).status for _ in range(3)]
    assert statuses == ([503, 503, 404] if how == "503" else [0, 0, 404])
    assert (await fetch(served, url_of(f"down-at-first-{how}"))).status == 200


async def test_hosts_that_die(served: WebServer) -> None:
    statuses = [(await fetch(served, url_of("dying", f"/page/{number}"))).status for number in range(8)]
    assert statuses == [200] * 6 + [0] * 2
    assert {(await fetch(served, url_of("dead", target))).end for target in ("/robots.txt", "/")} == {"closed"}
    assert url_of("dead") in WEB.forbidden_urls()


@pytest.mark.parametrize(
    ("kind", "status"), [("404", 404), ("403", 403), ("empty", 200), ("html", 200), ("500", 500), ("closed", 0)]
)
async def test_robots_by_status(served: WebServer, kind: str, status: int) -> None:
    assert (await fetch(served, url_of(f"robots-{kind}", "/robots.txt"))).status == status
    forbidden = kind in ("500", "closed")
    for target in ("/", "/open/1", "/shut/1"):
        assert (url_of(f"robots-{kind}", target) in WEB.forbidden_urls()) == forbidden
        assert (url_of(f"robots-{kind}", target) in WEB.urls_to_archive()) != forbidden


@pytest.mark.parametrize("name", SPELLINGS)
async def test_robots_in_every_spelling(served: WebServer, name: str) -> None:
    got = await fetch(served, url_of(f"robots-{name}", "/robots.txt"))
    assert b"/shut/" in got.body
    assert got.body.startswith(b"\xef\xbb\xbf") == (name == "bom")
    assert (b"\r\n" in got.body) == (name == "crlf")
    assert url_of(f"robots-{name}", "/open/1") in WEB.urls_to_archive()
    assert url_of(f"robots-{name}", "/shut/1") in WEB.forbidden_urls()


async def test_robots_that_are_too_large(served: WebServer) -> None:
    body = (await fetch(served, url_of("robots-huge", "/robots.txt"))).body
    assert 498 * 1024 < body.index(b"/late/") < 500 * 1024
    assert body.index(b"/too-late/") > 600 * 1024 - 1024
    assert WEB.expectation(url_of("robots-huge", "/late/1")).requirement is Requirement.NEVER
    assert WEB.expectation(url_of("robots-huge", "/too-late/1")).requirement is Requirement.MAY


async def test_robots_that_take_their_time(served: WebServer) -> None:
    assert (await fetch(served, url_of("robots-timeout", "/robots.txt"), wait=SOON)).end == "silent"
    statuses = [(await fetch(served, url_of("robots-500-at-first", "/robots.txt"))).status for _ in range(3)]
    assert statuses == [500, 500, 200]
    assert b"Crawl-delay: 0.1\n" in (await fetch(served, url_of("robots-delay", "/robots.txt"))).body


@pytest.mark.parametrize("hops", [1, 2, 5, 6])
async def test_robots_behind_redirects(served: WebServer, hops: int) -> None:
    path = await chain(served, url_of(f"robots-redirect-{hops}", "/robots.txt"))
    assert len(path) == hops + 1
    assert path[-1][1] == 200
    requirement = WEB.expectation(url_of(f"robots-redirect-{hops}", "/shut/1")).requirement
    assert requirement is (Requirement.NEVER if hops <= 5 else Requirement.MAY)


async def test_robots_on_another_host(served: WebServer) -> None:
    path = await chain(served, url_of("robots-redirect-away", "/robots.txt"))
    assert path[-1] == ("http://robots-keeper.demo.test/for-others.txt", 200)


async def test_sitemaps(served: WebServer) -> None:
    listed = url_of("sitemap-gzip", "/listed/0?a=1&b=2")
    robots = await fetch(served, url_of("sitemap-gzip", "/robots.txt"))
    assert b"Sitemap: http://sitemap-gzip.demo.test/map.xml.gz" in robots.body
    assert listed in set(links_of(listed, await fetch(served, url_of("sitemap-gzip", "/map.xml.gz"))))
    assert listed in WEB.urls_to_archive()
    assert listed not in WEB.urls_to_archive(sitemaps=False)
    assert url_of("sitemap-gzip", "/shut/1") in WEB.forbidden_urls()
    for kind, place, mark in [
        ("index", "/index.xml", b"<sitemapindex"),
        ("text", "/map.txt", b"http://sitemap-text.demo.test/listed/0?a=1&b=2\n"),
        ("rss", "/feed.rss", b"<rss"),
        ("atom", "/feed.atom", b"<feed"),
    ]:
        assert mark in (await fetch(served, url_of(f"sitemap-{kind}", place))).body
    assert b"</urlset>" not in (await fetch(served, url_of("sitemap-broken", "/cut.xml"))).body
