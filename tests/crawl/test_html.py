"""What a page says: links, title, wishes; and pages that were written to do harm."""

import time
from itertools import pairwise
from resource import RUSAGE_SELF, getrusage

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from swath.crawl.parse import elements, html, page_text
from swath.crawl.parse.directives import Directives, parse_x_robots_tag
from swath.crawl.parse.document import MAX_TITLE, Link, ParsedDocument
from swath.crawl.parse.elements import HEAD_SELECTOR, SELECTOR, Element, find_elements, scan_elements
from swath.crawl.parse.html import MAX_LINKS
from swath.crawl.parse.page_text import PageText
from swath.crawl.parse.tree_limits import MAX_TAG_ATTRIBUTES
from swath.crawl.urls.normalise import normalise


def parse_html(text: str, url: str) -> ParsedDocument:
    return html.parse_html(PageText(text), url)


def elements_of(text: str) -> list[Element]:
    return list(find_elements(PageText(text)))


URL = "https://www.example.com/a/b.html"
HERE = "https://www.example.com"


TOO_MANY = "<br " + " ".join(f"a{number}" for number in range(MAX_TAG_ATTRIBUTES + 1)) + ">"


def untamed(text: str) -> str:
    """The same page with too many attributes for a tree."""
    return text + TOO_MANY


def found(text: str) -> list[tuple[str, str, bool]]:
    """The links of a page, the same whichever way it is read."""
    links = parse_html(text, URL).links
    assert parse_html(untamed(text), URL).links == links
    return [(link.url.removeprefix(HERE), link.kind, link.nofollow) for link in links]


@pytest.mark.parametrize(
    ("text", "links"),
    [
        ("<a href=/x>x</a>", [("/x", "a", False)]),
        ("<A HREF = '/x'>x</A>", [("/x", "a", False)]),
        ("<a\nclass=k\thref\n=\n/x\n>x</a>", [("/x", "a", False)]),
        ('<a/href="/x"/>', [("/x", "a", False)]),
        ("<a href=c.html>", [("/a/c.html", "a", False)]),
        ("<a href=' /x\n y '>", [("/x%20y", "a", False)]),
        ("<a href=/x?a=1&amp;b=2>", [("/x?a=1&b=2", "a", False)]),
        ("<a href=/x?a=1&copy=2&lang=3>", [("/x?a=1&copy=2&lang=3", "a", False)]),
        ("<a href='/x?&copy;&#65;&#x42;&eacute'>", [("/x?%C2%A9AB%C3%A9", "a", False)]),
        ("<a href='/&#xD800;&#0;&#99999999;'>", [("/%EF%BF%BD%EF%BF%BD%EF%BF%BD", "a", False)]),
        ("<a href=/x href=/y>", [("/x", "a", False)]),
        ("<a href=/x#one><a href=/x#two>", [("/x", "a", False)]),
        ("<a href=#x><a href=''><a href><a name=x>", []),
        ("<a href=mailto:a@b.c><a href='javascript:x()'><a href=tel:1><a href='http://['>", []),
        ("<a href=//other.example/x>", [("https://other.example/x", "a", False)]),
        ("<a href=/x rel=nofollow>", [("/x", "a", True)]),
        ("<a href=/x rel='external NoFollow ugc'>", [("/x", "a", True)]),
        ("<a href=/x rel='nofollowing'>", [("/x", "a", False)]),
        ("<a href=/x rel=nofollow><a href=/x rel=nofollow>", [("/x", "a", True)]),
        ("<a href=/x rel=nofollow><a href=/x>", [("/x", "a", False)]),
        ("<a href=/x rel=nofollow><a href=/./x>", [("/x", "a", False)]),
        ("<a href=/x><a href=/x rel=nofollow>", [("/x", "a", False)]),
        ("<map><area href=/x></map>", [("/x", "area", False)]),
        ("<iframe src=/x><a href=/y></iframe>", [("/x", "frame", False)]),
        ("<link rel=next href=/x>", [("/x", "next", False)]),
        ("<link rel='Canonical' href=/x>", [("/x", "canonical", False)]),
        ("<link rel=alternate hreflang=de href=/de>", [("/de", "alternate", False)]),
        ("<link rel=alternate type='application/rss+xml; charset=utf-8' href=/rss>", [("/rss", "feed", False)]),
        ("<link rel=alternate type=application/json+oembed href=/x>", []),
        ("<link rel='alternate stylesheet' href=/x.css><link rel=stylesheet href=/y.css><link href=/z>", []),
        ("<meta http-equiv=refresh content='5; url=/x'>", [("/x", "refresh", False)]),
        ("<meta http-equiv=Refresh content='0;URL=\"/x\"'>", [("/x", "refresh", False)]),
        ("<meta http-equiv=refresh content=\"0, URL = '/x' \">", [("/x", "refresh", False)]),
        ("<meta http-equiv=refresh content='0 /x'>", [("/x", "refresh", False)]),
        ("<meta http-equiv=refresh content=5><meta http-equiv=refresh content='url=/x'>", []),
        ("<!-- <a href=/x> --><a href=/y>", [("/y", "a", False)]),
        ("<!--><a href=/y>", [("/y", "a", False)]),
        ("<!-- <a href=/x>", []),
        ("<script>'<a href=/x>'</script><a href=/y>", [("/y", "a", False)]),
        ("<style><a href=/x></style><textarea><a href=/x></textarea><title><a href=/x></title>", []),
        ("<script><a href=/x>", []),
        ("<script><!--<script></script><a href=/x>--></script><a href=/y>", [("/y", "a", False)]),
        ("<script><!--</script><a href=/y>", [("/y", "a", False)]),
        ("<script><!--><script></script><a href=/y>", [("/y", "a", False)]),
        ("<a\xa0href=/x><a href=/y>", [("/y", "a", False)]),
        ('<a x=\xa0"><a href=/y>', [("/y", "a", False)]),
        ("<noscript><a href=/x></noscript>", [("/x", "a", False)]),
        ("<p title='<a href=/x>'>", []),
        ('<p title="it\'s"><a href=/x>', [("/x", "a", False)]),
        ('<p class=foo"><a href=/x>', [("/x", "a", False)]),
        ("a < b <a href=/x>", [("/x", "a", False)]),
        ("<abbr href=/x><article href=/y><basefont href=/z>", []),
        ("<svg><a href=/x></svg>", [("/x", "a", False)]),
        (
            "<a href=/b><a href=/a><link rel=next href=/c>",
            [("/b", "a", False), ("/a", "a", False), ("/c", "next", False)],
        ),
    ],
)
def test_links(text: str, links: list[tuple[str, str, bool]]) -> None:
    assert found(text) == links


def test_frames_are_found() -> None:
    text = "<html><frameset><frame src=/x><frame src='/y'></frameset></html>"
    assert [link.url for link in parse_html(text, URL).links] == [HERE + "/x", HERE + "/y"]


@pytest.mark.parametrize(
    ("text", "base", "link"),
    [
        ("<base href=/c/d/><a href=x>", HERE + "/c/d/", HERE + "/c/d/x"),
        ("<a href=x><base href='http://other.example/y'>", "http://other.example/y", "http://other.example/x"),
        ("<base href=/c/><base href=/d/><a href=x>", HERE + "/c/", HERE + "/c/x"),
        ("<base target=_blank><base href=/d/><a href=x>", HERE + "/d/", HERE + "/d/x"),
        ("<base href='data:text/html,'><a href=x>", URL, HERE + "/a/x"),
        ("<base href='javascript:0'><a href=x>", URL, HERE + "/a/x"),
        ("<base href=''><a href=x>", URL, HERE + "/a/x"),
        ("<a href=x>", URL, HERE + "/a/x"),
    ],
)
def test_the_base(text: str, base: str, link: str) -> None:
    for page in (text, untamed(text)):
        reading = parse_html(page, URL)
        assert reading.base == base
        assert [one.url for one in reading.links] == [link]


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("<title>Hello</title>", "Hello"),
        ("<title>\n  Hello,\t wide\r\n world </title>", "Hello, wide world"),
        ("<title>a &amp; b <i>c</i></title>", "a & b <i>c</i>"),
        ("<title></title><title>x</title>", "x"),
        ("<title>x</title><title>y</title>", "x"),
        ("<p>no title", ""),
        ("<title>" + "x" * 10_000, "x" * MAX_TITLE),
    ],
)
def test_the_title(text: str, title: str) -> None:
    assert parse_html(text, URL).title == title
    assert parse_html(TOO_MANY + text, URL).title == title


def test_the_title_of_a_drawing_is_not_that_of_the_page() -> None:
    assert parse_html("<body><svg><title>icon</title></svg><title>page</title>", URL).title == "page"


def test_the_first_canonical_counts() -> None:
    reading = parse_html("<link rel=canonical href=/x><link rel=canonical href=/y>", URL)
    assert reading.canonical == HERE + "/x"
    assert parse_html("<link rel=canonical href='mailto:x'>", URL).canonical is None
    assert parse_html("", URL).canonical is None


@pytest.mark.parametrize(
    ("text", "wishes"),
    [
        ("<meta name=robots content=nofollow>", Directives(nofollow=True)),
        ("<META NAME='ROBOTS' CONTENT=' NoIndex , NOARCHIVE '>", Directives(noindex=True, noarchive=True)),
        ("<meta name=robots content=none>", Directives(nofollow=True, noindex=True)),
        ("<meta name=Swath content=noarchive>", Directives(noarchive=True)),
        ("<meta name=robots content=noindex><meta name=swath content=nofollow>", Directives(True, True)),
        ("<meta name=googlebot content=nofollow>", Directives()),
        ("<meta name=robots content='index, follow, max-snippet:-1'>", Directives()),
        ("<meta name=robots>", Directives()),
        ("<meta name=description content=nofollow>", Directives()),
    ],
)
def test_wishes_of_the_page(text: str, wishes: Directives) -> None:
    assert parse_html(text, URL).directives == wishes
    assert parse_html(untamed(text), URL).directives == wishes


@pytest.mark.parametrize(
    ("values", "wishes"),
    [
        ([], Directives()),
        (["noindex"], Directives(noindex=True)),
        (["NoIndex, nofollow"], Directives(True, True)),
        (["none"], Directives(True, True)),
        (["noindex", "noarchive"], Directives(noindex=True, noarchive=True)),
        (["swath: noarchive"], Directives(noarchive=True)),
        (["SWATH: noarchive, nofollow"], Directives(nofollow=True, noarchive=True)),
        (["otherbot: noindex, nofollow"], Directives()),
        (["otherbot: noindex, swath: nofollow"], Directives(nofollow=True)),
        (["nofollow, otherbot: noindex"], Directives(nofollow=True)),
        (["otherbot: noindex", "noarchive"], Directives(noarchive=True)),
        (["unavailable_after: 25 Jun 2010 15:00:00 PST, noarchive"], Directives(noarchive=True)),
        (["max-snippet: 20, noindex"], Directives(noindex=True)),
        (["", ":", ",,", "x" * 100_000], Directives()),
    ],
)
def test_wishes_of_the_header(values: list[str], wishes: Directives) -> None:
    assert parse_x_robots_tag(values, "swath") == wishes


def test_links_are_limited_and_the_rest_is_told() -> None:
    text = "".join(f"<a href=/{number}>" for number in range(MAX_LINKS))
    full = parse_html(text, URL)
    assert len(full.links) == MAX_LINKS
    assert not full.truncated
    more = parse_html(text + "<a href=/x>", URL)
    assert more.links == full.links
    assert more.truncated
    many = parse_html("".join(f"<a href=/{number}>" for number in range(20 * MAX_LINKS)), URL)
    assert many.links == full.links
    assert many.truncated


HOSTILE = {
    "nested": "<div>" * 100_000,
    "nested small": "<div>" * 4_990,
    "reopened": "".join(f"<b x={number}><p>" for number in range(20_000)),
    "reopened small": "".join(f"<b x={number}><p>" for number in range(1_700)),
    "reopened in capitals": "".join(f"<STRONG\tx={number}><P>" for number in range(1_700)),
    "reopened slowly": "<p>" + "".join(f"<b x={number}>" for number in range(20)) + "<p>x" * 4_900,
    "attributes": "<a " + " ".join(f"a{number}" for number in range(75_000)) + " href=/x>",
    "one attribute": "<a href='" + "x" * 500_000 + "'>",
    "open attribute": "<a href='" + "x" * 500_000,
    "open quotes": "<a b=\"<a c='" * 25_000,
    "open tags": "<a " * 125_000,
    "less than": "<" * 500_000,
    "slashes": "<a" + "/" * 500_000,
    "equals": "<a" + " =" * 250_000,
    "open comments": "<!--" * 125_000,
    "comments": "<!-- x --!>" * 25_000,
    "scripts": "<script>" * 62_500,
    "closed scripts": "<script></script " * 30_000,
    "end tags": "</a" * 150_000,
    "entities": "<a href='" + "&amp" * 1_500 + "'>" + "&amp" * 125_000,
    "tables": "<table><tr><td>" * 25_000,
    "links": "<a href=/x>" * 50_000,
    "NULs": "\0" * 500_000,
    "refresh": "<meta http-equiv=refresh content='" + "5 " * 250_000 + "'>",
    "spaces": "<meta http-equiv=refresh content='5" + " " * 500_000 + "'>",
    "rel": "<link href=/x rel='" + "x " * 250_000 + "'>",
    "titles": "<title>x</title>" * 25_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_page_takes_bounded_time_and_memory(name: str) -> None:
    before = getrusage(RUSAGE_SELF).ru_maxrss
    started = time.process_time()
    parse_html(HOSTILE[name], URL)
    assert time.process_time() - started < 2
    assert getrusage(RUSAGE_SELF).ru_maxrss - before < 150_000


def test_time_grows_with_the_text_and_not_faster() -> None:
    for piece in (
        "</a",
        "<a b=\"<a c='",
        "<!-",
        "<a =",
        "<p title='",
        "</a ",
        "<script></scrip",
        "<a href=&am",
        "<a\n",
    ):
        times = []
        for size in (20_000, 80_000):
            started = time.process_time()
            list(scan_elements(piece * (size // len(piece))))
            times.append(time.process_time() - started)
        assert times[1] < 4 * times[0] * 2.5 + 0.02, piece


def test_what_could_grow_gets_no_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(text: str) -> None:
        raise AssertionError(f"a tree of {text[:50]}")

    monkeypatch.setattr(page_text, "LexborHTMLParser", refuse)
    for name in ("nested", "reopened", "reopened small", "reopened in capitals", "attributes", "tables"):
        elements_of(HOSTILE[name])
    with pytest.raises(AssertionError, match="a tree of"):
        elements_of("<p>An honest page</p>" * 100)


MARKUP = """<a href=/x>|<a href='/y?a=1&amp;b' rel=nofollow>|<A HREF="/z'">|</a>|<p class='k'>|</p>|<div>|<!-- | -->|
<br/>|text & more|'|"|<|>|<link rel=next href=n>|<base href=/c/>|<script>|</script>|<title>t|</title>|<style>|
</style>|<b>|<meta name=robots content=nofollow>|<iframe src=/f></iframe>|<textarea>|</textarea>|</span>|</b>"""
PIECES = st.sampled_from(MARKUP.split("|"))


@settings(deadline=None)
@given(st.lists(PIECES, max_size=30))
@example(["<a href=/x>", "<!-- ", ">", "<a href=/x>"])
def test_the_scanner_and_the_tree_agree(pieces: list[str]) -> None:
    text = "".join(pieces) + "<p>"
    # The tree repeats elements that it reopens, and moves some.
    ours = {(one.name, *one.attributes.items()) for one in scan_elements(text) if one.name != "title"}
    tree = {(one.name, *one.attributes.items()) for one in elements_of(text) if one.name != "title"}
    assert ours == tree


@pytest.mark.parametrize("text", ["<a href=/x", "<a href='/x", '<a href="/x" '])
def test_a_tag_that_does_not_end_is_none(text: str) -> None:
    assert list(scan_elements(text)) == elements_of(text)


@settings(deadline=None)
@given(st.text(alphabet="<>ab/='\"!-&#;x \n\0é", max_size=200), st.booleans())
def test_any_text_is_a_page(text: str, tame: bool) -> None:
    reading = parse_html(text if tame else untamed(text), URL)
    for link in reading.links:
        assert isinstance(link, Link)
        assert normalise(link.url) == link.url
    assert len({link.url for link in reading.links}) == len(reading.links)


@settings(deadline=None)
@given(st.lists(st.sampled_from(["/a", "/b#x", "/c/../a", "http://other.example", "mailto:x"]), max_size=20))
def test_links_keep_their_order(hrefs: list[str]) -> None:
    links = [link.url for link in parse_html("".join(f"<a href='{href}'>" for href in hrefs), URL).links]
    wanted = list(dict.fromkeys(url for href in hrefs if (url := normalise(href, URL))))
    assert links == wanted
    assert all(one != other for one, other in pairwise(links))


def test_the_selector_names_what_the_scanner_knows() -> None:
    assert set(SELECTOR.split(",")) == elements.NAMES


@pytest.mark.parametrize(
    ("charset", "href", "link"),
    [
        ("windows-1251", "/pп?q=тест#т", "/p%D0%BF?q=%F2%E5%F1%F2"),
        ("shift_jis", "?q=日本", "/?q=%93%FA%96{"),
        ("iso-8859-2", "?q=¢é&r", "/?q=%26%23162%3B%E9&r"),
        ("iso-2022-jp", "?‾a", "/?%1B(J~%1B(Ba"),
        ("utf-8", "?q=é", "/?q=%C3%A9"),
        ("utf-16le", "?q=é", "/?q=%C3%A9"),
    ],
)
def test_a_query_is_in_the_charset_of_the_page(charset: str, href: str, link: str) -> None:
    """As browsers send it: the server that wrote the page expects its own encoding."""
    page = f"<a href='{href}'><link rel=canonical href='{href}'>"
    found = html.parse_html(PageText(page, charset), "http://e.test/")
    assert [one.url for one in found.links] == [f"http://e.test{link}"]
    assert found.canonical == f"http://e.test{link}"


@pytest.mark.parametrize("content", ["1url=foo", "1x;url=foo", "1e0; url=foo"])
def test_a_refresh_without_a_separator_is_none(content: str) -> None:
    assert parse_html(f"<meta http-equiv=refresh content='{content}'>", "http://e.test/").links == ()


@pytest.mark.parametrize("tame", [True, False])
def test_a_page_without_links_has_the_same_title_base_canonical_and_directives(tame: bool) -> None:
    text = (
        "<base href=/b/><title>t</title><meta name=robots content=noindex><link rel=canonical href=c>"
        "<a href=x>y</a><area href=z><meta http-equiv=refresh content='1; r'>"
    )
    page = PageText(text if tame else untamed(text))
    full, head = html.parse_html(page, URL), html.parse_html(page, URL, links=False)
    assert (head.title, head.base, head.canonical) == ("t", HERE + "/b/", HERE + "/b/c")
    for name in ("title", "base", "canonical", "directives"):
        assert getattr(head, name) == getattr(full, name)
    assert not {"a", "area", "frame", "iframe"} & set(HEAD_SELECTOR.split(","))
