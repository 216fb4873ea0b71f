"""InFlight: the claims and items of one process, from the claim to the settlement."""

import asyncio
from collections import Counter, deque

from swath.core.item import Item
from swath.core.leased_items import EncodedOutcome, LeasedItems
from swath.runner.execution import Execution
from swath.runner.poison import limit_by_losses


class ClaimState:
    """The state of one claim inside this process. `InFlight` changes it; other objects read it."""

    __slots__ = (
        "claimed_at",
        "commit_due",
        "commit_failed",
        "commit_queued",
        "executions",
        "expired",
        "leased",
        "lost",
        "outcomes",
        "pending_bytes",
        "queued",
        "sending",
        "timer",
    )

    def __init__(self, leased: LeasedItems, claimed_at: float) -> None:
        self.leased = leased
        self.claimed_at = claimed_at
        self.queued = len(leased.items)  # items that were not started
        self.executions: set[Execution] = set()
        self.outcomes: list[EncodedOutcome] = []  # outcomes that were not sent to the store yet
        self.pending_bytes = 0  # approximate size of `outcomes` and of the outcomes being sent
        self.sending = 0  # outcomes that are being sent to the store
        self.expired = False  # the lease ended without renewal, so no handler of this claim may run
        self.lost = False  # the store said that another worker has the items
        # Fields that the committer sets.
        self.commit_queued = False  # waiting for the committer, or being committed
        self.commit_due = False  # must be committed again when the present commit has ended
        self.commit_failed = False  # a commit failed and is not retried: its items stay claimed until the lease ends
        self.timer: asyncio.TimerHandle | None = None


class InFlight:
    """The claims of one process and their items. It owns all counters: other objects call its methods."""

    def __init__(self) -> None:
        self.claims: dict[LeasedItems, ClaimState] = {}  # not by fence: fences may repeat after a restore
        self.expired: set[ClaimState] = set()
        self.queue: deque[tuple[ClaimState, Item]] = deque()  # claimed, not started
        self.executions: dict[Execution, ClaimState] = {}  # in the order of their start
        self.unsettled = 0  # items that are finished and not settled
        self.pending_bytes = 0  # approximate size of the outcomes that are not settled
        self.lost = 0  # items of lost claims, so far
        self.changed = asyncio.Event()  # set when an item or a claim ended
        self._losses: Counter[int] = Counter()  # queued and running items that were lost before, by number of losses
        self._counts: dict[str, int] = {}

    @property
    def items(self) -> int:
        """The number of items that are claimed and not settled."""
        return len(self.executions) + len(self.queue) + self.unsettled

    def limit(self, max_attempts: int) -> int | None:
        """Return how many items may be in flight together with the present ones; None means unlimited."""
        return limit_by_losses(max(self._losses), max_attempts) if self._losses else None

    # Claimed items

    def add_claim(self, leased: LeasedItems, now: float) -> None:
        state = self.claims[leased] = ClaimState(leased, now)
        self.queue.extend((state, item) for item in leased.items)
        self._losses.update(item.losses for item in leased.items if item.losses)

    def pop_next(self) -> tuple[ClaimState, Item]:
        """Remove and return the item that has waited longest to be started."""
        state, item = self.queue.popleft()
        state.queued -= 1
        self._forget_losses(item)
        return state, item

    def pop_beyond(self, limit: int) -> list[tuple[ClaimState, Item]]:
        """Remove and return the queued items beyond a limit. Items with many losses stay in the queue."""
        ordered = sorted(self.queue, key=lambda entry: -entry[1].losses)
        self.queue = deque(ordered[:limit])
        for state, item in ordered[limit:]:
            state.queued -= 1
            self._forget_losses(item)
        return ordered[limit:]

    def pop_queued(self, state: ClaimState) -> list[Item]:
        """Remove and return the items of a claim that were not started."""
        items = [item for owner, item in self.queue if owner is state] if state.queued else []
        if items:
            self.queue = deque(entry for entry in self.queue if entry[0] is not state)
            state.queued = 0
        for item in items:
            self._forget_losses(item)
        return items

    def _forget_losses(self, item: Item) -> None:
        if item.losses:
            self._losses[item.losses] -= 1
            if not self._losses[item.losses]:
                del self._losses[item.losses]

    # Running items

    def start(self, state: ClaimState, execution: Execution) -> None:
        self.executions[execution] = state
        state.executions.add(execution)
        if execution.item.losses:
            self._losses[execution.item.losses] += 1

    def finish(self, execution: Execution) -> ClaimState | None:
        """Remove an execution and return its claim; None if the execution was abandoned before."""
        state = self.executions.pop(execution, None)
        if state is not None:
            state.executions.discard(execution)
            self._forget_losses(execution.item)
        return state

    def abandon_executions(self) -> list[Execution]:
        """Remove and return the executions that still run."""
        left = list(self.executions)
        self.executions.clear()
        self.changed.set()
        return left

    # Finished items

    def add_outcome(self, state: ClaimState, outcome: EncodedOutcome, size: int) -> None:
        state.outcomes.append(outcome)
        self.unsettled += 1
        self._set_pending_bytes(state, state.pending_bytes + size)

    def take_outcomes(self, state: ClaimState) -> list[EncodedOutcome]:
        """Remove and return the outcomes of a claim, which are about to be sent."""
        outcomes, state.outcomes = state.outcomes, []
        state.sending = len(outcomes)
        return outcomes

    def mark_settled(self, state: ClaimState, outcomes: int) -> None:
        """Note that some of the outcomes being sent are settled."""
        state.sending -= outcomes
        self.unsettled -= outcomes

    def end_sending(self, state: ClaimState, sent_bytes: int) -> None:
        """Note that no outcome of a claim is being sent any more, whether or not they were settled."""
        # If the claim was lost in the meantime, its other outcomes were dropped.
        self._set_pending_bytes(state, state.pending_bytes - sent_bytes if state.outcomes else 0)
        self.mark_settled(state, state.sending)  # the remaining outcomes could not be settled and are not retried

    def _set_pending_bytes(self, state: ClaimState, size: int) -> None:
        self.pending_bytes += size - state.pending_bytes
        state.pending_bytes = size

    # The end of a claim

    def expire(self, state: ClaimState) -> None:
        """Note that a lease ended without renewal."""
        state.expired = True
        self.expired.add(state)

    def lose(self, state: ClaimState) -> None:
        """Drop the queued items and outcomes of a claim that another worker has taken over. Running handlers stay."""
        state.lost = state.expired = True
        self.lost += state.leased.remaining
        self.mark_settled(state, state.sending)
        self.unsettled -= len(state.outcomes)
        state.outcomes.clear()
        if not state.commit_queued:  # otherwise `end_sending` does this
            self._set_pending_bytes(state, 0)
        self.pop_queued(state)

    def count_lost(self, state: ClaimState) -> None:
        """Count the unsettled items of a claim as lost."""
        self.lost += state.leased.remaining

    def retire(self, state: ClaimState) -> None:
        """Remove a claim if it has no items in flight."""
        active = state.queued or state.executions or state.outcomes or state.commit_queued or state.commit_failed
        if not active and state.leased in self.claims:
            del self.claims[state.leased]
            self.expired.discard(state)
            _add_counts(self._counts, state.leased.counts)

    def counts(self) -> dict[str, int]:
        """Return how many items were settled, by kind of outcome."""
        total = dict(self._counts)
        for state in self.claims.values():
            _add_counts(total, state.leased.counts)
        return total


def _add_counts(total: dict[str, int], more: dict[str, int]) -> None:
    for name, count in more.items():
        total[name] = total.get(name, 0) + count
