"""URLs taken apart as libcurl takes them, and `--connect-to`."""

import re

import pycurl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swath.core.errors import UsageError
from swath.crawl.http.connect_to import ConnectTo, split_url

NUMBERS = re.compile(r"(0x[0-9a-f]*|[0-9]+)(\.(0x[0-9a-f]*|[0-9]+))*\.?")


@pytest.mark.parametrize(
    ("url", "host", "port", "authority", "path"),
    [
        ("http://a.example", "a.example", 80, "a.example", "/"),
        ("http://a.example:80/x", "a.example", 80, "a.example", "/x"),
        ("https://a.example:80/x", "a.example", 80, "a.example:80", "/x"),
        ("https://a.example?q", "a.example", 443, "a.example", "/?q"),
        ("http://user:pass@a.example/#f", "a.example", 80, "a.example", "/"),
        ("http://[2001:db8::1]:8080/a/../b?c=d?e#f?g", "[2001:db8::1]", 8080, "[2001:db8::1]:8080", "/a/../b?c=d?e"),
        ("http://a_b.example/%20@:80/", "a_b.example", 80, "a_b.example", "/%20@:80/"),
    ],
)
def test_parts(url: str, host: str, port: int, authority: str, path: str) -> None:
    target = split_url(url)
    assert target is not None
    assert (target.host, target.port, target.authority, target.path) == (host, port, authority, path)
    assert target.url == f"{target.scheme}://{authority}{path}"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "a.example",
        "ftp://a.example/",
        "file:///etc/passwd",
        "HTTP://a.example/",
        "http:/a.example/",
        "http://",
        "http://:80/",
        "http://a.example:0/",
        "http://a.example:65536/",
        "http://a.example:x/",
        "http://a\\@b/",
        "http://a@b@c/",
        "http://a b/",
        "http://a/ b",
        "http://a/\r\nX: y",
        "http://a/?\n",
        "http://ä.example/",
        "http://a/ä",
        "http://[::1/",
        "http://[::1%25eth0]/",
    ],
)
def test_what_cannot_be_fetched(url: str) -> None:
    assert split_url(url) is None


@given(st.from_regex(r"https?://[a-z0-9@:.\[\]\\/?#%]{1,12}(/[ -~]{0,10})?", fullmatch=True))
def test_libcurl_sees_the_same_host(url: str) -> None:
    """What we connect to is decided by our reading; libcurl must not have another."""
    target = split_url(url)
    if target is None:
        return
    try:
        parsed = pycurl.CurlUrl(target.url, pycurl.U_PATH_AS_IS)
    except pycurl.error:
        return  # then nothing is connected to
    assert int(parsed.getpart(pycurl.UPART_PORT, pycurl.U_DEFAULT_PORT)) == target.port
    # Numbers it makes into addresses whatever their form, which the guard on sockets sees.
    if not target.host.startswith("[") and not NUMBERS.fullmatch(target.host):
        assert parsed.host == target.host


@pytest.mark.parametrize(
    ("rules", "host", "port", "found"),
    [
        ([], "a", 80, None),
        (["a:80:b:81"], "a", 80, ("b", 81)),
        (["a:80:b:81"], "A", 80, ("b", 81)),
        (["a:80:b:81"], "a", 443, None),
        (["a:80:b:81"], "c", 80, None),
        (["::127.0.0.1:8080"], "any", 443, ("127.0.0.1", 8080)),
        (["a::b:"], "a", 443, ("b", 443)),
        ([":443::8443"], "a", 443, ("a", 8443)),
        (["a:80:b:81", "::c:82"], "a", 80, ("b", 81)),
        (["a:80:b:81", "::c:82"], "x", 80, ("c", 82)),
        (["[::1]:80:[::2]:81"], "[::1]", 80, ("[::2]", 81)),
        (["a:65535:b:65535"], "a", 65_535, ("b", 65_535)),
        (["a:1:b:1"], "a", 1, ("b", 1)),
    ],
)
def test_connect_to(rules: list[str], host: str, port: int, found: tuple[str, int] | None) -> None:
    assert ConnectTo.parse(rules).find(host, port) == found


@pytest.mark.parametrize(
    "rule",
    [
        "",
        "a",
        "a:80",
        "a:80:b",
        "a:80:b:x",
        "a:80:b:65536",
        "a:65536:b:81",
        "a:0:b:81",
        "a:80:b:0",
        "a:80:b:81:c",
        "::1:80:b:81",
    ],
)
def test_a_rule_that_is_none(rule: str) -> None:
    with pytest.raises(UsageError, match="is not HOST:PORT:HOST:PORT"):
        ConnectTo.parse([rule])
