"""URLs have one spelling, and what is no URL to crawl is None."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from swath.crawl.robots.parser import RobotsTxt
from swath.crawl.urls import normalise as module
from swath.crawl.urls.normalise import (
    MAX_TEXT,
    MAX_URL,
    authority,
    host,
    normalise,
    normalise_all,
    normalise_with_ada,
    origin,
    parse_seed,
    site,
    strip_session,
    strip_tracking,
    suggest_seed,
    surt,
)
from swath.crawl.urls.scope import ScopeKind, get_scope_name
from swath.crawl.urls.traps import find_trap

BASE = "https://www.example.com/a/b/c.html?q=1"

NORMAL = [
    ("https://example.com", "https://example.com/"),
    ("HTTPS://EXAMPLE.com:443/A", "https://example.com/A"),
    ("http://example.com:80/", "http://example.com/"),
    ("http://example.com:8080/", "http://example.com:8080/"),
    ("https://example.com:80/", "https://example.com:80/"),
    ("http://0x7f.1/", "http://127.0.0.1/"),
    ("http://2130706433/", "http://127.0.0.1/"),
    ("http://017700000001/", "http://127.0.0.1/"),
    ("http://[::ffff:7F00:1]/", "http://[::ffff:7f00:1]/"),
    ("http:\\\\example.com\\a\\b", "http://example.com/a/b"),
    ("ht\ntp://exa\tmple.com/a\r\nb", "http://example.com/ab"),
    ("  http://example.com/a  ", "http://example.com/a"),
    ("http:///example.com/a", "http://example.com/a"),
    ("http://Bücher.example/ü?ü=é", "http://xn--bcher-kva.example/%C3%BC?%C3%BC=%C3%A9"),
    ("http://\uff45xample.com/", "http://example.com/"),
    ("http://ex%41mple.com/", "http://example.com/"),
    ("http://example.com/%2f%7e%41%zz", "http://example.com/%2F~A%zz"),
    ("http://example.com/a%20b c", "http://example.com/a%20b%20c"),
    ("http://example.com/a/./b/../c/%2e%2E/d", "http://example.com/a/d"),
    ("http://example.com/a//b", "http://example.com/a//b"),
    ("http://example.com/#top", "http://example.com/"),
    ("http://example.com/?#top", "http://example.com/?"),
    ("http://example.com/a?", "http://example.com/a?"),
    ("http://example.com/a??", "http://example.com/a??"),
    ("http://example.com/a??#top", "http://example.com/a??"),
    ("http://example.com/?a=%26&b=%3D", "http://example.com/?a=%26&b=%3D"),
    ("http://user:pa%40ss@example.com/x", "http://example.com/x"),
    ("http://user@example.com:8080/x@y", "http://example.com:8080/x@y"),
    ("http://example.com./x", "http://example.com/x"),
    ("http://example.com.:8080/x", "http://example.com:8080/x"),
    ("http://a_b.example.com/", "http://a_b.example.com/"),
]


@pytest.mark.parametrize(("text", "url"), NORMAL)
def test_an_url_has_one_spelling(text: str, url: str) -> None:
    assert normalise(text) == url
    assert normalise(url) == url


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("", "https://www.example.com/a/b/c.html?q=1"),
        ("d", "https://www.example.com/a/b/d"),
        ("/d", "https://www.example.com/d"),
        ("../../../d", "https://www.example.com/d"),
        ("?x", "https://www.example.com/a/b/c.html?x"),
        ("#x", "https://www.example.com/a/b/c.html?q=1"),
        ("//other.example/x", "https://other.example/x"),
        ("\\\\other.example\\x", "https://other.example/x"),
        ("https:d", "https://www.example.com/a/b/d"),
        ("http:d", "http://d/"),
        ("d:e", None),
        ("./d:e", "https://www.example.com/a/b/d:e"),
    ],
)
def test_a_link_is_read_where_it_stands(text: str, url: str | None) -> None:
    assert normalise(text, BASE) == url


@pytest.mark.parametrize(
    "text",
    [
        "",
        "example.com",
        "/a",
        "mailto:someone@example.com",
        "javascript:void(0)",
        "data:text/html,<a href=/>",
        "ftp://example.com/",
        "file:///etc/passwd",
        "httpx://example.com/",
        "http://",
        "http://?x",
        "http://user@/",
        "http://exa mple.com/",
        "http://1.2.3.4.5/",
        "http://256.1.1.1/",
        "http://[::1/",
        "http://example.com:99999/",
        "http://example.com:25/",
        "http://.../",
        "http://./",
        "http://.example.com/",
        "http://a..example.com/",
        "http://example.com../",
        f"http://{'a' * 64}.com/",
        f"http://{'a.' * 127}com/",
        "http://example.com/\ud800",
    ],
)
def test_what_cannot_be_crawled_is_none(text: str) -> None:
    assert normalise(text) is None


def test_length_is_counted_after_normalising() -> None:
    stem = "http://example.com/"
    assert normalise(stem + "a" * (MAX_URL - len(stem))) is not None
    assert normalise(stem + "a" * (MAX_URL - len(stem) + 1)) is None
    assert normalise(stem + "%41" * (MAX_URL - len(stem))) is not None
    assert normalise(stem + "ü" * (MAX_URL // 6)) is None
    assert normalise(stem + "./" * MAX_TEXT) is None


@settings(deadline=None)
@given(st.text(max_size=300), st.none() | st.just(BASE))
@example("http://e.com/%%32%65", None)
@example("http://e.com/%2%65%32e/", None)
@example("http://e.com/a/%2e%252e", None)
@example("http://e.com:0080./", None)
def test_any_text_is_an_url_in_its_normal_form_or_none(text: str, base: str | None) -> None:
    url = normalise(text, base)
    if url is not None:
        assert normalise(url) == url
        assert url.isascii()
        assert url.startswith((f"http://{authority(url)}/", f"https://{authority(url)}/"))
        assert host(url)
        assert len(url) <= MAX_URL


@settings(deadline=None)
@given(st.text(alphabet="%0123456789aAeEfF./?#&:@;=[]\\-", max_size=60))
def test_normalising_twice_changes_nothing(tail: str) -> None:
    url = normalise("http://example.com/" + tail)
    assert url is not None
    assert normalise(url) == url


HOSTS = st.sampled_from(
    ["", "http://example.com", "https://0x7f.1", "http://127.0.0.1", "http://1", "http://a.b.", "http://a:80"]
)
BASES = st.sampled_from(
    [None, BASE, "http://0x7f.1/a", "HTTP://example.com/", "http://u@e.com/", "http:///e/x", "http://e"]
)


@settings(deadline=None)
@given(HOSTS, st.text(alphabet="ab9A_~!$&()*+,;=:@/?.-", max_size=20), BASES)
@example("", "/a/../b", BASE)
@example("", "//a/b", BASE)
@example("", "/a/.", BASE)
@example("", "/a?", BASE)
@example("", "/a?..", BASE)
@example("http://example.com", "//a", None)
@example("http://example.com", ":80/", None)
@example("http://example.com", ":0080/", None)
@example("http://example.com", ":25/", None)
@example("http://example.com", "", None)
def test_plain_links_are_what_the_library_makes_of_them(start: str, tail: str, base: str | None) -> None:
    assert normalise(start + tail, base) == normalise_with_ada(start + tail, base)
    if base is not None:
        assert normalise_all([start + tail, tail], base) == [normalise(start + tail, base), normalise(tail, base)]


@pytest.mark.parametrize("base", ["nonsense", "", "http://", "mailto:a@b"])
def test_a_base_that_is_none_leads_nowhere(base: str) -> None:
    assert normalise("/a", base) is None
    assert normalise("a", base) is None


@settings(deadline=None)
@given(st.text(alphabet="%0123456789aAeE./?&;=()Ssidx", max_size=80))
def test_what_takes_parts_of_urls_takes_any(tail: str) -> None:
    url = normalise("http://example.com/" + tail)
    assert url is not None
    for made in (strip_session(url), strip_tracking(url)):
        assert normalise(made) == made
    assert surt(url).startswith("com,example)/")


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("example.com", "https://example.com/"),
        (" example.com\r\n", "https://example.com/"),
        ("\ufeffexample.com", "https://example.com/"),
        ("example.com:8080/x?y", "https://example.com:8080/x?y"),
        ("localhost:8080", "http://localhost:8080/"),
        ("app.localhost/x", "http://app.localhost/x"),
        ("127.0.0.1:8000", "http://127.0.0.1:8000/"),
        ("[::1]:8000/x", "http://[::1]:8000/x"),
        ("https://localhost", "https://localhost/"),
        ("localhost.example.com", "https://localhost.example.com/"),
        ("//example.com/x", "https://example.com/x"),
        ("http://example.com", "http://example.com/"),
        ("HTTP://example.com", "http://example.com/"),
        ("http:example.com", "http://example.com/"),
        ("1.2.3.4/x", "https://1.2.3.4/x"),
        ("[2001:db8::1]:8080", "https://[2001:db8::1]:8080/"),
        ("bücher.example", "https://xn--bcher-kva.example/"),
        ("ftp://example.com", None),
        ("mailto:someone@example.com", None),
        ("http:/example.com", "http://example.com/"),
        ("example.com//x", "https://example.com//x"),
        ("https//example.com", None),
        ("https;//example.com", None),
        ("https://https://example.com", None),
        ("two words", None),
        ("", None),
        ("/", None),
    ],
)
def test_a_seed_may_be_a_bare_host(text: str, url: str | None) -> None:
    assert parse_seed(text) == url


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("https//example.com", "https://example.com/"),
        ("htp//localhost:8000/x", "http://localhost:8000/x"),
        ("htps://example.com/a?b", "https://example.com/a?b"),
        ("https;//example.com", "https://example.com/"),
        ("https:// example.com", "https://example.com/"),
        ("https://http://example.com", "http://example.com/"),
        ("ftp://example.com", None),
        ("https://exa mple", None),
        ("two words", None),
        ("", None),
    ],
)
def test_what_a_slip_was_meant_to_be(text: str, url: str | None) -> None:
    assert parse_seed(text) is None
    assert suggest_seed(text) == url


@settings(deadline=None)
@given(st.text(max_size=100))
def test_any_line_is_a_seed_or_none(text: str) -> None:
    url = parse_seed(text)
    assert url is None or normalise(url) == url


def test_parts() -> None:
    assert origin("https://example.com:8443/a/b") == "https://example.com:8443"
    assert authority("https://example.com:8443/a:b") == "example.com:8443"
    assert host("https://example.com:8443/a:b") == "example.com"
    assert host("https://example.com/a:b") == "example.com"
    assert host("http://[::1]:8080/") == "[::1]"
    assert host("http://[::1]/") == "[::1]"


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://a.b.example.com/", "example.com"),
        ("https://example.com/", "example.com"),
        ("https://www.example.co.uk:8080/", "example.co.uk"),
        ("https://someone.github.io/", "someone.github.io"),
        ("https://a.someone.github.io/", "someone.github.io"),
        ("https://github.io/", "github.io"),
        ("https://co.uk/", "co.uk"),
        ("https://localhost/", "localhost"),
        ("https://a.unknowntld/", "a.unknowntld"),
        ("https://xn--bcher-kva.example.com/", "example.com"),
        ("http://10.0.0.1/", "10.0.0.1"),
        ("http://[2001:db8::1]:80/", "[2001:db8::1]"),
    ],
)
def test_the_site_is_the_registrable_domain(url: str, name: str) -> None:
    assert site(url) == name


@pytest.mark.parametrize(
    ("url", "left"),
    [
        ("http://e.com/?utm_source=a&id=3&utm_medium=b&fbclid=x", "http://e.com/?id=3"),
        ("http://e.com/?UTM_Source=a", "http://e.com/"),
        ("http://e.com/?gclid", "http://e.com/"),
        ("http://e.com/?id=utm_source&b=%26", "http://e.com/?id=utm_source&b=%26"),
        ("http://e.com/utm_source=a", "http://e.com/utm_source=a"),
        ("http://e.com/?b=2&a=1", "http://e.com/?b=2&a=1"),
    ],
)
def test_tracking_parameters_can_be_stripped(url: str, left: str) -> None:
    assert strip_tracking(url) == left


@pytest.mark.parametrize(
    ("url", "left"),
    [
        ("http://e.com/?PHPSESSID=abc&a=2", "http://e.com/?a=2"),
        ("http://e.com/?a=2&phpsessid=abc", "http://e.com/?a=2"),
        ("http://e.com/a;jsessionid=AB12.node1?x=1", "http://e.com/a?x=1"),
        ("http://e.com/a;jsessionid=AB12/b", "http://e.com/a/b"),
        ("http://e.com/?CFID=1&CFTOKEN=2&x=3", "http://e.com/?x=3"),
        ("http://e.com/?sid=9682993c8daa2c5497996114facdc805", "http://e.com/"),
        ("http://e.com/?a=1;sid=9682993c8daa2c5497996114facdc805;b=2", "http://e.com/?a=1;b=2"),
        ("http://e.com/?session_id=0123456789abcdefghijkl&x=1", "http://e.com/?x=1"),
        ("http://e.com/?sid=9682993c8daa2c54&a=1", "http://e.com/?a=1"),
        ("http://e.com/?sid=12", "http://e.com/?sid=12"),
        ("http://e.com/?sid=20261115", "http://e.com/?sid=20261115"),
        ("http://e.com/?session=morning", "http://e.com/?session=morning"),
        ("http://e.com/?s=summer+dresses", "http://e.com/?s=summer+dresses"),
        ("http://e.com/?basid=" + "0123456789abcdef" * 2, "http://e.com/?basid=" + "0123456789abcdef" * 2),
        ("http://e.com/phpsessid=1", "http://e.com/phpsessid=1"),
        ("http://e.com/?q=a?&b", "http://e.com/?q=a?&b"),
        ("http://e.com/a/..;jsessionid=1/b", "http://e.com/b"),
        ("http://e.com/a/.;jsessionid=1", "http://e.com/a/"),
        ("http://e.com/.b;jsessionid=1?c=/.", "http://e.com/.b?c=/."),
    ],
)
def test_session_ids_are_stripped(url: str, left: str) -> None:
    """What is left is normalised: a path that leads up would be in scope, or allowed, for what it is not."""
    assert strip_session(url) == left == normalise(left)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_host_may_have_one_letter(scheme: str) -> None:
    """The end of its origin is the earliest that there is."""
    base = f"{scheme}://a/x/y?q"
    assert normalise("/z", base) == normalise("../z", base) == normalise("//a/%7a", base) == f"{scheme}://a/z"
    assert normalise_all(["/z", "z", "/z#f"], base) == [f"{scheme}://a/z", f"{scheme}://a/x/z", f"{scheme}://a/z"]
    assert (origin(base), authority(base), host(base), site(base)) == (f"{scheme}://a", "a", "a", "a")
    assert surt(base) == "a)/x/y?q"
    assert RobotsTxt.parse(b"User-agent: *\nDisallow: /x/y?q").decide(base, "swath").rule == "Disallow: /x/y?q"
    kinds: tuple[ScopeKind, ...] = ("host", "domain")
    assert [get_scope_name(base, kind) for kind in kinds] == ["a", "a"]
    assert find_trap(f"{scheme}://a/2100-01-01", year=2026) == "calendar"


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("http://www.archive.org/", "org,archive)/"),
        ("https://www2.example.com/A/", "com,example)/a"),
        ("https://www/", "www)/"),
        ("http://archive.org/goo/?a=2&b&a=1", "org,archive)/goo?a=1&a=2&b"),
        ("http://archive.org:8080/Goo?X=Y", "org,archive:8080)/goo?x=y"),
        ("http://archive.org/i?PHPSESSID=0123456789abcdefghijklemopqrstuv&u=1", "org,archive)/i?u=1"),
        ("http://e.com/%28a%29%2520b", "com,e)/(a)%20b"),
        ("http://e.com/%C3%BC", "com,e)/%c3%bc"),
        ("http://1.2.3.4/", "4,3,2,1)/"),
        ("http://[2001:db8::1]:81/x", "2001:db8::1:81)/x"),
        ("http://e.com/a//b///", "com,e)/a/b"),
        ("http://e.com/%2F/", "com,e)/"),
    ],
)
def test_keys_of_the_index(url: str, key: str) -> None:
    assert surt(url) == key


def test_the_caches_are_bounded() -> None:
    for number in range(module.ORIGINS_CACHED + 100):
        normalise(f"http://h{number}.example/")
    assert module._clean_origin.cache_info().currsize <= module.ORIGINS_CACHED
    assert module._is_normal_origin.cache_info().currsize <= module.ORIGINS_CACHED
    assert module.site_of_host.cache_info().maxsize == module.SITES_CACHED
