"""Page: the response that a handler sees."""

import gzip
import threading
from datetime import UTC, datetime

import pytest
from selectolax.lexbor import LexborHTMLParser

from swath.core.errors import UsageError
from swath.crawl import Follow, Page, PageRetry, PageTooComplex
from swath.crawl.handlers.tree import MAX_DEPTH_SUM, check_cost, parse_tree
from swath.crawl.parse.elements import MAX_TAGS


def test_a_page_from_html() -> None:
    moment = datetime(2031, 2, 3, 4, 5, 6, 789, tzinfo=UTC)
    page = Page.from_html(
        "<title>Tëst</title><a href=b#c>", url="HTTPS://A.example/x/../a", status=404, depth=2,
        referrer="https://a.example/", payload={"n": 1}, fetched_at=moment,
    )  # fmt: skip
    assert (page.url, page.status, page.depth, page.referrer) == ("https://a.example/a", 404, 2, "https://a.example/")
    assert (page.title, page.links(), page.payload) == ("Tëst", ["https://a.example/b"], {"n": 1})
    assert page.fetched_at == moment


def test_a_page_from_html_needs_a_url() -> None:
    with pytest.raises(UsageError, match="is not an http or https URL"):
        Page.from_html("", url="ftp://a.example/")


def test_headers_are_case_insensitive() -> None:
    page = Page.from_html("", headers={"X-One": "1", "Content-Type": "text/plain"})
    assert page.headers["x-ONE"] == "1"
    assert page.headers.get("nothing") is None
    assert dict(page.headers) == {"content-type": "text/plain", "x-one": "1"}
    assert page.headers.get_all("X-One") == ["1"] or page.headers.get_all("X-One") == ("1",)


def test_text_is_decoded_as_a_browser_does() -> None:
    assert Page.from_html("é x".encode("latin-1"), headers={"content-type": "text/html"}).text == "é x"
    declared = b"<meta charset=iso-8859-2>\xb1"
    assert Page.from_html(declared, headers={"content-type": "text/html"}).text.endswith("ą")


def test_body_is_without_content_codings() -> None:
    page = Page.from_html(
        gzip.compress(b'{"a": [1]}'), headers={"Content-Encoding": "gzip", "Content-Type": "application/json"}
    )
    assert page.body == b'{"a": [1]}'
    assert page.json() == {"a": [1]}


def test_the_tree_is_built_on_first_use_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[str] = []

    def parse(text: str) -> LexborHTMLParser:
        built.append(text)
        return parse_tree(text)

    monkeypatch.setattr("swath.crawl.handlers.page.parse_tree", parse)
    page = Page.from_html("<h1>x</h1>")
    assert (page.text, built) == ("<h1>x</h1>", [])
    assert page.css("h1").text() == "x"
    assert page.css("h1").url() is None
    assert len(built) == 1


def test_follow_takes_a_selector_or_a_selection() -> None:
    page = Page.from_html("<a href=/1>a</a><a href=mailto:x>b</a><p><a href=/2#x>c</a>")
    assert page.follow("a", to="book", priority=5, payload=[1]) == Follow(
        ("https://example.com/1", "https://example.com/2"), "book", 5, [1]
    )
    assert page.follow(page.css("p").css("a")).urls == ("https://example.com/2",)
    assert Follow("https://example.com/").urls == ("https://example.com/",)


def test_retry_leaves_the_handler() -> None:
    with pytest.raises(PageRetry) as raised:
        Page.from_html("").retry(after=5, reason="not ready")
    assert (raised.value.after, raised.value.reason) == (5, "not ready")
    for after in (-1, float("nan"), float("inf")):
        with pytest.raises(UsageError, match="must be a number of seconds from 0"):
            Page.from_html("").retry(after=after)


def test_links_of_a_page_without_a_tree() -> None:
    """Absolute links, links() and text work on a page that is too complex for selectors."""
    page = Page.from_html("<a href=/x>" + "<div>" * 50_000)
    with pytest.raises(PageTooComplex, match=r"nested too deep for selectors.*use page\.text"):
        page.css("a")
    assert page.links() == ["https://example.com/x"]
    assert page.resolve("https://b.example") == "https://b.example/"
    assert "<div>" in page.text


DEEP = 20_000  # levels, whose sum is above MAX_DEPTH_SUM
assert DEEP**2 / 2 > MAX_DEPTH_SUM

# Each page nests elements DEEP levels deep, and tries to look as if it closed them.
HOSTILE = {
    "unclosed": "<div>" * DEEP,
    "end tags beyond a cell": ("<div>" * 400 + "<table><td>" + "</div>" * 400) * 400,
    "end tags in comments": "<div><!--</div>-->" * DEEP,
    "end tags in attributes": "<div x='</div>'>" * DEEP,
    "a quote that opens nothing": '<a =">' + "<div>" * DEEP + '">',
    "cells outside a table": "<td><div></td>" * DEEP,
    "groups outside a select": "<td><optgroup></td>" * DEEP,
    "foreign content that a start tag ended": "<svg><div></div>" + "<path/>" * DEEP,
    "foreign content that an end tag ended": "<div><svg></div>" + "<path/>" * DEEP,
    "a slash that is part of a value": "<svg>" + "<path d=x/>" * DEEP,
    "a style outside foreign content": "<svg><b><style></b></style>" * DEEP,
    "a style that a select ignores": "<select><style></select>" + "<div>" * DEEP + "</style>",
    "formatting that each paragraph reopens": "".join(f"<b a={n}>" for n in range(2_000)) + "<p>x" * 20_000,
    "attributes": "<a " + " ".join(f"a{n}" for n in range(DEEP)) + ">",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=list(HOSTILE))
def test_a_page_that_was_made_to_be_slow_is_refused(text: str) -> None:
    with pytest.raises(PageTooComplex):
        check_cost(text)


LARGE = {
    "a list without end tags": "<ul>" + "<li>a <b>x</b> <a href=x>y</a>" * 4_000 + "</ul>",
    "a table without end tags": "<table>" + "<tr><td>a<td><b>b</b>" * 4_000 + "</table>",
    "a table with end tags": "<table><tbody>" + "<tr><td>a</td><td>b</td></tr>" * 4_000 + "</table>",
    "drawings": "<div><svg><path d='x'/><g><use/></g></svg><br></div>" * 4_000,
    "markup in a script": "<svg><path/></svg><script>" + "<p>x<\\/p>" * 20_000 + "</script>" + "<div>x</div>" * 4_000,
    "paragraphs without end tags": "<p>text<div>x</div>" * 4_000,
    "choices": ("<select>" + "<option>a" * 50 + "</select>") * 200,
    "unclosed elements": ("<div>" + "<span>x</span>" * 20) * 500,
}


@pytest.mark.parametrize("text", LARGE.values(), ids=list(LARGE))
def test_a_large_page_has_a_tree(text: str) -> None:
    assert text.count("<") > MAX_TAGS
    check_cost(text)
    assert Page.from_html(text).css("body") is not None


def test_pages_are_parsed_by_several_threads_at_once() -> None:
    """A page that is parsed does not lock those of other threads."""
    inside, release = threading.Event(), threading.Event()

    class SlowPage(Page):
        @property
        def text(self) -> str:
            inside.set()
            assert release.wait(60)
            return "<h1>slow"

    slow = SlowPage(Page.from_html("")._response)
    thread = threading.Thread(target=slow.css, args=("h1",))
    thread.start()
    assert inside.wait(60)
    assert Page.from_html("<h1>fast").css("h1").text() == "fast"
    release.set()
    thread.join()
