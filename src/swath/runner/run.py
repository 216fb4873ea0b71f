"""run: calls a handler for the items of a frontier, from the first claim to a clean stop."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from swath.core import events
from swath.core.claimer import Claimer
from swath.core.clock import SECOND, lease_clock
from swath.core.errors import InvalidSetting, UsageError
from swath.core.session import Session
from swath.core.validation import check_lease, check_seconds
from swath.runner.dispatcher import Dispatcher
from swath.runner.execution import Handler, Transaction, describe_error
from swath.runner.handler_errors import count_errors
from swath.runner.monitor import RunMonitor
from swath.runner.output import OnRefused, Output, Sink
from swath.runner.run_state import RunFacts, StopProgress, format_count, format_left
from swath.runner.shutdown import SIGNAL_NAMES, Stop, stop_on_signals
from swath.runner.state_watch import StateWatch

log = logging.getLogger("swath.runner")

MAX_WORKERS = 100_000
MIN_TIMEOUT = 0.01  # seconds; the run checks the clock this often, even while no handler runs
CANCEL_SECONDS = 1.0  # how long cancelled handlers have to clean up when the run stops
STOP_SECONDS = 5.0  # a stop takes at most this long after the grace period, whatever handlers and store do

Until = Literal["done", "idle", "stopped"]


@dataclass(frozen=True, slots=True)
class Summary:
    """What a run did: the number of items by outcome.

    `lost` items were taken over by other workers, or stayed claimed until their lease ended. `discovered` counts the
    items that were sent to the store, which may have known some of them already.
    """

    done: int
    retried: int
    died: int
    released: int
    split: int
    lost: int
    discovered: int
    seconds: float
    stopped_by: str  # "done", "idle", the name of a signal, or the reason of `Stop.request`
    errors: Mapping[str, int] = field(default_factory=dict)  # of the handler, by text: one of each kind. At most 51


async def run(
    session: Session,
    claimer: Claimer,
    handler: Handler,
    *,
    workers: int,
    lease: float,
    timeout: float | None,
    grace: float,
    until: Until,
    handle_signals: bool,
    output: Output | None = None,
    sink: Sink | None = None,
    on_refused: OnRefused | None = None,
    transaction: Transaction | None = None,
    stop: Stop | None = None,
    monitor: RunMonitor | None = None,
) -> Summary:
    """Do what `Frontier.run` describes."""
    _check(handler, workers, lease, timeout, grace, until)
    if output is not None and transaction is not None:
        raise UsageError("output= and transaction= were both given: files cannot commit with a handler's transaction")
    if sink is not None and transaction is not None:
        raise UsageError("sink= and transaction= were both given: a handler with a transaction writes rows itself")
    if on_refused is not None and sink is None:
        raise UsageError("on_refused= was given without sink=: only a sink writes rows that a database may refuse")
    if sink is not None:
        session.store.transaction()  # UsageError if the store has no database; nothing is opened yet
    stop = stop or Stop()
    run = _Run(
        session,
        claimer,
        handler,
        stop,
        workers=workers,
        lease=lease,
        timeout=timeout,
        grace=grace,
        until=until,
        output=output,
        sink=sink,
        on_refused=on_refused,
        transaction=transaction,
        monitor=monitor or RunMonitor(),
    )
    with stop_on_signals(stop, asyncio.get_running_loop()) if handle_signals else nullcontext():
        return await run.run()


def _check(handler: object, workers: object, lease: float, timeout: object, grace: object, until: object) -> None:
    if not callable(handler):
        raise UsageError(f"{handler!r} cannot be called: a handler is an async function that takes an item")
    if isinstance(workers, bool) or not isinstance(workers, int) or not 1 <= workers <= MAX_WORKERS:
        raise InvalidSetting(f"workers={workers!r}: a whole number from 1 to {MAX_WORKERS:,}")
    check_lease(lease)
    check_seconds("grace", grace)
    if timeout is not None and check_seconds("timeout", timeout) < MIN_TIMEOUT * SECOND:
        raise InvalidSetting(f"timeout={timeout!r}: at least {MIN_TIMEOUT} s, or None for no limit")
    if until not in get_args(Until):
        raise InvalidSetting(f'until={until!r}: "done", "idle" or "stopped"')


class _Run:
    """One run: its background tasks, and how it ends."""

    def __init__(
        self,
        session: Session,
        claimer: Claimer,
        handler: Handler,
        stop: Stop,
        *,
        grace: float,
        monitor: RunMonitor,
        **options: Any,
    ) -> None:
        self._session = session
        self._stop = stop
        self._grace = grace
        self._began = lease_clock()
        self._end: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._failure: BaseException | None = None
        self._dispatcher = Dispatcher(
            session, claimer, handler, grace=grace, monitor=monitor, on_failure=self._fail, **options
        )
        self._monitor = monitor
        self._watch = StateWatch(session.store, session.emit)
        self._stop_progress: StopProgress | None = None
        self._in_flight = self._dispatcher.in_flight
        self._tasks: list[asyncio.Task[Any]] = []

    async def run(self) -> Summary:
        dispatcher = self._dispatcher
        self._monitor.watch(self._read_facts)
        self._stop.on_change = self._check_stop
        self._check_stop()  # a stop may have been requested before
        try:
            claiming = self._start(dispatcher.claim_items())
            claiming.add_done_callback(self._end_claiming)
            for loop in (dispatcher.enforce_deadlines, dispatcher.renew_leases, dispatcher.watch_signal):
                self._start(loop())
            self._start(
                self._watch.look_repeatedly(lambda: self._read_facts().idle_since, lambda: self._monitor.states)
            )
            self._start(self._watch.log_repeatedly(lambda: self._monitor.states))
            reason, cancelled = await self._wait_for_end()
            if reason not in get_args(Until):
                self._begin_stop(reason)
            else:
                self._watch.log_changes(self._monitor.states)  # what it waited for may have ended just now
            await self._wind_down(claiming)
        finally:
            self._abandon_all()
            self._monitor.finish()
        if cancelled is not None:
            raise cancelled
        if self._failure is not None:
            raise self._failure
        return self._summarize(reason)

    def _start(self, loop: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(loop)
        task.add_done_callback(self._end_task)
        self._tasks.append(task)
        return task

    def _end_task(self, task: asyncio.Task[Any]) -> None:
        self._in_flight.changed.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)

    def _end_claiming(self, task: asyncio.Task[str]) -> None:
        if not task.cancelled() and task.exception() is None and not self._end.done():
            self._end.set_result(task.result())

    def _fail(self, error: BaseException) -> None:
        """Stop the run, and raise an error that neither waiting nor retrying can cure."""
        if self._failure is None:
            self._failure = error
        if not self._end.done():
            self._end.set_result(describe_error(error))
        self._in_flight.changed.set()

    def _check_stop(self) -> None:
        if self._stop.reason is not None and not self._end.done():
            self._end.set_result(self._stop.reason)
        if self._stop.abort_error is not None:
            if not self._stop.acknowledged:
                items = format_count(self._in_flight.items, "item")
                log.warning("ending now: %s in flight come back when their lease ends", items)
            if not self._end.done():
                self._end.set_result("aborted")
            self._in_flight.changed.set()

    def _read_facts(self) -> RunFacts:
        facts = self._dispatcher.read_facts()
        return facts._replace(stop=self._stop_progress, waiting=self._watch.get_waiting(facts.idle_since))

    async def _wait_for_end(self) -> tuple[str, asyncio.CancelledError | None]:
        try:
            return await asyncio.shield(self._end), None
        except asyncio.CancelledError as cancelled:
            if self._stop.abort_error is not None:
                raise self._stop.abort_error from None
            return "cancelled", cancelled

    # The end

    def _begin_stop(self, reason: str) -> None:
        now, seconds = lease_clock(), self._grace_left() + STOP_SECONDS
        self._stop_progress = StopProgress(reason, now, now + seconds)
        self._session.emit(events.Stopping(reason, self._in_flight.items))
        by_signal = reason in SIGNAL_NAMES
        log.log(
            logging.WARNING if by_signal and not self._stop.acknowledged else logging.INFO,
            "stopping (%s): %s in flight, at most %s%s",
            reason,
            format_count(self._in_flight.items, "item"),
            format_left(seconds),
            "; a second signal ends the run now" if by_signal else "",
            extra=events.AS_EVENT,
        )

    def _grace_left(self) -> float:
        return 0.0 if self._failure is not None else self._grace

    async def _wind_down(self, claiming: asyncio.Task[str]) -> None:
        """Finish or release the items in flight and settle them, within the grace period and STOP_SECONDS."""
        dispatcher, in_flight = self._dispatcher, self._in_flight
        grace = self._grace_left()
        deadline = lease_clock() + grace + STOP_SECONDS
        dispatcher.stop_claiming()
        if not dispatcher.claiming:
            claiming.cancel()
        await self._wait_until(lambda: not in_flight.executions, lease_clock() + grace)
        if in_flight.executions:
            dispatcher.cancel_handlers()
            await self._wait_until(lambda: not in_flight.executions, lease_clock() + CANCEL_SECONDS)
        deadline = min(deadline, lease_clock() + STOP_SECONDS)
        for item in dispatcher.abandon_handlers():
            log.warning(
                "handler for %r ignores its cancellation; its item stays claimed until the lease ends", item.key
            )
        await self._wait_until(claiming.done, deadline)  # if a claim is being sent, its items must be released
        dispatcher.release_queued()
        await self._wait_until(lambda: not in_flight.unsettled, deadline)
        if in_flight.unsettled:
            log.warning("dropping the outcomes of %d items: the store did not settle them in time", in_flight.unsettled)
        dispatcher.give_up("the run stopped")
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks, timeout=max(0.0, deadline - lease_clock()))

    async def _wait_until(self, condition: Callable[[], bool], deadline: float) -> None:
        """Wait until `condition` holds or the deadline has passed; raise if the run is aborted."""
        changed = self._in_flight.changed
        while True:
            if self._stop.abort_error is not None:
                raise self._stop.abort_error
            changed.clear()
            left = deadline - lease_clock()
            if condition() or left <= 0:
                return
            # A timer, because wait_for loses a cancellation that arrives together with the change (Python 3.11), and
            # asyncio.timeout ends a stop that a cancellation began (up to 3.11.2).
            timer = asyncio.get_running_loop().call_later(left, changed.set)
            try:
                await changed.wait()
            finally:
                timer.cancel()

    def _abandon_all(self) -> None:
        """Cancel everything that still runs, without waiting for it."""
        self._stop.on_change = lambda: None
        self._dispatcher.cancel_handlers()
        self._dispatcher.abandon_handlers()
        self._dispatcher.stop_committing()
        for task in self._tasks:
            task.cancel()

    def _summarize(self, reason: str) -> Summary:
        counts = self._in_flight.counts()
        return Summary(
            done=counts.get("done", 0),
            retried=counts.get("retried", 0),
            died=counts.get("died", 0),
            released=counts.get("released", 0),
            split=counts.get("split", 0),
            lost=self._in_flight.lost,
            discovered=counts.get("discovered", 0),
            seconds=lease_clock() - self._began,
            stopped_by=reason,
            errors=count_errors(self._monitor.errors),
        )
