"""Cover: the handler of a backfill; one planner step or one slice, inside of the transaction that settles it."""

import asyncio
import traceback
from collections.abc import Callable
from typing import Any

from swath.backfill import timeouts
from swath.backfill.operations import Change, HandlerRaised
from swath.backfill.ranges import END, Slice, Step, work_of
from swath.backfill.sizer import Sizer
from swath.backfill.stats import Tally
from swath.backfill.tail import LOOK_SECONDS, Follower, later
from swath.core.errors import StoreUnavailable, UsageError
from swath.core.item import Item, Outcome
from swath.tables.table import Key, Table

REFUSED: timeouts.Errors = (*timeouts.REFUSED, UsageError)
AHEAD = 4  # slices planned at once, for each worker
RETRY_SECONDS = 1.0  # before what failed is tried again, doubled with every attempt
PAUSE_SECONDS = 1.0  # that work is given back for while something else wants the database to itself


class Cover:
    """Works on the items of a backfill. `held_up` says why nothing may be started, if so."""

    def __init__(
        self,
        table: Table,
        change: Change,
        sizer: Sizer,
        tally: Tally,
        *,
        workers: int,
        follower: Follower | None,
        held_up: Callable[[], str | None],
    ) -> None:
        self._table = table
        self._change = change
        self._sizer = sizer
        self._tally = tally
        self._ahead = max(8, AHEAD * workers)
        self._follower = follower
        self._held_up = held_up

    async def __call__(self, item: Item, connection: Any) -> Outcome:
        if self._held_up() is not None:
            return item.release(started=False, after=PAUSE_SECONDS)
        work = work_of(item.payload)
        try:
            if isinstance(work, Step):
                return await self._plan(item, work)
            return await self._cover(item, work, connection)
        except timeouts.GONE as error:
            raise StoreUnavailable(f"{self._table.label} is gone: {error}") from error

    # planning

    async def _plan(self, item: Item, step: Step) -> Outcome:
        """The next slices, and the step behind them. The last slice reaches to the end, whatever is there by then."""
        found: list[Item] = []
        number, after, before = step.number, step.after, step.before
        size = self._sizer.size if self._tally.slices else step.size
        over = step.upto is None or after == step.upto
        while len(found) < self._ahead and not over:
            end = await self._table.find_slice_end(size, after=after, upto=step.upto)
            over = end is None or end.rows < size or end.key == step.upto
            rows = 0 if end is None else end.rows
            assert step.upto is not None
            hi = step.upto if over or end is None else end.key
            found.append(Slice(number, after, after, hi, rows, before).item())
            number, after, before = number + 1, hi, before + rows
        onward = step._replace(number=number, after=after, before=before, size=size)
        if not over:
            return item.done(discovered=[*found, onward.item()])
        if self._follower is None:
            return item.done(discovered=found, facts={END: onward.item().payload})
        next_step = await self._follower.next_step(onward)
        if next_step is None and not found:
            return item.release(started=False, after=LOOK_SECONDS)  # the same look again: it leaves no trace
        return item.done(discovered=[*found, next_step or later(onward)])

    # covering

    async def _cover(self, item: Item, work: Slice, connection: Any) -> Outcome:
        """Change the rows of a slice, or as many of the first as there is time for: the rest becomes a slice of its
        own, free for anybody."""
        upto, rows, counted = work.hi, work.rows, False
        if work.lo != work.start or rows > 2 * self._sizer.size:  # what is left of one that was split was not counted
            upto, rows = await self._cut(work, self._sizer.size)
            counted = True
        changed, began = None, 0.0
        while changed is None:
            began = self._sizer.clock()
            try:
                async with timeouts.attempt(connection, self._sizer.target):
                    changed = await self._change.apply(connection, after=work.lo, upto=upto)
            except timeouts.OVERRUN as error:
                self._tally.overran(error)
                if counted and rows <= 1:
                    return _again(item, f"{type(error).__name__}: {error}".strip(), traceback.format_exc())
                upto, rows = await self._cut(work, self._sizer.overran(rows))
                counted = True
            except HandlerRaised as error:
                return _again(item, str(error), error.trace)
            except REFUSED as error:
                return item.dead(reason=f"{type(error).__name__}: {error}".strip(), error=traceback.format_exc())
            except timeouts.GONE as error:
                if getattr(connection, "closed", False):
                    raise
                return _again(item, f"{type(error).__name__}: {error}".strip(), traceback.format_exc())  # a full disk
            except asyncio.CancelledError:
                self._sizer.overran(rows)  # out of time: if it is tried again here, then with fewer
                raise
        seconds = self._sizer.clock() - began
        self._sizer.took(rows, seconds)
        self._tally.covered(rows, changed, seconds)
        result = {"rows": rows, "changed": changed}
        if upto == work.hi:
            return item.done(result=result)
        return item.split(at=list(upto), result=result)

    async def _cut(self, work: Slice, rows: int) -> tuple[Key, int]:
        """Where the first so many rows of a slice end; at its own end if there are no more."""
        end = await self._table.find_slice_end(rows, after=work.lo, upto=work.hi)
        if end is None or end.rows < rows:
            return work.hi, 0 if end is None else end.rows
        return end.key, end.rows


def _again(item: Item, reason: str, error: str) -> Outcome:
    return item.retry(after=RETRY_SECONDS * 2**item.attempts, reason=reason, error=error)
