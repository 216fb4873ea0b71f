"""Cache the robots.txt of each origin: parsed files in memory, and policies as facts that all workers share.

The cache fetches nothing. `gate` requests the file, passes the response to `record_response` or the reason why there is
none to `record_failure`, and follows redirects. The fact of an origin is a policy, or a mapping with a redirect to
follow or with the failure to request it; the mapping also keeps the previous policy as `before`.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, NamedTuple

from swath.crawl.fact_batcher import FactBatcher
from swath.crawl.failed_pages import RETRY_FACT
from swath.crawl.frontier_clock import FrontierClock
from swath.crawl.http.redirect_target import find_redirect_target
from swath.crawl.http.response import Response
from swath.crawl.robots.failure import OriginFailure, next_failure
from swath.crawl.robots.parser import RobotsTxt
from swath.crawl.robots.policy import SECOND, RobotsPolicy, keep_stale, policy_from_response

KEY_PREFIX = "robots "  # followed by the origin: key of a fact, and of an item that follows a redirect
MAX_CACHED_BYTES = 50_000_000  # memory for robots.txt files and their parsed rules
BYTES_PER_ORIGIN = 1_000  # without its file
BYTES_PER_LINE = 350  # of a parsed file: far more than the length of a short line
MAX_REDIRECTS = 5  # of one robots.txt; RFC 9309 asks for at least five
WAIT_SECONDS = 300.0  # for a redirect into another lane, before the origin is requested again
TOP_PRIORITY = 7


@dataclass(slots=True)
class CachedRobots:
    """The current policy of an origin, and its parsed file."""

    policy: RobotsPolicy
    robots: RobotsTxt


class RobotsRedirect(NamedTuple):
    """A redirect of robots.txt that was not followed yet."""

    url: str
    redirects: int  # followed so far, with this one
    until: int  # when to request the origin again, and when the block of the waiting lane ends


Known = CachedRobots | RobotsRedirect | OriginFailure  # what is known about the robots.txt of an origin


class RobotsCache:
    """The robots.txt files of a crawl, in memory and in the facts that all workers share."""

    def __init__(self, facts: FactBatcher, clock: FrontierClock) -> None:
        self._facts = facts
        self._clock = clock
        self._known: OrderedDict[str, CachedRobots] = OrderedDict()
        self._bytes = 0

    async def get(self, origin: str) -> Known | None:
        """Return what is known about the robots.txt of an origin, or None if it has to be requested."""
        now = await self._clock.now()
        known = self._known.get(origin)
        if known is not None and now < known.policy.expires_at:
            self._known.move_to_end(origin)
            return known
        # Failures are read again each time, because another process may make failed pages ready.
        fact, retry_mark = await self._facts.get_all(KEY_PREFIX + origin, RETRY_FACT)
        if fact is None:
            return None
        if "kind" in fact:
            rules = RobotsPolicy.from_json(fact)
            return self._keep(origin, rules) if now < rules.expires_at else None
        if fact.get("redirect") is not None:
            redirect = RobotsRedirect(*fact["redirect"])
            return redirect if now < redirect.until else None
        failure = OriginFailure(*fact["failure"])
        return failure if now < failure.until and failure.retry_mark == retry_mark else None

    def _keep(self, origin: str, rules: RobotsPolicy) -> CachedRobots:
        self._forget(self._known.pop(origin, None))
        known = self._known[origin] = CachedRobots(rules, rules.parse())
        self._bytes += _estimate_memory(rules)
        while self._bytes > MAX_CACHED_BYTES and len(self._known) > 1:
            self._forget(self._known.popitem(last=False)[1])
        return known

    def _forget(self, known: CachedRobots | None) -> None:
        if known is not None:
            self._bytes -= _estimate_memory(known.policy)

    async def record_response(
        self, origin: str, response: Response, *, body: bytes, redirects: int, first_retry: float
    ) -> CachedRobots | RobotsRedirect:
        """Store the response of an origin as a fact, and return its policy or the redirect to follow."""
        now = await self._clock.now()
        target = find_redirect_target(response)
        before, failure = _read_history(await self._facts.get(KEY_PREFIX + origin))
        if target is not None and redirects < MAX_REDIRECTS:
            redirect = RobotsRedirect(target, redirects + 1, now + int(WAIT_SECONDS * SECOND))
            await self._facts.learn({KEY_PREFIX + origin: _make_fact(before, redirect=redirect, failure=failure)})
            return redirect
        expires = response.headers.get("expires")
        rules = policy_from_response(
            response.status,
            now=now,
            body=body,
            cache_control=response.headers.get_list("cache-control"),
            expires=expires,
            sent_at=None if expires is None else await self._clock.find_response_time(response),
            first_retry=int(first_retry * SECOND),
            before=before,
        )
        await self._facts.learn({KEY_PREFIX + origin: rules.to_json()})
        return self._keep(origin, rules)

    async def record_failure(
        self, origin: str, reason: str, *, is_permanent: bool, retries: int, interval: float
    ) -> CachedRobots | OriginFailure:
        """Store that an origin could not be reached, and return the failure, or earlier rules that still apply."""
        now = await self._clock.now()
        fact, retry_mark = await self._facts.get_all(KEY_PREFIX + origin, RETRY_FACT)
        before, failure = _read_history(fact)
        if (rules := keep_stale(before, now=now)) is not None:
            await self._facts.learn({KEY_PREFIX + origin: rules.to_json()})
            return self._keep(origin, rules)
        failure = next_failure(
            failure,
            reason=reason,
            is_permanent=is_permanent,
            now=now,
            retries=retries,
            interval=interval,
            retry_mark=retry_mark,
        )
        if before is not None and before.failing_since is None:
            before = None  # too old to apply, and it may have a large file
        await self._facts.learn({KEY_PREFIX + origin: _make_fact(before, failure=failure)})
        return failure


def _read_history(fact: Any) -> tuple[RobotsPolicy | None, OriginFailure | None]:
    """Return the latest policy and the latest failure that a fact contains."""
    if fact is None:
        return None, None
    policy = fact if "kind" in fact else fact.get("before")
    failure = fact.get("failure")
    return (
        None if policy is None else RobotsPolicy.from_json(policy),
        None if failure is None else OriginFailure(*failure),
    )


def _make_fact(
    before: RobotsPolicy | None, *, redirect: RobotsRedirect | None = None, failure: OriginFailure | None = None
) -> dict[str, Any]:
    """Return the fact of an origin whose rules are not known. `failure` is an earlier one if there is a redirect."""
    return {
        "redirect": None if redirect is None else list(redirect),
        "failure": None if failure is None else list(failure),
        "before": None if before is None else before.to_json(),
    }


def _estimate_memory(rules: RobotsPolicy) -> int:
    lines = rules.body.count(b"\n") + rules.body.count(b"\r")
    return BYTES_PER_ORIGIN + len(rules.body) + BYTES_PER_LINE * lines
