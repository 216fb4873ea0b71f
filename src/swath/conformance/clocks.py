"""Clocks that step back: work waits, and no time or position moves back (INV-3)."""

import pytest

from swath.conformance.trial import Conformance, Start, done, retry
from swath.core.errors import LeaseLost
from swath.core.store import ClockReading


class Clocks(Conformance):
    async def test_read_clock_returns_the_time(self, start: Start) -> None:
        trial = await start()
        for _ in range(2):
            assert await trial.store.read_clock() == ClockReading(trial.clock.now(), trial.clock.now())
            trial.clock.advance(10)

    async def test_claim_waits_when_the_clock_steps_back(self, start: Start) -> None:
        trial = await start(min_interval=10, concurrency=1)
        await trial.add("a", "b")
        settled = await (await trial.claim()).finish()
        trial.clock.advance(-3600)
        assert (await trial.claim()).keys == []
        trial.clock.advance(3605)
        assert (await trial.claim()).keys == [], "the interval runs from the time before the step"
        await trial.wait_until(settled.now + 10_000_000)
        assert (await trial.claim()).keys == ["b"]

    async def test_claim_returns_ready_items_after_the_clock_steps_back(self, start: Start) -> None:
        """A step back delays items that wait for a time, but not ready ones."""
        trial = await start()
        await trial.add("a", "b", "c")
        first = await trial.claim(1)
        trial.clock.advance(-3600)
        second = await trial.claim(1)
        assert second.keys == ["b"]
        assert second.reply.now > first.reply.now
        settled = await first.finish()
        assert settled.now > second.reply.now
        await trial.add("d")
        assert (await trial.claim()).keys == ["c", "d"]
        assert (await trial.status()).time >= settled.now

    async def test_claim_takes_nothing_over_when_the_clock_steps_back(self, start: Start) -> None:
        """INV-1, INV-3: a step does not shorten a lease."""
        trial = await start()
        await trial.add("a", "b")
        held = await trial.claim(1, lease=30)
        trial.clock.advance(-3600)
        assert (await trial.claim(1)).keys == ["b"]
        assert await held.renew(30) >= held.reply.expires_at
        batch = await trial.claim()
        assert (batch.keys, batch.reply.recovered) == ([], 0)
        await held.finish()

    async def test_claim_over_partitions_with_different_times_leases_long_enough(self, start: Start) -> None:
        """If only one partition's time is ahead of the clock, the lease is long enough in both."""
        for order in ([0, 1], [1, 0]):
            trial = await start(partitions=2)
            await trial.add("a", lane=trial.lane(0))
            trial.clock.advance(-3600)
            await trial.add("b", lane=trial.lane(1))
            held = await trial.claim(lease=30, order=order)
            assert sorted(held.keys) == ["a", "b"]
            trial.clock.advance(1)
            batch = await trial.claim()
            assert (batch.keys, batch.reply.recovered) == ([], 0)
            await held.finish()

    async def test_claim_takes_over_when_the_clock_has_caught_up(self, start: Start) -> None:
        trial = await start()
        await trial.add("a")
        held = await trial.claim(lease=30)
        trial.clock.advance(-3600)
        await trial.claim()
        await trial.wait_until(held.reply.expires_at)
        assert (await trial.claim()).keys == ["a"]
        with pytest.raises(LeaseLost):
            await held.finish()

    async def test_settle_times_never_move_back(self, start: Start) -> None:
        trial = await start()
        await trial.add("a", "b", "c")
        batch = await trial.claim()
        stamps = []
        for key, step in (("a", 0), ("b", -60), ("c", -60)):
            trial.clock.advance(step)
            stamps.append((await batch.finish(key)).now)
        assert stamps == sorted(set(stamps))
        assert [(await trial.find_only(key)).settled_at for key in "abc"] == stamps

    async def test_settle_retry_waits_through_a_step_back(self, start: Start) -> None:
        trial = await start()
        await trial.add("a", "b")
        batch = await trial.claim()
        reply = await batch.settle(retry(batch["a"], after=10), done(batch["b"], revisit=10))
        trial.clock.advance(-100)
        assert (await trial.claim()).keys == []
        await trial.wait_until(reply.now + 10_000_000)
        assert sorted((await trial.claim()).keys) == ["a", "b"]

    async def test_claim_after_a_step_forward_loses_nothing(self, start: Start) -> None:
        """After a step forward, leases have ended and delays are over; nothing is lost."""
        trial = await start(min_interval=10, concurrency=1)
        await trial.add("a")
        await trial.add("b", lane="other", after=50)
        await trial.claim(lease=30)
        trial.clock.advance(365 * 86_400)
        batch = await trial.claim()
        assert (batch.keys, batch.reply.recovered) == (["b"], 1)
        trial.clock.advance(10)
        assert (await trial.claim()).keys == ["a"]
