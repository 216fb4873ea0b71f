"""Heads taken apart: what came, whatever came."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swath.crawl.http.response import Headers, find_final_head

OK = [b"HTTP/1.1 200 OK\r\n", b"A: b\r\n", b"\r\n"]
HINTS = [b"HTTP/1.1 103 Early Hints\r\n", b"Link: x\r\n", b"\r\n"]
H2 = [b"HTTP/2 404 \r\n", b"a: b\r\n", b"\r\n"]


def test_headers_are_looked_up_by_lower_case_name() -> None:
    headers = Headers(
        b"HTTP/1.1 200 OK: not a header\r\nContent-Type:text/html \r\nX: 1\r\nx: 2\r\nX : 3\r\nEmpty:\r\n"
        b"Folded: a\r\n\tb\r\n   c\r\nno colon\r\nBytes: \xe4\r\n\r\n"
    )
    assert headers.get("content-type") == "text/html"
    assert headers.get("x") == "1"
    assert headers.get_all("x") == ["1", "2", "3"]
    assert headers.get_list("x") == "1, 2, 3"
    assert headers.get("empty") == ""
    assert headers.get("folded") == "a b c"
    assert headers.get("bytes") == "ä"
    assert "no colon" not in headers
    assert headers.get("none") is None
    assert headers.get_list("none") is None
    assert headers.get_all("none") == ()
    assert headers.get_all("folded") == ("a b c",)
    assert len(headers) == 5
    assert len(Headers()) == 0


def test_values_that_repeat_are_all_kept() -> None:
    assert Headers(b"H\r\nA: same\r\nA: same\r\nA: \r\nA: same\r\n\r\n").get_all("a") == ["same", "same", "", "same"]


def test_lines_that_end_in_a_line_feed_only() -> None:
    headers = Headers(b"HTTP/1.0 200 OK\nA: b\nC: d\n\n")
    assert (headers.get("a"), headers.get("c")) == ("b", "d")


@given(st.binary(max_size=200))
def test_any_bytes_can_be_headers(head: bytes) -> None:
    headers = Headers(head)
    assert headers.get("") is None or isinstance(headers.get(""), str)


@pytest.mark.parametrize(
    ("lines", "tunnelled", "found"),
    [
        (OK, False, OK),
        (HINTS + OK, False, OK),
        (HINTS + HINTS + H2, False, H2),
        ([*OK, b"Trailer: x\r\n"], False, OK),
        ([*OK, b"HTTP/1.1 500 Not: an answer\r\n", b"\r\n"], False, OK),
        (OK + H2, True, H2),
        (HINTS, False, None),
        (OK[:2], False, None),
        (OK, True, None),
        ([], False, None),
        ([b"HTTP/1.0 200 OK\n", b"\n"], False, [b"HTTP/1.0 200 OK\n", b"\n"]),
    ],
)
def test_the_final_head_is_found(lines: list[bytes], tunnelled: bool, found: list[bytes] | None) -> None:
    assert find_final_head(lines, tunnelled=tunnelled) == found
