"""Character references in attributes, as browsers read them."""

import pytest

from swath.crawl.parse.elements import scan_elements

BAD = "\ufffd"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("&amp;", "&"),
        ("&#65;&#x41;&#X41;", "AAA"),
        ("&#65", "A"),
        ("a=1&copy=2", "a=1&copy=2"),
        ("a=1&copy;=2", "a=1©=2"),
        ("&nosuch;", "&nosuch;"),
        ("&#0;", BAD),
        ("&#xd7ff;", "\ud7ff"),
        ("&#xd800;", BAD),
        ("&#xdfff;", BAD),
        ("&#xe000;", "\ue000"),
        ("&#x10ffff;", "\U0010ffff"),
        ("&#x110000;", BAD),
        ("&#1114111;", "\U0010ffff"),
        ("&#1114112;", BAD),
    ],
)
def test_a_reference_means_a_character(written: str, meant: str) -> None:
    (found,) = scan_elements(f'<a href="{written}">')
    assert found.attributes["href"] == meant
