"""Sitemaps and feeds of all kinds. What only they name is under /listed."""

from collections.abc import Callable, Iterable, Iterator

from swath.testing.web import coding, sitemap
from swath.testing.web.answer import Answer, redirect, reply
from swath.testing.web.expectation import SITEMAP, Fate
from swath.testing.web.faults.fault_page import Sketch, Spots
from swath.testing.web.page import plain_page
from swath.testing.web.plan import OUTSIDE_DOMAIN, Plan

LISTED = 5  # pages that a sitemap names

Render = Callable[[Sketch, Iterable[str]], Answer]

FORMS: dict[str, Render] = {
    "xml": lambda _, urls: sitemap.listing(urls),
    "gzip": lambda _, urls: sitemap.listing(urls, packed=True),
    "text": lambda _, urls: sitemap.text(urls),
    "rss": lambda sketch, urls: sitemap.rss(sketch.url("/"), urls),
    "atom": lambda sketch, urls: sitemap.atom(sketch.url("/"), urls),
    "bom": lambda _, urls: reply(200, b"\xef\xbb\xbf" + sitemap.listing_text(urls).encode(), content_type="text/xml"),
    "spaces": lambda _, urls: sitemap.listing([f"\n   {url}\n " for url in urls]),
}
FILES = {"gzip": "/map.xml.gz", "text": "/map.txt", "rss": "/feed.rss", "atom": "/feed.atom"}


def form(name: str) -> Callable[[Plan], Iterator[Spots]]:
    """robots.txt names a sitemap of this form, with URLs that are disallowed or outside among the good ones."""

    def sites(plan: Plan) -> Iterator[Spots]:
        sketch = Sketch(plan, f"sitemap-{name}")
        place = FILES.get(name, "/map.xml")
        _announce(sketch, sketch.url(place))
        strange = f"{plan.scheme}://www.{OUTSIDE_DOMAIN}/from-{name}"
        urls = [*_listed(sketch), sketch.url("/shut/1"), strange]
        sketch.add(place, FORMS[name](sketch, urls), SITEMAP, linked=False)
        sketch.never("/shut/1", linked=False)
        sketch.stranger(strange)
        yield sketch.site()

    return sites


def index(plan: Plan) -> Iterator[Spots]:
    """An index of two sitemaps, one that is missing, and itself."""
    sketch = Sketch(plan, "sitemap-index")
    _announce(sketch, sketch.url("/index.xml"))
    urls = _listed(sketch)
    parts = ["/part-1.xml", "/part-2.xml.gz", "/missing.xml", "/index.xml"]
    sketch.add("/index.xml", sitemap.index(map(sketch.url, parts)), SITEMAP, linked=False)
    sketch.add("/part-1.xml", sitemap.listing(urls[:2]), SITEMAP, linked=False)
    sketch.add("/part-2.xml.gz", sitemap.listing(urls[2:], packed=True), SITEMAP, linked=False)
    sketch.add("/missing.xml", reply(404, b""), SITEMAP, linked=False)
    yield sketch.site()


def elsewhere(plan: Plan) -> Iterator[Spots]:
    """robots.txt names a sitemap on another host, and one behind a redirect."""
    keeper = Sketch(plan, "sitemap-elsewhere", "sitemap-keeper.demo.test")
    sketch = Sketch(plan, "sitemap-elsewhere")
    _announce(sketch, keeper.url("/map.xml"), sketch.url("/moved.xml"))
    urls = _listed(sketch)
    keeper.add("/map.xml", sitemap.listing(urls[:2]), SITEMAP, linked=False)
    sketch.add("/moved.xml", redirect(301, "/here.xml"), SITEMAP, linked=False)
    sketch.add("/here.xml", sitemap.listing(urls[2:]), SITEMAP, linked=False)
    yield sketch.site()
    yield keeper.site(introduced=False, front=Fate.NEVER)


def spoilt(plan: Plan) -> Iterator[Spots]:
    """Sitemaps that are cut, no XML, or a bomb; what they name, where they name anything, is open."""
    sketch = Sketch(plan, "sitemap-broken")
    bodies = {
        "/cut.xml": sitemap.listing_text([sketch.url("/cut/1"), sketch.url("/cut/2")])[:-40].encode(),
        "/entity.xml": b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;">]>'
        b"<urlset><url><loc>&b;</loc></url></urlset>",
        "/noise.xml": bytes(range(256)) * 10,
        "/empty.xml": b"",
        "/html.xml": b"<html><body><p>There is no map.</body></html>",
    }
    _announce(sketch, *(sketch.url(target) for target in (*bodies, "/bomb.xml.gz", "/gone.xml")), "no url at all")
    for target, body in bodies.items():
        sketch.add(target, reply(200, body, content_type="application/xml"), SITEMAP, linked=False)
    sketch.add(
        "/bomb.xml.gz",
        lambda _: reply(200, coding.bomb(plan.bomb_megabytes), content_type="application/gzip"),
        SITEMAP,
        linked=False,
    )
    sketch.add("/gone.xml", reply(410, b""), SITEMAP, linked=False)
    sketch.may("/cut/1", linked=False)
    sketch.may("/cut/2", linked=False)
    yield sketch.site()


def unannounced(plan: Plan) -> Iterator[Spots]:
    """/sitemap.xml that nothing names: some crawlers look there unasked."""
    sketch = Sketch(plan, "sitemap-unannounced")
    sketch.add("/sitemap.xml", sitemap.listing([sketch.url("/listed/1")]), SITEMAP, linked=False)
    sketch.may("/listed/1", linked=False)
    yield sketch.site()


def feeds(plan: Plan) -> Iterator[Spots]:
    """RSS and Atom that a page links to as its alternates; they are pages, and read for links."""
    sketch = Sketch(plan, "feeds")
    urls = _listed(sketch)
    sketch.must("/rss", sitemap.rss(sketch.url("/"), urls[:2]), linked=False)
    sketch.must("/atom", sitemap.atom(sketch.url("/"), urls[2:]), linked=False)
    in_head = (
        '<link rel="alternate" type="application/rss+xml" href="/rss">'
        '<link rel="alternate" type="application/atom+xml" href="/atom">'
    )
    sketch.must("/", plain_page("Feeds", [], in_head=in_head), linked=False)
    yield sketch.site()


def _announce(sketch: Sketch, *places: str) -> None:
    lines = ["User-agent: *", "Disallow: /shut/", *(f"Sitemap: {place}" for place in places)]
    sketch.robots(reply(200, "\n".join(lines).encode(), content_type="text/plain"))


def _listed(sketch: Sketch) -> list[str]:
    targets = [f"/listed/{number}?a=1&b=2" for number in range(LISTED)]
    for target in targets:
        sketch.must(target, linked=False, by_sitemap=True)
    return [sketch.url(target) for target in targets]
