"""Dispatcher: claims items for all workers of a process, starts handlers, and watches over them.

Handlers never touch the store. A worker is only a slot: each item gets its own task when it starts, so that five
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
from swath.runner.committer import MAX_PENDING_BYTES, Committer
from swath.runner.execution import CancelReason, Execution, Handler, Transaction, Transactions, execute
from swath.runner.in_flight import InFlight
from swath.runner.lease_keeper import LeaseKeeper
from swath.runner.monitor import RunMonitor
from swath.runner.output import OnRefused, Output, Sink
from swath.runner.poison import UNLIMITED, ClaimLimit, limit_in_flight
from swath.runner.run_state import RunFacts
from swath.runner.store_retry import UNAVAILABLE, StoreRetry

log = logging.getLogger("swath.runner")

MAX_CLAIM_ITEMS = 1_000  # items in one claim
AHEAD_SECONDS = 0.2  # seconds of work to claim ahead
MAX_AHEAD = 200  # items to claim ahead, in addition to two for each worker
RATE_WINDOW = 0.1  # seconds over which the completion rate is measured
IDLE_SECONDS = 1.0  # between claims when nothing is ready, at most
FIRST_PAUSE = 0.002  # seconds between two claims that found nothing; doubled each time
LONGEST_PAUSE = 0.05
SIGNAL_SECONDS = 1.0  # between checks whether the frontier or a lane was paused
NO_AHEAD_SECONDS = 60.0  # claim nothing ahead for this long after a claim whose items had to start at once
SUSPECT_WINDOW = 60.0  # seconds before and after the end of its lane's interval: keep room for a released suspect
SUSPECT_WINDOW_SHARE = 0.1  # the window as a share of a longer interval: running items have this long to finish
TICK = 0.25  # seconds between checks of timeouts and leases, at most


class Dispatcher:
    """Everything that happens between the store and the handlers of one run."""

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
        sink: Sink | None,
        on_refused: OnRefused | None,
        transaction: Transaction | None,
        monitor: RunMonitor,
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self.in_flight = InFlight()
        self.stopping = False
        self.claiming = False  # whether a claim was sent and not answered
        self.idle_since: float | None = None  # since when nothing was in flight and nothing could be claimed
        self.paused_since: float | None = None  # since when the frontier has been paused, as far as this run knows
        self._session = session
        self._store = session.store
        self._claimer = claimer
        self._handler = handler
        self._accepts_output = output is not None
        self._accepts_rows = sink is not None
        self._workers = workers
        self._lease = lease
        self._timeout = timeout
        self._grace = grace
        self._until = until
        self._monitor = monitor
        self._on_failure = on_failure
        self._retry = StoreRetry(session.emit)
        self._transactions = Transactions(transaction, self._retry) if transaction is not None else None
        self._lease_keeper = LeaseKeeper(self.in_flight, self._retry, lease=lease, on_lost=self._notify)
        self._committer = Committer(
            self.in_flight,
            self._retry,
            session.store,
            output=output,
            sink=sink,
            on_refused=on_refused,
            report_failure=self._report_failure,
            on_settled=self._handle_settled,
            on_lost=self._lease_keeper.lose,
            on_failure=on_failure,
        )
        self._max_unsettled = 2 * max(workers, MAX_CLAIM_ITEMS)
        self._tick = min(TICK, lease / 20)
        self._loop = asyncio.get_running_loop()
        self._has_room = asyncio.Event()  # set when another claim may be possible
        self._settled_something = asyncio.Event()  # set when a settlement may have made items ready
        self._pause = FIRST_PAUSE
        self._starting = False
        self._signal: Signal | None = None
        self._rate = Rate(lease_clock())
        self._claim_limit = ClaimLimit()
        self._ahead_from = 0.0  # nothing is claimed ahead before this time on `lease_clock`
        self._suspect_limit = (
            UNLIMITED,
            0.0,
            0.0,
        )  # items in flight when returned suspects come again, and from/until when

    # Claiming

    async def claim_items(self) -> str:
        """Claim items for free workers until the run's `until` condition holds; return that condition."""
        attempt = 0
        self._note_signal(await self._retry.call("signal", self._store.signal))
        while not self.stopping:
            wanted = self._count_wanted()
            if not wanted:
                self._has_room.clear()
                await self._has_room.wait()
                continue
            self._settled_something.clear()
            begun = self._retry.note_begin()
            try:
                self.claiming = True
                leased, reply = await self._claimer.claim(wanted, lease=self._lease)
            except UNAVAILABLE as error:
                attempt += 1
                await self._retry.wait(self._retry.note_failure("claim", error, attempt=attempt))
                continue
            finally:
                self.claiming = False
                self._retry.note_end(begun)
            attempt = 0
            self._retry.note_success("claim")
            if leased is not None:
                self._accept(leased)
            self._handle_signal(reply.signal)
            self._start_items()
            if leased is not None and reply.starts_count:
                self._release_unstarted(leased)
            if leased is None:
                self._note_idle(reply)
                if await self._is_finished(reply):
                    return self._until
                await self._wait_for_work(reply)
        return ""

    def _count_wanted(self) -> int:
        """Return how many items to claim now: for free workers, and ahead for the time that a claim takes."""
        in_flight = self.in_flight
        if in_flight.unsettled >= self._max_unsettled or in_flight.pending_bytes >= MAX_PENDING_BYTES:
            return 0  # the committer has fallen behind
        if self._committer.is_blocked:
            return 0  # other processes may have room for the output of these items
        if any(state.outcomes or state.sending for state in in_flight.expired):
            return 0  # a claim of our own would take these items back before they are settled
        limit = self._limit_in_flight()
        if limit is not None and in_flight.items >= limit:
            return 0
        ahead = self._count_ahead()
        free = self._workers - len(in_flight.executions) - len(in_flight.queue)
        room = min(free + ahead, MAX_CLAIM_ITEMS, self._claim_limit.items)
        if limit is not None:
            return max(0, min(room, limit - in_flight.items))
        if free > 0 and not in_flight.queue:
            return room
        return room if room >= max(1, ahead // 2) else 0

    def _limit_in_flight(self) -> int | None:
        """Return how many items may be in flight, given the present ones and suspects that are expected soon."""
        limit = self.in_flight.limit(self._store.settings.max_attempts)
        expected, since, until = self._suspect_limit
        if not since <= lease_clock() < until:
            return limit
        return expected if limit is None else min(limit, expected)

    def _count_ahead(self) -> int:
        now = lease_clock()
        if now < self._ahead_from:
            return 0
        seconds = min(AHEAD_SECONDS, self._lease / 8)
        return min(int(self._rate.measure(now) * seconds), 2 * self._workers + MAX_AHEAD)

    def _accept(self, leased: LeasedItems) -> None:
        leased.accepts_output = self._accepts_output
        leased.accepts_rows = self._accepts_rows
        self.in_flight.add_claim(leased, lease_clock())
        self.idle_since = None
        self._claim_limit.adjust(limit_in_flight(leased.items, self._store.settings.max_attempts))
        self._pause = FIRST_PAUSE
        if self.stopping:
            self.release_queued()

    def _release_unstarted(self, leased: LeasedItems) -> None:
        """Release the items of a claim that did not start at once.

        The interval of their lane runs from the claim, so an item that waited here would start too close to the next
        one (INV-3). A suspect that is released because too many items were in flight can be claimed again after the
        interval. Keep room for it then: otherwise it would be released every time, and its lane would never proceed.
        """
        now, settings = lease_clock(), self._store.settings
        self._ahead_from = now + NO_AHEAD_SECONDS
        if (state := self.in_flight.claims.get(leased)) is None:
            return
        released = self.in_flight.pop_queued(state)
        if limit_in_flight(leased.items, settings.max_attempts) is not None:
            limit = limit_in_flight(released, settings.max_attempts)
            interval = settings.min_interval / SECOND
            since = now + interval - max(SUSPECT_WINDOW, SUSPECT_WINDOW_SHARE * interval)
            until = now + interval + SUSPECT_WINDOW
            self._suspect_limit = (UNLIMITED, 0.0, 0.0) if limit is None else (limit, since, until)
        for item in released:
            self._committer.release(state, item)

    def _note_idle(self, reply: ClaimReply) -> None:
        if reply.skipped or self.in_flight.items:
            self.idle_since = None
        elif self.idle_since is None:
            self.idle_since = lease_clock()

    async def _is_finished(self, reply: ClaimReply) -> bool:
        """Return whether the run's `until` condition holds."""
        if reply.skipped or self.in_flight.items or self._settled_something.is_set() or self._until == "stopped":
            return False  # a settlement since the claim may have made items ready
        if self._until == "idle":
            return reply.next_ready_at is None or reply.next_ready_at > reply.now
        status = await self._retry.call("status", self._store.status)
        return not any(part.ready + part.delayed + part.claimed + part.inbox for part in status.partitions)

    async def _wait_for_work(self, reply: ClaimReply) -> None:
        """Wait until an item may be ready."""
        await asyncio.sleep(self._pause)
        self._pause = min(LONGEST_PAUSE, self._pause * 2)
        if reply.skipped:
            return  # skipped partitions may have ready items
        seconds = IDLE_SECONDS
        if reply.next_ready_at is not None and not reply.signal.paused:
            seconds = min(IDLE_SECONDS, (reply.next_ready_at - reply.now) / SECOND)
        if seconds > 0 and not self._settled_something.is_set():
            waits = [self._loop.create_task(wait) for wait in (self._wait(seconds), self._settled_something.wait())]
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def _wait(self, seconds: float) -> bool:
        try:
            await self._store.wait(seconds)
        except UNAVAILABLE as error:
            await self._retry.wait(self._retry.note_failure("wait", error))
        return True

    # Starting handlers

    def _start_items(self) -> None:
        """Start items for free workers.

        With eager tasks, a task runs as soon as it is created. If it ends at once and calls this method again, it
        leaves the next item to the outer call: otherwise each item would start inside the one before.
        """
        if self._starting:
            return
        self._starting = True
        try:
            self._start_queued()
        finally:
            self._starting = False

    def _start_queued(self) -> None:
        limit = self.in_flight.limit(self._store.settings.max_attempts)
        if limit is not None:
            for state, item in self.in_flight.pop_beyond(limit):
                self._committer.release(state, item)
            if self.in_flight.items > limit:
                return  # wait until running items are settled
        while self.in_flight.queue and len(self.in_flight.executions) < self._workers and not self.stopping:
            if self.in_flight.pending_bytes >= MAX_PENDING_BYTES:
                return  # wait until pending outcomes are settled (INV-9)
            state, item = self.in_flight.pop_next()
            now = lease_clock()
            if not self._lease_keeper.may_start(state, now):
                self._committer.release(state, item)
                continue
            execution = Execution(state.leased, item, now)
            self.in_flight.start(state, execution)
            execution.task = self._loop.create_task(self._execute(execution))

    async def _execute(self, execution: Execution) -> None:
        outcome, failure = await execute(
            execution, self._handler, timeout=self._timeout, transactions=self._transactions
        )
        state = self.in_flight.finish(execution)
        if state is None:
            return  # it was abandoned
        self._rate.count += 1
        if failure is not None:
            self._report_failure(execution.item, execution.leased.fence, failure.reason, failure.error)
            if failure.fatal is not None:
                self._on_failure(failure.fatal)
        if outcome is None:
            self.in_flight.retire(state)
            self._handle_settled()
            return
        self._committer.collect(state, outcome)
        self._start_items()
        self._notify()

    def _report_failure(self, item: Item, fence: int, reason: str, error: str | None) -> None:
        self._monitor.record_error(item.key, reason, error=error)
        self._session.emit(events.HandlerFailed(item.key, reason, error, item.lane, fence))

    def _handle_settled(self) -> None:
        self._settled_something.set()  # a lane may be ready again
        self._start_items()
        self._notify()

    def _notify(self) -> None:
        """Wake the tasks that wait for an item to end: the shutdown, and the claim loop if it can claim again."""
        self.in_flight.changed.set()
        if not self._has_room.is_set() and (self.stopping or self._count_wanted()):
            self._has_room.set()

    # Watching

    async def renew_leases(self) -> None:
        while True:
            await self._lease_keeper.renew_due()
            await asyncio.sleep(self._tick)

    async def enforce_deadlines(self) -> None:
        """Enforce timeouts and leases, and release items that waited too long to be started."""
        while True:
            now = lease_clock()
            for state in self._lease_keeper.expire_due(now):
                for item in self.in_flight.pop_queued(state):
                    self._committer.release(state, item)
            while self.in_flight.queue and now - self.in_flight.queue[0][0].claimed_at > self._lease / 4:
                self._committer.release(*self.in_flight.pop_next())
            pause = self._tick if self._timeout is None else min(self._tick, self._cancel_overdue(now, self._timeout))
            self._warn_about_stuck_handlers(now)
            self._notify()
            await asyncio.sleep(pause)

    def _cancel_overdue(self, now: float, timeout: float) -> float:
        """Cancel handlers that exceeded the timeout; return the seconds until the next check."""
        for execution in self.in_flight.executions:  # in the order of their start
            left = execution.began + timeout - now
            if left > 0:
                return left
            execution.cancel(CancelReason.TIMEOUT, now)
        return timeout

    def _warn_about_stuck_handlers(self, now: float) -> None:
        for execution in self.in_flight.executions:
            reason = execution.cancel_reason
            if reason is not None and not execution.warned and now - execution.cancelled_at > self._grace:
                execution.warned = True
                log.warning(
                    "handler for %r is still running %.1f s after it was cancelled (%s); it keeps its worker slot "
                    "until it returns", execution.item.key, now - execution.cancelled_at, reason.value,
                )  # fmt: skip

    async def watch_signal(self) -> None:
        """Notice within about a second that the frontier or a lane was paused."""
        while True:
            await asyncio.sleep(SIGNAL_SECONDS)
            try:
                signal = await self._store.signal()
            except UNAVAILABLE as error:
                await self._retry.wait(self._retry.note_failure("signal", error))
            else:
                self._retry.note_success("signal")
                self._handle_signal(signal)

    def _handle_signal(self, signal: Signal) -> None:
        """After any pause, release the items that were not started. Those that are not paused can be claimed again."""
        before = self._signal
        resumed = before is not None and before.paused and signal == (False, before.version + 1)
        if before is None or signal.paused or (signal.version != before.version and not resumed):
            self.release_queued()
        self._note_signal(signal)

    def _note_signal(self, signal: Signal) -> None:
        if not signal.paused:
            self.paused_since = None
        elif self.paused_since is None:
            self.paused_since = lease_clock()
        self._signal = signal

    def read_facts(self) -> RunFacts:
        """Return facts for `RunMonitor`. They are computed when it is read, not for every item.

        Any thread may call this, so it copies collections before it iterates over them.
        """
        return RunFacts(
            now=lease_clock(),
            in_flight=self.in_flight.items,
            expired=sum(state.leased.remaining for state in self.in_flight.expired.copy()),
            outage=self._retry.outage,
            unanswered_since=self._retry.unanswered_since,
            paused_since=self.paused_since,
            idle_since=None if self.in_flight.items else self.idle_since,
        )

    # Stopping

    def release_queued(self) -> None:
        """Release all items that were claimed and not started."""
        while self.in_flight.queue:
            self._committer.release(*self.in_flight.pop_next())
        self._committer.flush()

    def stop_claiming(self) -> None:
        """Start no more items, and release those that were not started."""
        self.stopping = True
        self._committer.stop_waiting()
        self.release_queued()
        self._has_room.set()
        self._settled_something.set()

    def cancel_handlers(self) -> None:
        now = lease_clock()
        for execution in self.in_flight.executions:
            execution.cancel(CancelReason.STOP, now)

    def abandon_handlers(self) -> list[Item]:
        """Stop waiting for running handlers and return their items, which stay claimed until the lease ends."""
        left = self.in_flight.abandon_executions()
        for execution in left:
            execution.detach()
        return [execution.item for execution in left]

    def give_up(self, reason: str) -> None:
        """Count items that could not be settled as lost, and stop the committer."""
        for state in self.in_flight.claims.values():
            if state.leased.remaining and not state.lost:
                self.in_flight.count_lost(state)
                self._session.emit(events.Lost(state.leased.fence, state.leased.remaining, reason))
        self.stop_committing()

    def stop_committing(self) -> None:
        self._committer.stop()


class Rate:
    """The recent number of completed items per second."""

    def __init__(self, now: float) -> None:
        self.count = 0
        self._since = now
        self._per_second = 0.0

    def measure(self, now: float) -> float:
        elapsed = now - self._since
        if elapsed >= RATE_WINDOW:
            self._per_second = (self._per_second + self.count / elapsed) / 2
            self.count, self._since = 0, now
        return self._per_second
