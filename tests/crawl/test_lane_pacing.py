"""The pace of hosts: what they asked for and how they answered, over the whole fleet and across restarts (INV-3)."""

from swath.core.clock import as_datetime
from swath.crawl.fact_batcher import FactBatcher
from swath.crawl.pacing import LanePacing
from swath.crawl.patient import Patient
from tests.bench import Bench, bench


def process(b: Bench, delay: float = 1.0) -> LanePacing:
    """A process of the crawl, which knows nothing at first."""
    frontier = Patient(b.frontier)
    return LanePacing(frontier, FactBatcher(frontier), delay=delay)


async def interval(b: Bench, lane: str = "host") -> float | None:
    found = await b.frontier.lane(lane)
    return None if found is None or "min_interval" not in found.overrides else found.min_interval


async def test_a_slow_host_is_left_alone_for_longer_and_a_fast_one_is_not() -> None:
    async with bench() as b:
        pacing = process(b)
        await pacing.load("host")
        await pacing.record_response("host", 0.1, failed=False)
        assert await interval(b) is None
        await pacing.record_response("host", 4.0, failed=False)
        assert await interval(b) == 20
        await pacing.record_response("host", 0.1, failed=False)
        assert await interval(b) == 1


async def test_another_process_knows_the_pace() -> None:
    """What was slow when a crawl was killed becomes fast again; what asked for a delay keeps it."""
    async with bench() as b:
        first = process(b)
        await first.load("host")
        for _ in range(3):
            await first.record_response("host", 0.1, failed=True)
        assert await interval(b) == 4
        second = process(b)
        await second.load("host")
        assert second.of("host").interval == 4
        second.of("host").crawl_delay = 10
        await second.record_response("host", 0.1, failed=False)
        assert await interval(b) == 10
        third = process(b)
        await third.load("host")
        third.of("host").crawl_delay = 10
        await third.record_response("host", 0.1, failed=False)
        assert await interval(b) == 10
        third.of("host").crawl_delay = None
        await third.record_response("host", 0.1, failed=False)
        assert await interval(b) == 1


async def test_a_little_more_that_is_asked_for_is_given() -> None:
    """By the host, and by whoever goes on with a crawl at a slower pace."""
    async with bench() as b:
        pacing = process(b)
        pacing.of("host").crawl_delay = 1.1
        await pacing.record_response("host", 0.1, failed=False)
        assert await interval(b) == 1.1
        await pacing.apply_crawl_delay("host", 1.2)
        assert await interval(b) == 1.2
        slower = process(b, delay=1.3)
        await slower.load("host")
        await slower.record_response("host", 0.1, failed=False)
        assert await interval(b) == 1.3


async def test_a_delay_that_was_heard_of_elsewhere_speeds_up_no_host() -> None:
    """One that fails is left alone as before, also by a process that did not meet it yet."""
    async with bench() as b:
        first = process(b)
        for _ in range(6):
            await first.record_response("host", 0.1, failed=True)
        assert await interval(b) == 16
        second = process(b)
        await second.apply_crawl_delay("host", 10)
        assert await interval(b) == 16
        await second.record_response("host", 0.1, failed=False)
        assert await interval(b) == 10
        await second.apply_crawl_delay("host", 20)
        assert await interval(b) == 20


async def test_a_shorter_block_does_not_end_a_longer_one() -> None:
    async with bench() as b:
        pacing = process(b)
        await pacing.block("host", 100)
        await pacing.block("host", 10)
        await process(b).block("host", 10)
        found = await b.frontier.lane("host")
        assert found is not None
        assert found.blocked_until == as_datetime(b.clock.now() + 100_000_000)
