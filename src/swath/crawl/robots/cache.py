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
from swath.crawl.http.response import Answer
from swath.crawl.robots.parser import Robots
from swath.crawl.robots.policy import Rules, verdict_of_answer
from swath.crawl.urls import normalise

KEY = "robots "  # before the origin: the key of a fact, and of an item that follows a redirect
CACHED_BYTES = 50_000_000  # of memory for robots.txt files and their parsed rules
CACHED_EACH = 1_000  # bytes that an origin takes beside its file
CACHED_LINE = 350  # and each line of it, once it is parsed: many times as much as a short one has itself
MAX_HOPS = 5
WAIT_SECONDS = 300.0
TOP_PRIORITY = 7


@dataclass(slots=True)
class Known:
    """The rules of an origin in force, parsed."""

    rules: Rules
    robots: Robots


class Hop(NamedTuple):
    """A redirect of robots.txt that is yet to be followed."""

    url: str
    hops: int
    until: int  # after which it is asked for anew; the lane that waits for it is blocked to the same microsecond


class Origins:
    """The robots.txt files of a crawl."""

    def __init__(self, facts: FactBatcher) -> None:
        self._facts = facts
        self._known: OrderedDict[str, Known] = OrderedDict()
        self._bytes = 0

    async def known(self, origin: str) -> Known | Hop | None:
        """What is in force for an origin: its rules, a redirect to follow first, or nothing: it has to be asked."""
        now = time.time_ns() // 1_000
        known = self._known.get(origin)
        if known is not None and now < known.rules.expires_at:
            self._known.move_to_end(origin)
            return known
        fact = await self._facts.get(KEY + origin)
        if fact is None:
            return None
        if "hop" in fact:
            hop = Hop(*fact["hop"])
            return hop if now < hop.until else None
        rules = Rules.from_json(fact)
        return self._keep(origin, rules) if now < rules.expires_at else None

    def _keep(self, origin: str, rules: Rules) -> Known:
        self._forget(self._known.pop(origin, None))
        known = self._known[origin] = Known(rules, rules.robots())
        self._bytes += _size(rules)
        while self._bytes > CACHED_BYTES and len(self._known) > 1:
            self._forget(self._known.popitem(last=False)[1])
        return known

    def _forget(self, known: Known | None) -> None:
        if known is not None:
            self._bytes -= _size(known.rules)

    async def heard(self, origin: str, answer: Answer, *, body: bytes, hops: int, first_retry: float) -> Known | Hop:
        """Take in what an origin answered, and let the fleet know."""
        now = time.time_ns() // 1_000
        target = redirect_of(answer)
        before = await self._facts.get(KEY + origin)
        if before is not None and "hop" in before:
            before = before.get("before")
        if target is not None and hops < MAX_HOPS:
            hop = Hop(target, hops + 1, now + int(WAIT_SECONDS * SECOND))
            # How long it has been failing is not forgotten on the way.
            await self._facts.learn({KEY + origin: {"hop": list(hop), "before": before}})
            return hop
        cut = answer.truncated in ("time", "disconnect") and 200 <= answer.status < 300  # no other's body matters
        rules = verdict_of_answer(
            None if cut else answer.status or None,
            now=now,
            body=body,
            cache_control=answer.headers.joined("cache-control"),
            expires=answer.headers.get("expires"),
            first_retry=int(first_retry * SECOND),
            before=None if before is None else Rules.from_json(before),
        )
        await self._facts.learn({KEY + origin: rules.to_json()})
        return self._keep(origin, rules)


def _size(rules: Rules) -> int:
    lines = rules.body.count(b"\n") + rules.body.count(b"\r")
    return CACHED_EACH + len(rules.body) + CACHED_LINE * lines


def redirect_of(answer: Answer) -> str | None:
    """Where an answer redirects to, normalised; None if it does not, or to where nobody can go."""
    if answer.status not in (301, 302, 303, 307, 308):
        return None
    location = answer.headers.get("location")
    return None if location is None else normalise.normalise(_as_utf8(location), answer.url)


def _as_utf8(value: str) -> str:
    """A header's value, whose bytes were read as Latin-1, as the UTF-8 that many servers mean."""
    try:
        return value.encode("latin-1").decode()
    except UnicodeError:
        return value
