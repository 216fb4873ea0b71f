"""run: a handler over a frontier, from the first claim to a clean stop."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Literal, get_args

from swath.core import events
from swath.core.claimer import Claimer
from swath.core.clock import SECOND, lease_clock
from swath.core.errors import InvalidSetting, UsageError
from swath.core.session import Session
from swath.core.validation import check_lease, check_seconds
from swath.runner.dispatcher import Broker
from swath.runner.execution import Handler, Transaction, described
from swath.runner.output import Output
from swath.runner.shutdown import Stop, stop_on_signals

log = logging.getLogger("swath.runner")

MAX_WORKERS = 100_000
MIN_TIMEOUT = 0.01  # seconds: the clock is looked at so often, also while nothing runs
CANCEL_SECONDS = 1.0  # that cancelled handlers have to clean up when the runner stops
STOP_SECONDS = 5.0  # within which a stop ends after the grace, whatever handlers and store do

Until = Literal["done", "idle", "stopped"]


@dataclass(frozen=True, slots=True)
class Summary:
    """What a run did. `lost` items were taken over by others, or left to their lease; `discovered` ones were sent to
    the store, which knew some of them."""

    done: int
    retried: int
    died: int
    released: int
    split: int
    lost: int
    discovered: int
    seconds: float
    stopped_by: str  # done, idle, or the name of a signal


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
    transaction: Transaction | None = None,
    stop: Stop | None = None,
) -> Summary:
    """Do what `Frontier.run` describes."""
    _check(handler, workers, lease, timeout, grace, until)
    if output is not None and transaction is not None:
        raise UsageError("output and transaction were both given: files cannot commit with a transaction, so give one")
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
        transaction=transaction,
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
    """One run: the broker's tasks, watched over, and its end."""

    def __init__(
        self, session: Session, claimer: Claimer, handler: Handler, stop: Stop, *, grace: float, **options: Any
    ) -> None:
        self._session = session
        self._stop = stop
        self._grace = grace
        self._began = lease_clock()
        self._end: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._failure: BaseException | None = None
        self._broker = Broker(session, claimer, handler, grace=grace, failed=self._fail, **options)
        self._tasks: list[asyncio.Task[Any]] = []

    async def run(self) -> Summary:
        self._stop.on_change = self._stop_changed
        self._stop_changed()  # it may have been asked before
        try:
            claiming = self._start(self._broker.claiming())
            claiming.add_done_callback(self._claiming_ended)
            for loop in (self._broker.watching, self._broker.renewing, self._broker.listening):
                self._start(loop())
            reason, cancelled = await self._wait()
            if reason not in get_args(Until):
                self._session.emit(events.Stopping(reason, self._broker.hand.items))
                log.info("stopping (%s) with %d items in hand", reason, self._broker.hand.items)
            await self._wind_down(claiming)
        finally:
            self._let_go()
        if cancelled is not None:
            raise cancelled
        if self._failure is not None:
            raise self._failure
        return self._summary(reason)

    def _start(self, loop: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(loop)
        task.add_done_callback(self._task_ended)
        self._tasks.append(task)
        return task

    def _task_ended(self, task: asyncio.Task[Any]) -> None:
        self._broker.hand.changed.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)

    def _claiming_ended(self, task: asyncio.Task[str]) -> None:
        if not task.cancelled() and task.exception() is None and not self._end.done():
            self._end.set_result(task.result())

    def _fail(self, error: BaseException) -> None:
        """Something that neither waiting nor retrying can mend: stop, and raise it."""
        if self._failure is None:
            self._failure = error
        if not self._end.done():
            self._end.set_result(described(error))
        self._broker.hand.changed.set()

    def _stop_changed(self) -> None:
        if self._stop.reason is not None and not self._end.done():
            self._end.set_result(self._stop.reason)
        if self._stop.abort_error is not None:
            if not self._end.done():
                self._end.set_result("at once")
            self._broker.hand.changed.set()

    async def _wait(self) -> tuple[str, asyncio.CancelledError | None]:
        try:
            return await asyncio.shield(self._end), None
        except asyncio.CancelledError as cancelled:
            return "cancelled", cancelled

    # the end

    async def _wind_down(self, claiming: asyncio.Task[str]) -> None:
        """Finish or release what is in hand and settle it, within the grace and a bit."""
        broker = self._broker
        grace = 0.0 if self._failure is not None else self._grace
        last = lease_clock() + grace + STOP_SECONDS
        broker.close()
        if not broker.claim_under_way:
            claiming.cancel()
        await self._until(lambda: not broker.hand.works, lease_clock() + grace)
        if broker.hand.works:
            broker.cancel()
            await self._until(lambda: not broker.hand.works, lease_clock() + CANCEL_SECONDS)
        last = min(last, lease_clock() + STOP_SECONDS)
        for item in broker.abandon():
            log.warning(
                "the handler of %r ignores that it was cancelled and is left behind; its item is free once the lease "
                "has ended", item.key,
            )  # fmt: skip
        await self._until(claiming.done, last)  # a claim that is under way brings items to release
        broker.give_back()
        await self._until(lambda: not broker.hand.unsettled, last)
        if broker.hand.unsettled:
            log.warning(
                "the store did not take the outcomes of %d items in time: they are dropped", broker.hand.unsettled
            )
        broker.forsake("the runner stopped")
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks, timeout=max(0.0, last - lease_clock()))

    async def _until(self, condition: Callable[[], bool], deadline: float) -> None:
        """Wait until `condition` holds or the deadline has passed; raise if it is to end at once."""
        while True:
            if self._stop.abort_error is not None:
                raise self._stop.abort_error
            self._broker.hand.changed.clear()
            left = deadline - lease_clock()
            if condition() or left <= 0:
                return
            # A timer, because wait_for loses a cancellation that comes together with the change (Python 3.11), and
            # asyncio.timeout ends a stop that a cancellation began (up to 3.11.2).
            timer = asyncio.get_running_loop().call_later(left, self._broker.hand.changed.set)
            try:
                await self._broker.hand.changed.wait()
            finally:
                timer.cancel()

    def _let_go(self) -> None:
        """Leave nothing behind, without waiting for anybody."""
        self._stop.on_change = lambda: None
        self._broker.cancel()
        self._broker.abandon()
        self._broker.drop()
        for task in self._tasks:
            task.cancel()

    def _summary(self, reason: str) -> Summary:
        tally = self._broker.hand.tally()
        return Summary(
            done=tally.get("done", 0),
            retried=tally.get("retried", 0),
            died=tally.get("died", 0),
            released=tally.get("released", 0),
            split=tally.get("split", 0),
            lost=self._broker.hand.lost,
            discovered=tally.get("discovered", 0),
            seconds=lease_clock() - self._began,
            stopped_by=reason,
        )
