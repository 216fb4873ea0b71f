"""Sitemaps and feeds of every make, and files that were made to do harm."""

import gzip
import time
import tracemalloc
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swath.crawl.parse import feeds
from swath.crawl.parse.document import ParsedDocument
from swath.crawl.parse.feeds import CHUNK, MAX_ENTRIES, MAX_UNPACKED, MAX_URL_TEXT, parse_feed
from swath.crawl.urls.normalise import normalise

URL = "https://example.com/maps/sitemap.xml"
HERE = "https://example.com"

URLSET = """<?xml version="1.0" encoding="UTF-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:image="http://www.google.com/schemas/sitemap-image/1.1"
        xmlns:xhtml="http://www.w3.org/1999/xhtml">
  <url><loc> https://example.com/a?x=1&amp;y=2 </loc><lastmod>2024-01-01</lastmod>
    <image:image><image:loc>https://example.com/i.png</image:loc></image:image></url>
  <url><loc><![CDATA[https://example.com/b]]></loc>
    <xhtml:link rel="alternate" hreflang="de" href="https://example.com/de/b"/></url>
  <url><loc>/relative</loc></url>
  <url><loc>https://example.com/b</loc></url>
  <url><loc>mailto:x@example.com</loc></url>
  <url><loc></loc></url>
</urlset>"""

INDEX = """<sitemapindex><sitemap><loc>https://example.com/s1.xml.gz</loc></sitemap>
<sitemap><loc>s2.xml</loc></sitemap></sitemapindex>"""

RSS = """<?xml version="1.0"?><rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom"><channel>
<title> The  news </title><link>https://example.com/</link>
<atom:link rel="self" href="https://example.com/rss"/><atom:link rel="next" href="https://example.com/rss?page=2"/>
<image><title>logo</title><url>/logo.png</url><link>https://example.com/logo</link></image>
<item><title>One</title><link>https://example.com/1</link><guid>https://example.com/?p=1</guid></item>
<item><title>Two&nbsp;&mdash;</title><link>
  https://example.com/2
</link><guid isPermaLink="false">https://example.com/guid</guid></item>
<item><guid>tag:example.com,2024:3</guid></item>
</channel></rss>"""

ATOM = """<feed xmlns="http://www.w3.org/2005/Atom"><title>Notes</title>
<link href="https://example.com/"/><link rel="self" href="/atom"/><link rel="next" href="/atom?2"/>
<entry><title>One</title><link href="/1"/><link rel="edit" href="/edit/1"/></entry>
<entry><link rel="alternate" type="text/html" href="/2"/></entry></feed>"""

BASED = """<feed xmlns="http://www.w3.org/2005/Atom" xml:base="/posts/"><link href="./"/>
<entry xml:base="2024/"><link href="one"/></entry><entry xml:base="mailto:x"><link href="two"/></entry></feed>"""

RDF = """<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/">
<channel rdf:about="https://example.com/"><title>Old</title><link>https://example.com/</link></channel>
<item rdf:about="x"><title>One</title><link>https://example.com/1</link></item></rdf:RDF>"""


def links(reading: ParsedDocument) -> list[tuple[str, str]]:
    return [(link.url.removeprefix(HERE), link.kind) for link in reading.links]


@pytest.mark.parametrize(
    ("text", "title", "expected"),
    [
        (URLSET, "", [("/a?x=1&y=2", "entry"), ("/b", "entry"), ("/de/b", "alternate"), ("/relative", "entry")]),
        (INDEX, "", [("/s1.xml.gz", "sitemap"), ("/maps/s2.xml", "sitemap")]),
        (
            RSS,
            "The news",
            [("/", "alternate"), ("/rss?page=2", "next"), ("/1", "entry"), ("/?p=1", "entry"), ("/2", "entry")],
        ),
        (ATOM, "Notes", [("/", "alternate"), ("/atom?2", "next"), ("/1", "entry"), ("/2", "entry")]),
        (RDF, "Old", [("/", "alternate"), ("/1", "entry")]),
        (BASED, "", [("/posts/", "alternate"), ("/posts/2024/one", "entry"), ("/posts/two", "entry")]),
    ],
)
def test_each_kind_is_read(text: str, title: str, expected: list[tuple[str, str]]) -> None:
    for body in (
        text.encode(),
        b"\xef\xbb\xbf" + text.encode(),
        b"\r\n  " + text.encode(),
        gzip.compress(text.encode()),
        gzip.compress(text[:100].encode()) + gzip.compress(text[100:].encode()),
        text.replace("UTF-8", "UTF-16").encode("utf-16"),
    ):
        reading = parse_feed(body, URL, None)
        assert links(reading) == expected
        assert reading.title == title
        assert not reading.malformed
        assert not reading.truncated


def test_a_text_sitemap() -> None:
    text = "\ufeffhttps://example.com/a\r\n\r\n  https://example.com/b \rnot an address\n/c\nhttps://example.com/a\nexample.com"
    assert links(parse_feed(text.encode(), URL, "text/plain")) == [("/a", "entry"), ("/b", "entry")]
    assert links(parse_feed(gzip.compress(text.encode()), URL, None)) == [("/a", "entry"), ("/b", "entry")]
    assert parse_feed(b"", URL, None).links == ()


def test_lines_that_meet_the_edge_of_a_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "".join(f"https://example.com/{number}\r\n" for number in range(50)).encode()
    for size in range(1, 70):
        monkeypatch.setattr(feeds, "CHUNK", size)
        assert len(parse_feed(text, URL, None).links) == 50
        assert len(parse_feed(URLSET.encode(), URL, None).links) == 4
        packed = gzip.compress(text[:999]) + gzip.compress(text[999:]) + b"padding"
        assert len(parse_feed(packed, URL, None).links) == 50


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        ('<?xml version="1.0" encoding="windows-1251"?><rss><channel><title>Яд</title>'.encode("cp1251"), None),
        ("<rss><channel><title>Яд</title>".encode("koi8-r"), "text/xml; charset=koi8-r"),
        ("<?xml version='1.0' encoding='latin1'?><rss><channel><title>Яд</title>".encode(), "text/xml; charset=utf-8"),
    ],
)
def test_charsets(body: bytes, content_type: str | None) -> None:
    assert parse_feed(body, URL, content_type).title == "Яд"


@pytest.mark.parametrize(
    "body",
    [
        RSS.encode() + b"<more/>",
        RSS.replace("<item><guid>tag", "<item>&broken<guid>tag").encode(),
        RSS.replace("<item><guid>tag", "<b><i></b></i>").encode(),
        RSS[: RSS.index("<item><guid>tag")].encode(),
        gzip.compress(RSS.encode() + b"x" * 100, mtime=0)[:-9],
    ],
)
def test_what_was_read_before_an_error_is_kept(body: bytes) -> None:
    reading = parse_feed(body, URL, None)
    assert links(reading)[-1] == ("/2", "entry")
    assert reading.malformed


def test_bytes_that_xml_does_not_allow_do_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    body = RSS.replace("One", "O\x00\x0b\x1fne\ufffe").encode().replace(b"Two", b"Tw\xff\xc3o")
    expected = parse_feed(RSS.encode(), URL, None)
    assert parse_feed(body, URL, None) == expected
    monkeypatch.setattr(feeds, "CHUNK", 64)
    assert parse_feed(body, URL, None) == expected


def test_a_page_is_no_feed() -> None:
    reading = parse_feed(b"<html><link rel='alternate' href='/x'/></html>", URL, None)
    assert reading.links == ()
    assert reading.malformed


LAUGHS = (
    "<!DOCTYPE rss [<!ENTITY a 'https://example.com/'>"
    + "".join(f"<!ENTITY {chr(98 + n)} '{f'&{chr(97 + n)};' * 10}'>" for n in range(12))
    + "]><rss><channel><title>&m;</title></channel></rss>"
)


@pytest.mark.parametrize(
    "text",
    [
        LAUGHS,
        "<!DOCTYPE rss [<!ENTITY x SYSTEM 'file:///etc/passwd'>]><rss><channel><title>&x;</title></channel></rss>",
        "<!DOCTYPE rss [<!ENTITY % x SYSTEM 'http://127.0.0.1/'> %x;]><rss><channel><title>t</title></channel></rss>",
        "<!DOCTYPE rss [<!ENTITY x 'y'>]><rss><channel><title>&x;</title></channel></rss>",
    ],
)
def test_entities_are_refused(text: str) -> None:
    reading = parse_feed(text.encode(), URL, None)
    assert reading == ParsedDocument(base=URL, malformed=True)


def test_a_document_type_alone_is_harmless() -> None:
    text = '<!DOCTYPE rss PUBLIC "-//Netscape//DTD RSS 0.91//EN" "http://my.netscape.com/rss-0.91.dtd">'
    assert parse_feed((text + RSS.partition("?>")[2]).encode(), URL, None).title == "The news"


def test_links_are_limited() -> None:
    body = b"".join(b"<url><loc>https://example.com/%d</loc></url>" % number for number in range(MAX_ENTRIES + 1))
    reading = parse_feed(b"<urlset>" + body + b"</urlset>", URL, None)
    assert len(reading.links) == MAX_ENTRIES
    assert reading.truncated
    assert not reading.malformed


def test_a_bomb_is_cut() -> None:
    packer = zlib.compressobj(9, wbits=31)
    zeros = b" " * 1024 * 1024
    bomb = packer.compress(b"<urlset><url><loc>https://example.com/a</loc></url>")
    bomb += b"".join(packer.compress(zeros) for _ in range(MAX_UNPACKED // len(zeros)))
    bomb += packer.compress(b"<url><loc>https://example.com/late</loc></url></urlset>") + packer.flush()
    assert len(bomb) < 200_000
    tracemalloc.start()
    reading = parse_feed(bomb, URL, None)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert links(reading) == [("/a", "entry")]
    assert reading.malformed
    assert peak < 5_000_000


HOSTILE = {
    "nested": b"<rss>" + b"<a>" * 500_000,
    "long comment": b"<rss><!--" + b"-x" * 1_000_000,
    "long tag": b"<rss><link " + b"a='b' " * 300_000,
    "long attribute": b"<rss><link href='" + b"x" * 2_000_000,
    "long text": b"<urlset><url><loc>" + b"x" * 2_000_000,
    "long name": b"<rss><" + b"x" * 2_000_000,
    "long line": b"x" * 2_000_000,
    "lines": b"\n" * 1_000_000,
    "ampersands": b"<rss><title>" + b"&amp;" * 400_000,
    "unknown entities": b"<rss><title>" + b"&x;" * 400_000,
    "packed comment": gzip.compress(b"<rss><!--" + b"x" * 40_000_000),
    "gzip of gzip": gzip.compress(gzip.compress(b"<rss/>")),
    "many gzips": gzip.compress(b"") * 200_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_takes_bounded_time_and_memory(name: str) -> None:
    started = time.process_time()
    assert parse_feed(HOSTILE[name], URL, None).links == ()
    assert time.process_time() - started < 2
    tracemalloc.start()
    parse_feed(HOSTILE[name][:300_000], URL, None)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 6_000_000


@settings(deadline=None)
@given(
    st.lists(
        st.sampled_from(
            ["<rss>", "<channel>", "<item>", "<link>", "</link>", "/x", "<link href='/y'/>", "<!--", "&amp;"]
        )
        | st.text(max_size=10)
    ),
    st.none() | st.text(max_size=30),
)
def test_any_text_is_a_feed(pieces: list[str], content_type: str | None) -> None:
    for body in ("".join(pieces).encode("utf-8", "replace"), ("<rss>" + "".join(pieces)).encode("utf-16", "replace")):
        for link in parse_feed(body, URL, content_type).links:
            assert normalise(link.url) == link.url


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_are_a_feed(body: bytes) -> None:
    parse_feed(body, URL, None)
    parse_feed(b"\x1f\x8b" + body, URL, None)
    parse_feed(gzip.compress(body), URL, None)


def test_an_escape_sequence_that_a_chunk_ends_in() -> None:
    """Python's decoder of ISO-2022-JP cannot stop in the middle of one that does not end."""
    start = b"<rss><channel><item><link>http://host.example/a</link></item>"
    body = start + b" " * (2 * CHUNK - len(start) - 12) + b"\x1b$((((((((((" + b"</channel></rss>"
    found = parse_feed(body, URL, "application/rss+xml; charset=iso-2022-jp")
    assert ([link.url for link in found.links], found.malformed) == (["http://host.example/a"], True)


def test_a_long_base_does_not_multiply_the_urls() -> None:
    """Each of these few bytes becomes 2,000 characters."""
    base = "http://e.test/" + "x" * 1_980 + "/"
    entries = "".join(f"<url><loc>{number}</loc></url>" for number in range(20_000))
    found = parse_feed(f"<urlset xml:base='{base}'>{entries}</urlset>".encode(), "http://e.test/")
    assert found.truncated
    assert 0.99 * MAX_URL_TEXT < sum(len(link.url) for link in found.links) <= MAX_URL_TEXT
