"""Selection: texts, attributes and URLs of elements."""

from random import Random

import pytest

from swath.crawl import InvalidSelector, NoMatch, Page

HTML = """
<base href="/shop/">
<h1>  A <b>light</b>
 in the\tattic </h1>
<ul class=books>
  <li><a href="one?q=ü#top" title>One</a> <ul><li><a href="mailto:x@y.example">Two</a></ul>
  <li><a>Three</a> <img src=//cdn.example/x.png>
</ul>
<form action="/search"></form>
"""


@pytest.fixture
def page() -> Page:
    return Page.from_html(HTML, url="https://a.example/x/y")


def test_text_has_single_spaces(page: Page) -> None:
    assert page.css("h1").text() == page.css("h1").must_text() == "A light in the attic"
    assert page.css("a").texts() == ["One", "Two", "Three"]


def test_text_of_no_element_is_none(page: Page) -> None:
    nothing = page.css("h2")
    assert (nothing.text(), nothing.texts(), nothing.attr("x"), nothing.url(), nothing.urls()) == (
        None,
        [],
        None,
        None,
        [],
    )
    assert (nothing.tag, nothing.html, len(nothing), bool(nothing)) == (None, None, 0, False)


def test_must_names_the_selector_that_matches_nothing(page: Page) -> None:
    with pytest.raises(NoMatch, match="the selector 'h2 b' matches nothing"):
        page.css("h2").css("b").must_text()
    with pytest.raises(NoMatch, match="the selector 'form' has no text"):
        page.css("form").must_text()
    with pytest.raises(NoMatch, match="the selector 'a' has no attribute 'id'"):
        page.css("a").must_attr("id")
    with pytest.raises(NoMatch, match="has no http or https URL"):
        page.css("a[href^=mailto]").must_url()


def test_attributes(page: Page) -> None:
    assert page.css("a").attr("title") == ""
    assert page.css("a").attr("id") is None
    assert page.css("a").attrs("href") == ["one?q=ü#top", "mailto:x@y.example"]
    assert page.css("ul").must_attr("class") == "books"


def test_urls_are_absolute_and_normalised(page: Page) -> None:
    assert page.css("a").url() == "https://a.example/shop/one?q=%C3%BC"
    assert page.css("a").urls() == ["https://a.example/shop/one?q=%C3%BC"]
    assert page.css("img").must_url() == "https://cdn.example/x.png"
    assert page.css("form").url() == "https://a.example/search"


def test_iteration_and_indexing_give_selections(page: Page) -> None:
    links = page.css("a")
    assert [link.text() for link in links] == ["One", "Two", "Three"]
    assert (links[-1].text(), links[1:].texts(), len(links)) == ("Three", ["Two", "Three"], 3)
    assert links[0].tag == "a"
    assert links[2].html == "<a>Three</a>"
    with pytest.raises(IndexError):
        links[3]


def test_css_of_a_selection_finds_descendants_once(page: Page) -> None:
    items = page.css("li")
    assert items.css("a").texts() == ["One", "Two", "Three"]  # the second is in two of the items
    assert [item.css("a").texts() for item in items] == [["One", "Two"], ["Two"], ["Three"]]
    assert len(items[0].css("li")) == 1  # not the item itself


@pytest.mark.parametrize("selector", ["h1 >", "", "h1[", "a:nonsense"])
def test_a_selector_with_a_mistake(page: Page, selector: str) -> None:
    with pytest.raises(InvalidSelector, match="is not a valid CSS selector"):
        page.css(selector)
    with pytest.raises(InvalidSelector):
        page.css("li").css(selector)


def test_selectors_of_other_libraries_get_a_hint(page: Page) -> None:
    with pytest.raises(InvalidSelector, match=r"Use text\(\) or attr\(name\)"):
        page.css("h1::text")
    with pytest.raises(InvalidSelector, match="looks like XPath"):
        page.css("//h1")


def test_the_element_that_is_found_first_is_the_first_of_all() -> None:
    """A search for one element stops early. It finds the one that comes first in the document, not in the selector."""
    random = Random(1)
    selectors = [
        "h2, h1",
        "div p, a.y",
        "div > a",
        "p ~ a",
        "div:has(a)",
        "p:not(.x)",
        "span:nth-child(2)",
        ":is(a, p) span",
    ]

    def make(depth: int) -> str:
        name = random.choice(["div", "p", "a", "span", "h1", "h2"])
        inside = "".join(make(depth - 1) for _ in range(random.randrange(4))) if depth else ""
        return f"<{name} class={random.choice('xyz')} id=i{random.randrange(10**6)}>{inside}</{name}>"

    found = 0
    for _ in range(50):
        page = Page.from_html(make(5))
        for selector in selectors:
            first, selected = page.css(selector).html, page.css(selector)
            assert first == next((one.html for one in list(selected)), None)
            found += len(selected)
    assert found > 500
