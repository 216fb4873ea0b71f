"""Origins: what each origin's robots.txt says, from memory, from the fleet's facts, or asked for now.

robots.txt is asked for in the turn of a page that needs it: the lane paces that request like any other, and the page
goes back for the next turn. Nothing else of the origin is fetched in between. Where lanes are not paced, the page
follows at once.

A redirect within the lane takes the next turn. One that leads to another lane is an item there, under a key of its own;
until that is settled the lane of the origin is blocked, and no longer than WAIT_SECONDS if it never is. Where other
hosts are in the lane, only the pages of the origin wait. After that the origin is asked anew, so that several such
items may wait for a lane; when the rules are known by one of them, the others are settled without a request.
"""

import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import NamedTuple

from swath.core.clock import SECOND
from swath.crawl.fact_batcher import FactBatcher
from swath.crawl.http.response import Response
from swath.crawl.robots.parser import RobotsTxt
from swath.crawl.robots.policy import RobotsPolicy, policy_from_response
from swath.crawl.urls import normalise

KEY_PREFIX = "robots "  # before the origin: the key of a fact, and of an item that follows a redirect
MAX_CACHED_BYTES = 50_000_000  # of memory for robots.txt files and their parsed rules
BYTES_PER_ORIGIN = 1_000  # bytes that an origin takes beside its file
BYTES_PER_LINE = 350  # and each line of it, once it is parsed: many times as much as a short one has itself
MAX_REDIRECTS = 5
WAIT_SECONDS = 300.0
TOP_PRIORITY = 7


@dataclass(slots=True)
class CachedRobots:
    """The rules of an origin in force, parsed."""

    policy: RobotsPolicy
    robots: RobotsTxt


class RobotsRedirect(NamedTuple):
    """A redirect of robots.txt that is yet to be followed."""

    url: str
    hops: int
    until: int  # after which it is asked for anew; the lane that waits for it is blocked to the same microsecond


class RobotsCache:
    """The robots.txt files of a crawl."""

    def __init__(self, facts: FactBatcher) -> None:
        self._facts = facts
        self._known: OrderedDict[str, CachedRobots] = OrderedDict()
        self._bytes = 0

    async def get(self, origin: str) -> CachedRobots | RobotsRedirect | None:
        """What is in force for an origin: its rules, a redirect to follow first, or nothing: it has to be asked."""
        now = time.time_ns() // 1_000
        known = self._known.get(origin)
        if known is not None and now < known.policy.expires_at:
            self._known.move_to_end(origin)
            return known
        fact = await self._facts.get(KEY_PREFIX + origin)
        if fact is None:
            return None
        if "hop" in fact:
            hop = RobotsRedirect(*fact["hop"])
            return hop if now < hop.until else None
        rules = RobotsPolicy.from_json(fact)
        return self._keep(origin, rules) if now < rules.expires_at else None

    def _keep(self, origin: str, rules: RobotsPolicy) -> CachedRobots:
        self._forget(self._known.pop(origin, None))
        known = self._known[origin] = CachedRobots(rules, rules.parse())
        self._bytes += _memory_size(rules)
        while self._bytes > MAX_CACHED_BYTES and len(self._known) > 1:
            self._forget(self._known.popitem(last=False)[1])
        return known

    def _forget(self, known: CachedRobots | None) -> None:
        if known is not None:
            self._bytes -= _memory_size(known.policy)

    async def record_response(
        self, origin: str, response: Response, *, body: bytes, hops: int, first_retry: float
    ) -> CachedRobots | RobotsRedirect:
        """Take in what an origin answered, and let the fleet know."""
        now = time.time_ns() // 1_000
        target = redirect_target(response)
        before = await self._facts.get(KEY_PREFIX + origin)
        if before is not None and "hop" in before:
            before = before.get("before")
        if target is not None and hops < MAX_REDIRECTS:
            hop = RobotsRedirect(target, hops + 1, now + int(WAIT_SECONDS * SECOND))
            # How long it has been failing is not forgotten on the way.
            await self._facts.learn({KEY_PREFIX + origin: {"hop": list(hop), "before": before}})
            return hop
        cut = response.truncated in ("time", "disconnect") and 200 <= response.status < 300  # no other's body matters
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


def _memory_size(rules: RobotsPolicy) -> int:
    lines = rules.body.count(b"\n") + rules.body.count(b"\r")
    return BYTES_PER_ORIGIN + len(rules.body) + BYTES_PER_LINE * lines


def redirect_target(response: Response) -> str | None:
    """Where an answer redirects to, normalised; None if it does not, or to where nobody can go."""
    if response.status not in (301, 302, 303, 307, 308):
        return None
    location = response.headers.get("location")
    return None if location is None else normalise.normalise(_as_utf8(location), response.url)


def _as_utf8(value: str) -> str:
    """A header's value, whose bytes were read as Latin-1, as the UTF-8 that many servers mean."""
    try:
        return value.encode("latin-1").decode()
    except UnicodeError:
        return value
