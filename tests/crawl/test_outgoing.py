"""Which headers a crawl takes from its user."""

import pytest

from swath import UsageError
from swath.crawl.http.outgoing import (
    MAX_HEADER_BYTES,
    MAX_HEADERS,
    OutgoingRequest,
    find_header_mistake,
    format_header,
)


def test_the_number_of_headers_is_limited() -> None:
    headers = {f"x-{number}": "1" for number in range(MAX_HEADERS)}
    assert find_header_mistake(headers) is None
    assert find_header_mistake({**headers, "y": "1"}) == "there are 101 headers, the limit is 100"


def test_the_bytes_of_all_headers_are_limited() -> None:
    headers = {"a": "x" * 999, "bcd": "y" * (MAX_HEADER_BYTES - 999 - 1 - 4 - 3 - 4)}
    assert find_header_mistake(headers) is None
    headers["bcd"] += "y"
    assert find_header_mistake(headers) == "the headers have 16,001 bytes, the limit is 16,000"


@pytest.mark.parametrize(
    ("headers", "mistake"),
    [
        ([("a", "b")], "the headers are of type list: pass a dict of names and values"),
        ({"a": 1}, "the header 'a' has the value 1: both must be a str"),
        ({1: "a"}, "the header 1 has the value 'a': both must be a str"),
        ({"Accept": "a", "aCCept": "b"}, "the header aCCept is there twice"),
        ({"Host": "a"}, "the header Host cannot be set: it follows from the URL"),
        ({"Content-Length": "1"}, "the header Content-Length cannot be set: it follows from the body"),
        ({"TE": "a"}, "the header TE cannot be set: it belongs to the connection, which swath manages"),
        ({"x": "1", "y": "2"}, None),
        ({}, None),
    ],
)
def test_mistakes_are_named(headers: object, mistake: str | None) -> None:
    assert find_header_mistake(headers) == mistake


@pytest.mark.parametrize("name", ["", "a b", "a:", "a\n", "ä", "a\0", "(a)"])
def test_names_of_headers(name: str) -> None:
    with pytest.raises(UsageError, match="is not a valid header"):
        format_header(name, "x")
    assert "is not a valid header" in (find_header_mistake({name: "x"}) or "")


@pytest.mark.parametrize("value", ["", " ", "a\r\nb: c", " a", "a ", "é", "\x7f", "a\tb"])
def test_values_of_headers(value: str) -> None:
    with pytest.raises(UsageError, match="is not a valid header"):
        format_header("x", value)
    assert "is not a valid header" in (find_header_mistake({"x": value}) or "")


def test_a_header_is_a_line() -> None:
    assert format_header("X-1", "a b") == "X-1: a b"
    assert format_header("x", "~") == "x: ~"


def test_the_headers_of_a_request_cannot_be_changed_in_place() -> None:
    request = OutgoingRequest("http://a.example/", headers={"a": "b"})
    with pytest.raises(TypeError):
        request.headers["c"] = "d"  # type: ignore[index]
    assert (request.method, request.body, request.proxy, dict(OutgoingRequest("").headers)) == ("GET", b"", None, {})
