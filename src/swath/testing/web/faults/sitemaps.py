"""Sitemaps and feeds of all kinds. Pages that only they list are under /listed."""

from collections.abc import Callable, Iterable, Iterator

from swath.testing.web import content_coding, sitemap
from swath.testing.web.expectation import SITEMAP, Requirement
from swath.testing.web.faults.fault_site import FaultSite, FaultSiteBuilder
from swath.testing.web.page import reply_html
from swath.testing.web.plan import OUTSIDE_DOMAIN, Plan
from swath.testing.web.scripted_response import ScriptedResponse, redirect, reply

LISTED = 5  # pages in a sitemap

Render = Callable[[FaultSiteBuilder, Iterable[str]], ScriptedResponse]

FORMS: dict[str, Render] = {
    "xml": lambda _, urls: sitemap.reply_sitemap(urls),
    "gzip": lambda _, urls: sitemap.reply_sitemap(urls, packed=True),
    "text": lambda _, urls: sitemap.reply_text(urls),
    "rss": lambda builder, urls: sitemap.reply_rss(builder.url("/"), urls),
    "atom": lambda builder, urls: sitemap.reply_atom(builder.url("/"), urls),
    "bom": lambda _, urls: reply(200, b"\xef\xbb\xbf" + sitemap.render_sitemap(urls).encode(), content_type="text/xml"),
    "spaces": lambda _, urls: sitemap.reply_sitemap([f"\n   {url}\n " for url in urls]),
}
FILES = {"gzip": "/map.xml.gz", "text": "/map.txt", "rss": "/feed.rss", "atom": "/feed.atom"}


def build_format(name: str) -> Callable[[Plan], Iterator[FaultSite]]:
    """Build the host whose robots.txt names a sitemap in this format, with some disallowed and outside URLs."""

    def build(plan: Plan) -> Iterator[FaultSite]:
        builder = FaultSiteBuilder(plan, f"sitemap-{name}")
        place = FILES.get(name, "/map.xml")
        _announce(builder, builder.url(place))
        strange = f"{plan.scheme}://www.{OUTSIDE_DOMAIN}/from-{name}"
        urls = [*_add_listed(builder), builder.url("/shut/1"), strange]
        builder.add(place, FORMS[name](builder, urls), SITEMAP, linked=False)
        builder.never("/shut/1", linked=False)
        builder.add_outside_link(strange)
        yield builder.build()

    return build


def build_index(plan: Plan) -> Iterator[FaultSite]:
    """Build the host with an index of two sitemaps, a missing one, and itself."""
    builder = FaultSiteBuilder(plan, "sitemap-index")
    _announce(builder, builder.url("/index.xml"))
    urls = _add_listed(builder)
    parts = ["/part-1.xml", "/part-2.xml.gz", "/missing.xml", "/index.xml"]
    builder.add("/index.xml", sitemap.reply_index(map(builder.url, parts)), SITEMAP, linked=False)
    builder.add("/part-1.xml", sitemap.reply_sitemap(urls[:2]), SITEMAP, linked=False)
    builder.add("/part-2.xml.gz", sitemap.reply_sitemap(urls[2:], packed=True), SITEMAP, linked=False)
    builder.add("/missing.xml", reply(404, b""), SITEMAP, linked=False)
    yield builder.build()


def build_elsewhere(plan: Plan) -> Iterator[FaultSite]:
    """Build the host whose robots.txt names a sitemap on another host and one behind a redirect."""
    keeper = FaultSiteBuilder(plan, "sitemap-elsewhere", "sitemap-keeper.demo.test")
    builder = FaultSiteBuilder(plan, "sitemap-elsewhere")
    _announce(builder, keeper.url("/map.xml"), builder.url("/moved.xml"))
    urls = _add_listed(builder)
    keeper.add("/map.xml", sitemap.reply_sitemap(urls[:2]), SITEMAP, linked=False)
    builder.add("/moved.xml", redirect(301, "/here.xml"), SITEMAP, linked=False)
    builder.add("/here.xml", sitemap.reply_sitemap(urls[2:]), SITEMAP, linked=False)
    yield builder.build()
    yield keeper.build(linked_from_hub=False, front=Requirement.NEVER)


def build_broken(plan: Plan) -> Iterator[FaultSite]:
    """Build the host with sitemaps that are truncated, not XML, or a gzip bomb. A crawl may request what they list."""
    builder = FaultSiteBuilder(plan, "sitemap-broken")
    bodies = {
        "/cut.xml": sitemap.render_sitemap([builder.url("/cut/1"), builder.url("/cut/2")])[:-40].encode(),
        "/entity.xml": b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;">]>'
        b"<urlset><url><loc>&b;</loc></url></urlset>",
        "/noise.xml": bytes(range(256)) * 10,
        "/empty.xml": b"",
        "/html.xml": b"<html><body><p>No sitemap here.</body></html>",
    }
    _announce(builder, *(builder.url(target) for target in (*bodies, "/bomb.xml.gz", "/gone.xml")), "no url at all")
    for target, body in bodies.items():
        builder.add(target, reply(200, body, content_type="application/xml"), SITEMAP, linked=False)
    builder.add(
        "/bomb.xml.gz",
        lambda _: reply(200, content_coding.make_gzip_bomb(plan.bomb_megabytes), content_type="application/gzip"),
        SITEMAP,
        linked=False,
    )
    builder.add("/gone.xml", reply(410, b""), SITEMAP, linked=False)
    builder.may("/cut/1", linked=False)
    builder.may("/cut/2", linked=False)
    builder.may("/no%20url%20at%20all", linked=False)  # if relative URLs are resolved
    yield builder.build()


def build_unannounced(plan: Plan) -> Iterator[FaultSite]:
    """Build the host with a /sitemap.xml that robots.txt does not name. Some crawlers request it anyway."""
    builder = FaultSiteBuilder(plan, "sitemap-unannounced")
    builder.add("/sitemap.xml", sitemap.reply_sitemap([builder.url("/listed/1")]), SITEMAP, linked=False)
    builder.may("/listed/1", linked=False)
    yield builder.build()


def build_feeds(plan: Plan) -> Iterator[FaultSite]:
    """Build the host with RSS and Atom feeds that a page links to as alternates. Their links are followed."""
    builder = FaultSiteBuilder(plan, "feeds")
    urls = _add_listed(builder)
    builder.must("/rss", sitemap.reply_rss(builder.url("/"), urls[:2]), linked=False)
    builder.must("/atom", sitemap.reply_atom(builder.url("/"), urls[2:]), linked=False)
    in_head = (
        '<link rel="alternate" type="application/rss+xml" href="/rss">'
        '<link rel="alternate" type="application/atom+xml" href="/atom">'
    )
    builder.must("/", reply_html("Feeds", [], in_head=in_head), linked=False)
    yield builder.build()


def _announce(builder: FaultSiteBuilder, *places: str) -> None:
    lines = ["User-agent: *", "Disallow: /shut/", *(f"Sitemap: {place}" for place in places)]
    builder.robots(reply(200, "\n".join(lines).encode(), content_type="text/plain"))


def _add_listed(builder: FaultSiteBuilder) -> list[str]:
    targets = [f"/listed/{number}?a=1&b=2" for number in range(LISTED)]
    for target in targets:
        builder.must(target, linked=False, by_sitemap=True)
    return [builder.url(target) for target in targets]
