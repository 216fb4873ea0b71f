"""Pace: how often each host is visited. Its lane holds to it for the whole fleet, and a fact remembers it."""

import time

from swath.crawl import politeness
from swath.crawl.fact_batcher import Lookup
from swath.crawl.patient import Patient

KEY = "pace "  # before the lane: the key of a fact
REMEMBERED = 50_000  # hosts


class Pace:
    """What is known here of a host."""

    __slots__ = ("blocked_until", "closes", "crawl_delay", "errors", "interval")

    def __init__(self, interval: float) -> None:
        self.interval = interval  # as its lane has it
        self.errors = 0  # in a row
        self.crawl_delay: float | None = None
        self.blocked_until = 0.0
        self.closes = False  # connections that were kept, so that it is asked on new ones


class Paces:
    """The paces of the hosts that this process visits."""

    def __init__(self, frontier: Patient, lookup: Lookup, *, delay: float) -> None:
        self._frontier = frontier
        self._lookup = lookup
        self._delay = delay
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

    async def answered(self, lane: str, seconds: float, *, failed: bool) -> None:
        """Slow down for a host that is slow or fails, and speed up again when it does not."""
        pace = self.of(lane)
        pace.errors = pace.errors + 1 if failed else 0
        wanted = politeness.interval(
            self._delay, crawl_delay=pace.crawl_delay, answer_seconds=seconds, errors=pace.errors
        )
        await self._set(lane, pace, wanted)

    async def heed(self, lane: str, crawl_delay: float) -> None:
        """Slow down to what a host asks for. It was heard elsewhere and says nothing of how the host answers: one that
        is left alone for longer, since it is slow or fails, stays so."""
        await self.meet(lane)
        pace = self.of(lane)
        pace.crawl_delay = crawl_delay
        wanted = politeness.interval(self._delay, crawl_delay=crawl_delay, answer_seconds=0.0, errors=pace.errors)
        await self._set(lane, pace, max(wanted, pace.interval))

    async def _set(self, lane: str, pace: Pace, wanted: float) -> None:
        least = politeness.least(self._delay, crawl_delay=pace.crawl_delay)
        if politeness.differs(wanted, pace.interval, least=least):
            pace.interval = wanted
            await self._frontier.limit(lane, min_interval=wanted)
            await self._lookup.learn({KEY + lane: wanted})

    async def block(self, lane: str, seconds: float) -> None:
        """Leave a host alone for so long; one of several pages at once that asks for less does not shorten it, here or
        in another process."""
        pace = self.of(lane)
        until = time.monotonic() + seconds
        if seconds and until > pace.blocked_until:
            pace.blocked_until = until
            await self._frontier.block(lane, until=seconds, at_least=True)
