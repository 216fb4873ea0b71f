"""Hand: what a process has in hand of the frontier, from claimed to settled."""

import asyncio
from collections import Counter, deque

from swath.core.item import Item
from swath.core.leased_items import EncodedOutcome, LeasedItems
from swath.runner.execution import Work
from swath.runner.poison import company_of


class Held:
    """A claim in hand: what of it waits, runs, and is yet to be settled."""

    __slots__ = (
        "ahead",
        "broken_off",
        "claim",
        "ended",
        "lost",
        "outcomes",
        "queued",
        "ripe",
        "sending",
        "since",
        "timer",
        "weight",
        "works",
    )

    def __init__(self, claim: LeasedItems, since: float) -> None:
        self.claim = claim
        self.since = since
        self.ahead = len(claim.items)
        self.works: set[Work] = set()
        self.outcomes: list[EncodedOutcome] = []
        self.weight = 0  # bytes of output, and of what was discovered, that wait to be settled
        self.sending = 0  # outcomes in a settlement under way
        self.broken_off = False  # a settlement failed for good: some of it stays claimed until the lease ends
        self.queued = False  # for a settler, or in its hands
        self.ripe = False  # to be settled again as soon as its settler is through
        self.timer: asyncio.TimerHandle | None = None
        self.ended = False  # the lease ran out and may be somebody else's by now: nothing of it may run
        self.lost = False  # the store said so


class Hand:
    """The claims in hand, and their items in the order in which they go on."""

    def __init__(self) -> None:
        self.claims: dict[LeasedItems, Held] = {}  # not by fence, which may come again after a restore (rule 4)
        self.ended: set[Held] = set()  # of those, whose lease ran out
        self.ahead: deque[tuple[Held, Item]] = deque()  # claimed, not started
        self.works: dict[Work, Held] = {}  # started, in that order
        self.unsettled = 0  # finished
        self.weight = 0  # of all claims
        self.lost = 0  # items, so far
        self.changed = asyncio.Event()  # something came to its end
        self._losses: Counter[int] = Counter()  # of what waits or runs and was lost before: how many, by how often
        self._tally: dict[str, int] = {}

    @property
    def items(self) -> int:
        """How many were claimed and are not settled yet."""
        return len(self.works) + len(self.ahead) + self.unsettled

    def take(self, claim: LeasedItems, now: float) -> None:
        held = self.claims[claim] = Held(claim, now)
        self.ahead.extend((held, item) for item in claim.items)
        self._losses.update(item.losses for item in claim.items if item.losses)

    def company(self, max_attempts: int) -> int | None:
        """How many items may be in hand with those that are; None: any number."""
        return company_of(max(self._losses), max_attempts) if self._losses else None

    def _let_go(self, item: Item) -> None:
        """An item neither waits nor runs any more."""
        if item.losses:
            self._losses[item.losses] -= 1
            if not self._losses[item.losses]:
                del self._losses[item.losses]

    def beyond(self, most: int) -> list[tuple[Held, Item]]:
        """Take out what was not started beyond so many items, those last that can afford the fewest losses."""
        ordered = sorted(self.ahead, key=lambda entry: -entry[1].losses)
        self.ahead = deque(ordered[:most])
        for held, item in ordered[most:]:
            held.ahead -= 1
            self._let_go(item)
        return ordered[most:]

    def next(self) -> tuple[Held, Item]:
        """The item that has waited longest to be started."""
        held, item = self.ahead.popleft()
        held.ahead -= 1
        self._let_go(item)
        return held, item

    def unstarted(self, held: Held) -> list[Item]:
        """Take out what of a claim has not been started."""
        items = [item for owner, item in self.ahead if owner is held] if held.ahead else []
        if items:
            self.ahead = deque(entry for entry in self.ahead if entry[0] is not held)
            held.ahead = 0
        for item in items:
            self._let_go(item)
        return items

    def start(self, held: Held, work: Work) -> None:
        self.works[work] = held
        held.works.add(work)
        if work.item.losses:
            self._losses[work.item.losses] += 1

    def finish(self, work: Work) -> Held | None:
        """The claim that a piece of work belonged to; None if it was given up before."""
        held = self.works.pop(work, None)
        if held is not None:
            held.works.discard(work)
            self._let_go(work.item)
        return held

    def weigh(self, held: Held, weight: int) -> None:
        """What of a claim waits to be settled weighs so much now."""
        self.weight += weight - held.weight
        held.weight = weight

    def retire(self, held: Held) -> None:
        """Be done with a claim of which nothing is left in hand."""
        left = held.ahead or held.works or held.outcomes or held.queued or held.broken_off
        if not left and held.claim in self.claims:
            del self.claims[held.claim]
            self.ended.discard(held)
            _add_up(self._tally, held.claim.counts)

    def tally(self) -> dict[str, int]:
        """How many items were settled how."""
        total = dict(self._tally)
        for held in self.claims.values():
            _add_up(total, held.claim.counts)
        return total


def _add_up(total: dict[str, int], more: dict[str, int]) -> None:
    for name, count in more.items():
        total[name] = total.get(name, 0) + count
