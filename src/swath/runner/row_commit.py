"""RowCommit: one transaction with the rows of a settlement group and its settlement."""

import asyncio
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from swath.core.errors import InvalidOutcome, SwathError, WrongTransaction
from swath.core.leased_items import EncodedOutcome, LeasedItems
from swath.core.store import OutputMove, Store
from swath.runner.output import Sink
from swath.runner.store_retry import UNAVAILABLE


class RowsRefused(Exception):
    """The database refused one of the rows, with this message. Nothing was committed."""


class SinkFailed(Exception):
    """The sink raised an exception that is not about a single row. It is the cause. Nothing was committed."""


class RowCommit:
    """Writes the rows of some outcomes and settles them in one transaction (INV-5).

    Call `send` again after StoreUnavailable: if the reply to a commit was lost, it finds out whether the commit
    succeeded, and does not write the rows twice.
    """

    def __init__(
        self,
        store: Store,
        sink: Sink,
        leased: LeasedItems,
        partition: int,
        outcomes: Sequence[EncodedOutcome],
        outputs: Sequence[OutputMove],
    ) -> None:
        self._store = store
        self._sink = sink
        self._leased = leased
        self._partition = partition
        self._outcomes = outcomes
        self._outputs = outputs
        self._rows = [row for outcome in outcomes for row in outcome.rows]
        self._mark_committed: Callable[[], None] | None = None  # set when a transaction is about to commit
        self._sink_error: Exception | None = None

    async def send(self) -> None:
        try:
            if self._mark_committed is None:
                await self._write_and_settle()
            else:
                await self._resolve()
        except UNAVAILABLE:
            raise
        except SwathError as error:
            # WrongTransaction: the sink has ended the transaction, or opened one of its own.
            if error is self._sink_error or isinstance(error, WrongTransaction):
                raise SinkFailed from error
            raise
        except Exception as error:
            # A deferred constraint refuses a row at the commit, so not every refusal comes from the sink.
            if (message := self._store.explain_refusal(error)) is not None:
                raise RowsRefused(message) from error
            if error is self._sink_error:
                raise SinkFailed from error
            raise
        assert self._mark_committed is not None
        self._mark_committed()

    async def _write_and_settle(self) -> None:
        """Write first and settle last, so that the partition is locked for a short time."""
        async with self._store.transaction() as connection:
            await self._call_sink(connection)
            self._mark_committed = await self._settle(connection)

    async def _resolve(self) -> None:
        """Repeat a transaction whose commit got no reply, unless it was committed.

        Settle first: the settlement waits for the earlier transaction to end, and the store refuses it if the items
        are settled already. The earlier transaction had settled them, so nothing else can be the reason.
        """
        try:
            async with self._store.transaction() as connection:
                self._mark_committed = await self._settle(connection)
                await self._call_sink(connection)
        except InvalidOutcome as error:
            if error is self._sink_error:
                raise

    async def _settle(self, connection: Any) -> Callable[[], None]:
        return await self._leased.stage(self._partition, self._outcomes, connection, outputs=self._outputs)

    async def _call_sink(self, connection: Any) -> None:
        """Call the sink: a coroutine function in the event loop, a plain function in a thread."""
        try:
            if inspect.iscoroutinefunction(self._sink):
                await self._sink(connection, self._rows)
            else:
                returned = await asyncio.to_thread(self._sink, connection, self._rows)
                if inspect.isawaitable(returned):
                    await returned
        except Exception as error:
            self._sink_error = error
            raise
