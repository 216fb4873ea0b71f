"""Execution: one call of the handler, and the outcome that results from it."""

import asyncio
import enum
import inspect
import traceback
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from math import inf
from typing import Any, NamedTuple

from swath.core.clock import lease_clock
from swath.core.errors import InvalidOutcome, LeaseLost, StoreUnavailable, UsageError, WrongTransaction
from swath.core.item import Item, Outcome
from swath.core.leased_items import EncodedOutcome, LeasedItems
from swath.runner.store_retry import StoreRetry

Handler = Callable[..., Awaitable[Outcome | None]]  # takes an item and, with `transaction=`, a connection
Transaction = Callable[[], AbstractAsyncContextManager[Any]]  # commits on exit, rolls back on an exception


class CancelReason(enum.Enum):
    """Why the runner cancelled a handler."""

    TIMEOUT = "timeout"
    LEASE = "lease ended"
    STOP = "run stopping"


class Execution:
    """One item that is being handled, in a task of its own."""

    __slots__ = (
        "began",
        "cancel_reason",
        "cancelled_at",
        "item",
        "leased",
        "mark_committed",
        "misused",
        "started",
        "task",
        "warned",
    )

    def __init__(self, leased: LeasedItems, item: Item, began: float) -> None:
        self.leased = leased
        self.item = item
        self.began = began
        self.task: asyncio.Task[None] | None = None
        self.started = False
        # Set when a transaction has settled the item and is about to commit.
        self.mark_committed: Callable[[], None] | None = None
        self.misused = False  # the caller made a mistake that would fail every item
        self.cancel_reason: CancelReason | None = None
        self.cancelled_at = 0.0
        self.warned = False

    def begin(self) -> bool:
        """Note that the task runs, and return whether it should still call the handler.

        INV-3: this process may have been suspended since it created the task, and other workers may have the item.
        Nothing has noticed that yet, because this step was queued before.
        """
        self.started = True
        return self.cancel_reason is None and self.leased.ends_at > lease_clock()

    def cancel(self, reason: CancelReason, now: float) -> None:
        """Cancel the handler, but only once: a second cancellation would interrupt its cleanup."""
        if self.cancel_reason is None:
            self.cancel_reason, self.cancelled_at = reason, now
            # A task that is cancelled before its first step never runs, so it could not report its end. If this process
            # was suspended before the first step, `begin` makes `execute` skip the handler.
            if self.task is not None and self.started:
                self.task.cancel()

    def detach(self) -> None:
        """Abandon a handler that ignores its cancellation, so that not even the end of the loop waits for it."""
        if self.task is not None and not self.task.done():
            asyncio.tasks._unregister_task(self.task)  # the hook that asyncio documents for task implementations
            self.task._log_destroy_pending = False  # type: ignore[attr-defined]


_lease: ContextVar[LeasedItems] = ContextVar("the lease of the item that a handler is called with")


def seconds_left() -> float:
    """Inside a handler, return the seconds until the lease of its item ends unless the run renews it.

    If the result is negative, this process was suspended, or cut off from the store: other workers may hold the item,
    and the handler must write nothing more for it (INV-2). Outside of a handler, the result is infinite.
    """
    leased = _lease.get(None)
    return inf if leased is None else leased.ends_at - lease_clock()


def get_fence() -> int | None:
    """Inside a handler, return the fence of the claim that its item belongs to. Outside of a handler, return None."""
    leased = _lease.get(None)
    return None if leased is None else leased.fence


class Failure:
    """Why an execution failed, and the exception if it ends the run."""

    __slots__ = ("error", "fatal", "reason")

    def __init__(self, reason: str, *, error: str | None = None, fatal: BaseException | None = None) -> None:
        self.reason = reason
        self.error = error
        self.fatal = fatal  # an exception that ends the run


class Result(NamedTuple):
    """How an execution ended."""

    outcome: EncodedOutcome | None  # None if the item's own transaction has settled it
    failure: Failure | None = None


class Transactions:
    """The caller's transactions. The settlement of an item is the last statement before the commit (INV-5)."""

    def __init__(self, begin: Transaction, retry: StoreRetry) -> None:
        self._begin = begin
        self._retry = retry
        self._in_use: dict[int, Execution] = {}  # by the identity of the connection

    async def execute(self, execution: Execution, handler: Handler) -> Result:
        try:
            async with self._begin() as connection:
                execution.mark_committed = await self._handle_and_settle(execution, handler, connection)
        except (LeaseLost, StoreUnavailable) as error:
            # The transaction was rolled back, which is not the handler's fault, so release the item. If the claim is
            # lost, settling the release reports it. A transaction that can never commit, such as a read-only one, fails
            # for every item: report it, and do not repeat it at full speed.
            if isinstance(error, StoreUnavailable):
                await asyncio.sleep(self._retry.note_failure("commit", error))
            return Result(execution.leased.encode(execution.item.release()))
        if execution.mark_committed is None:
            raise WrongTransaction(
                "the transaction suppressed the handler's exception, as psycopg does with Rollback, and nothing was "
                "settled. To roll back and retry, raise another exception; to commit, return item.done() or item.dead()"
            )
        execution.mark_committed()
        return Result(None)

    async def _handle_and_settle(self, execution: Execution, handler: Handler, connection: Any) -> Callable[[], None]:
        """Call the handler and settle its outcome. If two items share a connection, settle neither."""
        user = self._in_use.setdefault(id(connection), execution)
        if user is not execution:
            user.misused = execution.misused = True
            raise _build_shared_connection_error(connection)
        try:
            outcome = _encode_outcome(execution, await _check_awaitable(execution, handler(execution.item, connection)))
            if execution.misused:
                raise _build_shared_connection_error(connection)
            return await execution.leased.stage(execution.item.partition, [outcome], connection)
        finally:
            del self._in_use[id(connection)]  # before the commit, because a pool may lend the connection again after it


def _build_shared_connection_error(connection: Any) -> WrongTransaction:
    return WrongTransaction(
        f"run(transaction=) returned the same {type(connection).__name__} for two items at once, so that their writes "
        "would be one transaction. Open a connection for each transaction, or take one from a pool"
    )


async def execute(
    execution: Execution, handler: Handler, *, timeout: float | None, transactions: Transactions | None = None
) -> Result:
    """Call the handler and encode its outcome. Every item gets an outcome unless the process ends."""
    _lease.set(execution.leased)
    if not execution.begin():
        return Result(execution.leased.encode(execution.item.release(started=False)))
    result = await _call_handler(execution, handler, timeout, transactions)
    if result.outcome is None or execution.mark_committed is None:
        return result
    return result._replace(outcome=result.outcome._replace(count_if_settled=execution.mark_committed))


async def _call_handler(
    execution: Execution, handler: Handler, timeout: float | None, transactions: Transactions | None
) -> Result:
    item, leased = execution.item, execution.leased
    try:
        if transactions is not None:
            return await transactions.execute(execution, handler)
        return Result(_encode_outcome(execution, await _check_awaitable(execution, handler(item))))
    except asyncio.CancelledError:
        if execution.cancel_reason is not None:
            return _handle_cancellation(execution, timeout)
        failure = Failure("the handler was cancelled, but not by the runner", error=format_traceback())
    except (Exception, GeneratorExit) as error:  # noqa: BLE001  a handler's failure becomes a retry
        # GeneratorExit may also mean that the loop is gone and closes this coroutine; the result is then ignored.
        if execution.cancel_reason is not None:
            return _handle_cancellation(execution, timeout)
        failure = Failure(describe_error(error), error=format_traceback())
        if execution.misused:  # end the run without counting an attempt
            failure.fatal = error
            return Result(leased.encode(item.release()), failure)
    except BaseException as error:  # noqa: BLE001  SystemExit and the like: count an attempt and end the run
        failure = Failure(describe_error(error), error=format_traceback(), fatal=error)
    return Result(leased.encode(item.retry(reason=failure.reason, error=failure.error)), failure)


def _check_awaitable(execution: Execution, returned: object) -> Awaitable[object]:
    """Return the handler's return value if it can be awaited, otherwise end the run.

    If the handler is a plain function, retries would use up the attempts of every item.
    """
    if not inspect.isawaitable(returned):
        execution.misused = True
        raise UsageError(
            f"the handler returned {returned!r:.200}, which cannot be awaited: define the handler with `async def`, or "
            "use swath.sync, which takes plain functions"
        )
    return returned


def _encode_outcome(execution: Execution, outcome: object) -> EncodedOutcome:
    """Check and encode the handler's result. A cancelled handler that returns None has not finished its item."""
    if outcome is None:
        if execution.cancel_reason is not None:
            raise asyncio.CancelledError
        return execution.leased.encode(execution.item.done())
    return execution.leased.encode(_check_outcome(outcome, execution.item))


def _handle_cancellation(execution: Execution, timeout: float | None) -> Result:
    if execution.cancel_reason is CancelReason.TIMEOUT:
        reason = f"timed out after {timeout:g} s"
        return Result(execution.leased.encode(execution.item.retry(reason=reason)), Failure(reason))
    return Result(execution.leased.encode(execution.item.release()))


def _check_outcome(outcome: object, item: Item) -> Outcome:
    if not isinstance(outcome, Outcome):
        raise InvalidOutcome(
            f"the handler returned {outcome!r:.200}, which is not an outcome: return item.done() or None"
        )
    if (outcome.item.partition, outcome.item.position) != (item.partition, item.position):
        raise InvalidOutcome(f"the handler of {item.key!r} returned an outcome for {outcome.item.key!r}")
    return outcome


def describe_error(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  an exception class of the user's may have a broken __str__
        text = "(its text cannot be shown)"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def format_traceback() -> str:
    """Return the traceback of the exception that is being handled."""
    try:
        return traceback.format_exc()
    except Exception as error:  # noqa: BLE001  formatting calls methods of the user's exception class
        return f"(its traceback cannot be shown: {type(error).__name__})"
