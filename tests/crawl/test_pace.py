"""The pace of hosts: what they asked for and how they answered, over the whole fleet and across restarts (INV-3)."""

from swath.crawl.fact_batcher import Lookup
from swath.crawl.pace import Paces
from swath.crawl.patient import Patient
from tests.bench import Bench, bench


def process(b: Bench, delay: float = 1.0) -> Paces:
    """A process of the crawl, which knows nothing at first."""
    frontier = Patient(b.frontier)
    return Paces(frontier, Lookup(frontier), delay=delay)


async def interval(b: Bench, lane: str = "host") -> float | None:
    found = await b.frontier.lane(lane)
    return None if found is None or found.limits.min_interval is None else found.limits.min_interval / 1e6


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
        second.of("host").crawl_delay = 10
        await second.answered("host", 0.1, failed=False)
        assert await interval(b) == 10
        third = process(b)
        await third.meet("host")
        third.of("host").crawl_delay = 10
        await third.answered("host", 0.1, failed=False)
        assert await interval(b) == 10
        third.of("host").crawl_delay = None
        await third.answered("host", 0.1, failed=False)
        assert await interval(b) == 1


async def test_a_little_more_that_is_asked_for_is_given() -> None:
    """By the host, and by whoever goes on with a crawl at a slower pace."""
    async with bench() as b:
        paces = process(b)
        paces.of("host").crawl_delay = 1.1
        await paces.answered("host", 0.1, failed=False)
        assert await interval(b) == 1.1
        await paces.heed("host", 1.2)
        assert await interval(b) == 1.2
        slower = process(b, delay=1.3)
        await slower.meet("host")
        await slower.answered("host", 0.1, failed=False)
        assert await interval(b) == 1.3


async def test_a_delay_that_was_heard_of_elsewhere_speeds_up_no_host() -> None:
    """One that fails is left alone as before, also by a process that did not meet it yet."""
    async with bench() as b:
        first = process(b)
        for _ in range(6):
            await first.answered("host", 0.1, failed=True)
        assert await interval(b) == 16
        second = process(b)
        await second.heed("host", 10)
        assert await interval(b) == 16
        await second.answered("host", 0.1, failed=False)
        assert await interval(b) == 10
        await second.heed("host", 20)
        assert await interval(b) == 20


async def test_a_shorter_block_does_not_end_a_longer_one() -> None:
    async with bench() as b:
        paces = process(b)
        await paces.block("host", 100)
        await paces.block("host", 10)
        await process(b).block("host", 10)
        found = await b.frontier.lane("host")
        assert found is not None
        assert found.limits.blocked_until == b.clock.now() + 100_000_000
