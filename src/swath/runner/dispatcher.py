"""Broker: claims ahead for all workers of a process, hands out, settles in groups, renews (DESIGN 6).

Workers never touch the store. A worker is a free slot: an item that is started gets a task of its own, so that five
thousand idle workers cost nothing.
"""

import asyncio
import logging
from collections.abc import Callable

from swath.core import events
from swath.core.claimer import Claimer
from swath.core.clock import SECOND, lease_clock
from swath.core.item import Item
from swath.core.leased_items import LeasedItems
from swath.core.session import Session
from swath.core.store import ClaimReply, Signal
from swath.runner.committer import MAX_OUTPUT, Settler
from swath.runner.execution import Handler, Transaction, Transactions, Why, Work, perform
from swath.runner.in_flight import Hand
from swath.runner.lease_keeper import Leases
from swath.runner.output import Output
from swath.runner.poison import UNLIMITED, Caution, company
from swath.runner.store_retry import WAIT_FOR_IT, Outage

log = logging.getLogger("swath.runner")

MAX_BATCH = 1_000  # items in one claim of the broker's
LOOK_AHEAD = 0.2  # seconds of work to claim ahead
MOST_AHEAD = 200  # items to claim ahead, beside two for each worker
RATE_WINDOW = 0.1  # seconds over which the completion rate is measured
IDLE = 1.0  # seconds between looks where nothing is ready, at the most
PATIENCE = 0.002  # seconds between two looks that found nothing, doubled each time
MOST_PATIENCE = 0.05
LISTEN = 1.0  # seconds between looks for a pause
NOT_AHEAD = 60.0  # seconds without claiming ahead, after a claim whose items had to start at once
ROOM_KEPT = 60.0  # seconds before and after the end of their lane's interval with room for suspects given back
ROOM_SHARE = 0.1  # of a longer interval, for which there is room before its end: what runs then has so long to end
TICK = 0.25  # seconds between looks at the clock, at the most


class Broker:
    """All that happens between the store and the handlers of one `run`."""

    def __init__(
        self,
        session: Session,
        claimer: Claimer,
        handler: Handler,
        *,
        workers: int,
        lease: float,
        timeout: float | None,
        grace: float,
        until: str,
        output: Output | None,
        transaction: Transaction | None,
        failed: Callable[[BaseException], None],
    ) -> None:
        self.hand = Hand()
        self.closing = False
        self.claim_under_way = False
        self._session = session
        self._store = session.store
        self._claimer = claimer
        self._handler = handler
        self._writes_output = output is not None
        self._workers = workers
        self._lease = lease
        self._timeout = timeout
        self._grace = grace
        self._until = until
        self._failed = failed
        self._outage = Outage(session.emit)
        self._transactions = Transactions(transaction, self._outage) if transaction is not None else None
        self._leases = Leases(self.hand, self._outage, lease=lease, lost=self._stir)
        self._settler = Settler(
            self.hand,
            self._outage,
            output,
            committed=session.store.outputs,
            emit=session.emit,
            settled=self._settled,
            lost=self._leases.lose,
            failed=failed,
        )
        self._most_unsettled = 2 * max(workers, MAX_BATCH)
        self._tick = min(TICK, lease / 20)
        self._loop = asyncio.get_running_loop()
        self._room = asyncio.Event()
        self._news = asyncio.Event()
        self._patience = PATIENCE
        self._handing_out = False
        self._signal: Signal | None = None
        self._rate = Rate(lease_clock())
        self._caution = Caution()
        self._ahead_from = 0.0  # on `lease_clock`: until then nothing is claimed ahead
        self._room_for = (UNLIMITED, 0.0, 0.0)  # how many may be in hand where suspects come again, and when they may

    # claiming

    async def claiming(self) -> str:
        """Claim for whoever is free until the frontier is covered; return what the run was to go on until."""
        tries = 0
        self._signal = await self._outage.outlast("signal", self._store.signal)
        while not self.closing:
            wanted = self._wanted()
            if not wanted:
                self._room.clear()
                await self._room.wait()
                continue
            self._news.clear()
            try:
                self.claim_under_way = True
                claim, reply = await self._claimer.claim(wanted, lease=self._lease)
            except WAIT_FOR_IT as error:
                tries += 1
                await self._outage.wait(self._outage.failed("claim", error, tries=tries))
                continue
            finally:
                self.claim_under_way = False
            tries = 0
            self._outage.worked("claim")
            if claim is not None:
                self._take(claim)
            self._heed(reply.signal)
            self._hand_out()
            if claim is not None and reply.starts_count:
                self._start_or_give_back(claim)
            if claim is None:
                if await self._covered(reply):
                    return self._until
                await self._idle(reply)
        return ""

    def _wanted(self) -> int:
        """How many items to claim now: what is free, and so much ahead as is worked off while a claim takes."""
        if self.hand.unsettled >= self._most_unsettled or self.hand.weight >= MAX_OUTPUT:
            return 0  # settling has fallen behind
        if any(held.outcomes or held.sending for held in self.hand.ended):
            return 0  # a claim might take them back before they are settled
        most = self._company()
        if most is not None and self.hand.items >= most:
            return 0
        look_ahead = self._look_ahead()
        free = self._workers - len(self.hand.works) - len(self.hand.ahead)
        room = min(free + look_ahead, MAX_BATCH, self._caution.most)
        if most is not None:
            return max(0, min(room, most - self.hand.items))
        if free > 0 and not self.hand.ahead:
            return room
        return room if room >= max(1, look_ahead // 2) else 0

    def _company(self) -> int | None:
        """How many items may be in hand with those that are, and with suspects that come again; None: any number."""
        most = self.hand.company(self._store.settings.max_attempts)
        expected, since, until = self._room_for
        if not since <= lease_clock() < until:
            return most
        return expected if most is None else min(most, expected)

    def _look_ahead(self) -> int:
        now = lease_clock()
        if now < self._ahead_from:
            return 0
        seconds = min(LOOK_AHEAD, self._lease / 8)
        return min(int(self._rate.at(now) * seconds), 2 * self._workers + MOST_AHEAD)

    def _take(self, claim: LeasedItems) -> None:
        claim.accepts_output = self._writes_output
        self.hand.take(claim, lease_clock())
        self._caution.met(company(claim.items, self._store.settings.max_attempts))
        self._patience = PATIENCE
        if self.closing:
            self.give_back()

    def _start_or_give_back(self, claim: LeasedItems) -> None:
        """An interval runs from this claim on: what waited here would start too close to the next (INV-3).

        A suspect that was in too large a company comes again after its interval. If it met as many then, it never had
        its turn, and nor had its lane.
        """
        now, settings = lease_clock(), self._store.settings
        self._ahead_from = now + NOT_AHEAD
        if (held := self.hand.claims.get(claim)) is None:
            return
        given_back = self.hand.unstarted(held)
        if company(claim.items, settings.max_attempts) is not None:
            most = company(given_back, settings.max_attempts)
            interval = settings.min_interval / SECOND
            since, until = now + interval - max(ROOM_KEPT, ROOM_SHARE * interval), now + interval + ROOM_KEPT
            self._room_for = (UNLIMITED, 0.0, 0.0) if most is None else (most, since, until)
        for item in given_back:
            self._settler.release(held, item)

    async def _covered(self, reply: ClaimReply) -> bool:
        """Whether the end is reached that this run goes on until."""
        if reply.skipped or self.hand.items or self._news.is_set() or self._until == "stopped":
            return False  # what was settled meanwhile may have made something ready that the claim could not see
        if self._until == "idle":
            return reply.next_ready_at is None or reply.next_ready_at > reply.now
        status = await self._outage.outlast("status", self._store.status)
        return not any(part.ready + part.delayed + part.claimed + part.inbox for part in status.partitions)

    async def _idle(self, reply: ClaimReply) -> None:
        """Nothing was ready: wait until something is, or may be."""
        await asyncio.sleep(self._patience)
        self._patience = min(MOST_PATIENCE, self._patience * 2)
        if reply.skipped:
            return  # skipped is not empty
        seconds = IDLE
        if reply.next_ready_at is not None and not reply.signal.paused:
            seconds = min(IDLE, (reply.next_ready_at - reply.now) / SECOND)
        if seconds > 0 and not self._news.is_set():
            waits = [self._loop.create_task(wait) for wait in (self._wait(seconds), self._news.wait())]
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def _wait(self, seconds: float) -> bool:
        try:
            await self._store.wait(seconds)
        except WAIT_FOR_IT as error:
            await self._outage.wait(self._outage.failed("wait", error))
        return True

    # handing out

    def _hand_out(self) -> None:
        """Start what there are workers for. A loop may run a task as soon as it is made: what ends in here leaves the
        next one to whoever handed it out, or each would be started from within the one before."""
        if self._handing_out:
            return
        self._handing_out = True
        try:
            self._hand_out_what_may_start()
        finally:
            self._handing_out = False

    def _hand_out_what_may_start(self) -> None:
        most = self.hand.company(self._store.settings.max_attempts)
        if most is not None:
            for held, item in self.hand.beyond(most):
                self._settler.release(held, item)
            if self.hand.items > most:
                return  # until what runs is settled
        while self.hand.ahead and len(self.hand.works) < self._workers and not self.closing:
            if self.hand.weight >= MAX_OUTPUT:
                return  # until it is settled (INV-9)
            held, item = self.hand.next()
            now = lease_clock()
            if not self._leases.allows_start(held, now):
                self._settler.release(held, item)
                continue
            work = Work(held.claim, item, now)
            self.hand.start(held, work)
            work.task = self._loop.create_task(self._work(work))

    async def _work(self, work: Work) -> None:
        outcome, failure = await perform(work, self._handler, timeout=self._timeout, transactions=self._transactions)
        held = self.hand.finish(work)
        if held is None:
            return  # given up on
        self._rate.count += 1
        if failure is not None:
            log.debug("%r failed: %s\n%s", work.item.key, failure.reason, failure.error or "")
            self._session.emit(events.HandlerFailed(work.item.key, failure.reason, failure.error))
            if failure.fatal is not None:
                self._failed(failure.fatal)
        if outcome is None:
            self.hand.retire(held)
            self._settled()
            return
        self._settler.collect(held, outcome)
        self._hand_out()
        self._stir()

    def _settled(self) -> None:
        self._news.set()  # a lane may be ready again
        self._hand_out()
        self._stir()

    def _stir(self) -> None:
        """Something came to its end: whoever waits for that looks again."""
        self.hand.changed.set()
        if not self._room.is_set() and (self.closing or self._wanted()):
            self._room.set()

    # watching

    async def renewing(self) -> None:
        while True:
            await self._leases.renew()
            await asyncio.sleep(self._tick)

    async def watching(self) -> None:
        """Look at the clock for all: time limits, leases, and what was claimed ahead too long ago."""
        while True:
            now = lease_clock()
            for held in self._leases.end(now):
                for item in self.hand.unstarted(held):
                    self._settler.release(held, item)
            while self.hand.ahead and now - self.hand.ahead[0][0].since > self._lease / 4:
                self._settler.release(*self.hand.next())
            pause = self._tick if self._timeout is None else min(self._tick, self._end_overdue(now, self._timeout))
            self._name_the_deaf(now)
            self._stir()
            await asyncio.sleep(pause)

    def _end_overdue(self, now: float, timeout: float) -> float:
        """Cancel what has run for too long; return the seconds until there may be more of it."""
        for work in self.hand.works:  # in the order of their start
            left = work.began + timeout - now
            if left > 0:
                return left
            work.cancel(Why.TIMEOUT, now)
        return timeout

    def _name_the_deaf(self, now: float) -> None:
        for work in self.hand.works:
            if work.why is not None and not work.warned and now - work.cancelled_at > self._grace:
                work.warned = True
                log.warning(
                    "the handler of %r goes on %.1f s after it was cancelled because %s: it keeps its worker and its "
                    "item until it ends", work.item.key, now - work.cancelled_at, work.why.value,
                )  # fmt: skip

    async def listening(self) -> None:
        """Hear of pauses."""
        while True:
            await asyncio.sleep(LISTEN)
            try:
                signal = await self._store.signal()
            except WAIT_FOR_IT as error:
                await self._outage.wait(self._outage.failed("signal", error))
            else:
                self._outage.worked("signal")
                self._heed(signal)

    def _heed(self, signal: Signal) -> None:
        """On a pause, of whatever, give back what was not started. What is not paused can be claimed again at once."""
        before = self._signal
        resumed = before is not None and before.paused and signal == (False, before.version + 1)
        if before is None or signal.paused or (signal.version != before.version and not resumed):
            self.give_back()
        self._signal = signal

    # stopping

    def give_back(self) -> None:
        """Release all that was claimed and not started."""
        while self.hand.ahead:
            self._settler.release(*self.hand.next())
        self._settler.flush()

    def close(self) -> None:
        """Start nothing any more."""
        self.closing = True
        self.give_back()
        self._room.set()
        self._news.set()

    def cancel(self) -> None:
        """End all handlers."""
        now = lease_clock()
        for work in self.hand.works:
            work.cancel(Why.STOP, now)

    def abandon(self) -> list[Item]:
        """Give up on the handlers that still run. Their items stay claimed until the lease ends."""
        left = list(self.hand.works)
        for work in left:
            work.disown()
        self.hand.works.clear()
        self.hand.changed.set()
        return [work.item for work in left]

    def forsake(self, reason: str) -> None:
        """Count what could not be settled as lost."""
        for held in self.hand.claims.values():
            if held.claim.remaining and not held.lost:
                self.hand.lost += held.claim.remaining
                self._session.emit(events.Lost(held.claim.fence, held.claim.remaining, reason))
        self.drop()

    def drop(self) -> None:
        """Leave everything where it is."""
        self._settler.drop()


class Rate:
    """Completions per second, lately."""

    def __init__(self, now: float) -> None:
        self.count = 0
        self._since = now
        self._per_second = 0.0

    def at(self, now: float) -> float:
        elapsed = now - self._since
        if elapsed >= RATE_WINDOW:
            self._per_second = (self._per_second + self.count / elapsed) / 2
            self.count, self._since = 0, now
        return self._per_second
