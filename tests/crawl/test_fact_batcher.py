"""Facts that many pages read and write at once, also during outages."""

import asyncio

import pytest

from swath.core.errors import UsageError
from swath.crawl import fact_batcher
from swath.crawl.fact_batcher import FactBatcher
from swath.crawl.pacing import LanePacing
from swath.runner import store_retry
from tests.bench import bench


async def test_many_reads_become_one_transaction() -> None:
    async with bench() as b:
        await b.frontier.learn({f"key {n}": n for n in range(50)})
        asked = FactBatcher(b.frontier)
        answers = await asyncio.gather(*(asked.get(f"key {n % 100}") for n in range(300)))
        assert answers == [n % 100 if n % 100 < 50 else None for n in range(300)]
        assert b.faults.calls["facts"] == 1


async def test_a_full_batch_is_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fact_batcher, "MAX_BATCH", 10)
    async with bench() as b:
        asked = FactBatcher(b.frontier)
        assert await asyncio.gather(*(asked.get(f"key {n}") for n in range(25))) == [None] * 25
        assert b.faults.calls["facts"] == 3


async def test_a_cancelled_reader_does_not_affect_the_others() -> None:
    async with bench() as b:
        await b.frontier.learn({"key": "known"})
        asked = FactBatcher(b.frontier)
        leaves, stays = (asyncio.create_task(asked.get("key")) for _ in range(2))
        await asyncio.sleep(0)
        leaves.cancel()
        assert await stays == "known"


async def test_calls_are_retried_during_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_retry, "FIRST_PAUSE", 0.001)
    async with bench() as b:
        await b.frontier.learn({"key": "known"})
        b.faults.fail("facts", "learn", "change_lane")
        facts = FactBatcher(b.frontier)
        pacing = LanePacing(b.frontier, facts, delay=1.0)
        calls = [
            asyncio.create_task(facts.get("key")),
            asyncio.create_task(facts.learn({"other": 1})),
            asyncio.create_task(pacing.record_response("slow", 5.0, failed=False)),
            asyncio.create_task(pacing.block("lane", 5.0)),
        ]
        for move, count in {"facts": 3, "learn": 3, "change_lane": 6}.items():  # two of the calls change a lane
            await b.faults.saw(move, count)
        assert not any(task.done() for task in calls)
        b.faults.come_back()
        assert (await asyncio.gather(*calls))[0] == "known"
        assert await b.frontier.facts(["other"]) == {"other": 1}


async def test_many_writes_become_one_transaction() -> None:
    async with bench() as b:
        told = FactBatcher(b.frontier)
        await asyncio.gather(*(told.learn({f"key {n}": n}) for n in range(100)))
        assert b.faults.calls["learn"] == 1
        assert await b.frontier.facts(["key 99"]) == {"key 99": 99}
        await told.learn({"key 99": "another"})
        assert await b.frontier.facts(["key 99"]) == {"key 99": "another"}


async def test_everybody_who_waits_gets_the_error_of_a_read() -> None:
    async with bench() as b:
        facts = FactBatcher(b.frontier)
        b.faults.fail("facts", error=UsageError)
        errors = await asyncio.gather(*map(facts.get, ["a", "a", "b"]), return_exceptions=True)
        assert [type(error) for error in errors] == [UsageError] * 3
        b.faults.come_back()
        assert await facts.get("a") is None, "the next read works"


async def test_everybody_who_waits_gets_the_error_of_a_write() -> None:
    async with bench() as b:
        facts = FactBatcher(b.frontier)
        writes = [facts.learn({"a": 1}), facts.learn({"b": object()})]
        errors = await asyncio.gather(*writes, return_exceptions=True)
        assert [isinstance(error, UsageError) for error in errors] == [True] * 2
        await facts.learn({"a": 1})
        assert await facts.get("a") == 1
