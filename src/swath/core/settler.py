"""Settler: collects outcomes and commits them in groups, each of one claim and partition."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable

from swath.core import events
from swath.core.claim import Encoded
from swath.core.errors import LeaseLost, UsageError
from swath.core.hand import Hand, Held
from swath.core.item import Item
from swath.core.outage import Outage

MAX_GROUP = 500  # outcomes in one settlement
GROUP_COUNT = 100  # so many outcomes of a claim are settled without waiting for more
GROUP_SECONDS = 0.02  # and fewer after this
AT_ONCE = 4  # settlements under way; while all are busy, groups grow


class Settler:
    """Settles what is finished: soon, and as much at once as there is."""

    def __init__(
        self,
        hand: Hand,
        outage: Outage,
        *,
        emit: Callable[[events.Event], None],
        settled: Callable[[], None],
        lost: Callable[[Held, LeaseLost], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._hand = hand
        self._outage = outage
        self._emit = emit
        self._settled = settled
        self._lost = lost
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._ripe: deque[Held] = deque()
        self._tasks: set[asyncio.Task[None]] = set()

    def collect(self, held: Held, outcome: Encoded) -> None:
        """Settle an outcome with others of its claim: when there are enough, or after a moment, or when there is
        nothing to wait for."""
        if held.lost:
            self._hand.retire(held)
            return
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
        while self._ripe and len(self._tasks) < AT_ONCE:
            task = self._loop.create_task(self._settle(self._ripe.popleft()))
            self._tasks.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            if (error := task.exception()) is not None:
                self._failed(error)
            self._pump()

    async def _settle(self, held: Held) -> None:
        held.ripe = False
        outcomes, held.outcomes = held.outcomes, []
        held.sending = len(outcomes)
        try:
            for partition, group in _grouped(outcomes):
                await self._commit(held, partition, group)
                if held.lost:  # in the meantime, and all is counted
                    break
                held.sending -= len(group)
                self._hand.unsettled -= len(group)
        except LeaseLost as lost:
            self._lost(held, lost)
        finally:
            self._hand.unsettled -= held.sending  # not 0 where it was broken off: nobody waits for these any more
            held.sending = 0
        held.queued = False
        if held.ripe and held.outcomes:
            self._ripen(held)
        self._hand.retire(held)
        self._settled()

    async def _commit(self, held: Held, partition: int, group: list[Encoded]) -> None:
        try:
            await self._outage.outlast("settle", lambda: held.claim.commit(partition, group))
        except UsageError as error:
            # One of them is refused by the store itself: it alone is retried, the others go through.
            if len(group) > 1:
                for outcome in group:
                    await self._commit(held, partition, [outcome])
                return
            reason = f"{type(error).__name__}: {error}"
            self._emit(events.HandlerFailed(group[0].item.key, reason, None))
            retry = held.claim.encode(group[0].item.retry(reason=reason))
            await self._outage.outlast("settle", lambda: held.claim.commit(partition, [retry]))


def _grouped(outcomes: Iterable[Encoded]) -> list[tuple[int, list[Encoded]]]:
    """By partition, in order, and not too many at once."""
    partitions: dict[int, list[Encoded]] = {}
    for outcome in outcomes:
        partitions.setdefault(outcome.item.partition, []).append(outcome)
    return [
        (partition, group[start : start + MAX_GROUP])
        for partition, group in sorted(partitions.items())
        for start in range(0, len(group), MAX_GROUP)
    ]
