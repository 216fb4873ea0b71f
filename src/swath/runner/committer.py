"""Committer: collects outcomes and settles them in groups, each of one claim and one partition."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from swath.core.errors import LeaseLost, OutputFull, UsageError
from swath.core.item import Item
from swath.core.leased_items import EncodedOutcome
from swath.core.store import MoveKind, OutputMove, Store
from swath.runner.execution import describe_error
from swath.runner.in_flight import ClaimState, InFlight
from swath.runner.output import OnRefused, Output, Sink
from swath.runner.row_commit import RowCommit, RowsRefused, SinkFailed
from swath.runner.store_retry import WRITE_OUTPUT, StoreRetry

MAX_GROUP = 500  # outcomes in one settlement
MAX_DISCOVERED = 10_000  # discovered items and rows in one settlement, unless a single outcome has more
ENOUGH_OUTCOMES = 100  # a claim with this many outcomes is settled without waiting for more
MAX_WAIT = 0.02  # seconds that an outcome waits for others of its claim
MAX_CONCURRENT_COMMITS = 4  # while all of them are in progress, groups grow
# With a sink, two transactions: one is written while the other commits. Groups grow more than with four, which pays on
# SQLite with its single writer (`BENCH_ONLY=sink make bench` compares with a run without a sink).
MAX_CONCURRENT_TRANSACTIONS = 2
MAX_PENDING_BYTES = 64_000_000  # of output and discovered items that wait to be settled; above it, no item starts
DISCOVERED_BYTES = 640  # the assumed size of a discovered item, or of a row for the sink


class Committer:
    """Settles finished items soon, and in groups if several are finished."""

    def __init__(
        self,
        in_flight: InFlight,
        retry: StoreRetry,
        store: Store,
        *,
        output: Output | None,
        sink: Sink | None,
        on_refused: OnRefused | None,
        report_failure: Callable[[Item, int, str, str | None], None],
        on_settled: Callable[[], None],
        on_lost: Callable[[ClaimState, LeaseLost], None],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._in_flight = in_flight
        self._retry = retry
        self._store = store
        self._output = output
        self._sink = sink
        self._on_refused = on_refused
        self._sink_failed = False
        self._report_failure = report_failure
        self._on_settled = on_settled
        self._on_lost = on_lost
        self._on_failure = on_failure
        self._loop = asyncio.get_running_loop()
        self._due: deque[ClaimState] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        if output is not None:
            self._max_tasks = 1  # only one batch at a time can append to the files
        else:
            self._max_tasks = MAX_CONCURRENT_COMMITS if sink is None else MAX_CONCURRENT_TRANSACTIONS
        self.is_blocked = False  # whether the disk of the output is full
        self._is_stopping = False
        self._output_dirty = False  # whether the files hold uncommitted bytes, which must not commit with other items

    def collect(self, state: ClaimState, outcome: EncodedOutcome) -> None:
        """Settle an outcome together with others of its claim: when there are enough, or after a moment, or at once
        if nothing else is in flight."""
        if state.lost:
            self._in_flight.retire(state)
            return
        try:
            size = self._measure(outcome)
        except Exception as error:  # noqa: BLE001  the handler passed an entry that the output does not accept
            outcome = self._encode_retry(state, outcome, error)
            size = 0
        self._in_flight.add_outcome(state, outcome, size)
        if not self._in_flight.executions and not self._in_flight.queue:
            self.flush()
        elif len(state.outcomes) >= ENOUGH_OUTCOMES or not (state.executions or state.queued):
            self._make_due(state)
        elif state.timer is None:
            state.timer = self._loop.call_later(MAX_WAIT, self._make_due, state)

    def _measure(self, outcome: EncodedOutcome) -> int:
        size = DISCOVERED_BYTES * (len(outcome.discovered) + len(outcome.rows))
        if self._output is not None and outcome.output is not None:
            size += self._output.size(outcome.output)
        return size

    def release(self, state: ClaimState, item: Item) -> None:
        """Release an item that was never started."""
        self.collect(state, state.leased.encode(item.release(started=False)))

    def flush(self) -> None:
        """Settle all finished items without waiting for more."""
        for state in list(self._in_flight.claims.values()):
            if state.outcomes:
                self._make_due(state)

    def stop_waiting(self) -> None:
        """Wait no more for room for the output: the run stops. Items whose output cannot be written are released."""
        self._is_stopping = True
        self._retry.wake()

    def stop(self) -> None:
        """Cancel all commits. Unsettled items stay claimed until their lease ends."""
        self._due.clear()
        for state in self._in_flight.claims.values():
            if state.timer is not None:
                state.timer.cancel()
        for task in self._tasks:
            task.cancel()

    def _make_due(self, state: ClaimState) -> None:
        if state.timer is not None:
            state.timer.cancel()
            state.timer = None
        state.commit_due = True
        if not state.commit_queued:
            state.commit_queued = True
            self._due.append(state)
            self._start_commits()

    def _start_commits(self) -> None:
        while self._due and len(self._tasks) < self._max_tasks:
            batch = [self._due.popleft()]
            if self._output is not None:
                batch += self._due
                self._due.clear()
            task = self._loop.create_task(self._settle(batch))
            self._tasks.add(task)
            task.add_done_callback(self._end_commit)

    def _end_commit(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            if (error := task.exception()) is not None:
                self._on_failure(error)
            self._start_commits()

    async def _settle(self, batch: Sequence[ClaimState]) -> None:
        """Settle the finished items of some claims."""
        sizes = [state.pending_bytes for state in batch]
        groups = [group for state in batch for group in self._take_groups(state)]
        try:
            if self._output is None:
                for group in groups:
                    if not group.state.lost:
                        await self._commit(group)
            else:
                await self._write_and_commit(self._output, groups)
        except Exception:
            for state in batch:
                state.commit_failed = True
            raise
        finally:
            for state, size in zip(batch, sizes, strict=True):
                self._in_flight.end_sending(state, size)
                state.commit_queued = False  # other items of the claim may still be released
        for state in batch:
            if state.commit_due and state.outcomes:
                self._make_due(state)
            self._in_flight.retire(state)
        self._on_settled()

    def _take_groups(self, state: ClaimState) -> list["_Group"]:
        state.commit_due = False
        outcomes = self._in_flight.take_outcomes(state)
        return [_Group(state, partition, group) for partition, group in _group_outcomes(outcomes)]

    async def _commit(self, group: "_Group") -> None:
        try:
            await self._send(group)
        except (UsageError, RowsRefused, SinkFailed) as error:
            for part in self._isolate_refused(group, error):
                await self._commit(part)

    async def _write_and_commit(self, output: Output, groups: Sequence["_Group"]) -> None:
        """Write the output of the groups, then settle them in order with the new file lengths (INV-5).

        If the store refuses a group, the files are truncated to the committed lengths and the remaining groups are
        written again. If writing fails, nothing more is written and the remaining items are released.
        """
        while groups and not self._output_dirty:
            entries = [[outcome.output for outcome in group.outcomes if outcome.output is not None] for group in groups]
            self._output_dirty = True
            try:
                moves = await self._write(output, entries)
            except OutputFull:
                break  # the run is stopping already
            except Exception as error:  # noqa: BLE001  such as a failing disk: the run ends with this error
                self._on_failure(error)
                break
            remaining = await self._send_in_order(groups, moves)
            if remaining is None:
                output.keep()
                self._output_dirty = False
                return
            groups = remaining
            lengths = await self._retry.call("outputs", self._store.outputs)
            try:
                await asyncio.to_thread(output.restore, lengths)
            except Exception as error:  # noqa: BLE001  as above
                self._on_failure(error)
                break
            self._output_dirty = False
            groups = [group for group in groups if not group.state.lost]
        for group in groups:
            if not group.state.lost:
                await self._commit(_release(group, [outcome.output is not None for outcome in group.outcomes]))

    async def _write(self, output: Output, entries: Sequence[Sequence[Any]]) -> Sequence[Sequence[OutputMove]]:
        """Write the entries. While the disk is full, wait, unless the run stops."""
        attempt = 0
        while True:
            attempt += 1
            try:
                moves = await asyncio.to_thread(output.write, entries)
            except OutputFull as error:
                pause = self._retry.note_failure(WRITE_OUTPUT, error, attempt=attempt)
                self.is_blocked = True
                if self._is_stopping:
                    raise
                await self._retry.wait(pause)
            else:
                if self.is_blocked:
                    self.is_blocked = False
                    self._retry.note_success(WRITE_OUTPUT)
                return moves

    async def _send_in_order(
        self, groups: Sequence["_Group"], moves: Sequence[Sequence[OutputMove]]
    ) -> "Sequence[_Group] | None":
        """Settle groups until one fails. Return the groups to write again, or None if all were settled."""
        for number, (group, grown) in enumerate(zip(groups, moves, strict=True)):
            try:
                if not await self._send(group, grown):
                    return groups[number + 1 :]
            except (UsageError, RowsRefused, SinkFailed) as error:
                return [*self._isolate_refused(group, error), *groups[number + 1 :]]
        return None

    async def _send(self, group: "_Group", outputs: Sequence[OutputMove] = ()) -> bool:
        """Settle a group. Return False if its claim was lost."""
        state, leased = group.state, group.state.leased
        try:
            if self._sink is not None and any(outcome.rows for outcome in group.outcomes):
                await self._send_rows(self._sink, group, outputs)
            else:
                await self._retry.call(
                    "settle", lambda: leased.commit(group.partition, group.outcomes, outputs=outputs)
                )
        except LeaseLost as lost:
            self._on_lost(state, lost)
        if state.lost:  # the items were counted as lost
            return False
        self._in_flight.mark_settled(state, len(group.outcomes))
        return True

    async def _send_rows(self, sink: Sink, group: "_Group", outputs: Sequence[OutputMove]) -> None:
        if self._sink_failed:
            raise SinkFailed
        commit = RowCommit(self._store, sink, group.state.leased, group.partition, group.outcomes, outputs)
        try:
            await self._retry.call("settle", commit.send)
        except RowsRefused:
            self._retry.note_success("settle")
            raise
        except SinkFailed as failed:
            self._sink_failed = True
            self._on_failure(failed.__cause__ or failed)
            raise

    def _isolate_refused(self, group: "_Group", error: Exception) -> list["_Group"]:
        """Split a group that was refused, so that only the outcome to blame fails and the others are settled.

        If the store refuses an outcome, its item is retried. If the database refuses a row, its item is dead: no retry
        would change the row. If the sink failed, the run ends and items with rows are released.
        """
        if isinstance(error, SinkFailed):
            return [_release(group, [bool(outcome.rows) for outcome in group.outcomes])]
        if isinstance(error, RowsRefused):
            return self._bisect(group, str(error))
        if len(group.outcomes) > 1:
            return [group._replace(outcomes=[outcome]) for outcome in group.outcomes]
        refused = group.outcomes[0]
        if refused.count_if_settled is not None:
            refused.count_if_settled()  # its transaction, whose commit got no reply, did settle it
            return []
        if refused.move.kind is MoveKind.RETRY:
            raise error
        return [group._replace(outcomes=[self._encode_retry(group.state, refused, error)])]

    def _bisect(self, group: "_Group", message: str) -> list["_Group"]:
        if len(group.outcomes) > 1:
            middle = len(group.outcomes) // 2
            return [
                group._replace(outcomes=group.outcomes[:middle]),
                group._replace(outcomes=group.outcomes[middle:]),
            ]
        refused = group.outcomes[0]
        item, reason = refused.item, f"the database refused a row: {message}"
        if self._on_refused is None:
            self._report_failure(item, group.state.leased.fence, reason, None)
            dead = item.dead(reason=reason)
        else:
            dead = self._on_refused(item, refused.output, reason)
        return [group._replace(outcomes=[group.state.leased.encode(dead)])]

    def _encode_retry(self, state: ClaimState, refused: EncodedOutcome, error: Exception) -> EncodedOutcome:
        reason = describe_error(error)
        self._report_failure(refused.item, state.leased.fence, reason, None)
        return state.leased.encode(refused.item.retry(reason=reason))


class _Group(NamedTuple):
    """Outcomes of one claim and one partition, which are settled together."""

    state: ClaimState
    partition: int
    outcomes: Sequence[EncodedOutcome]


def _release(group: _Group, unwritten: Sequence[bool]) -> _Group:
    """Replace outcomes whose output or rows cannot be written by releases."""
    leased = group.state.leased
    outcomes = [
        leased.encode(outcome.item.release()) if release else outcome
        for outcome, release in zip(group.outcomes, unwritten, strict=True)
    ]
    return group._replace(outcomes=outcomes)


def _group_outcomes(outcomes: Iterable[EncodedOutcome]) -> list[tuple[int, list[EncodedOutcome]]]:
    """Group outcomes by partition, in order. Groups are bounded, because others wait while one is settled."""
    partitions: dict[int, list[EncodedOutcome]] = {}
    for outcome in outcomes:
        partitions.setdefault(outcome.item.partition, []).append(outcome)
    return [(partition, part) for partition, group in sorted(partitions.items()) for part in _split_group(group)]


def _split_group(outcomes: Sequence[EncodedOutcome]) -> list[list[EncodedOutcome]]:
    parts: list[list[EncodedOutcome]] = []
    total = 0
    for outcome in outcomes:
        weight = len(outcome.discovered) + len(outcome.rows)
        total += weight
        if not parts or len(parts[-1]) == MAX_GROUP or total > MAX_DISCOVERED:
            parts.append([])
            total = weight
        parts[-1].append(outcome)
    return parts
