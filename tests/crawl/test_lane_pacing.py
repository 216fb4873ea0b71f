"""The pace of hosts, shared by all processes and kept across restarts (INV-3)."""

from swath.core.clock import as_datetime
from swath.crawl.fact_batcher import FactBatcher
from swath.crawl.pacing import LanePacing
from tests.bench import Bench, bench


def process(b: Bench, delay: float = 1.0) -> LanePacing:
    """Return the pacing of a new process."""
    return LanePacing(b.frontier, FactBatcher(b.frontier), delay=delay)


async def interval(b: Bench, lane: str = "host") -> float | None:
    found = await b.frontier.lane(lane)
    return None if found is None or "min_interval" not in found.overrides else found.min_interval


async def test_a_slow_host_gets_a_longer_interval() -> None:
    async with bench() as b:
        pacing = process(b)
        await pacing.load("host")
        await pacing.record_response("host", 0.1, failed=False)
        assert await interval(b) is None
        await pacing.record_response("host", 4.0, failed=False)
        assert await interval(b) == 20
        await pacing.record_response("host", 0.1, failed=False)
        assert await interval(b) == 1


async def test_another_process_uses_the_same_pace() -> None:
    """A host that was slow when the crawl was killed speeds up again; a host with a Crawl-delay keeps it."""
    async with bench() as b:
        first = process(b)
        await first.load("host")
        for _ in range(3):
            await first.record_response("host", 0.1, failed=True)
        assert await interval(b) == 4
        second = process(b)
        await second.load("host")
        assert second.get("host").interval == 4
        second.get("host").crawl_delay = 10
        await second.record_response("host", 0.1, failed=False)
        assert await interval(b) == 10
        third = process(b)
        await third.load("host")
        third.get("host").crawl_delay = 10
        await third.record_response("host", 0.1, failed=False)
        assert await interval(b) == 10
        third.get("host").crawl_delay = None
        await third.record_response("host", 0.1, failed=False)
        assert await interval(b) == 1


async def test_a_slightly_longer_required_interval_is_applied() -> None:
    """Whether the host asks for it or the crawl is resumed with a longer --delay."""
    async with bench() as b:
        pacing = process(b)
        pacing.get("host").crawl_delay = 1.1
        await pacing.record_response("host", 0.1, failed=False)
        assert await interval(b) == 1.1
        await pacing.apply_crawl_delay("host", 1.2)
        assert await interval(b) == 1.2
        slower = process(b, delay=1.3)
        await slower.load("host")
        await slower.record_response("host", 0.1, failed=False)
        assert await interval(b) == 1.3


async def test_a_crawl_delay_from_another_host_never_speeds_up() -> None:
    """A failing host keeps its longer interval, also in a process that has not visited it."""
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
