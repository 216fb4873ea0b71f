"""Durability: later and concurrent processes see everything that the store has confirmed (INV-4)."""

import asyncio
from collections import Counter

import pytest

from swath.conformance.trial import Batch, Conformance, Start, Trial, dead, done, retry
from swath.core.clock import Clock
from swath.core.errors import LeaseLost, OutputConflict
from swath.core.store import ClaimRef, OutputMove, Store


class DurableStoreConformance(Conformance):
    """For stores that outlive their process; they pass this and StoreConformance."""

    async def open_again(self, store: Store, clock: Clock) -> Store:
        """Return another handle on the frontier of `store`, which may be open or closed. Required."""
        raise NotImplementedError(f"{type(self).__name__} must implement `async def open_again(self, store, clock)`")

    async def open_second(self, trial: Trial) -> Trial:
        return Trial(await self.open_again(trial.store, trial.clock), trial.clock, trial.tokens)

    async def test_close_and_open_again(self, start: Start) -> None:
        """Every item, limit and length is as before."""
        first = await start(partitions=2, min_interval=1, concurrency=3, max_attempts=4)
        lane = first.lane(0)
        keys = ["done", "dead", "retried", "revisited", "claimed", "ready"]
        await first.change_lane(lane, min_interval=0, concurrency=9)
        await first.add(*keys, lane=lane)
        await first.add("delayed", lane=first.lane(1), after=10)
        await first.change_lane("paused", paused=True)
        await first.store.change_settings(max_attempts=6)
        batch = await first.claim(5)
        await batch.settle(
            done(batch["done"], result="1"),
            dead(batch["dead"]),
            retry(batch["retried"], after=5),
            done(batch["revisited"], revisit=5),
            outputs=[OutputMove("file", 0, 12)],
        )
        before = await first.take_snapshot(*keys, "delayed")
        status = await first.store.status()
        await first.store.close()
        first.store = await self.open_again(first.store, first.clock)
        assert await first.take_snapshot(*keys, "delayed") == before
        assert await first.store.status() == status
        assert first.store.settings == status.settings

    async def test_claim_can_be_settled_through_another_handle(self, start: Start) -> None:
        """A worker that lost its connection settles over another one."""
        trial = await start()
        await trial.add("a", "b")
        batch = await trial.claim()
        await batch.settle(done(batch["a"]), number=1)
        await trial.store.close()
        batch.store = trial.store = await self.open_again(trial.store, trial.clock)
        assert (await trial.claim()).keys == []
        await batch.renew()
        before = await trial.take_snapshot("a", "b")
        await batch.settle(done(batch["a"]), number=1)
        assert await trial.take_snapshot("a", "b") == before
        await batch.settle(done(batch["b"]), number=2)
        assert (await trial.status()).done == 2

    async def test_claim_from_two_handles(self, start: Start) -> None:
        """INV-1 across processes: claims are disjoint, and no fence is used twice."""
        one = await start(partitions=4)
        two = await self.open_second(one)
        try:
            await one.store.add([one.item(f"key{n}", lane=f"lane{n % 11}") for n in range(120)])
            batches = await asyncio.gather(*((one, two)[n % 2].claim(9) for n in range(20)))
            batches += [await (one, two)[n % 2].claim() for n in range(8)]
            assert Counter(key for batch in batches for key in batch.keys) == Counter(f"key{n}" for n in range(120))
            fences = [batch.reply.fence for batch in batches if batch.items]
            assert len(set(fences)) == len(fences)
            await asyncio.gather(*(self._finish(batch) for batch in batches if batch.items))
            assert await two.total("done") == await one.total("done") == 120
            await one.check()
            await two.check()
        finally:
            await two.store.close()

    async def _finish(self, batch: Batch) -> None:
        await batch.finish()

    async def test_add_from_two_handles(self, start: Start) -> None:
        """INV-7 across processes, whatever each handle has cached."""
        one = await start(partitions=2)
        two = await self.open_second(one)
        try:
            assert await one.add("a", "b") == 2
            assert await two.add("b", "c") == 1
            assert await one.add("a", "b", "c") == 0
            batch = await two.claim()
            await batch.finish()
            assert await one.add("a", "b", "c") == 0
            items = [one.item(f"key{n}", lane=f"lane{n % 3}") for n in range(100)]
            added = await asyncio.gather(*(trial.store.add(items) for trial in (one, two, one, two)))
            assert sum(added) == 100
        finally:
            await two.store.close()

    async def test_settle_after_another_handle_took_over(self, start: Start) -> None:
        """INV-2 across processes."""
        one = await start()
        two = await self.open_second(one)
        try:
            await one.add("a")
            lost = await one.claim(lease=30)
            one.clock.advance(31)
            batch = await two.claim()
            with pytest.raises(LeaseLost):
                await lost.finish()
            with pytest.raises(LeaseLost):
                await lost.renew()
            await batch.settle(done(batch.only, result='"two"'), outputs=[OutputMove("file", 0, 1)])
            assert (await one.find_only("a")).result == '"two"'
            await one.add("b")
            mine = await one.claim()
            with pytest.raises(OutputConflict, match=r"committed up to 1 bytes, not 0; nothing was settled\. Truncate"):
                await mine.settle(done(mine.only), outputs=[OutputMove("file", 0, 1)])
        finally:
            await two.store.close()

    async def test_change_settings_is_seen_by_other_handles(self, start: Start) -> None:
        """Other handles see it with their next claim or read."""
        one = await start(partitions=2)
        two = await self.open_second(one)
        try:
            await one.add(*"abcdef")
            await two.store.change_settings(concurrency=2, max_attempts=1)
            assert (await one.store.status()).settings.concurrency == 2
            assert len((await one.claim(lease=5)).items) == 2
            one.clock.advance(6)
            assert (await one.claim()).reply.died == 2
            before = await one.store.signal()
            await two.store.change_settings(paused=True)
            assert (await one.store.signal()).version > before.version
            batch = await one.claim()
            assert (batch.keys, batch.reply.signal.paused) == ([], True)
            await two.store.change_settings(paused=False)
            await two.change_lane(paused=True)
            batch = await one.claim()
            assert (batch.keys, batch.reply.signal.paused) == ([], False)
            assert batch.reply.signal.version > before.version + 1
            await two.store.change_settings(min_interval=7, concurrency=4, max_attempts=3)
            await one.claim()
            known = one.store.settings
            assert (known.min_interval, known.concurrency, known.max_attempts) == (7, 4, 3)
        finally:
            await two.store.close()

    async def test_reopen_is_seen_by_other_handles(self, start: Start) -> None:
        one = await start()
        two = await self.open_second(one)
        try:
            await one.add("a")
            await (await two.claim()).finish()
            assert await one.store.reopen([(0, 1)]) == 1
            assert await two.add("a") == 0
            batch = await two.claim()
            assert batch.keys == ["a"]
            await Batch(one.store, batch.reply, ClaimRef(*batch.ref)).finish()
        finally:
            await two.store.close()
