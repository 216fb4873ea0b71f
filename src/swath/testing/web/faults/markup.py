"""HTML that is broken or unusual, unusual spellings of URLs, and pages with robots directives."""

from collections.abc import Iterator

from swath.testing.web.expectation import Requirement
from swath.testing.web.faults.fault_site import FaultSite, FaultSiteBuilder
from swath.testing.web.page import render_html, reply_html
from swath.testing.web.plan import OUTSIDE_DOMAIN, Plan
from swath.testing.web.scripted_response import reply

# Markup around a link that an HTML5 parser finds.
FOUND = {
    "unquoted": "<a href={}>x</a>",
    "single-quotes": "<a href='{}'>x</a>",
    "upper-case": '<A HREF="{}">x</A>',
    "spaces": '<a\n\thref \n=\n "{}" >x</a>',
    "unclosed": '<p><b><i><table><tr><td><a href="{}">x',
    "misnested": '<b><i></b><a href="{}"></i>x</p></a>',
    "no-space": '<a title="t"href="{}">x</a>',
    "twice": '<a href="{}" href="/second-is-ignored">x</a>',
    "entities": '<a href="&#47;{}">x</a>',
    "after-garbage": '<<<>><a <a href="{}">x</a>',
    "in-form": '<form><button><a href="{}">x</a></button></form>',
    "after-comment": '<!-- a -- b --><a href="{}">x</a>',
    "after-bad-comment": '<!--><a href="{}">x</a>',
    "after-script": "<script>if (a < b) {{ '</scr' + 'ipt>' }}</script><a href=\"{}\">x</a>",
    "area": '<map name=m><area href="{}"></map>',
    "iframe": '<iframe src="{}"></iframe>',
    "refresh": "<meta http-equiv=refresh content=\"0;URL='{}'\">",
    "refresh-comma": '<meta http-equiv="REFRESH" content="5 , url = {}">',
    "next": '<link rel="next" href="{}">',
    "next-among-others": '<link rel="nofoo NEXT" href="{}">',
    "canonical": '<link rel=canonical href="{}">',
    "alternate": '<link rel="alternate" hreflang=de href="{}">',
    "nested-quotes": "<a href='{}' onclick='go(\"x\")'>x</a>",
    "svg-before": '<svg><title>t</title></svg><a href="{}">x</a>',
}
# Markup that looks like a link but is not.
NOT_FOUND_IN = {
    "comment": '<!-- <a href="{}">x</a> -->',
    "script": "<script>var a = '<a href=\"{}\">x</a>';</script>",
    "style": '<style>/* <a href="{}">x</a> */</style>',
    "textarea": '<textarea><a href="{}">x</a></textarea>',
    "title": '<title><a href="{}">x</a></title>',
    "text": "see {} for more",
    "attribute": '<p title="&lt;a href=&quot;{}&quot;&gt;">x</p>',
    "other-attribute": '<p href="{}" data-href="{}">x</p>',
    "cut-tag": '<a href="{}',
}


def build_html(plan: Plan) -> Iterator[FaultSite]:
    """Build the host with one page per way to write a link. A crawl finds the real links and no others."""
    builder = FaultSiteBuilder(plan, "html")
    for name, form in FOUND.items():
        behind = f"/behind/{name}"
        page = form.format(behind.removeprefix("/") if name == "entities" else behind)
        builder.must(f"/{name}", reply(200, page.encode()))
        builder.must(behind, linked=False)
    for name, form in NOT_FOUND_IN.items():
        behind = f"/behind/{name}-is-no-link"
        builder.must(f"/{name}", reply(200, form.format(behind, behind).encode()))
        builder.never(behind, linked=False)
    frames = b'<html><frameset cols="*,*"><frame src="/behind/frame"><frame src="/behind/frame"></frameset></html>'
    builder.must("/frameset", reply(200, frames))
    builder.must("/behind/frame", linked=False)
    xhtml = (
        b'<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><head><title>X</title></head>'
        b'<body><p><a href="/behind/xhtml">x</a><br/></p></body></html>'
    )
    builder.must("/xhtml", reply(200, xhtml, content_type="application/xhtml+xml"))
    builder.must("/behind/xhtml", linked=False)
    yield builder.build()


def build_urls(plan: Plan) -> Iterator[FaultSite]:
    """Build the host with links in every spelling of the WHATWG URL standard. Each leads to one page or to none."""
    builder = FaultSiteBuilder(plan, "urls")
    here = builder.host
    written = {
        "/plain": "/plain",
        "/dots": "/a/b/../../dots",
        "/encoded-dots": "/a/%2e%2E/encoded-dots",
        "/backslashes/x": "\\backslashes\\x",
        "/case/Kept": f"{plan.scheme.upper()}://{here.upper()}/case/Kept",
        "/default-port": f"{plan.scheme}://{here}:{443 if plan.scheme == 'https' else 80}/default-port",
        "/empty-port": f"{plan.scheme}://{here}:/empty-port",
        "/no-slashes": f"{plan.scheme}:no-slashes",
        "/many-slashes": f"{plan.scheme}:////{here}/many-slashes",
        "/space%20inside": "/space inside",
        "/trimmed": "  \n /trimmed \t ",
        "/split": "/sp\nl\tit",
        "/fragment": "/fragment#one",
        "/fragment-only-differs": "/fragment-only-differs#two#three",
        "/umlaut-%C3%BC": "/umlaut-ü",
        "/percent-%zz": "/percent-%zz",
        "/quote%22%3C%3E": '/quote"<>',
        "/brackets[]|": "/brackets[]|",
        "/empty-query?": "/empty-query?",
        "/query?a=1&b=2": "/query?a=1&b=2",
        "/query?b=2&a=1": "/query?b=2&a=1",
        "/query?q=a%20b%27": "/query?q=a b'",
        "/semicolon;v=1": "/semicolon;v=1",
        "//double//slash": "/.//double//slash",
        "/dot/": "/dot/.",
        "/plus+%2B": "/plus+%2B",
    }
    for target, href in written.items():
        builder.must(target, linked=False)
        builder.hrefs.append(href)
    based = FaultSiteBuilder(plan, "urls", "based.demo.test")
    based.must("/from/base")
    based.must("/from/base?only=query", linked=False)
    base = f'<base href="{based.url("/from/elsewhere")}"><base href="/second-is-ignored/">'
    builder.must("/base", reply_html("Base", ["base", "base?only=query"], in_head=base))
    for href in (
        "mailto:a@demo.test", "javascript:void(0)", "data:text/html,x", "tel:1", "ftp://demo.test/x", "file:///etc/passwd",
        "about:blank", "blob:null/1", "http://", "http://[", "http://a b/", "http://demo.test:99999/", "//", "http://%00/",
    ):  # fmt: skip
        builder.hrefs.append(href)
    builder.add_outside_link(f"{plan.scheme}://www.{OUTSIDE_DOMAIN}/")
    builder.add_outside_link(f"{plan.scheme}://demo.test.{OUTSIDE_DOMAIN}/")
    builder.add_outside_link(f"{plan.scheme}://notdemo.test/")
    builder.add_outside_link(f"{plan.scheme}://xn--bcher-kva.example/", written=f"{plan.scheme}://bücher.example/")
    builder.may("/long?" + "x" * 10_000)
    # The WHATWG standard keeps lowercase escapes; RFC 3986 and libcurl change them to uppercase.
    builder.may("/percent-%c3%bc")
    builder.may("/percent-%C3%BC", linked=False)
    yield builder.build()
    yield based.build(linked_from_hub=False, front=Requirement.NEVER)


def build_hints(plan: Plan) -> Iterator[FaultSite]:
    """Build the host with robots meta elements and X-Robots-Tag headers. A crawler may obey or ignore them."""
    builder = FaultSiteBuilder(plan, "hints")
    for name, content in {"meta-nofollow": "NOFOLLOW", "meta-none": "none", "meta-list": "noindex, nofollow"}.items():
        meta = f'<meta name="Robots" content="{content}">'
        builder.must(f"/{name}", reply_html(name, [f"/{name}/behind"], in_head=meta))
        builder.may(f"/{name}/behind", linked=False)
    for name, value in {"tag-nofollow": "nofollow", "tag-none": "none", "tag-ours": "swath: nofollow"}.items():
        page = render_html(name, [f"/{name}/behind"])
        builder.must(f"/{name}", reply(200, page, headers=[("X-Robots-Tag", value)]))
        builder.may(f"/{name}/behind", linked=False)
    builder.may("/meta-noarchive", reply_html("Not archived", [], in_head='<meta name=robots content="noarchive">'))
    builder.may("/tag-noarchive", reply(200, b"<p>x</p>", headers=[("X-Robots-Tag", "noarchive")]))
    for name, value in {"tag-index": "all", "tag-noindex": "noindex", "tag-others": "otherbot: nofollow"}.items():
        page = render_html(name, [f"/{name}/behind"])
        builder.must(f"/{name}", reply(200, page, headers=[("X-Robots-Tag", value)]))
        builder.must(f"/{name}/behind", linked=False)
    link = f'<a rel="nofollow" href="{builder.url("/link/behind")}">x</a>'
    builder.must("/link-nofollow", reply_html("Link", [], in_body=link))
    builder.may("/link/behind", linked=False)
    canonical = '<link rel="canonical" href="/canonical/behind">'
    builder.must("/canonical", reply_html("Canonical", [], in_head=canonical))
    builder.must("/canonical/behind", linked=False)
    yield builder.build()
