"""What an answer to a request for robots.txt means, and for how long."""

import json
from datetime import timedelta
from email.utils import formatdate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swath.core.clock import SECOND, as_datetime
from swath.crawl.robots.parser import MAX_BODY
from swath.crawl.robots.policy import (
    DAY,
    FIRST_RETRY,
    HOUR,
    LIFETIME,
    MAX_LIFETIME,
    MAX_RETRY,
    MIN_LIFETIME,
    RobotsPolicy,
    compute_cache_lifetime,
    keep_stale,
    policy_from_response,
)

NOW = 1_800_000_000 * SECOND
BODY = b"User-agent: *\nDisallow: /private\n"


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (200, "parsed"),
        (204, "parsed"),
        (299, "parsed"),
        (302, "allow"),
        (400, "allow"),
        (401, "allow"),
        (403, "allow"),
        (404, "allow"),
        (410, "allow"),
        (499, "allow"),
        (429, "deny"),
        (500, "deny"),
        (503, "deny"),
        (599, "deny"),
        (100, "deny"),
        (999, "deny"),
    ],
)
def test_what_an_answer_means(status: int, kind: str) -> None:
    rules = policy_from_response(status, body=BODY, now=NOW)
    assert rules.kind == kind
    assert rules.fetched_at == NOW
    assert (rules.failing_since == NOW) == (kind == "deny")
    robots = rules.parse()
    assert robots.decide("https://example.com/private", "swath").allowed == (kind == "allow")
    assert robots.decide("https://example.com/", "swath").allowed == (kind != "deny")
    assert robots.decide("https://example.com/robots.txt", "swath").allowed


def test_a_refusal_says_why() -> None:
    url = "https://example.com/"
    assert policy_from_response(503, now=NOW).parse().decide(url, "swath").rule == "robots.txt answered 503"


def test_trouble_is_tried_again_ever_more_rarely_and_ends_after_thirty_days() -> None:
    rules = policy_from_response(500, now=NOW)
    tries = 1
    gaps = []
    while rules.kind == "deny":
        assert rules.failing_since == NOW
        gaps.append(rules.expires_at - rules.fetched_at)
        rules = policy_from_response((503, 429)[tries % 2], now=rules.expires_at, before=rules)
        tries += 1
    assert gaps == sorted(gaps)
    assert (gaps[0], gaps[-1]) == (FIRST_RETRY, MAX_RETRY)
    assert timedelta(days=30) <= timedelta(microseconds=rules.fetched_at - NOW) < timedelta(days=31)
    assert tries < 60
    assert rules.kind == "allow"
    again = policy_from_response(500, now=rules.expires_at, before=rules)
    assert again.kind == "allow"
    healed = policy_from_response(200, body=BODY, now=rules.expires_at, before=rules)
    assert healed.failing_since is None
    assert policy_from_response(500, now=NOW, before=healed).kind == "deny"


def test_a_clock_that_went_back_does_no_harm() -> None:
    before = policy_from_response(500, now=NOW)
    assert policy_from_response(500, now=NOW - DAY, before=before).expires_at == NOW - DAY + FIRST_RETRY


@pytest.mark.parametrize(
    ("cache_control", "expires", "expected"),
    [
        (None, None, LIFETIME),
        ("public", None, LIFETIME),
        ("max-age=7200", None, 2 * HOUR),
        ('public, Max-Age="7200", immutable', formatdate(0), 2 * HOUR),
        ("max-age=1", None, MIN_LIFETIME),
        ("max-age=0", None, MIN_LIFETIME),
        ("no-cache", None, MIN_LIFETIME),
        ("max-age=7200, no-store", None, MIN_LIFETIME),
        ("max-age=999999999999999999", None, MAX_LIFETIME),
        ("s-maxage=1", None, LIFETIME),
        ("max-age=soon", None, LIFETIME),
        (None, formatdate(NOW / SECOND + 7_200, usegmt=True), 2 * HOUR),
        (None, formatdate(NOW / SECOND - 7_200, usegmt=True), MIN_LIFETIME),
        (None, "0", MIN_LIFETIME),
        (None, "Thu, 99 Foo 20x6", MIN_LIFETIME),
        (None, "Fri, 01 Jan 9999 00:00:00 GMT", MAX_LIFETIME),
    ],
)
def test_how_long_it_holds(cache_control: str | None, expires: str | None, expected: int) -> None:
    assert compute_cache_lifetime(cache_control, expires=expires, sent_at=as_datetime(NOW)) == expected
    for status in (200, 404):
        rules = policy_from_response(
            status, now=NOW, cache_control=cache_control, expires=expires, sent_at=as_datetime(NOW)
        )
        assert rules.expires_at == NOW + expected


@settings(deadline=None)
@given(st.text(), st.text(alphabet="0123456789 ,:+-GMTJanFriZ", max_size=40))
def test_any_header_has_a_meaning(cache_control: str, expires: str) -> None:
    assert (
        MIN_LIFETIME <= compute_cache_lifetime(cache_control, expires=expires, sent_at=as_datetime(NOW)) <= MAX_LIFETIME
    )
    assert MIN_LIFETIME <= compute_cache_lifetime(None, expires=expires, sent_at=as_datetime(NOW)) <= MAX_LIFETIME


@pytest.mark.parametrize(
    ("status", "age", "applies"), [(200, 25, True), (404, 47, True), (200, 48, False), (503, 1, False)]
)
def test_rules_apply_for_a_while_after_their_host_went_away(status: int, age: int, applies: bool) -> None:
    """As RFC 9309 permits, so that a short outage does not end a crawl of the host. A denial is no rule to keep."""
    rules = policy_from_response(status, body=BODY, now=NOW)
    now = NOW + age * HOUR
    kept = keep_stale(rules, now=now)
    assert (kept is not None) == applies
    if kept is not None:
        assert (kept.kind, kept.body, kept.fetched_at) == (rules.kind, rules.body, NOW)
        assert kept.expires_at == now + FIRST_RETRY
    assert keep_stale(None, now=now) is None


@settings(deadline=None)
@given(
    st.sampled_from([200, 404, 503]),
    st.binary(max_size=100),
    st.integers(0, 2**60),
    st.none() | st.just("no-cache"),
)
def test_a_fact_survives_its_store(status: int, body: bytes, now: int, control: str | None) -> None:
    rules = policy_from_response(status, body=body, now=now, cache_control=control)
    text = json.dumps(rules.to_json())
    assert "\\u0000" not in text
    assert RobotsPolicy.from_json(json.loads(text)) == rules


def test_the_body_is_kept_as_far_as_it_is_parsed() -> None:
    assert len(policy_from_response(200, body=b"#" * 99 + b"\n" * (2 * MAX_BODY), now=NOW).body) < MAX_BODY
    for body in (BODY.decode().encode("utf-16"), b"\xef\xbb\xbf" + BODY, b"\0" + BODY):
        assert policy_from_response(200, body=body, now=NOW).body == BODY
