"""What a response leads to, apart from its markup."""

import pytest

from swath.crawl.parse.page import parse_page
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
