"""Work: one item in its handler's hands, and what the handler's end says about it."""

import asyncio
import enum
import inspect
import logging
import traceback
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple

from swath.core.errors import InvalidOutcome, LeaseLost, StoreUnavailable, UsageError, WrongTransaction
from swath.core.item import Item, Outcome
from swath.core.leased_items import EncodedOutcome, LeasedItems
from swath.runner.store_retry import Outage

log = logging.getLogger("swath.runner")

Handler = Callable[..., Awaitable[Outcome | None]]  # of an item, and of a connection where there is a transaction
Transaction = Callable[[], AbstractAsyncContextManager[Any]]  # commits when it is left, rolls back on an exception


class Why(enum.Enum):
    """Why the runner cancelled a handler."""

    TIMEOUT = "it ran out of time"
    LEASE = "its lease ended"
    STOP = "the runner stops"


class Work:
    """One item being worked on, in a task of its own."""

    __slots__ = ("began", "cancelled_at", "claim", "item", "misused", "staged", "started", "task", "warned", "why")

    def __init__(self, claim: LeasedItems, item: Item, began: float) -> None:
        self.claim = claim
        self.item = item
        self.began = began
        self.task: asyncio.Task[None] | None = None
        self.started = False
        self.staged: Callable[[], None] | None = None  # counts its settlement in a transaction that may have committed
        self.misused = False  # by the caller, in a way that every item would meet
        self.why: Why | None = None
        self.cancelled_at = 0.0
        self.warned = False

    def begin(self) -> bool:
        """Whether the handler is still to be called."""
        self.started = True
        return self.why is None

    def cancel(self, why: Why, now: float) -> None:
        """Cancel the handler, once: one that goes on regardless is not interrupted in its cleaning up."""
        if self.why is None:
            self.why, self.cancelled_at = why, now
            # A task that is cancelled before its first step never runs a line, so nobody would hear of its end. This
            # process may have been stopped between handing out and starting: then `perform` does not call the handler.
            if self.task is not None and self.started:
                self.task.cancel()

    def disown(self) -> None:
        """Leave a handler that ignores its cancellation to itself, so that not even the loop's end waits for it."""
        if self.task is not None and not self.task.done():
            asyncio.tasks._unregister_task(self.task)  # the hook that asyncio documents for task implementations
            self.task._log_destroy_pending = False  # type: ignore[attr-defined]


class Failure:
    """What a handler did wrong."""

    __slots__ = ("error", "fatal", "reason")

    def __init__(self, reason: str, *, error: str | None = None, fatal: BaseException | None = None) -> None:
        self.reason = reason
        self.error = error
        self.fatal = fatal  # what must end the run as well


class Ended(NamedTuple):
    """How a handler's work ended."""

    outcome: EncodedOutcome | None  # None: it was settled already, in its transaction
    failure: Failure | None = None


class Transactions:
    """The caller's transactions: what a handler writes, and its settlement as the last statement before the commit
    (INV-5, rule 14)."""

    def __init__(self, begin: Transaction, outage: Outage) -> None:
        self._begin = begin
        self._outage = outage
        self._lent: dict[int, Work] = {}  # by the identity of the connection

    async def perform(self, work: Work, handler: Handler) -> Ended:
        try:
            async with self._begin() as connection:
                work.staged = await self._settled(work, handler, connection)
        except (LeaseLost, StoreUnavailable) as error:
            # Rolled back, and no fault of the handler's. Whether the item is still ours is seen when it is given back.
            # Where it is the transaction that is at fault, such as one that may only read, this happens again and
            # again: so it is said, and not done in haste.
            if isinstance(error, StoreUnavailable):
                await asyncio.sleep(self._outage.failed("commit", error))
            return Ended(work.claim.encode(work.item.release()))
        if work.staged is None:
            raise WrongTransaction(
                "the transaction kept to itself what the handler raised, as psycopg does with Rollback: nothing was "
                "settled. Raise something else to roll back and retry, or return item.done() or item.dead() to commit"
            )
        work.staged()
        return Ended(None)

    async def _settled(self, work: Work, handler: Handler, connection: Any) -> Callable[[], None]:
        """Two on one connection would commit and roll back each other's writes, so neither of them settles."""
        holder = self._lent.setdefault(id(connection), work)
        if holder is not work:
            holder.misused = work.misused = True
            raise _shared(connection)
        try:
            outcome = _encoded(work, await _begun(work, handler(work.item, connection)))
            if work.misused:
                raise _shared(connection)
            return await work.claim.stage(work.item.partition, [outcome], connection)
        finally:
            del self._lent[id(connection)]  # before the commit, after which a pool lends it to somebody else


def _shared(connection: Any) -> WrongTransaction:
    return WrongTransaction(
        f"run(transaction=) got the same {type(connection).__name__} for two items at once, and their writes would be "
        "one transaction: open one for each, or take it from a pool"
    )


async def perform(
    work: Work, handler: Handler, *, timeout: float | None, transactions: Transactions | None = None
) -> Ended:
    """Run the handler and encode its outcome. Whatever it does short of ending the process, there is an outcome."""
    if not work.begin():
        return Ended(work.claim.encode(work.item.release(started=False)))
    ended = await _called(work, handler, timeout, transactions)
    if ended.outcome is None or work.staged is None:
        return ended
    return ended._replace(outcome=ended.outcome._replace(count_if_settled=work.staged))


async def _called(work: Work, handler: Handler, timeout: float | None, transactions: Transactions | None) -> Ended:
    item, claim = work.item, work.claim
    try:
        if transactions is not None:
            return await transactions.perform(work, handler)
        return Ended(_encoded(work, await _begun(work, handler(item))))
    except asyncio.CancelledError:
        if work.why is not None:
            return _interrupted(work, timeout)
        failure = Failure("the handler was cancelled, and not by the runner", error=_traced())
    except (Exception, GeneratorExit) as error:  # noqa: BLE001  where a handler's failure becomes a retry
        # If it is this coroutine that is closed, because the loop is gone, Python raises GeneratorExit in our callers
        # all the same, and nothing comes of what is returned.
        if work.why is not None:
            return _interrupted(work, timeout)
        failure = Failure(described(error), error=_traced())
        if work.misused:  # the run ends, and no attempt is counted
            failure.fatal = error
            return Ended(claim.encode(item.release()), failure)
    except BaseException as error:  # noqa: BLE001  SystemExit and its like: it counts as an attempt, and the run ends
        failure = Failure(described(error), error=_traced(), fatal=error)
    return Ended(claim.encode(item.retry(reason=failure.reason, error=failure.error)), failure)


def _begun(work: Work, returned: object) -> Awaitable[object]:
    """What the handler returned, to be awaited: as a retry, a plain function would use up the attempts of all items."""
    if not inspect.isawaitable(returned):
        work.misused = True
        raise UsageError(
            f"the handler returned {returned!r:.200} without being awaited: define it with `async def`, or use "
            "swath.sync, which takes plain functions"
        )
    return returned


def _encoded(work: Work, outcome: object) -> EncodedOutcome:
    """What the handler returned, checked. If it was cancelled and swallowed that, it is not done."""
    if outcome is None:
        if work.why is not None:
            raise asyncio.CancelledError
        return work.claim.encode(work.item.done())
    return work.claim.encode(_own(outcome, work.item))


def _interrupted(work: Work, timeout: float | None) -> Ended:
    if work.why is Why.TIMEOUT:
        reason = f"timed out after {timeout:g} s"
        return Ended(work.claim.encode(work.item.retry(reason=reason)), Failure(reason))
    return Ended(work.claim.encode(work.item.release()))


def _own(outcome: object, item: Item) -> Outcome:
    if not isinstance(outcome, Outcome):
        raise InvalidOutcome(f"the handler returned {outcome!r:.200}, which is no outcome: return item.done() or None")
    if (outcome.item.partition, outcome.item.position) != (item.partition, item.position):
        raise InvalidOutcome(f"the handler of {item.key!r} returned an outcome for {outcome.item.key!r}")
    return outcome


def described(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  its __str__ is as much the handler's as the rest of it
        text = "(its text cannot be shown)"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _traced() -> str:
    """The traceback of what is being handled."""
    try:
        return traceback.format_exc()
    except Exception as error:  # noqa: BLE001  it asks the exception for notes and more, which may raise whatever it likes
        return f"(its traceback cannot be shown: {type(error).__name__})"
