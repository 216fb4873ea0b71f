"""The pace of hosts: what they asked for and how they answered, over the whole fleet and across restarts (INV-3)."""

import pytest

from swath.crawl.lookup import Lookup
from swath.crawl.pace import Asked, Paces, prevailing
from swath.crawl.patient import Patient
from swath.crawl.rules import HOUR
from tests.bench import Bench, bench


def process(b: Bench, delay: float = 1.0) -> Paces:
    """A process of the crawl, which knows nothing at first."""
    frontier = Patient(b.frontier)
    return Paces(frontier, Lookup(frontier), delay=delay, clock=b.clock)


def asked(b: Bench, seconds: float, *, origin: str = "http://host", hours: int = 1) -> Asked:
    """By a robots.txt that holds for so long from now on."""
    return Asked(seconds, origin, b.clock.now() + hours * HOUR)


async def interval(b: Bench, lane: str = "host") -> float | None:
    found = await b.frontier.lane(lane)
    return None if found is None or found.limits.min_interval is None else found.limits.min_interval / 1e6


async def blocked_for(b: Bench, lane: str = "host") -> float:
    found = await b.frontier.lane(lane)
    assert found is not None
    return (found.limits.blocked_until - b.clock.now()) / 1e6


async def test_a_slow_host_is_left_alone_for_longer_and_a_fast_one_is_not() -> None:
    async with bench() as b:
        paces = process(b)
        await paces.meet("host")
        await paces.answered("host", 0.1, failed=False)
        assert await interval(b) is None
        await paces.answered("host", 4.0, failed=False)
        assert await interval(b) == 20
        await paces.answered("host", 0.1, failed=False)
        assert await interval(b) == 1


async def test_another_process_knows_the_pace() -> None:
    """What was slow when a crawl was killed becomes fast again; what asked for a delay keeps it."""
    async with bench() as b:
        first = process(b)
        await first.meet("host")
        for _ in range(3):
            await first.answered("host", 0.1, failed=True)
        assert await interval(b) == 4
        second = process(b)
        await second.meet("host")
        assert second.interval("host") == 4
        await second.hear("host", asked(b, 10))
        await second.answered("host", 0.1, failed=False)
        assert await interval(b) == 10
        third = process(b)
        await third.meet("host")
        await third.hear("host", asked(b, 10))
        await third.answered("host", 0.1, failed=False)
        assert await interval(b) == 10
        await third.hear("host", asked(b, 0, hours=2))
        await third.answered("host", 0.1, failed=False)
        assert await interval(b) == 1


async def test_a_delay_that_was_heard_of_elsewhere_speeds_up_no_host() -> None:
    """One that fails is left alone as before, also by a process that did not meet it yet."""
    async with bench() as b:
        first = process(b)
        for _ in range(6):
            await first.answered("host", 0.1, failed=True)
        assert await interval(b) == 16
        second = process(b)
        await second.hear("host", asked(b, 10))
        await second.heed("host")
        assert await interval(b) == 16
        await second.answered("host", 0.1, failed=False)
        assert await interval(b) == 10
        await second.hear("host", asked(b, 20, hours=2))
        await second.heed("host")
        assert await interval(b) == 20


@pytest.mark.parametrize(
    ("known", "other", "expected"),
    [
        (None, Asked(5, "a", 9), "other"),
        (None, Asked(5, "a", 1), "known"),
        (Asked(20, "a", 9), None, "known"),
        (Asked(20, "a", 9), Asked(5, "b", 8), "known"),
        (Asked(20, "a", 9), Asked(30, "b", 8), "other"),
        (Asked(20, "a", 9), Asked(20, "b", 10), "known"),  # two who ask for the same do not take turns
        (Asked(20, "a", 8), Asked(5, "a", 9), "other"),
        (Asked(5, "a", 9), Asked(20, "a", 8), "known"),
        (Asked(20, "a", 1), Asked(0, "b", 9), "other"),
        (Asked(20, "a", 1), Asked(30, "b", 1), "known"),
        (Asked(20, "a", 1), None, "known"),
    ],
)
def test_of_two_crawl_delays(known: Asked | None, other: Asked | None, expected: str) -> None:
    assert prevailing(known, other, now=5) == {"known": known, "other": other}[expected]


async def test_a_crawl_delay_ends_with_the_robots_that_asked_for_it() -> None:
    """For the others of its lane; a shorter one that holds takes its place."""
    async with bench() as b:
        first, second = process(b), process(b)
        await first.hear("lane", asked(b, 20, origin="a", hours=1))
        for paces in (first, second):
            await paces.meet("lane")
            await paces.answered("lane", 0.1, failed=False)
            assert await interval(b, "lane") == 20
        b.clock.advance(3_600)
        for paces in (first, second):
            await paces.hear("lane", asked(b, 5, origin="b"))
            await paces.answered("lane", 0.1, failed=False)
            assert await interval(b, "lane") == 5


async def test_what_asks_for_no_more_than_the_delay_is_nobodys_news() -> None:
    async with bench() as b:
        await process(b, delay=10).hear("lane", asked(b, 5))
        assert await b.frontier.facts(["crawl-delay lane"]) == {}
        await process(b, delay=1).hear("lane", asked(b, 5))
        assert list(await b.frontier.facts(["crawl-delay lane"])) == ["crawl-delay lane"]


async def test_a_shorter_block_does_not_end_a_longer_one() -> None:
    async with bench() as b:
        paces = process(b)
        await paces.block("host", 100)
        await paces.block("host", 10)
        assert await blocked_for(b) == 100


async def test_a_shorter_block_does_not_end_a_longer_one_of_another_process() -> None:
    async with bench() as b:
        first, second = process(b), process(b)
        await first.block("host", 100)
        b.clock.advance(10)
        for seconds in (10, 0):
            await second.block("host", seconds)
            assert await blocked_for(b) == pytest.approx(90, abs=1e-5)
        await second.block("host", 200)
        assert await blocked_for(b) == pytest.approx(200, abs=1e-5)
        b.clock.advance(1_000)
        await process(b).block("host", 5)
        assert await blocked_for(b) == 5
