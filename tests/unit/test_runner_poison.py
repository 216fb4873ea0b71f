"""Poison items: the runner keeps few items in flight with a suspect, and none before its last loss."""

import asyncio
import timeit
from dataclasses import dataclass
from typing import cast

import pytest

from swath.core.item import Item, Outcome
from swath.core.leased_items import LeasedItems
from swath.frontier import Frontier
from swath.runner.dispatcher import SUSPECT_WINDOW
from swath.runner.execution import Execution
from swath.runner.in_flight import InFlight
from swath.runner.poison import LIMITS, UNLIMITED, ClaimLimit, limit_in_flight
from tests.bench import Bench, LeaseTime, bench
from tests.recorder import PATIENCE


@pytest.mark.parametrize(
    ("losses", "most"),
    [
        ([], None),
        ([0, 0], None),
        ([1], None),
        ([2, 0], 64),
        ([2, 3], 8),
        ([4, 0, 1], 1),
        ([9], 1),
    ],
)
def test_fewer_losses_left_allow_fewer_items_in_flight(losses: list[int], most: int | None) -> None:
    assert limit_in_flight([Item("a", losses=count) for count in losses], 5) == most


def test_with_few_attempts_the_first_loss_counts() -> None:
    """With five attempts, an item may be lost once without becoming a suspect."""
    assert [limit_in_flight([Item("a", losses=1)], attempts) for attempts in (1, 2, 3, 4, 5)] == [1, *LIMITS, None]


def test_claims_grow_slowly_after_a_suspect() -> None:
    limit = ClaimLimit()
    limit.adjust(None)
    assert limit.items == UNLIMITED
    limit.adjust(1)
    for most in (2, 4, 8):
        limit.adjust(None)
        assert limit.items == most


@dataclass(eq=False)
class Items:
    """The part of a claim that InFlight reads."""

    items: list[Item]


def test_the_limit_is_known_without_looking_at_each_item() -> None:
    def seconds(items: int) -> float:
        in_flight = InFlight()
        in_flight.add_claim(cast(LeasedItems, Items([Item(f"k{n}", losses=1) for n in range(items)])), 0.0)
        return min(timeit.repeat(lambda: in_flight.limit(5), number=100, repeat=5))

    assert seconds(20_000) < 20 * seconds(20)


def test_the_item_with_most_losses_sets_the_limit() -> None:
    in_flight = InFlight()
    claims = [cast(LeasedItems, Items([Item("a"), Item("b", losses=losses)])) for losses in (1, 2, 3, 4)]
    for claim in claims:
        in_flight.add_claim(claim, 0.0)
    assert in_flight.limit(5) == 1
    assert len(in_flight.pop_queued(in_flight.claims[claims[3]])) == 2
    assert in_flight.limit(5) == 8
    executions = []
    while in_flight.queue:
        state, item = in_flight.pop_next()
        executions.append(Execution(state.leased, item, 0.0))
        in_flight.start(state, executions[-1])
        assert in_flight.limit(5) == 8, "running items count"
    expected = [8, 8, 8, 8, 8, None]
    for execution, most in zip(executions, expected, strict=True):
        in_flight.finish(execution)
        assert in_flight.limit(5) == most


async def lose(b: Bench, times: int) -> None:
    """Claim all items and lose the worker, this many times."""
    for _ in range(times):
        claim = await Frontier(b.store).claim(1_000, lease=1)
        assert claim is not None
        b.clock.advance(2)


@pytest.mark.parametrize(("losses", "most"), [(1, 100), (2, 64), (3, 8), (4, 1)])
async def test_in_hand_together(losses: int, most: int) -> None:
    """The limit counts other items that run, wait to be started or wait to be settled."""
    async with bench() as b:
        await b.frontier.add(f"k{n}" for n in range(150))
        await lose(b, losses)
        held: list[int] = []

        async def handler(item: Item) -> None:
            held.append((await b.frontier.status()).claimed)
            await asyncio.sleep(0)

        summary = await b.frontier.run(handler, workers=100)
        assert (summary.done, summary.died) == (150, 0)
        assert max(held) <= (most if most < 100 else 150)
        if most == 100:
            assert max(held) >= 100


async def test_what_is_clean_does_not_join_a_last_chance() -> None:
    async with bench() as b:
        await b.frontier.add("suspect")
        await lose(b, 4)
        await b.frontier.add(f"k{n}" for n in range(50))
        beside: dict[str, int] = {}

        async def handler(item: Item) -> None:
            beside[item.key] = (await b.frontier.status()).claimed
            await asyncio.sleep(0)

        summary = await b.frontier.run(handler, workers=20)
        assert summary.done == 51
        assert beside["suspect"] == 1
        assert max(beside.values()) > 10


async def test_a_last_chance_comes_also_where_starts_are_paced() -> None:
    """What has to start at once cannot wait here until the others are through: they are held back until it is there."""
    async with bench() as b:
        await b.frontier.add(Item("suspect", lane="suspect"))
        await lose(b, 4)
        await b.frontier.configure(min_interval=1)
        await b.frontier.add(Item(f"0/{n}", lane=f"0/{n}") for n in range(8))
        order: list[str] = []
        beside: dict[str, int] = {}

        async def handler(item: Item) -> Outcome:
            order.append(item.key)
            beside[item.key] = (await b.frontier.status()).claimed
            b.clock.advance(0.1)
            await asyncio.sleep(0.001)
            round_, _, number = item.key.partition("/")
            following = f"{int(round_) + 1}/{number}" if number and int(round_) < 25 else None
            return item.done(discovered=[Item(following, lane=following)] if following else [])

        summary = await b.frontier.run(handler, workers=4, until="idle")
        assert summary.released < 10
        assert "suspect" in order[:100]
        assert beside["suspect"] == 1
        assert summary.done == 209
        assert max(beside.values()) >= 4


async def test_others_are_not_held_back_for_all_of_a_long_interval() -> None:
    """Only towards its end, when the suspect comes again."""
    async with bench() as b:
        await b.frontier.add(Item("suspect", lane="suspect"))
        await lose(b, 4)
        await b.frontier.configure(min_interval=3_600)
        assert await b.frontier.claim() is None, "it is taken back, and its interval runs from now"
        await b.frontier.add(Item(f"{n}", lane=f"{n}", priority=1) for n in range(300))
        b.clock.advance(3_601)
        running: set[str] = set()
        most = 0

        async def handler(item: Item) -> None:
            nonlocal most
            running.add(item.key)
            most = max(most, len(running))
            await asyncio.sleep(0.001)
            running.discard(item.key)

        await b.frontier.run(handler, workers=50, until="idle")
        assert await b.state("suspect") == "ready", "it was given back, with what was claimed beside it"
        assert most > 10


async def test_others_are_not_held_back_for_a_suspect_that_does_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else may have it by now, or its lane is paused."""
    lease_time = LeaseTime()
    monkeypatch.setattr("swath.core.clock.time", lease_time)
    async with bench() as b:
        await b.frontier.add(Item("suspect", lane="suspect"))
        await lose(b, 4)
        await b.frontier.configure(min_interval=1)
        assert await b.frontier.claim() is None, "it is taken back, and its interval runs from now"
        await b.frontier.add(Item(f"{n}", lane=f"{n}", priority=1) for n in range(60))
        b.clock.advance(2)
        running: set[str] = set()
        beside: list[int] = []

        async def handler(item: Item) -> None:
            await b.frontier.pause("suspect")
            running.add(item.key)
            await asyncio.sleep(0.001)
            beside.append(len(running))
            running.discard(item.key)
            if len(beside) == 10:
                lease_time.advance(1 + SUSPECT_WINDOW)

        summary = await b.frontier.run(handler, workers=4, lease=3_600, until="idle")
        assert await b.state("suspect") == "ready", "it was given back, with what was claimed beside it"
        assert summary.done > 20
    assert max(beside[:10]) == 1
    assert max(beside[10:]) > 1


async def test_others_join_a_long_item_when_a_suspect_does_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing ends then that would wake the run: it looks again by itself."""
    lease_time = LeaseTime()
    monkeypatch.setattr("swath.core.clock.time", lease_time)
    async with bench() as b:
        await b.frontier.add(Item("suspect", lane="suspect"))
        await lose(b, 4)
        await b.frontier.configure(min_interval=1)
        assert await b.frontier.claim() is None, "it is taken back, and its interval runs from now"
        await b.frontier.add(Item(f"{n}", lane=f"{n}", priority=1) for n in range(60))
        b.clock.advance(2)
        started: list[str] = []
        joined = asyncio.Event()

        async def handler(item: Item) -> None:
            await b.frontier.pause("suspect")
            started.append(item.key)
            if len(started) == 3:
                await asyncio.sleep(0.001)
                assert len(started) == 3, "others are held back"
                lease_time.advance(1 + SUSPECT_WINDOW)
                async with asyncio.timeout(PATIENCE):
                    await joined.wait()
            elif len(started) > 3:
                joined.set()

        summary = await b.frontier.run(handler, workers=4, lease=3_600, until="idle")
        assert summary.retried == 0, summary.errors
    assert joined.is_set()
