"""LeaseKeeper: renews the leases of claims in flight, and cancels the handlers of leases that it could not renew."""

import asyncio
import logging
from collections.abc import Callable

from swath.core.clock import lease_clock
from swath.core.errors import LeaseLost, StoreUnavailable
from swath.core.events import AS_EVENT
from swath.runner.execution import CancelReason
from swath.runner.in_flight import ClaimState, InFlight
from swath.runner.store_retry import UNAVAILABLE, StoreRetry

log = logging.getLogger("swath.runner")

MAX_CONCURRENT_RENEWALS = 8
MAX_MARGIN = 2.0  # a lease counts as expired at most this many seconds before its end


class LeaseKeeper:
    """Watches the leases of all claims in flight, on this machine's clock."""

    def __init__(self, in_flight: InFlight, retry: StoreRetry, *, lease: float, on_lost: Callable[[], None]) -> None:
        self._in_flight = in_flight
        self._retry = retry
        self._lease = lease
        self._on_lost = on_lost
        self._margin = min(MAX_MARGIN, lease / 10)

    def may_start(self, state: ClaimState, now: float) -> bool:
        """Return whether the lease lasts long enough to start an item."""
        return now < state.leased.ends_at - 2 * self._margin

    async def renew_due(self) -> None:
        """Renew each lease with less than a third of its time left, in the order in which they end."""
        due = lease_clock() + self._lease / 3
        states = [
            state for state in self._in_flight.claims.values() if not state.expired and state.leased.ends_at <= due
        ]
        states.sort(key=lambda state: state.leased.ends_at)
        for start in range(0, len(states), MAX_CONCURRENT_RENEWALS):
            await asyncio.gather(*(self._renew(state) for state in states[start : start + MAX_CONCURRENT_RENEWALS]))

    async def _renew(self, state: ClaimState) -> None:
        try:
            await state.leased.renew(self._lease)
        except UNAVAILABLE as error:
            # Report StoreUnavailable even if the store is full. An expired claim is not renewed again, so "renew" would
            # never be reported as successful, and the outage would never end.
            await self._retry.wait(self._retry.note_failure("renew", StoreUnavailable(str(error))))
        except LeaseLost as lost:
            if state.sending:  # the settlement being sent may have settled the items: wait for its reply
                state.leased.ends_at = 0.0  # but cancel the handlers now
            elif not state.expired:  # for an expired lease, finished items are still sent to the store
                self.lose(state, lost)
        else:
            self._retry.note_success("renew")

    def lose(self, state: ClaimState, lost: LeaseLost) -> None:
        """Cancel the handlers of a claim that another worker has taken over, and drop its results (INV-2)."""
        if state.lost:
            return
        state.leased.report_lost(lost)
        log.warning("%s; dropping the results of %d items", lost, state.leased.remaining, extra=AS_EVENT)
        self._in_flight.lose(state)
        self._cancel(state)
        self._in_flight.retire(state)
        self._on_lost()

    def expire_due(self, now: float) -> list[ClaimState]:
        """Cancel the handlers of leases that are about to end without renewal, and return their claims.

        Another worker may take over the items, and two workers must not work on a lane at once. Finished items are
        still sent to the store: if no other worker has taken them over, they can be settled.
        """
        expired = [
            state
            for state in self._in_flight.claims.values()
            if not state.expired and now >= state.leased.ends_at - self._margin
        ]
        for state in expired:
            self._in_flight.expire(state)
            log.warning(
                "the lease of claim %d ended without renewal: cancelling %d handlers; %d results wait for the store",
                state.leased.fence, len(state.executions), len(state.outcomes) + state.sending,
            )  # fmt: skip
            self._cancel(state)
        return expired

    def _cancel(self, state: ClaimState) -> None:
        now = lease_clock()
        for execution in state.executions:
            execution.cancel(CancelReason.LEASE, now)
