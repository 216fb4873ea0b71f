"""Cache the robots.txt of each origin: parsed files in memory, and policies as facts that all workers share.

The cache fetches nothing. `gate` requests the file, passes the response to `record_response`, and follows redirects.
"""

import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import NamedTuple

from swath.crawl.fact_batcher import FactBatcher
from swath.crawl.http.redirect_target import find_redirect_target
from swath.crawl.http.response import Response
from swath.crawl.robots.parser import RobotsTxt
from swath.crawl.robots.policy import SECOND, RobotsPolicy, policy_from_response

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
    until: int  # when to request the origin again; also the exact end of the waiting lane's block


class RobotsCache:
    """The robots.txt files of a crawl, in memory and in the facts that all workers share."""

    def __init__(self, facts: FactBatcher) -> None:
        self._facts = facts
        self._known: OrderedDict[str, CachedRobots] = OrderedDict()
        self._bytes = 0

    async def get(self, origin: str) -> CachedRobots | RobotsRedirect | None:
        """Return the robots.txt of an origin, or a redirect to follow first, or None if it has to be requested."""
        now = time.time_ns() // 1_000
        known = self._known.get(origin)
        if known is not None and now < known.policy.expires_at:
            self._known.move_to_end(origin)
            return known
        fact = await self._facts.get(KEY_PREFIX + origin)
        if fact is None:
            return None
        if "redirect" in fact:
            redirect = RobotsRedirect(*fact["redirect"])
            return redirect if now < redirect.until else None
        rules = RobotsPolicy.from_json(fact)
        return self._keep(origin, rules) if now < rules.expires_at else None

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
        now = time.time_ns() // 1_000
        target = find_redirect_target(response)
        before = await self._facts.get(KEY_PREFIX + origin)
        if before is not None and "redirect" in before:
            before = before.get("before")
        if target is not None and redirects < MAX_REDIRECTS:
            redirect = RobotsRedirect(target, redirects + 1, now + int(WAIT_SECONDS * SECOND))
            # Keep the previous policy: it tells since when requests have been failing.
            await self._facts.learn({KEY_PREFIX + origin: {"redirect": list(redirect), "before": before}})
            return redirect
        # A partial file could allow too much, so it counts as a failure. Bodies of other statuses do not matter.
        cut = response.truncated in ("time", "disconnect") and 200 <= response.status < 300
        rules = policy_from_response(
            None if cut else response.status or None,
            now=now,
            body=body,
            cache_control=response.headers.get_list("cache-control"),
            expires=response.headers.get("expires"),
            first_retry=int(first_retry * SECOND),
            before=None if before is None else RobotsPolicy.from_json(before),
        )
        await self._facts.learn({KEY_PREFIX + origin: rules.to_json()})
        return self._keep(origin, rules)


def _estimate_memory(rules: RobotsPolicy) -> int:
    lines = rules.body.count(b"\n") + rules.body.count(b"\r")
    return BYTES_PER_ORIGIN + len(rules.body) + BYTES_PER_LINE * lines
