"""Page: the response that a handler sees."""

import gzip
import threading
from datetime import UTC, datetime

import pytest
from selectolax.lexbor import LexborHTMLParser

from swath.core.errors import UsageError
from swath.crawl import Follow, Page, PageRetry, PageTooComplex
from swath.crawl.parse import page_text
from swath.crawl.parse.page_text import PageText


def count_trees(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that grows with the text of each tree."""
    built: list[str] = []

    def build(text: str) -> LexborHTMLParser:
        built.append(text)
        return LexborHTMLParser(text)

    monkeypatch.setattr(page_text, "LexborHTMLParser", build)
    return built


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
    built = count_trees(monkeypatch)
    page = Page.from_html("<title>t</title><a href=/y><h1>x</h1>")
    assert (page.text.endswith("<h1>x</h1>"), built) == (True, [])
    assert page.css("h1").text() == "x"
    assert page.css("h1").url() is None
    assert (page.title, page.links(), page.css("a").url()) == (
        "t", ["https://example.com/y"], "https://example.com/y"
    )  # fmt: skip
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
    with pytest.raises(PageTooComplex, match=r"nested too deep, for selectors.*use page\.text"):
        page.css("a")
    assert page.links() == ["https://example.com/x"]
    assert page.resolve("https://b.example") == "https://b.example/"
    assert "<div>" in page.text


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
    assert text.count("<") > 10_000
    assert Page.from_html(text).css("body") is not None


def test_pages_are_parsed_by_several_threads_at_once() -> None:
    """A page that is parsed does not lock those of other threads."""
    inside, release = threading.Event(), threading.Event()

    class SlowPage(Page):
        def _decode_text(self) -> PageText:
            inside.set()
            assert release.wait(60)
            return PageText("<h1>slow")

    slow = SlowPage(Page.from_html("")._response)
    thread = threading.Thread(target=slow.css, args=("h1",))
    thread.start()
    assert inside.wait(60)
    assert Page.from_html("<h1>fast").css("h1").text() == "fast"
    release.set()
    thread.join()
