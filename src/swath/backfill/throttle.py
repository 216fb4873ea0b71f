"""Governor: how many slices may be worked on at once, over all machines, so that a backfill is a good citizen.

The allowance is the concurrency of the lane, which the frontier holds the whole fleet to. It is halved when somebody
suffers, and grows by one a second when nobody does; where there is no reason left for a limit, it is lifted.
"""

import asyncio
import logging
from collections.abc import Callable

from swath.backfill.load_signals import Complaint, Health
from swath.backfill.ranges import LANE
from swath.core.errors import StoreUnavailable, UsageError
from swath.frontier import Frontier

log = logging.getLogger("swath.backfill")

LOOK_SECONDS = 1.0
BLOCK_SECONDS = 3.0  # that one look holds the lane: somebody who dies does not hold it for ever
ROOM = 4  # times what is at work: a limit that high limits nobody


class Governor:
    """Looks once a second, and says why it changed its mind."""

    def __init__(
        self,
        frontier: Frontier,
        health: Health,
        *,
        slowdown: Callable[[], float],
        say: Callable[[str], None],
    ) -> None:
        self._frontier = frontier
        self._health = health
        self._slowdown = slowdown
        self._say = say
        self.complaint: Complaint | None = None

    def held_up(self) -> str | None:
        """Why nothing may be started at this moment."""
        return self.complaint.why if self.complaint is not None and self.complaint.pause else None

    async def watch(self) -> None:
        while True:
            try:
                await self._look()
            except StoreUnavailable as error:
                log.debug("no look at the database's health: %s", error)
            await asyncio.sleep(LOOK_SECONDS)

    async def _look(self) -> None:
        try:
            complaint = await self._health.look(slowdown=self._slowdown())
        except UsageError as error:  # nobody knows whether it may go on
            complaint = Complaint(True, str(error))
        self._tell(complaint)
        self.complaint = complaint
        if complaint is not None and complaint.pause:
            await self._frontier.block(LANE, seconds=BLOCK_SECONDS)
            return
        lane = await self._frontier.lane(LANE)
        if lane is None:
            return
        limit = lane.concurrency if "concurrency" in lane.overrides else None
        wanted = allowance(limit, lane.in_flight, complaint)
        if wanted != limit:
            await self._frontier.limit(LANE, concurrency=wanted if wanted is not None else "default")

    def _tell(self, complaint: Complaint | None) -> None:
        before = self.complaint
        if complaint is None:
            if before is not None:
                self._say("goes on" if before.pause else "back to full speed, step by step")
        elif before is None or before.pause != complaint.pause:
            self._say(f"{'paused' if complaint.pause else 'slower'}: {complaint.why}")


def allowance(limit: int | None, in_flight: int, complaint: Complaint | None) -> int | None:
    """How many slices at once from now on; None is no limit."""
    if complaint is not None:
        at_work = in_flight if limit is None else min(limit, max(in_flight, 1))
        return max(1, at_work // 2)
    if limit is None or limit >= ROOM * max(in_flight, 1):
        return None
    return limit + 1
