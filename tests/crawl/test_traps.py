"""Each trap catches what it is for, and leaves honest addresses alone."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swath.crawl.urls.normalise import MAX_URL, normalise
from swath.crawl.urls.traps import (
    FUTURE_YEARS,
    MAX_PARAMS,
    MAX_QUERY,
    MAX_SAME_PARAM,
    MAX_SEGMENTS,
    OLDEST_YEAR,
    TRAPS,
    find_trap,
)

YEAR = 2026

CAUGHT = {
    "path-depth": ["/" + "/".join(f"d{number}" for number in range(MAX_SEGMENTS + 1))],
    "path-repeats": [
        "/a/a/a",
        "/a/a/a/",
        "/x/img/img/img/logo.png",
        "/a/b/a/b/a/b/c",
        "/1/a/1/a/1/a",
        "/de/x/de/y/de/z/de/",
        "/a////b",
        "/about/about/about/about/about",
    ],
    "query-length": ["/?q=" + "x" * MAX_QUERY],
    "query-params": ["/?" + "&".join(f"p{number}=1" for number in range(MAX_PARAMS + 1))],
    "query-repeats": [
        "/?page=1&page=1&page=1",
        "/?" + "&".join(f"filter={number}" for number in range(MAX_SAME_PARAM + 1)),
        "/?&&&&",
    ],
    "query-nested": ["/login?next=%2Flogin%3Fnext%3D%252Flogin%253Fnext%253D%25252Flogin"],
    "calendar": [
        "/events/2031/05/12",
        "/events/2031-05-12/",
        "/calendar/2031/5",
        "/calendar/month/2031-05/",
        "/cal?date=2031-05-12",
        "/cal?date=2031-05",
        "/cal?year=2031&month=5",
        "/cal?month=5&year=20311",
        "/cal?y=1600&m=5",
        "/x?tribe-bar-date=9999-12-31",
        "/1204/05/12/",
        "/cal?a=2024-01-01&b=2024-01-02&c=2024-01-03&d=2024-01-04",
    ],
    "session": [
        "/(S(4hqa0555fwsecu455xqckv45))/mileg.aspx",
        "/(A(4hqa0555fwsecu455xqckv45)S(4hqa0555fwsecu455xqckv45))/a",
        "/(4hqa0555fwsecu455xqckv45)/a",
        "/shop/sid/9682993c8daa2c5497996114facdc805/cart",
    ],
}

HONEST = [
    "/",
    "/2024/05/12/title",
    "/2012/12/12/12/",
    "/2024/",
    f"/{YEAR + FUTURE_YEARS}/01/02/",
    f"/{OLDEST_YEAR}/01/02/newspaper",
    "/news/2024-05-12-title",
    "/?page=2",
    "/list?page=2&sort=asc&order=desc",
    "/search?tag=a&tag=b&tag=c",
    "/search?tag=a&page=1&tag=a",
    "/search?year=2024&month=5",
    "/search?year=2031",
    "/forum/4321/5",
    "/forum/4321/12",
    "/item/50120511",
    "/?a=50120511&b=50120511&c=50120511&d=501205",
    "/item?id=98761231",
    "/a/b/a/b",
    "/a/a",
    "/en/docs/en/api/en/",
    "/1/1/1/1/1",
    "/" + "/".join(f"d{number}" for number in range(MAX_SEGMENTS)),
    "/" + "/".join(f"d{number}" for number in range(MAX_SEGMENTS)) + "/",
    "/?q=" + "x" * (MAX_QUERY - 2),
    "/?" + "&".join(f"p{number}=1" for number in range(MAX_PARAMS)),
    "/?u=https%3A%2F%2Fexample.com%2F%3Fv%3D%2520",
    "/login?next=%2Fa%3Fb%3D1",
    "/login?next=%2Fa%3Fb%3D%252F100%2525",
    "/?u=/a/a/a/a/a/a",
    "/wiki/Mercury_(planet)",
    "/wiki/(a)/",
    "/sidebar/x",
    "/from/2024-01-01/to/2024-12-31",
    "/a//b",
]


@pytest.mark.parametrize(("name", "path"), [(name, path) for name, paths in CAUGHT.items() for path in paths])
def test_a_trap_is_named(name: str, path: str) -> None:
    url = normalise("https://www.example.com" + path)
    assert url is not None
    assert find_trap(url, year=YEAR) == name


@pytest.mark.parametrize("path", HONEST)
def test_an_honest_address_is_left_alone(path: str) -> None:
    url = normalise("https://www.example.com" + path)
    assert url is not None
    assert find_trap(url, year=YEAR) is None


def test_every_trap_is_tried() -> None:
    assert set(CAUGHT) == set(TRAPS)


def test_a_calendar_moves_with_the_years() -> None:
    url = "https://example.com/events/2031/05/12"
    assert find_trap(url, year=2026) == "calendar"
    assert find_trap(url, year=2031) is None


@settings(deadline=None)
@given(st.text(alphabet="ab0129/?&=;-_.()%Ss", max_size=300))
def test_any_url_gets_an_answer(tail: str) -> None:
    url = normalise("http://example.com/" + tail)
    assert url is not None
    assert find_trap(url, year=YEAR) in {None, *TRAPS}


@pytest.mark.parametrize(
    "piece", ["/", "a/", "/1", "&", "a=&", "/(", "(a(", "-1234", "/1999-1", "=2024", "&year=", "%25", "/sid", "ab/cd/"]
)
def test_the_longest_url_is_judged_at_once(piece: str) -> None:
    for mark in ("", "?"):
        url = ("http://example.com/" + mark + piece * MAX_URL)[:MAX_URL]
        started = time.process_time()
        find_trap(url, year=YEAR)
        assert time.process_time() - started < 0.02
