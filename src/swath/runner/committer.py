"""Settler: collects outcomes and commits them in groups, each of one claim and partition."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from swath.core import events
from swath.core.errors import LeaseLost, UsageError
from swath.core.item import Item
from swath.core.leased_items import EncodedOutcome
from swath.core.store import MoveKind, OutputMove
from swath.runner.execution import described
from swath.runner.in_flight import Hand, Held
from swath.runner.output import Output
from swath.runner.store_retry import Outage

MAX_GROUP = 500  # outcomes in one settlement
MAX_DISCOVERED = 10_000  # items that they discovered, unless one outcome alone has more
GROUP_COUNT = 100  # so many outcomes of a claim are settled without waiting for more
GROUP_SECONDS = 0.02  # and fewer after this
AT_ONCE = 4  # settlements under way; while all are busy, groups grow
MAX_OUTPUT = 64_000_000  # bytes that may wait to be settled, of output and discoveries, before no more work is started
DISCOVERED_BYTES = 640  # that an item which was discovered counts for there


class Settler:
    """Settles what is finished: soon, and as much at once as there is."""

    def __init__(
        self,
        hand: Hand,
        outage: Outage,
        output: Output | None,
        *,
        committed: Callable[[], Awaitable[Mapping[str, int]]],
        emit: Callable[[events.Event], None],
        settled: Callable[[], None],
        lost: Callable[[Held, LeaseLost], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._hand = hand
        self._outage = outage
        self._output = output
        self._committed = committed
        self._emit = emit
        self._settled = settled
        self._lost = lost
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._ripe: deque[Held] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._torn = False  # files hold something beyond what is committed, which must not be committed with the next

    def collect(self, held: Held, outcome: EncodedOutcome) -> None:
        """Settle an outcome with others of its claim: when there are enough, or after a moment, or when there is
        nothing to wait for."""
        if held.lost:
            self._hand.retire(held)
            return
        weight = 0
        if self._output is not None and outcome.output is not None:
            try:
                weight += self._output.size(outcome.output)
            except Exception as error:  # noqa: BLE001  an entry that the output cannot take is the handler's failure
                outcome = self._retry(held, outcome, error)
        weight += DISCOVERED_BYTES * len(outcome.discovered)
        self._hand.weigh(held, held.weight + weight)
        held.outcomes.append(outcome)
        self._hand.unsettled += 1
        if not self._hand.works and not self._hand.ahead:
            self.flush()
        elif len(held.outcomes) >= GROUP_COUNT or not (held.works or held.ahead):
            self._ripen(held)
        elif held.timer is None:
            held.timer = self._loop.call_later(GROUP_SECONDS, self._ripen, held)

    def release(self, held: Held, item: Item) -> None:
        """Give back an item that was never started."""
        self.collect(held, held.claim.encode(item.release(started=False)))

    def flush(self) -> None:
        """Settle all that is finished without waiting for more."""
        for held in list(self._hand.claims.values()):
            if held.outcomes:
                self._ripen(held)

    def drop(self) -> None:
        """Leave the rest as it is."""
        self._ripe.clear()
        for held in self._hand.claims.values():
            if held.timer is not None:
                held.timer.cancel()
        for task in self._tasks:
            task.cancel()

    def _ripen(self, held: Held) -> None:
        if held.timer is not None:
            held.timer.cancel()
            held.timer = None
        held.ripe = True
        if not held.queued:
            held.queued = True
            self._ripe.append(held)
            self._pump()

    def _pump(self) -> None:
        while self._ripe and len(self._tasks) < (AT_ONCE if self._output is None else 1):
            batch = [self._ripe.popleft()]
            if self._output is not None:  # the files have one end, where one batch is written at a time
                batch += self._ripe
                self._ripe.clear()
            task = self._loop.create_task(self._settle(batch))
            self._tasks.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            if (error := task.exception()) is not None:
                self._failed(error)
            self._pump()

    async def _settle(self, batch: Sequence[Held]) -> None:
        """Settle all that is finished of some claims."""
        weights = [held.weight for held in batch]
        groups = [group for held in batch for group in _taken(held)]
        try:
            if self._output is None:
                for group in groups:
                    if not group.held.lost:
                        await self._commit(group)
            else:
                await self._record(self._output, groups)
        except Exception:
            for held in batch:
                held.broken_off = True
            raise
        finally:
            for held, weight in zip(batch, weights, strict=True):
                # Nothing is left of it where the claim was lost meanwhile.
                self._hand.weigh(held, held.weight - weight if held.outcomes else 0)
                self._hand.unsettled -= held.sending  # not 0 where it was broken off: nobody waits for these any more
                held.sending = 0
                held.queued = False  # what else is in hand of it is still given back
        for held in batch:
            if held.ripe and held.outcomes:
                self._ripen(held)
            self._hand.retire(held)
        self._settled()

    async def _commit(self, group: "_Group") -> None:
        try:
            await self._send(group)
        except UsageError as error:
            for part in self._apart(group, error):
                await self._commit(part)

    async def _record(self, output: Output, groups: Sequence["_Group"]) -> None:
        """Commit groups with what they wrote (INV-5, rule 6): first written, then settled with the lengths, in order.
        Where one is refused, the files are cut to what the store holds and the others are written again. Where that
        fails, nothing is written any more, and what was to be is given back."""
        while groups and not self._torn:
            entries = [[outcome.output for outcome in group.outcomes if outcome.output is not None] for group in groups]
            self._torn = True
            try:
                moves = await asyncio.to_thread(output.write, entries)
            except Exception as error:  # noqa: BLE001  a full disk, or whatever else: the run ends with it
                self._failed(error)
                break
            rest = await self._send_in_order(groups, moves)
            if rest is None:
                output.keep()
                self._torn = False
                return
            groups = rest
            committed = await self._outage.outlast("outputs", self._committed)
            try:
                await asyncio.to_thread(output.restore, committed)
            except Exception as error:  # noqa: BLE001  as above
                self._failed(error)
                break
            self._torn = False
            groups = [group for group in groups if not group.held.lost]
        for group in groups:
            if not group.held.lost:
                await self._commit(_unwritten(group))

    async def _send_in_order(
        self, groups: Sequence["_Group"], moves: Sequence[Sequence[OutputMove]]
    ) -> "Sequence[_Group] | None":
        """Settle groups until one is refused; return what is to be written again, None if all went through."""
        for number, (group, grown) in enumerate(zip(groups, moves, strict=True)):
            try:
                if not await self._send(group, grown):
                    return groups[number + 1 :]
            except UsageError as error:
                return [*self._apart(group, error), *groups[number + 1 :]]
        return None

    async def _send(self, group: "_Group", outputs: Sequence[OutputMove] = ()) -> bool:
        """Commit a group; whether it was still ours to settle."""
        held = group.held
        try:
            await self._outage.outlast(
                "settle", lambda: held.claim.commit(group.partition, group.outcomes, outputs=outputs)
            )
        except LeaseLost as lost:
            self._lost(held, lost)
        if held.lost:  # perhaps in the meantime, and all is counted
            return False
        held.sending -= len(group.outcomes)
        self._hand.unsettled -= len(group.outcomes)
        return True

    def _apart(self, group: "_Group", error: UsageError) -> list["_Group"]:
        """One of these outcomes is refused by the store itself: it alone is retried, the others go through."""
        if len(group.outcomes) > 1:
            return [group._replace(outcomes=[outcome]) for outcome in group.outcomes]
        refused = group.outcomes[0]
        if refused.count_if_settled is not None:
            refused.count_if_settled()  # it was settled by its transaction
            return []
        if refused.move.kind is MoveKind.RETRY:
            raise error
        return [group._replace(outcomes=[self._retry(group.held, refused, error)])]

    def _retry(self, held: Held, refused: EncodedOutcome, error: Exception) -> EncodedOutcome:
        reason = described(error)
        self._emit(events.HandlerFailed(refused.item.key, reason, None))
        return held.claim.encode(refused.item.retry(reason=reason))


class _Group(NamedTuple):
    """Outcomes that are settled together: of one claim and one partition."""

    held: Held
    partition: int
    outcomes: Sequence[EncodedOutcome]


def _unwritten(group: _Group) -> _Group:
    """What is settled of a group where nothing can be written: items that have an output are given back."""
    claim = group.held.claim
    outcomes = [
        outcome if outcome.output is None else claim.encode(outcome.item.release()) for outcome in group.outcomes
    ]
    return group._replace(outcomes=outcomes)


def _taken(held: Held) -> list[_Group]:
    """Take what is finished of a claim, to be sent."""
    held.ripe = False
    outcomes, held.outcomes = held.outcomes, []
    held.sending = len(outcomes)
    return [_Group(held, partition, group) for partition, group in _grouped(outcomes)]


def _grouped(outcomes: Iterable[EncodedOutcome]) -> list[tuple[int, list[EncodedOutcome]]]:
    """By partition, in order, and not too many at once: others wait as long as one settlement takes."""
    partitions: dict[int, list[EncodedOutcome]] = {}
    for outcome in outcomes:
        partitions.setdefault(outcome.item.partition, []).append(outcome)
    return [(partition, part) for partition, group in sorted(partitions.items()) for part in _parts(group)]


def _parts(outcomes: Sequence[EncodedOutcome]) -> list[list[EncodedOutcome]]:
    parts: list[list[EncodedOutcome]] = []
    discovered = 0
    for outcome in outcomes:
        discovered += len(outcome.discovered)
        if not parts or len(parts[-1]) == MAX_GROUP or discovered > MAX_DISCOVERED:
            parts.append([])
            discovered = len(outcome.discovered)
        parts[-1].append(outcome)
    return parts
