"""Leases: they can be renewed, they expire, and a worker that lost its lease changes nothing (INV-1, INV-2)."""

import pytest

from swath.conformance.trial import Conformance, Start, dead, done, release, retry, split
from swath.core.errors import LeaseLost
from swath.core.store import LOST_WORKER, ClaimRef, OutputMove


class Leases(Conformance):
    async def test_renew_extends_the_lease(self, start: Start) -> None:
        trial = await start()
        await trial.add("a")
        batch = await trial.claim(lease=30)
        trial.clock.advance(20)
        assert await batch.renew(30) == trial.clock.now() + 30_000_000
        trial.clock.advance(29)
        assert (await trial.claim()).keys == []
        assert (await trial.find_only("a")).expires_at == trial.clock.now() + 1_000_000
        assert await batch.renew(30) == trial.clock.now() + 30_000_000
        await batch.finish()

    async def test_renew_after_expiry_is_refused(self, start: Start) -> None:
        """An expired lease is not renewed even if no other worker has taken over yet: one may be about to."""
        trial = await start()
        await trial.add("a")
        batch = await trial.claim(lease=30)
        await trial.wait_until(batch.reply.expires_at)
        with pytest.raises(LeaseLost):
            await batch.renew()

    async def test_renew_after_a_take_over_is_refused(self, start: Start) -> None:
        trial = await start()
        await trial.add("a")
        lost = await trial.claim(lease=30)
        trial.clock.advance(31)
        batch = await trial.claim()
        with pytest.raises(LeaseLost):
            await lost.renew()
        assert (await trial.find_only("a")).expires_at == batch.reply.expires_at

    async def test_renew_needs_fence_and_token(self, start: Start) -> None:
        trial = await start()
        await trial.add("a")
        batch = await trial.claim()
        for ref in (
            ClaimRef(batch.ref.fence, batch.ref.token + 1),
            ClaimRef(batch.ref.fence + 1, batch.ref.token),
            ClaimRef(0, 0),
        ):
            with pytest.raises(LeaseLost):
                await trial.store.renew(ref, 1_000_000)
        assert (await trial.find_only("a")).expires_at == batch.reply.expires_at

    async def test_claim_takes_over_when_a_lease_ends(self, start: Start) -> None:
        """INV-1: items are taken back when the lease ends, not a microsecond earlier, and none is lost."""
        trial = await start()
        await trial.add("a", "b", "c")
        lost = await trial.claim(lease=30)
        await trial.wait_until(lost.reply.expires_at - 1)
        assert (await trial.claim()).keys == []
        await trial.wait_until(lost.reply.expires_at)
        batch = await trial.claim()
        assert (sorted(batch.keys), batch.reply.recovered, batch.reply.died) == (["a", "b", "c"], 3, 0)
        assert [item.attempts for item in batch.items] == [1, 1, 1]
        assert [item.position for item in batch.items] == [1, 2, 3]

    async def test_claim_takes_over_only_unsettled_items(self, start: Start) -> None:
        trial = await start()
        await trial.add(*"abcde")
        lost = await trial.claim(lease=30)
        await lost.settle(
            done(lost["a"]), retry(lost["b"], after=100), dead(lost["c"]), release(lost["d"], started=False)
        )
        trial.clock.advance(31)
        batch = await trial.claim()
        assert (sorted(batch.keys), batch.reply.recovered) == (["d", "e"], 1)
        assert (batch["d"].attempts, batch["e"].attempts) == (0, 1)

    async def test_claim_takes_over_items_before_fresh_ones(self, start: Start) -> None:
        trial = await start()
        await trial.add("a", "b")
        await trial.claim(1, lease=30)
        trial.clock.advance(31)
        assert (await trial.claim(1)).keys == ["a"]

    async def test_settle_after_a_take_over_changes_nothing(self, start: Start) -> None:
        """INV-2, for every kind of settlement."""
        trial = await start(partitions=2)
        lane = trial.lane(0)
        await trial.add("a", "b", lane=lane)
        await trial.add("wide", lane=lane, span=8)
        lost = await trial.claim(lease=30)
        trial.clock.advance(31)
        batch = await trial.claim(2)
        assert sorted(batch.keys) == ["a", "b"], "the other items wait, and the old holder cannot settle them either"
        before = await trial.take_snapshot("a", "b", "wide", "new", "new2", "rest")
        found = [trial.item("new", lane=lane), trial.item("new2", lane=trial.lane(1))]
        for moves in (
            [],
            [done(lost["a"])],
            [retry(lost["a"])],
            [dead(lost["b"])],
            [release(lost["b"])],
            [split(lost["wide"], 2, rest="rest")],
        ):
            with pytest.raises(LeaseLost):
                await lost.settle(*moves, discovered=found, outputs=[OutputMove("file", 0, 10)])
        assert await trial.take_snapshot("a", "b", "wide", "new", "new2", "rest") == before
        assert await trial.store.outputs() == {}

    async def test_settle_after_expiry_counts_before_a_take_over(self, start: Start) -> None:
        """No other worker has claimed the items, so the settlement counts."""
        trial = await start()
        await trial.add("a", "b")
        late = await trial.claim(lease=30)
        trial.clock.advance(100)
        await late.finish("a")
        assert await trial.state("a") == "done"
        batch = await trial.claim()
        assert (batch.keys, batch.only.attempts) == (["b"], 1)
        with pytest.raises(LeaseLost):
            await late.finish("b")

    async def test_settle_needs_fence_and_token(self, start: Start) -> None:
        trial = await start()
        await trial.add("a")
        batch = await trial.claim()
        before = await trial.take_snapshot("a")
        right = batch.ref
        for ref in (ClaimRef(right.fence, right.token + 1), ClaimRef(right.fence + 1, right.token), ClaimRef(0, 0)):
            batch.ref = ref
            with pytest.raises(LeaseLost):
                await batch.finish()
        assert await trial.take_snapshot("a") == before
        batch.ref = right
        await batch.finish()

    async def test_claim_lost_in_one_partition_is_lost_in_all(self, start: Start) -> None:
        trial = await start(partitions=2)
        await trial.add("a", lane=trial.lane(0))
        await trial.add("b", lane=trial.lane(1))
        lost = await trial.claim(lease=30)
        assert sorted(lost.keys) == ["a", "b"]
        trial.clock.advance(31)
        assert (await trial.claim(order=[0])).keys == ["a"]
        with pytest.raises(LeaseLost):
            await lost.renew()
        with pytest.raises(LeaseLost):
            await lost.finish("b")
        batch = await trial.claim()
        assert (batch.keys, batch.only.attempts) == (["b"], 1)

    async def test_claim_takes_over_when_partition_time_reaches_the_end_of_the_lease(self, start: Start) -> None:
        """If a claim was lost in another partition and the clock stepped back, this partition's time may be behind."""
        trial = await start(partitions=2)
        await trial.add("a", lane=trial.lane(0))
        await trial.add("b", lane=trial.lane(1))
        lost = await trial.claim(lease=30)
        trial.clock.advance(31)
        assert (await trial.claim(order=[0])).keys == ["a"]
        trial.clock.advance(-20)
        await trial.add("c", lane=trial.lane(1))
        assert (await trial.claim(order=[1])).keys == ["c"]
        with pytest.raises(LeaseLost):
            await lost.finish("b")
        await trial.wait_until(lost.reply.expires_at)
        batch = await trial.claim(order=[1])
        assert (batch.keys, batch.reply.recovered) == (["b"], 1)

    async def test_claim_takes_over_one_lease_after_the_other(self, start: Start) -> None:
        """`next_ready_at` announces the second lease even if taking over the first leaves nothing to claim."""
        trial = await start(max_attempts=1)
        await trial.add("a", "b")
        for lease in (30, 60):
            assert len((await trial.claim(1, lease=lease)).items) == 1
        for key in "ab":
            moment = (await trial.claim()).reply.next_ready_at
            assert moment is not None
            await trial.wait_until(moment)
            reply = (await trial.claim()).reply
            assert (reply.fence, reply.recovered, reply.died) == (0, 1, 1)
            assert await trial.state(key) == "dead"

    async def test_claim_makes_an_item_dead_that_kills_its_workers(self, start: Start) -> None:
        trial = await start(max_attempts=3)
        await trial.add("a")
        for attempts in range(3):
            batch = await trial.claim(lease=30)
            assert (batch.only.attempts, batch.only.losses) == (attempts, attempts)
            trial.clock.advance(31)
        last = await trial.claim()
        assert (last.keys, last.reply.recovered, last.reply.died) == ([], 1, 1)
        found = await trial.find_only("a")
        assert (found.state, found.attempts, found.reason) == ("dead", 3, LOST_WORKER.format(losses=3))
        assert found.settled_at == last.reply.now
        (item,) = (await trial.store.items("dead")).rows
        assert (item.key, item.attempts, item.reason) == ("a", 3, found.reason)
        status = await trial.status()
        assert (status.checkpoint, status.checkpoint_dead) == (1, 1)

    async def test_claim_counts_lost_workers_apart_from_retries(self, start: Start) -> None:
        """Earlier attempts do not make an item dead when its worker is lost; only repeated losses do."""
        trial = await start(max_attempts=3)
        await trial.add("a")
        for attempts in range(2):
            batch = await trial.claim()
            assert (batch.only.attempts, batch.only.losses) == (attempts, 0)
            await batch.settle(retry(batch.only))
            trial.clock.advance(1)
        for losses in range(3):
            batch = await trial.claim(lease=30)
            assert (batch.only.attempts, batch.only.losses) == (2 + losses, losses)
            if losses == 1:
                await batch.settle(release(batch.only, after=1))  # counts no attempt
                trial.clock.advance(2)
                assert (await trial.claim(lease=30)).only.losses == losses
            trial.clock.advance(31)
        assert (await trial.claim()).reply.died == 1
        found = await trial.find_only("a")
        assert (found.attempts, found.reason) == (5, LOST_WORKER.format(losses=3))

    async def test_claim_counts_losses_until_the_item_is_done(self, start: Start) -> None:
        trial = await start(max_attempts=3)
        await trial.add("a")
        await trial.claim(lease=30)
        trial.clock.advance(31)
        batch = await trial.claim()
        await batch.settle(retry(batch.only))
        trial.clock.advance(1)
        batch = await trial.claim()
        assert (batch.only.attempts, batch.only.losses) == (2, 1)
        await batch.settle(done(batch.only, revisit=5))
        trial.clock.advance(6)
        batch = await trial.claim()
        assert (batch.only.attempts, batch.only.losses) == (0, 0)
        await batch.settle(done(batch.only))
        await trial.store.reopen([(0, batch.only.position)])
        assert (await trial.claim()).only.losses == 0

    async def test_claim_counts_no_attempt_for_released_items(self, start: Start) -> None:
        trial = await start(max_attempts=2)
        await trial.add("a")
        for started in (True, False, True):
            batch = await trial.claim()
            assert batch.only.attempts == 0
            await batch.settle(release(batch.only, started=started))

    async def test_change_settings_of_max_attempts_applies_to_claimed_items(self, start: Start) -> None:
        trial = await start(max_attempts=5)
        await trial.add("a")
        await trial.claim(lease=30)
        await trial.store.change_settings(max_attempts=1)
        trial.clock.advance(31)
        assert (await trial.claim()).reply.died == 1

    async def test_claim_frees_the_lane_of_a_lost_worker(self, start: Start) -> None:
        trial = await start(concurrency=2)
        await trial.add(*"abcd")
        await trial.claim(lease=30)
        trial.clock.advance(31)
        assert sorted((await trial.claim()).keys) == ["a", "b"]
        assert (await trial.lane_status()).in_flight == 2
