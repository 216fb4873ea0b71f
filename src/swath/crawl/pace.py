"""Pace: how often each host is visited. Its lane holds to it for the whole fleet, and a fact remembers it."""

import time
from typing import NamedTuple

from swath.core.clock import Clock, SystemClock, as_datetime, microseconds
from swath.crawl import politeness
from swath.crawl.lookup import Lookup
from swath.crawl.patient import Patient

KEY = "pace "  # before the lane: the key of a fact
ASKED = "crawl-delay "  # before the lane: the key of another
REMEMBERED = 50_000  # hosts


class Asked(NamedTuple):
    """What a robots.txt says of the seconds between requests; 0: nothing."""

    seconds: float
    origin: str
    until: int  # microseconds since the epoch: as long as that robots.txt holds


def prevailing(known: Asked | None, other: Asked | None, *, now: int) -> Asked | None:
    """Which of two holds for a lane: what an origin said last, and of different origins the longer while it holds. One
    that was known goes on after its time, until another speaks: a page is under way by it."""
    if other is None or other.until <= now:
        return known
    if known is None or known.until <= now:
        return other
    if known.origin == other.origin:
        return other if other.until > known.until else known
    return other if other.seconds > known.seconds else known


class Pace:
    """What is known here of a host."""

    __slots__ = ("asked", "blocked_until", "closes", "errors", "interval")

    def __init__(self, interval: float) -> None:
        self.interval = interval  # as its lane has it
        self.errors = 0  # in a row
        self.asked: Asked | None = None  # the longest Crawl-delay; others are heard again with their pages
        self.blocked_until = 0.0
        self.closes = False  # connections that were kept, so that it is asked on new ones


class Paces:
    """The paces of the hosts that this process visits."""

    def __init__(
        self, frontier: Patient, lookup: Lookup, *, delay: float, robots: bool = True, clock: Clock | None = None
    ) -> None:
        """Without `robots`, what any of them asked for is nothing to this run."""
        self._frontier = frontier
        self._lookup = lookup
        self._delay = delay
        self._robots = robots
        self._clock = clock or SystemClock()
        self._known: dict[str, Pace] = {}

    async def meet(self, lane: str) -> None:
        """Learn what is known of a host, unless it is known here."""
        if lane not in self._known:
            interval = await self._lookup.fact(KEY + lane)
            if lane not in self._known:
                self._keep(lane, Pace(self._delay if interval is None else interval))

    def _keep(self, lane: str, pace: Pace) -> Pace:
        if len(self._known) >= REMEMBERED:
            self._known.clear()
        self._known[lane] = pace
        return pace

    def of(self, lane: str) -> Pace:
        return self._known.get(lane) or self._keep(lane, Pace(self._delay))

    def interval(self, lane: str) -> float:
        return self.of(lane).interval

    def paced(self, lane: str) -> bool:
        return self._delay > 0 or self.of(lane).interval > 0

    async def hear(self, lane: str, asked: Asked) -> None:
        """Take in what a robots.txt of the lane asks for: the longest of all counts, also of those heard elsewhere. The
        next answer, or `heed`, sets the pace by it."""
        await self.meet(lane)
        pace = self.of(lane)
        now = self._clock.now()
        found = prevailing(pace.asked, asked, now=now)
        if found == pace.asked:
            return
        pace.asked = found
        if asked.seconds > self._delay:  # the fleet wants to know, unless it knows of a longer one
            told = await self._told(lane)
            pace.asked = prevailing(pace.asked, told, now=now)
            if told != asked and prevailing(told, asked, now=now) == asked:
                await self._lookup.learn({ASKED + lane: list(asked)})

    async def _told(self, lane: str) -> Asked | None:
        fact = await self._lookup.fact(ASKED + lane)
        return None if fact is None else Asked(*fact)

    async def answered(self, lane: str, seconds: float, *, failed: bool) -> None:
        """Slow down for a host that is slow or fails, and speed up again when it does not."""
        pace = self.of(lane)
        pace.errors = pace.errors + 1 if failed else 0
        wanted = self._wanted(pace, seconds)
        if self._robots and politeness.differs(wanted, pace.interval):
            told = await self._told(lane)  # before the pace of the whole fleet is changed: others may have heard more
            pace.asked = prevailing(pace.asked, told, now=self._clock.now())
            wanted = self._wanted(pace, seconds)
        await self._set(lane, pace, wanted)

    def _wanted(self, pace: Pace, seconds: float) -> float:
        crawl_delay = None if pace.asked is None else pace.asked.seconds
        return politeness.interval(self._delay, crawl_delay=crawl_delay, answer_seconds=seconds, errors=pace.errors)

    async def heed(self, lane: str) -> None:
        """Slow down to what a host asks for. It was heard elsewhere and says nothing of how the host answers: one that
        is left alone for longer, since it is slow or fails, stays so."""
        pace = self.of(lane)
        await self._set(lane, pace, max(self._wanted(pace, 0.0), pace.interval))

    async def _set(self, lane: str, pace: Pace, wanted: float) -> None:
        if politeness.differs(wanted, pace.interval):
            pace.interval = wanted
            await self._frontier.limit(lane, min_interval=wanted)
            await self._lookup.learn({KEY + lane: wanted})

    async def block(self, lane: str, seconds: float) -> None:
        """Leave a host alone for so long. Where it was promised more, by a page here or elsewhere, that stays."""
        pace = self.of(lane)
        until = time.monotonic() + seconds
        if until <= pace.blocked_until:
            return
        pace.blocked_until = until
        wanted = await self._frontier.now() + microseconds(seconds)
        promised = await self._frontier.blocked_until(lane)
        if until < pace.blocked_until:
            return  # to a page that asked for more meanwhile
        # One that stays is longer by a microsecond: if it is that of a hop, it does not end with the hop any more.
        await self._frontier.block(lane, until=as_datetime(max(wanted, promised + 1)))
