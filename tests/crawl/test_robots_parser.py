"""robots.txt by RFC 9309, with the cases that other parsers get wrong."""

import time
from textwrap import dedent

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from swath.crawl.robots.parser import MAX_BODY, MAX_SITEMAPS, RobotsDecision, RobotsTxt
from swath.crawl.urls.normalise import normalise


def allowed(text: str | bytes, path: str, agent: str = "swath") -> bool:
    return verdict(text, path, agent).allowed


def verdict(text: str | bytes, path: str, agent: str = "swath") -> RobotsDecision:
    body = dedent(text).encode() if isinstance(text, str) else text
    url = normalise("https://example.com" + path)
    assert url is not None
    return RobotsTxt.parse(body).decide(url, agent)


RFC_EXAMPLE = """\
    User-Agent: *
    Disallow: *.gif$
    Disallow: /example/
    Allow: /publications/

    User-Agent: foobot
    Disallow:/
    Allow:/example/page.html
    Allow:/example/allowed.gif

    User-Agent: barbot
    User-Agent: bazbot
    Disallow: /example/page.html

    User-Agent: quxbot
    """


@pytest.mark.parametrize(
    ("agent", "path", "allow"),
    [
        ("other", "/", True),
        ("other", "/a.gif", False),
        ("other", "/a.gif?x", True),
        ("other", "/example/page.html", False),
        ("other", "/publications/a", True),
        ("foobot", "/", False),
        ("foobot", "/example/page.html", True),
        ("foobot", "/example/allowed.gif", True),
        ("foobot", "/publications/", False),
        ("barbot", "/example/page.html", False),
        ("bazbot", "/example/page.html", False),
        ("bazbot", "/example/", True),
        ("bazbot", "/a.gif", True),
        ("quxbot", "/example/page.html", True),
        ("quxbot", "/a.gif", True),
    ],
)
def test_the_example_of_the_rfc(agent: str, path: str, allow: bool) -> None:
    assert allowed(RFC_EXAMPLE, path, agent) == allow


@pytest.mark.parametrize(
    ("rules", "path", "rule"),
    [
        # RFC 5.2: the longest match.
        ("Allow: /example/page/\nDisallow: /example/page/disallowed.gif", "/example/page/disallowed.gif", "Disallow"),
        ("Allow: /example/page/\nDisallow: /example/page/disallowed.gif", "/example/page/", "Allow"),
        ("Disallow: /a\nAllow: /a", "/a", "Allow"),
        ("Allow: /a\nDisallow: /a", "/a", "Allow"),
        ("Allow: /p\nDisallow: /", "/page", "Allow"),
        ("Allow: /$\nDisallow: /", "/", "Allow"),
        ("Allow: /$\nDisallow: /", "/page.htm", "Disallow"),
        ("Allow: /page\nDisallow: /*.htm", "/page.htm", "Disallow"),
        ("Disallow: /x*y\nAllow: /x", "/xzy", "Disallow"),
        # Wildcards.
        ("Disallow: /fish", "/fish.html", "Disallow"),
        ("Disallow: /fish", "/Fish", None),
        ("Disallow: /fish", "/catfish", None),
        ("Disallow: /fish*", "/fishheads", "Disallow"),
        ("Disallow: /fish/", "/fish", None),
        ("Disallow: /fish/", "/fish/?id=1", "Disallow"),
        ("Disallow: /*.php", "/a/b.php?x", "Disallow"),
        ("Disallow: /*.php", "/a/b.PHP", None),
        ("Disallow: /*.php$", "/a/b.php", "Disallow"),
        ("Disallow: /*.php$", "/a/b.php/", None),
        ("Disallow: /*.php$", "/a.php/b.php", "Disallow"),
        ("Disallow: /a*b*c$", "/abbcbc", "Disallow"),
        ("Disallow: /a*bc*bc$", "/abc", None),
        ("Disallow: /a*a$", "/a", None),
        ("Disallow: /a**b", "/axb", "Disallow"),
        ("Disallow: /a$", "/a", "Disallow"),
        ("Disallow: /a$", "/ab", None),
        ("Disallow: /a$b", "/a$b", "Disallow"),
        ("Disallow: /a$b", "/a", None),
        ("Disallow: /a*$", "/ab", "Disallow"),
        ("Disallow: *", "/anything", "Disallow"),
        ("Disallow: *$", "/anything", "Disallow"),
        ("Disallow: /*/b", "/a/b", "Disallow"),
        ("Disallow: */b", "/x?u=/b", "Disallow"),
        # RFC 2.2.3: special characters are escaped.
        ("Disallow: /a-%2A.html", "/a-*.html", "Disallow"),
        ("Disallow: /a-%2A.html", "/a-b.html", None),
        ("Disallow: /a-%24", "/a-$", "Disallow"),
        ("Disallow: /a-%24", "/a-", None),
        # RFC 2.2.2: octets compare decoded or encoded.
        ("Disallow: /foo/bar?baz=quz", "/foo/bar?baz=quz", "Disallow"),
        ("Disallow: /foo/bar?baz=https://foo.bar", "/foo/bar?baz=https%3A%2F%2Ffoo.bar", "Disallow"),
        ("Disallow: /foo/bar?baz=https%3A%2F%2Ffoo.bar", "/foo/bar?baz=https://foo.bar", "Disallow"),
        ("Disallow: /foo/bar/ツ", "/foo/bar/%E3%83%84", "Disallow"),
        ("Disallow: /foo/bar/%e3%83%84", "/foo/bar/ツ", "Disallow"),
        ("Disallow: /foo/bar/%62%61%7A", "/foo/bar/baz", "Disallow"),
        ("Disallow: /foo/bar/baz", "/foo/bar/%62%61%7A", "Disallow"),
        ("Disallow: /a%2fb", "/a%2Fb", "Disallow"),
        ("Disallow: /a%2fb", "/a/b", None),
        ("Disallow: /a b|{c}", "/a%20b|%7Bc%7D", "Disallow"),
        ("Disallow: /~joe", "/%7Ejoe/x", "Disallow"),
        # What says nothing.
        ("Disallow:", "/", None),
        ("Disallow: # all", "/", None),
        ("Allow:", "/", None),
        ("Disallow: private", "/private", None),
        ("Noindex: /", "/", None),
        # How lines are written.
        ("disallow:/a # because", "/a", "Disallow"),
        (" DISALLOW \t: \t/a \t", "/a", "Disallow"),
        ("Disallow /a", "/a", "Disallow"),
        ("Disallow it all", "/a", None),
        ("Dissalow: /a", "/a", "Disallow"),
        ("Disallow: /a:b", "/a:b", "Disallow"),
        ("Disallow: /robots.txt", "/robots.txt", None),
    ],
)
def test_which_rule_decides(rules: str, path: str, rule: str | None) -> None:
    found = verdict("User-agent: *\n" + rules, path)
    assert (found.rule and found.rule.partition(":")[0]) == rule
    assert found.allowed == (rule != "Disallow")


def test_the_rule_is_told_as_it_was_written() -> None:
    text = "User-agent: *\ndisallow:  /Private/*%7e   # secret\nAllow: /Private/~ok\n"
    assert verdict(text, "/Private/~joe") == RobotsDecision(False, "Disallow: /Private/*%7e")
    assert verdict(text, "/Private/~ok") == RobotsDecision(True, "Allow: /Private/~ok")
    assert verdict(text, "/") == RobotsDecision(True, None)
    assert verdict(b"User-agent: *\nDisallow: /caf\xe9", "/caf%E9") == RobotsDecision(False, "Disallow: /caf\ufffd")


@pytest.mark.parametrize(
    ("line", "ours"),
    [
        ("swath", True),
        ("SWATH", True),
        ("swath/1.0", True),
        ("swath/1.0 (+https://example.com)", True),
        ("swath crawler", True),
        ("swathbot", False),
        ("swat", False),
        ("swath2", False),
        ("swath-news", False),
        ("my-swath", False),
        ("Mozilla swath", False),
        ("*", False),
        ("* (all robots)", False),
        ("*\tfoo", False),
        ("*swath", False),
        ("", False),
    ],
)
def test_the_product_token_matches_exactly(line: str, ours: bool) -> None:
    text = f"User-agent: {line}\nDisallow: /ours\n\nUser-agent: *\nDisallow: /all\n"
    for agent in ("swath", "Swath", "swath/2.0"):
        assert allowed(text, "/ours", agent) == (not ours and line[:2].strip() != "*")
        assert allowed(text, "/all", agent) == ours


def test_no_group_for_us_leaves_everything_allowed() -> None:
    assert allowed("User-agent: other\nDisallow: /\n", "/")
    assert allowed("Disallow: /\n", "/"), "a rule before any agent is nobody's"
    assert allowed("Disallow: /\nUser-agent: swath\nDisallow: /a\n", "/b")
    assert allowed("", "/")


def test_groups_of_one_agent_are_one() -> None:
    text = "User-agent: swath\nDisallow: /a\n\nUser-agent: other\nDisallow: /b\n\nUser-agent: Swath/3\nDisallow: /c\n"
    assert [allowed(text, path) for path in ("/a", "/b", "/c")] == [False, True, False]


def test_other_lines_do_not_end_a_group() -> None:
    text = "User-agent: swath\nSitemap: https://example.com/s.xml\nUnknown: x\n\n# no\nUser-agent: b\nDisallow: /\n"
    assert not allowed(text, "/")
    assert not allowed(text, "/", "b")
    assert allowed(text, "/", "c")


def test_a_delay_speaks_to_the_agents_above_it() -> None:
    robots = RobotsTxt.parse(
        b"User-agent: swath\nCrawl-delay: 5\nUser-agent: b\nDisallow: /x\n\nUser-agent: *\nAllow: /\n"
    )
    assert robots.get_crawl_delay("swath") == 5
    assert robots.get_crawl_delay("b") is None
    assert robots.get_crawl_delay("c") is None
    assert not robots.decide("https://example.com/x", "swath").allowed, "and does not end their group"
    assert not robots.decide("https://example.com/x", "b").allowed
    assert robots.decide("https://example.com/x", "c").allowed


@pytest.mark.parametrize(
    ("text", "delay"),
    [
        ("User-agent: *\nCrawl-delay: 10", 10),
        ("User-agent: *\nDisallow: /a\ncrawl-delay:1.5 # slow", 1.5),
        ("User-agent: *\nCrawl-delay: .5", 0.5),
        ("User-agent: *\nCrawl-delay: 10s", 10),
        ("User-agent: *\nCrawl-delay: 0", 0),
        ("User-agent: *\nCrawl-delay: 2\nCrawl-delay: 7\nCrawl-delay: 3", 7),
        ("User-agent: *\nCrawl-delay: 2\nUser-agent: swath\nDisallow: /", None),
        ("User-agent: swath\nDisallow:\nUser-agent: *\nCrawl-delay: 2", None),
        ("User-agent: *\nCrawl-delay: -1", None),
        ("User-agent: *\nCrawl-delay: nan", None),
        ("User-agent: *\nCrawl-delay: inf", None),
        ("User-agent: *\nCrawl-delay:", None),
        ("User-agent: *\nCrawl-delay: " + "9" * 400, 86_400),
        ("Crawl-delay: 3\nUser-agent: *\nDisallow:", None),
    ],
)
def test_the_delay(text: str, delay: float | None) -> None:
    assert RobotsTxt.parse(text.encode()).get_crawl_delay("swath") == delay


def test_sitemaps_belong_to_no_group() -> None:
    text = b"Sitemap: https://e.com/1.xml\nUser-agent: x\nDisallow: /\nsitemap:/2.xml # two\nSitemap:\nSitemap: /2.xml"
    assert RobotsTxt.parse(text).sitemaps == ("https://e.com/1.xml", "/2.xml")
    many = b"".join(b"Sitemap: /%d\n" % number for number in range(2 * MAX_SITEMAPS))
    assert len(RobotsTxt.parse(many).sitemaps) == MAX_SITEMAPS


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\r\r\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_bom_and_line_ends(end: str, mark: bytes) -> None:
    text = mark + f"User-agent: swath{end}Disallow: /a{end}{end}User-agent: *{end}Disallow: /b".encode()
    assert not allowed(text, "/a")
    assert allowed(text, "/b")


def test_utf_16_is_read() -> None:
    for codec in ("utf-16", "utf-16-be"):
        mark = b"\xfe\xff" if codec == "utf-16-be" else b""
        assert not allowed(mark + "User-agent: *\nDisallow: /a".encode(codec), "/a")


def test_nuls_are_skipped() -> None:
    assert not allowed(b"\0User-\0agent: *\0\nDisallow: /a\0b\n", "/ab")


def test_what_only_unicode_calls_a_line_end_is_none() -> None:
    assert allowed("User-agent: *\nDisallow: /a\u2028Disallow: /b\x0bDisallow: /c\x85Disallow: /d", "/b")


def test_500_kib_are_parsed_and_no_half_line() -> None:
    head = b"User-agent: *\n"
    filler = b"# " + b"x" * 97 + b"\n"
    inside = head + filler * ((500 * 1024 - 100) // 100) + b"Disallow: /inside\n"
    assert len(inside) > 500 * 1024 - 200
    assert not allowed(inside, "/inside")
    lead = head + filler * ((MAX_BODY - 40) // 100)
    cut = lead + b"#" * (MAX_BODY - len(lead) - 12) + b"\nDisallow: /private\n"
    assert cut[:MAX_BODY].endswith(b"\nDisallow: /")
    assert allowed(cut, "/other")


def test_a_page_of_html_says_nothing() -> None:
    assert verdict(b"<!DOCTYPE html><html><body>Not found: /\n<p>Disallow everything</p>", "/") == RobotsDecision(
        True, None
    )


HOSTILE = {
    "stars": b"User-agent: *\nDisallow: /" + b"*a" * 200_000 + b"b$",
    "star rules": b"User-agent: *\n" + b"".join(b"Disallow: /*a*%d*b\n" % number for number in range(25_000)),
    "agents and rules": b"User-agent: swath\n" * 15_000 + b"Disallow: /x\n" * 15_000,
    "agents and delays": b"User-agent: swath\nCrawl-delay: 1\n" * 15_000,
    "groups": b"User-agent: swath\nDisallow: /x\n" * 15_000,
    "one line": b"Disallow: " + b"x" * MAX_BODY,
    "colons": b":" * MAX_BODY,
    "percent": b"User-agent: *\nDisallow: /" + b"%4%31" * 100_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_takes_bounded_time(name: str) -> None:
    url = "http://example.com/" + "a" * 2_000
    started = time.process_time()
    robots = RobotsTxt.parse(HOSTILE[name])
    robots.decide(url, "swath")
    robots.get_crawl_delay("swath")
    assert time.process_time() - started < 1.5
    started = time.process_time()
    robots.decide(url, "swath")
    assert time.process_time() - started < 0.2


def model(pattern: str, target: str) -> bool:
    """Matching by trying everything."""
    if not pattern:
        return True
    if pattern == "$":
        return not target
    if pattern[0] == "*":
        return any(model(pattern[1:], target[start:]) for start in range(len(target) + 1))
    return target[:1] == pattern[0] and model(pattern[1:], target[1:])


@settings(deadline=None)
@given(st.text(alphabet="ab*", max_size=8), st.booleans(), st.text(alphabet="ab", max_size=10))
@example("a*a", True, "a")
@example("*", True, "")
def test_matching_agrees_with_trying_everything(pattern: str, ends: bool, tail: str) -> None:
    rule = "/" + pattern + "$" * ends
    assert allowed(f"User-agent: *\nDisallow: {rule}", "/" + tail) != model(rule, "/" + tail)


@settings(deadline=None)
@given(
    st.lists(
        st.sampled_from([b"User-agent: swath", b"User-agent: *", b"Disallow: /a*", b"Allow: /", b"Crawl-delay: 1"])
        | st.binary(max_size=30)
    )
)
def test_any_bytes_are_a_robots_txt(lines: list[bytes]) -> None:
    robots = RobotsTxt.parse(b"\n".join(lines))
    assert robots.decide("https://example.com/%FFa?b=*$", "swath").allowed in (True, False)
    delay = robots.get_crawl_delay("swath")
    assert delay is None or delay >= 0
    assert isinstance(robots.sitemaps, tuple)
