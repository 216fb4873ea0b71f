"""BackfillHandler: process one planning step or one slice, inside the transaction that settles it."""

import asyncio
import traceback
from collections.abc import Callable
from typing import Any

from swath import Item, Outcome, StoreUnavailable, UsageError
from swath.backfill import timeouts
from swath.backfill.operations import HandlerRaised, Operation
from swath.backfill.ranges import END, PlanStep, Slice, parse_work
from swath.backfill.self_deadlock import SelfDeadlock
from swath.backfill.stats import BackfillStats
from swath.backfill.tail import POLL_SECONDS, TailFollower
from swath.tables.definition import TableChanged
from swath.tables.slice_sizer import SliceSizer
from swath.tables.table import Key, Table

REJECTED: timeouts.Errors = (*timeouts.REJECTED, UsageError)
SLICES_AHEAD = 4  # planned per worker and step
RETRY_SECONDS = 1.0  # after the first failure; doubled with each attempt
PAUSE_SECONDS = 1.0  # before an item that was released during a pause is claimed again


class BackfillHandler:
    """Handles the items of a backfill. `pause_reason` returns why no slice may start now, or None.

    `record_error` is that of `RunMonitor`. `stop_after_change` ends the run because the table has changed.
    """

    def __init__(
        self,
        table: Table,
        operation: Operation,
        sizer: SliceSizer,
        stats: BackfillStats,
        *,
        workers: int,
        follower: TailFollower | None,
        pause_reason: Callable[[], str | None],
        record_error: Callable[..., None],
        stop_after_change: Callable[[TableChanged], None],
    ) -> None:
        self._table = table
        self._operation = operation
        self._sizer = sizer
        self._stats = stats
        self._slices_ahead = max(8, SLICES_AHEAD * workers)
        self._follower = follower
        self._pause_reason = pause_reason
        self._record_error = record_error
        self._stop_after_change = stop_after_change

    async def __call__(self, item: Item, connection: Any) -> Outcome:
        if self._pause_reason() is not None:
            return item.release(started=False, after=PAUSE_SECONDS)
        work = parse_work(item.payload)
        try:
            if isinstance(work, PlanStep):
                return await self._plan(item, work)
            return await self._process(item, work, connection)
        except TableChanged as change:
            return self._stop(item, change)
        except timeouts.UNAVAILABLE as error:
            raise StoreUnavailable(f"lost the connection to {self._table.label}: {error}") from error
        except timeouts.INVALID as error:
            try:
                await self._explain(error, connection)
            except TableChanged as change:
                return self._stop(item, change)
            raise

    def _stop(self, item: Item, change: TableChanged) -> Outcome:
        self._stop_after_change(change)
        return item.release(started=False)

    async def _explain(self, error: Exception, connection: Any) -> None:
        """Raise TableChanged if that is why the database rejects a statement that it accepted before."""
        try:
            await self._table.check_unchanged(connection, columns=True)
        except TableChanged as change:
            message = getattr(getattr(error, "diag", None), "message_primary", None) or str(error)
            raise TableChanged(f"{change} ({message})") from error

    # Planning

    async def _plan(self, item: Item, step: PlanStep) -> Outcome:
        """Settle with the next slices and the step after them. The last slice extends to the end of the range."""
        if self._follower is not None and (wait := self._follower.seconds_to_poll()):
            return item.release(started=False, after=wait)
        found: list[Item] = []
        number, after, before = step.number, step.after, step.before
        size = self._sizer.size if self._stats.slices else step.size
        complete = step.upto is None or after == step.upto
        while len(found) < self._slices_ahead and not complete:
            end = await self._table.find_slice_end(size, after=after, upto=step.upto)
            complete = end is None or end.rows < size or end.key == step.upto
            rows = 0 if end is None else end.rows
            assert step.upto is not None
            hi = step.upto if complete or end is None else end.key
            found.append(Slice(number, after, after, hi, rows, before).to_item())
            number, after, before = number + 1, hi, before + rows
        following = step._replace(number=number, after=after, before=before, size=size)
        if not complete:
            return item.done(discovered=[*found, following.to_item()])
        if self._follower is None:
            return item.done(discovered=found, facts={END: following.to_item().payload})
        next_step = await self._follower.find_next_step(following)
        if next_step is None and not found:
            return item.release(started=False, after=POLL_SECONDS)  # poll again without growing the frontier
        return item.done(discovered=[*found, next_step or self._follower.delay_step(following)])

    # Processing

    async def _process(self, item: Item, work: Slice, connection: Any) -> Outcome:
        """Change the rows of a slice. If they take too long, change the first of them and split off the rest."""
        upto, rows, counted = work.hi, work.rows, False
        if work.lo != work.start or rows > 2 * self._sizer.size:  # after a split, `rows` still counts the whole slice
            upto, rows = await self._shorten(work, self._sizer.size)
            counted = True
        changed, began = None, 0.0
        while changed is None:
            began = self._sizer.clock()
            try:
                async with timeouts.attempt(connection, self._sizer.target):
                    changed = await self._operation.apply(connection, after=work.lo, upto=upto)
                    # The statement has locked the table, so that it cannot change before the commit.
                    await self._table.check_unchanged(connection)
            except timeouts.OVERRUN as error:
                self._stats.record_overrun(error)
                if counted and rows <= 1:
                    return self._retry(item, error)
                upto, rows = await self._shorten(work, self._sizer.record_overrun(rows))
                counted = True
            except HandlerRaised as error:
                return self._retry(item, error, reason=str(error), trace=error.trace)
            except SelfDeadlock as error:  # not counted as an error: it ends the run, and says so then
                return _retry_later(item, str(error), traceback.format_exc())
            except TableChanged:
                raise
            except REJECTED as error:
                await self._explain(error, connection)
                reason, trace = _describe(error), traceback.format_exc()
                self._record_error(item.key, reason, error=trace)
                return item.dead(reason=reason, error=trace)
            except timeouts.UNAVAILABLE as error:
                if getattr(connection, "closed", False):
                    raise
                # Still connected: an operational error such as a full disk.
                return self._retry(item, error)
            except asyncio.CancelledError:
                self._sizer.record_overrun(rows)  # exceeded --timeout: retry with fewer rows
                raise
        seconds = self._sizer.clock() - began
        self._sizer.record(rows, seconds)
        self._stats.record_slice(rows, changed, seconds)
        result = {"rows": rows, "changed": changed}
        if upto == work.hi:
            return item.done(result=result)
        return item.split(at=list(upto), result=result)

    def _retry(self, item: Item, error: Exception, *, reason: str | None = None, trace: str | None = None) -> Outcome:
        reason, trace = reason or _describe(error), trace or traceback.format_exc()
        self._record_error(item.key, reason, error=trace)
        return _retry_later(item, reason, trace)

    async def _shorten(self, work: Slice, rows: int) -> tuple[Key, int]:
        """Return the key of the last of the slice's first `rows` rows, and how many there are."""
        end = await self._table.find_slice_end(rows, after=work.lo, upto=work.hi)
        if end is None or end.rows < rows:
            return work.hi, 0 if end is None else end.rows
        return end.key, end.rows


def _retry_later(item: Item, reason: str, trace: str) -> Outcome:
    return item.retry(after=RETRY_SECONDS * 2**item.attempts, reason=reason, error=trace)


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".strip()
