"""The runner holds what may have killed its worker in small company, and in none for the last chance."""

import asyncio

import pytest

from swath.core.frontier import Frontier
from swath.core.item import Item
from swath.core.suspects import COMPANY, UNLIMITED, Caution, company
from tests.bench import Bench, bench


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
