"""Leases: renewed while there is work, and the end of the work when they cannot be (rule 3)."""

import asyncio
import logging
from collections.abc import Callable

from swath.core.clock import lease_clock
from swath.core.errors import LeaseLost, StoreUnavailable
from swath.runner.execution import Why
from swath.runner.in_flight import Hand, Held
from swath.runner.store_retry import WAIT_FOR_IT, Outage

log = logging.getLogger("swath.runner")

AT_ONCE = 8  # renewals under way
MOST_MARGIN = 2.0  # seconds before its end at which a lease counts as ended, at the most


class Leases:
    """Watches over the leases of the claims in hand, on the holder's own clock."""

    def __init__(self, hand: Hand, outage: Outage, *, lease: float, lost: Callable[[], None]) -> None:
        self._hand = hand
        self._outage = outage
        self._lease = lease
        self._lost = lost
        self._margin = min(MOST_MARGIN, lease / 10)

    def allows_start(self, held: Held, now: float) -> bool:
        return now < held.claim.ends_at - 2 * self._margin

    async def renew(self) -> None:
        """Renew every lease of which less than a third is left, those first that end first."""
        due = lease_clock() + self._lease / 3
        claims = [held for held in self._hand.claims.values() if not held.ended and held.claim.ends_at <= due]
        claims.sort(key=lambda held: held.claim.ends_at)
        for start in range(0, len(claims), AT_ONCE):
            await asyncio.gather(*(self._renew(held) for held in claims[start : start + AT_ONCE]))

    async def _renew(self, held: Held) -> None:
        try:
            await held.claim.renew(self._lease)
        except WAIT_FOR_IT as error:
            # Not as StoreFull: a claim that is given up is not renewed again, and must not keep an outage from ending.
            await self._outage.wait(self._outage.failed("renew", StoreUnavailable(str(error))))
        except LeaseLost as lost:
            if held.sending:  # it may have been settled before: it is for the settlement to find out what was lost
                held.claim.ends_at = 0.0  # the work ends nevertheless
            elif not held.ended:  # else likewise, of what is finished
                self.lose(held, lost)
        else:
            self._outage.worked("renew")

    def lose(self, held: Held, lost: LeaseLost) -> None:
        """Somebody else has these items: end the work on them and drop what it came to (INV-2)."""
        if held.lost:
            return
        held.lost = held.ended = True
        held.claim.report_lost(lost)
        log.warning("%s; %d results are dropped", lost, held.claim.remaining)
        self._hand.lost += held.claim.remaining
        self._hand.unsettled -= held.sending + len(held.outcomes)
        held.sending = 0
        held.outcomes.clear()
        if not held.queued:  # else its settler sees to it
            self._hand.weigh(held, 0)
        self._hand.unstarted(held)
        self._interrupt(held)
        self._hand.retire(held)
        self._lost()

    def end(self, now: float) -> list[Held]:
        """End the work of leases that run out unrenewed: a lane taken over must not be visited twice at once.

        What is finished, and what is given back, is still offered to the store: it may have had no taker.
        """
        ended = [
            held for held in self._hand.claims.values() if not held.ended and now >= held.claim.ends_at - self._margin
        ]
        for held in ended:
            held.ended = True
            self._hand.ended.add(held)
            log.warning(
                "the lease of claim %d ends unrenewed: %d running items are abandoned, %d results wait for the store",
                held.claim.fence, len(held.works), len(held.outcomes) + held.sending,
            )  # fmt: skip
            self._interrupt(held)
        return ended

    def _interrupt(self, held: Held) -> None:
        now = lease_clock()
        for work in held.works:
            work.cancel(Why.LEASE, now)
