"""What a response leads to, apart from its markup."""

import pytest

from swath.crawl.parse.page import MIN_TEXT, parse_page
from tests.crawl.handling import answered

URL = "http://e.test/a/b"


@pytest.mark.parametrize(
    ("header", "links"),
    [
        ("5; url=/next", ("http://e.test/next",)),
        ("0;'c'", ("http://e.test/a/c",)),
        ("0", ()),
        ("0url=/x", ()),
        ("0; url=mailto:x@e.test", ()),
    ],
)
@pytest.mark.parametrize("content_type", ["text/html", "image/png"])
def test_a_refresh_header_is_a_link(header: str, links: tuple[str, ...], content_type: str) -> None:
    response = answered(URL, body=b"x", Refresh=header, Content_Type=content_type)
    assert parse_page(URL, response, limit=1_000, agent="swath").links == links


def test_a_link_that_the_refresh_header_names_too_is_one_link() -> None:
    response = answered(URL, body=b"<a href=/y><a href=/x>", Refresh="1;url=/x", Content_Type="text/html")
    assert parse_page(URL, response, limit=1_000, agent="swath").links == ("http://e.test/x", "http://e.test/y")


def test_a_refresh_header_is_not_followed_if_the_page_asks_not_to() -> None:
    response = answered(URL, Refresh="1;url=/x", X_Robots_Tag="nofollow")
    assert parse_page(URL, response, limit=1_000, agent="swath").nofollow


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        ("<a href='/?q=тест'>".encode("cp1251"), "text/html; charset=windows-1251"),
        ("<meta charset=cp1251><a href='/?q=тест'>".encode("cp1251"), "text/html"),
    ],
)
def test_queries_are_encoded_in_the_charset_of_the_page(body: bytes, content_type: str) -> None:
    response = answered(URL, body=body, Content_Type=content_type)
    assert parse_page(URL, response, limit=1_000, agent="swath").links == ("http://e.test/?q=%F2%E5%F1%F2",)


def test_text_that_does_not_fit_is_reported() -> None:
    """One character beyond U+FFFF makes all others take four bytes of memory, too."""
    link = b"<a href=/x>"
    response = answered(URL, body=link + b"x" * MIN_TEXT + "\U0001f600".encode(), Content_Type="text/html")
    page = parse_page(URL, response, limit=2 * MIN_TEXT, agent="swath")
    assert (page.links, page.decode_error) == (("http://e.test/x",), "truncated at the limit")
    response = answered(URL, body=link + b"x" * MIN_TEXT, Content_Type="text/html")
    assert parse_page(URL, response, limit=2 * MIN_TEXT, agent="swath").decode_error is None
