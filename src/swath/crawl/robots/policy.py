"""What the response to a request for robots.txt means, and for how long. The result is a fact that all workers share.

    2xx                      the rules of the file apply
    4xx, 3xx                 everything is allowed; 3xx means too many redirects
    5xx, 429                 nothing is allowed until the next attempt; after 30 days everything is (RFC 9309, 2.3.1)

The RFC treats 429 like other 4xx. Here it is a failure: a host that asks for fewer requests does not allow all of them.
A request without a response says nothing about the rules: see `failure`.
"""

import re
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal, Self

from swath.crawl.http.dates import parse_date
from swath.crawl.robots.parser import ALLOWED, RobotsDecision, RobotsTxt, clean_body

SECOND = 1_000_000  # microseconds, the unit of all times here
HOUR = 3_600 * SECOND
DAY = 24 * HOUR

LIFETIME = DAY
MIN_LIFETIME = HOUR
MAX_LIFETIME = DAY  # RFC 9309 recommends not to use an older copy
FIRST_RETRY = 300 * SECOND
MAX_RETRY = DAY
MAX_DENIAL = 30 * DAY
MAX_STALE = 2 * DAY  # age of rules that apply while the host cannot be reached, which the RFC permits

_MAX_AGE = re.compile(r"(?:^|[,\s])max-age\s*=\s*\"?([0-9]{1,12})", re.IGNORECASE)
_UNCACHED = re.compile(r"(?:^|[,\s])no-(?:cache|store)(?:$|[,\s=])", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class RobotsPolicy:
    """What the crawl knows about the robots.txt of an origin. Times are microseconds on the store's clock."""

    kind: Literal["parsed", "allow", "deny"]
    fetched_at: int
    expires_at: int
    body: bytes = b""
    failing_since: int | None = None
    tries: int = 0  # consecutive responses that deny everything
    why: str = ""
    """The reason that is shown instead of a rule, such as `robots.txt answered 503`."""

    def parse(self) -> RobotsTxt:
        """Return the parsed file. The caller caches it together with the policy."""
        match self.kind:
            case "parsed":
                return RobotsTxt.parse(self.body)
            case "allow":
                return RobotsTxt.uniform(ALLOWED)
            case "deny":
                return RobotsTxt.uniform(RobotsDecision(False, self.why))

    def to_json(self) -> dict[str, Any]:
        """Return the policy as JSON values. Each byte of the body becomes the character with the same number."""
        return {
            "kind": self.kind,
            "fetched_at": self.fetched_at,
            "expires_at": self.expires_at,
            "body": self.body.decode("latin-1"),
            "failing_since": self.failing_since,
            "tries": self.tries,
            "why": self.why,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Return the policy that `to_json` converted."""
        return replace(cls(**data), body=data["body"].encode("latin-1"))


def policy_from_response(
    status: int,
    *,
    now: int,
    body: bytes = b"",
    cache_control: str | None = None,
    expires: str | None = None,
    sent_at: datetime | None = None,
    before: RobotsPolicy | None = None,
    first_retry: int = FIRST_RETRY,
) -> RobotsPolicy:
    """Return the policy after a response at `now`. `before` is the previous one: it tells since when it fails.

    `sent_at` is the time of the response by the clock that `expires` follows.
    """
    if 200 <= status < 300:
        # Cleaned before it is stored, because PostgreSQL does not accept NUL in text.
        lifetime = compute_cache_lifetime(cache_control, expires=expires, sent_at=sent_at)
        return RobotsPolicy("parsed", now, now + lifetime, body=clean_body(body))
    if 300 <= status < 500 and status != 429:
        why = f"robots.txt answered {status}"
        return RobotsPolicy(
            "allow", now, now + compute_cache_lifetime(cache_control, expires=expires, sent_at=sent_at), why=why
        )
    why = f"robots.txt answered {status}"
    since = now if before is None or before.failing_since is None else min(now, before.failing_since)
    # Each pause is as long as the failure has lasted, so attempts become less frequent.
    retry_at = now + min(max(now - since, first_retry), MAX_RETRY)
    kind: Literal["allow", "deny"] = "allow" if now - since >= MAX_DENIAL else "deny"
    tries = 1 + (before.tries if before is not None else 0)
    return RobotsPolicy(kind, now, retry_at, failing_since=since, tries=tries, why=why)


def keep_stale(before: RobotsPolicy | None, *, now: int, first_retry: int = FIRST_RETRY) -> RobotsPolicy | None:
    """Return the policy that still applies although it could not be requested again, until the next attempt.

    None if there is none: the previous one is too old, or it was a response that denies everything.
    """
    if before is None or before.failing_since is not None or now - before.fetched_at >= MAX_STALE:
        return None
    return replace(before, expires_at=now + first_retry)


def compute_cache_lifetime(cache_control: str | None, *, expires: str | None, sent_at: datetime | None) -> int:
    """Return for how many microseconds a response is valid: a day, or what its headers say, within limits."""
    asked = LIFETIME
    control = (cache_control or "")[:1_000]
    age = _MAX_AGE.search(control)
    if _UNCACHED.search(control):
        asked = 0
    elif age is not None:
        asked = int(age[1]) * SECOND
    elif expires and sent_at is not None:
        until = parse_date(expires)  # "Expires: 0" and similar values mean that it is stale already
        asked = 0 if until is None else round((until - sent_at).total_seconds() * SECOND)
    return min(max(asked, MIN_LIFETIME), MAX_LIFETIME)
