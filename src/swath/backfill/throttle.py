"""Throttle: limit the slices in flight, over all machines, while the backfill slows down other users.

The limit is the concurrency of the lane, which the frontier enforces for all workers. The throttle halves it when a
load signal asks for that and otherwise raises it by one per second, until the limit no longer matters and is removed.
"""

import asyncio
import logging
import time
from collections.abc import Callable

from swath import Frontier, StoreFull, StoreUnavailable, UsageError
from swath.backfill.load_signals import LoadSignals, Overload
from swath.backfill.ranges import LANE

log = logging.getLogger("swath.backfill")

CHECK_SECONDS = 1.0
BLOCK_SECONDS = 3.0  # per check; the block expires by itself if this process dies
HEADROOM = 4  # a limit of this many times the slices in flight has no effect


class Throttle:
    """Checks the load once per second and reports when it pauses, slows down or speeds up."""

    def __init__(
        self,
        frontier: Frontier,
        signals: LoadSignals,
        *,
        slowdown: Callable[[], float],
        report: Callable[[str], None],
    ) -> None:
        self._frontier = frontier
        self._signals = signals
        self._slowdown = slowdown
        self._report = report
        self.overload: Overload | None = None
        self._since = 0.0  # when the overload began

    @property
    def seconds(self) -> float:
        """For how long there has been an overload."""
        return 0.0 if self.overload is None else time.monotonic() - self._since

    def pause_reason(self) -> str | None:
        """Return why no slice may start now, or None."""
        return self.overload.reason if self.overload is not None and self.overload.pause else None

    async def watch(self) -> None:
        while True:
            try:
                await self._check()
            except (StoreUnavailable, StoreFull) as error:
                log.debug("cannot check the database's load: %s", error)
            await asyncio.sleep(CHECK_SECONDS)

    async def _check(self) -> None:
        try:
            overload = await self._signals.check(slowdown=self._slowdown())
        except UsageError as error:  # pause while the load is unknown
            overload = Overload(True, str(error))
        self._report_change(overload)
        if self.overload is None:
            self._since = time.monotonic()
        self.overload = overload
        if overload is not None and overload.pause:
            await self._frontier.block(LANE, seconds=BLOCK_SECONDS)
            return
        lane = await self._frontier.lane(LANE)
        if lane is None:
            return
        limit = lane.concurrency if "concurrency" in lane.overrides else None
        wanted = choose_limit(limit, lane.in_flight, overload)
        if wanted != limit:
            await self._frontier.limit(LANE, concurrency=wanted if wanted is not None else "default", audit=False)

    def _report_change(self, overload: Overload | None) -> None:
        before = self.overload
        if overload is None:
            if before is not None:
                self._report("resumed" if before.pause else "speeding up again")
        elif before is None or before.pause != overload.pause:
            self._report(f"{overload.describe()}: {overload.reason}")


def choose_limit(limit: int | None, in_flight: int, overload: Overload | None) -> int | None:
    """Return how many slices may be in flight from now on; None means no limit."""
    if overload is not None:
        active = in_flight if limit is None else min(limit, max(in_flight, 1))
        return max(1, active // 2)
    if limit is None or limit >= HEADROOM * max(in_flight, 1):
        return None
    return limit + 1
