"""Claimer: claims items, spreads the claims over the partitions, and repeats claims that got no reply."""

import asyncio
import logging
import random
import secrets
from collections.abc import Sequence
from time import perf_counter

from swath.core import events
from swath.core.clock import lease_clock, to_microseconds
from swath.core.errors import StoreUnavailable, UsageError
from swath.core.leased_items import LeasedItems
from swath.core.session import Session
from swath.core.store import MAX_CLAIM, ClaimReply, ClaimRequest
from swath.core.validation import check_lease

log = logging.getLogger("swath")

SKIPS_BEFORE_WAITING = 2  # after this many claims in a row found a partition locked, the next one waits for its lock


class Claimer:
    """Claims items for one worker."""

    def __init__(self, session: Session) -> None:
        self._session = session
        partitions = session.store.settings.partitions
        self._order = random.Random(session.worker).sample(range(partitions), partitions)
        self._first = 0
        self._unanswered: list[int] = []  # tokens of claims whose reply was lost: the store may have made them
        self._skips: dict[int, int] = {}

    async def claim(self, limit: int, *, lease: float) -> tuple[LeasedItems | None, ClaimReply]:
        """Ask the store once. Return the items, or None, and the reply.

        None does not mean that nothing is ready: `reply.skipped` lists partitions that another transaction had locked.
        """
        if type(limit) is not int or not 1 <= limit <= MAX_CLAIM:
            raise UsageError(f"limit={limit!r}: a claim takes 1 to {MAX_CLAIM:,} items")
        check_lease(lease)
        # If the reply to an earlier claim was lost, the store may have made that claim: ask for it again by its token.
        token = self._unanswered.pop() if self._unanswered else secrets.randbits(63)
        session = self._session
        asked_at = lease_clock()
        request = ClaimRequest(
            limit, to_microseconds(lease), session.worker, token, self._next_order(), self._partition_to_wait_for()
        )
        began = perf_counter()
        try:
            reply = await session.store.claim(request)
        except (StoreUnavailable, asyncio.CancelledError):
            self._unanswered.append(token)
            raise
        seconds = perf_counter() - began
        self._note_reply(reply, seconds)
        if not reply.items:
            return None, reply
        session.emit(events.Claimed(reply.fence, len(reply.items), seconds))
        return LeasedItems(session, reply, token=token, lease=lease, asked_at=asked_at), reply

    def _next_order(self) -> Sequence[int]:
        """Return all partitions in this worker's own order, starting at the next one each time.

        So workers seldom want the same partition, and no partition is always last.
        """
        self._first = (self._first + 1) % len(self._order)
        return self._order[self._first :] + self._order[: self._first]

    def _partition_to_wait_for(self) -> int | None:
        """Return a partition that the last claims found locked, to wait for its lock, or None."""
        return next((partition for partition, skips in self._skips.items() if skips >= SKIPS_BEFORE_WAITING), None)

    def _note_reply(self, reply: ClaimReply, seconds: float) -> None:
        self._skips = {partition: self._skips.get(partition, 0) + 1 for partition in reply.skipped}
        self._session.watch_clock(reply.now, seconds)
        if reply.recovered:
            log.warning(
                "took back %d items of claims whose lease had ended; %d are dead",
                reply.recovered, reply.died, extra=events.AS_EVENT,
            )  # fmt: skip
            self._session.emit(events.Recovered(reply.recovered, reply.died))
