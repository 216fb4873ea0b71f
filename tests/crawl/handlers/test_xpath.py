"""Page.xpath: elements, texts, numbers and booleans, on pages of any kind."""

import builtins
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from swath import MissingExtra
from swath.crawl import Crawler, InvalidSelector, NoMatch, Page, PageTooComplex
from swath.crawl.handlers import xpath

HTML = """
<base href="/shop/">
<h1>  A <b>light</b>
 in the\tattic<!-- not shown --> </h1>
<ul class=books>
  <li><a href="one?q=ü#top" title>One</a> <ul><li><a href="mailto:x@y.example">Two</a></ul>
  <li><a>Three</a> <img src=//cdn.example/x.png>
</ul>
"""


@pytest.fixture
def page() -> Page:
    return Page.from_html(HTML, url="https://a.example/x/y")


def test_elements_are_read_as_with_css(page: Page) -> None:
    links = page.xpath("//a")
    assert links.texts() == page.css("a").texts() == ["One", "Two", "Three"]
    assert page.xpath("//h1").must_text() == "A light in the attic"
    assert (links.attr("title"), links.attr("id"), links.attrs("href")) == ("", None, page.css("a").attrs("href"))
    assert (links.url(), links.urls()) == ("https://a.example/shop/one?q=%C3%BC", page.css("a").urls())
    assert page.xpath("//img").must_url() == "https://cdn.example/x.png"
    assert (links.tag, links[2].html, links.value) == ("a", "<a>Three</a>", None)
    assert ([link.text() for link in links], links[1:].texts()) == (["One", "Two", "Three"], ["Two", "Three"])
    assert page.follow(links).urls == page.follow("a").urls


def test_texts_and_attributes_are_matches(page: Page) -> None:
    hrefs = page.xpath("//a/@href")
    assert (hrefs.texts(), hrefs.urls()) == (page.css("a").attrs("href"), page.css("a").urls())
    assert (hrefs.value, hrefs.tag, hrefs.html, hrefs.attr("href")) == ("one?q=ü#top", None, None, None)
    assert page.xpath("//b/text()").text() == "light"
    assert page.xpath("//h1/comment()").text() == "not shown"
    assert page.xpath("//h1/namespace::*").texts() == []


@pytest.mark.parametrize(
    ("expression", "value", "text", "true"),
    [
        ("count(//a)", 3.0, "3", True),
        ("count(//a) div 2", 1.5, "1.5", True),
        ("1 div 0", float("inf"), "Infinity", True),
        ("boolean(//h1)", True, "true", True),
        ("boolean(//h2)", False, "false", False),
        ("string(//b)", "light", "light", True),
        ("string(//h2)", "", "", True),
        ("//h2", None, None, False),
    ],
)
def test_values_of_expressions(page: Page, expression: str, value: object, text: str | None, true: bool) -> None:
    found = page.xpath(expression)
    assert (found.value, found.text(), bool(found)) == (value, text, true)
    assert found.url() is None or isinstance(value, str)


def test_a_number_that_is_none(page: Page) -> None:
    assert page.xpath("number('x')").text() == "NaN"


def test_must_names_the_expression(page: Page) -> None:
    with pytest.raises(NoMatch, match="the selector '//h2' matches nothing"):
        page.xpath("//h2").must_text()
    with pytest.raises(NoMatch, match=r"the selector '//ul \.//x' matches nothing"):
        page.xpath("//ul").xpath(".//x").must_url()
    with pytest.raises(NoMatch, match="has no attribute 'id'"):
        page.xpath("//a").must_attr("id")


def test_xpath_of_a_selection_is_relative_and_finds_elements_once(page: Page) -> None:
    items = page.xpath("//li")
    assert items.xpath(".//a").texts() == ["One", "Two", "Three"]  # the second is in two of the items
    assert [item.xpath(".//a").texts() for item in items] == [["One", "Two"], ["Two"], ["Three"]]
    assert items.xpath("name()").texts() == ["li", "li", "li"]  # equal texts are different matches
    assert page.xpath("//a/@href").xpath(".").texts() == []


def test_regular_expressions_have_a_prefix(page: Page) -> None:
    assert page.xpath("//a[re:test(., '^T')]").texts() == ["Two", "Three"]


@pytest.mark.parametrize(
    "expression",
    ["//a[", "", "//x:a", "foo(1)", "$x", "//a\0", "\ud800", "(" * 20_000, "document('/etc/passwd')", "li > > a"],
)
def test_an_expression_with_a_mistake(page: Page, expression: str) -> None:
    with pytest.raises(InvalidSelector, match="is not a valid XPath expression"):
        page.xpath(expression)


def test_a_css_selector_gets_a_hint(page: Page) -> None:
    with pytest.raises(InvalidSelector, match=r"Use css\(\) for CSS selectors"):
        page.xpath(".price")


def test_a_literal_expression_is_checked_when_the_handler_is_registered() -> None:
    def read(page: Page) -> None:
        page.xpath("//a[")

    with pytest.raises(InvalidSelector, match=r"handler read .*test_xpath.py:\d+.*'//a\[' is not a valid XPath"):
        Crawler().default()(read)


def test_the_tree_is_built_on_first_use_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[str] = []
    parse_xpath_tree = xpath.parse_xpath_tree

    def parse(text: Any) -> Any:
        built.append(text.text)
        return parse_xpath_tree(text)

    monkeypatch.setattr("swath.crawl.handlers.page.parse_xpath_tree", parse)
    page = Page.from_html("<h1>x</h1>")
    assert (page.css("h1").text(), built) == ("x", [])
    assert page.xpath("//h1").text() == page.xpath("//h1").xpath("text()").text() == "x"
    assert built == ["<h1>x</h1>"]


def test_a_page_in_another_encoding() -> None:
    declared = b"<meta charset=iso-8859-2><p>\xb1"
    assert Page.from_html(declared, headers={"content-type": "text/html"}).xpath("//p").text() == "ą"
    declared = b"<?xml version='1.0' encoding='utf-16'?><meta charset=utf-16><p>a\xe9"
    assert Page.from_html(declared, headers={"content-type": "text/html; charset=latin-1"}).xpath("//p").text() == "aé"


@pytest.mark.parametrize("text", ["", "  \n", "text", "<", "<!--", "\0", "<?pi", "</p>", "<!DOCTYPE html>", "\ufeff"])
def test_pages_with_hardly_anything(text: str) -> None:
    assert Page.from_html(text).xpath("//h1").texts() == []


def test_entities_are_not_read() -> None:
    page = Page.from_html('<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd"><!ENTITY b "bb">]><p>&a;&b;&amp;</p>')
    assert page.xpath("//p").text() == "&a;&b;&"


def test_nul_does_not_end_the_page() -> None:
    assert Page.from_html("<p>a\0b</p><i>c</i>").xpath("//i").text() == "c"


def test_a_text_of_millions_of_characters_is_read() -> None:
    page = Page.from_html("<p>" + "x" * 1_900_000)
    assert len(page.xpath("//p").must_text()) == 1_900_000


DEEP: dict[str, Callable[[], str]] = {
    "nested": lambda: "<div>" * 50_000,
    "few tags, too deep for lxml": lambda: "<div>" * 4_900 + "<h1>x",
    "large": lambda: "x" * 2_000_001,
    "many tags": lambda: "<br>" * 50_001,
}


@pytest.mark.parametrize("name", DEEP)
def test_a_page_that_is_too_complex(name: str) -> None:
    page = Page.from_html(DEEP[name]())
    with pytest.raises(PageTooComplex, match=r"nested too deep, for selectors.*use page\.text"):
        page.xpath("//h1")


PIECES = ["<font>", "<b><p>", "<p><b x=1>", "<table><tr><td>", "<li><ul>", "<a href=x>", "<svg>", "<option>", "</p>"]


@pytest.mark.parametrize("piece", PIECES)
@pytest.mark.parametrize("times", [1_600, 16_000])
def test_hostile_markup_takes_little_time(piece: str, times: int) -> None:
    """Whatever the limits of the tree admit."""
    page = Page.from_html(piece * times + "<h6>x")
    began = time.process_time()
    try:
        page.xpath("//h6").texts()
        page.xpath("//*[last()]").texts()
    except PageTooComplex:
        pass
    assert time.process_time() - began < 2


def test_lxml_is_optional(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    import_module = builtins.__import__

    def refuse(name: str, *arguments: Any) -> Any:
        if name.partition(".")[0] == "lxml":
            raise ModuleNotFoundError("No module named 'lxml'", name="lxml")
        return import_module(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingExtra, match=r"pip install 'swath\[xpath\]'"):
        page.xpath("//a")
    with pytest.raises(MissingExtra):
        Crawler().default()(use_xpath)


def use_xpath(page: Page) -> None:
    page.xpath("//a")


def test_an_element_is_used_in_another_thread(page: Page) -> None:
    links = page.xpath("//a")
    texts: list[str] = []
    thread = threading.Thread(target=lambda: texts.extend(links.texts()))
    thread.start()
    thread.join()
    assert texts == ["One", "Two", "Three"]
