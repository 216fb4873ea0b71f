"""What belongs to a crawl, and by what name the rest is refused."""

import pickle
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swath.core.errors import InvalidSetting
from swath.crawl.urls.normalise import normalise
from swath.crawl.urls.scope import NAMES_REMEMBERED, REASONS, NameSet, Scope, build_scope

SEED = "https://www.example.com:8443/docs/intro.html?v=1"


@pytest.mark.parametrize(
    ("url", "inside"),
    [
        (SEED, "page prefix host domain any"),
        ("http://example.com:8443/docs/intro.html?v=1", "page prefix host domain any"),
        ("https://www.example.com:8443/docs/intro.html", "prefix host domain any"),
        ("https://www.example.com:8443/docs/", "prefix host domain any"),
        ("https://www.example.com:8443/docs/a/b?c=/../", "prefix host domain any"),
        ("https://www.example.com:8443/docs", "host domain any"),
        ("https://www.example.com:8443/docs2/", "host domain any"),
        ("https://www.example.com:8443/?u=/docs/", "host domain any"),
        ("https://www.example.com/docs/intro.html?v=1", "domain any"),
        ("https://blog.example.com:8443/docs/", "domain any"),
        ("https://www.example.org:8443/docs/", "any"),
        ("https://notexample.com:8443/docs/", "any"),
        ("https://example.com.evil.example:8443/docs/", "any"),
    ],
)
def test_each_kind_of_scope(url: str, inside: str) -> None:
    found = [
        kind
        for kind in ("page", "prefix", "host", "domain", "any")
        if build_scope(kind, seeds=[SEED]).find_refusal(url, 1) is None
    ]
    assert found == inside.split()


def test_each_reason_has_its_name() -> None:
    scope = build_scope(
        "domain",
        seeds=["https://example.com/"],
        include=["/docs/", "/blog/"],
        exclude=[r"\.pdf$", "print=1"],
        excluded_hosts=["ads.example.com"],
        depth=2,
    )
    reasons = {
        "https://example.com/docs/a": None,
        "https://example.com/blog/a": None,
        "https://example.org/docs/a": "scope",
        "https://ads.example.com/docs/a": "host",
        "https://example.com/docs/a.pdf": "exclude",
        "https://example.com/docs/a?print=1": "exclude",
        "https://example.com/": "include",
    }
    assert {url: scope.find_refusal(url, 2) for url in reasons} == reasons
    assert scope.find_refusal("https://example.com/docs/a", 3) == "depth"
    assert {reason for reason in reasons.values() if reason} | {"depth"} == set(REASONS)


def test_without_limits_everything_is_in_scope() -> None:
    assert Scope().find_refusal("https://example.com/", 10**9) is None


def test_excluded_hosts_cover_their_subdomains_and_only_those() -> None:
    lines = [
        "# advertising\n",
        "\n",
        "ads.example\n",
        "*.track.example # all\n",
        "0.0.0.0 bad.example worse.example\n",
        "10.0.0.1\n",
    ]
    scope = build_scope("any", excluded_hosts=lines)
    for name in ("ads.example", "a.b.ads.example", "track.example", "x.track.example", "worse.example", "10.0.0.1"):
        assert scope.find_refusal(f"http://{name}:8080/", 0) == "host"
    for name in ("example", "notads.example", "ads.example.com", "0.0.0.0", "10.0.0.2"):
        assert scope.find_refusal(f"http://{name}/", 0) is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "web"}, "'web' is not one of page, prefix, host, domain, any"),
        ({"include": ["("]}, r"include pattern '\(' is not a regular expression"),
        ({"exclude": ["[a"]}, "exclude pattern"),
        ({"excluded_hosts": ["ok.example", "two words"]}, "line 2"),
        ({"excluded_hosts": ["a@b"]}, "line 1"),
        ({"depth": -1}, "depth -1 is negative"),
    ],
)
def test_a_wrong_setting_is_named(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidSetting, match=message):
        build_scope(**{"kind": "any", **arguments})  # type: ignore[arg-type]


def test_seeds_are_not_read_when_everything_is_in_scope() -> None:
    seeds = iter(["https://example.com/"])
    build_scope("any", seeds=seeds)
    assert next(seeds) == "https://example.com/"


def test_a_scope_means_the_same_in_another_process() -> None:
    scope = pickle.loads(pickle.dumps(build_scope("host", seeds=["https://example.com/"], exclude=["z$"])))
    assert scope.find_refusal("https://example.com/", 0) is None
    assert scope.find_refusal("https://example.org/", 0) == "scope"
    # The digests are the same wherever they are made: this one was made once.
    assert list(NameSet(["example.com"])._digests) == [0x6626CFC10513C513]


def test_many_seeds_fit() -> None:
    tracemalloc.start()
    footprint = NameSet(f"host{number}.example" for number in range(20_000))
    for number in range(2 * NAMES_REMEMBERED):
        assert f"other{number}.example" not in footprint
        assert not footprint.covers(f"other{number}.example")
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert all(f"host{number}.example" in footprint for number in range(20_000))
    assert size < 20_000 * 8 + 4 * NAMES_REMEMBERED * 200
    assert len(footprint._known) <= NAMES_REMEMBERED
    assert len(footprint._covered) <= NAMES_REMEMBERED


@settings(deadline=None)
@given(st.lists(st.text(alphabet="abc.", min_size=1, max_size=6)), st.text(alphabet="abc.", min_size=1, max_size=6))
def test_a_footprint_is_a_set(names: list[str], name: str) -> None:
    footprint = NameSet(names)
    assert (name in footprint) == (name in names)
    assert (name in footprint) == (name in names), "also when asked again"


@settings(deadline=None)
@given(st.text(alphabet="ab/?.%#", max_size=40), st.text(alphabet="ab/?.", max_size=20))
def test_prefix_scope_is_the_directory_of_the_seed(tail: str, seed_tail: str) -> None:
    url = normalise("http://example.com/" + tail)
    seed = normalise("http://www.example.com/" + seed_tail)
    assert url is not None
    assert seed is not None
    directory = seed.partition("?")[0].rpartition("/")[0].replace("www.", "") + "/"
    inside = url.partition("?")[0].startswith(directory)
    assert (build_scope("prefix", seeds=[seed]).find_refusal(url, 0) is None) == inside
