"""The runner holds what may have killed its worker in small company, and in none for the last chance."""

import asyncio
import timeit
from dataclasses import dataclass
from typing import cast

import pytest

from swath.core.item import Item, Outcome
from swath.core.leased_items import LeasedItems
from swath.frontier import Frontier
from swath.runner.dispatcher import ROOM_KEPT
from swath.runner.execution import Work
from swath.runner.in_flight import Hand
from swath.runner.poison import COMPANY, UNLIMITED, Caution, company
from tests.bench import Bench, LeaseTime, bench


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
def test_company(losses: list[int], most: int | None) -> None:
    assert company([Item("a", losses=count) for count in losses], 5) == most


def test_company_of_few_attempts() -> None:
    """A first loss is no suspicion, unless it leaves one chance only."""
    assert [company([Item("a", losses=1)], attempts) for attempts in (1, 2, 3, 4, 5)] == [1, *COMPANY, None]


def test_caution_is_lost_slowly() -> None:
    caution = Caution()
    caution.met(None)
    assert caution.most == UNLIMITED
    caution.met(1)
    for most in (2, 4, 8):
        caution.met(None)
        assert caution.most == most


@dataclass(eq=False)
class Items:
    """As much of a claim as a hand wants to know."""

    items: list[Item]


def test_who_is_in_hand_is_known_without_a_look_at_each() -> None:
    def seconds(items: int) -> float:
        hand = Hand()
        hand.take(cast(LeasedItems, Items([Item(f"k{n}", losses=1) for n in range(items)])), 0.0)
        return min(timeit.repeat(lambda: hand.company(5), number=100, repeat=5))

    assert seconds(20_000) < 20 * seconds(20)


def test_a_hand_knows_the_worst_of_what_it_holds() -> None:
    hand = Hand()
    claims = [cast(LeasedItems, Items([Item("a"), Item("b", losses=losses)])) for losses in (1, 2, 3, 4)]
    for claim in claims:
        hand.take(claim, 0.0)
    assert hand.company(5) == 1
    assert len(hand.unstarted(hand.claims[claims[3]])) == 2
    assert hand.company(5) == 8
    works = []
    while hand.ahead:
        held, item = hand.next()
        works.append(Work(held.claim, item, 0.0))
        hand.start(held, works[-1])
        assert hand.company(5) == 8, "what runs is in hand"
    expected = [8, 8, 8, 8, 8, None]
    for work, most in zip(works, expected, strict=True):
        hand.finish(work)
        assert hand.company(5) == most


async def lose(b: Bench, times: int) -> None:
    """Somebody claims everything and is lost, so many times."""
    for _ in range(times):
        claim = await Frontier(b.store).claim(1_000, lease=1)
        assert claim is not None
        b.clock.advance(2)


@pytest.mark.parametrize(("losses", "most"), [(1, 100), (2, 64), (3, 8), (4, 1)])
async def test_in_hand_together(losses: int, most: int) -> None:
    """With at most so many others, whether they run, wait to be started or to be settled."""
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
                lease_time.advance(1 + ROOM_KEPT)

        summary = await b.frontier.run(handler, workers=4, lease=3_600, until="idle")
        assert await b.state("suspect") == "ready", "it was given back, with what was claimed beside it"
        assert summary.done > 20
    assert max(beside[:10]) == 1
    assert max(beside[10:]) > 1
