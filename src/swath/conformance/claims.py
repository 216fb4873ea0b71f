"""Claims: each item goes to one worker, in a fair order (INV-1, INV-8)."""

import asyncio
from collections import Counter
from random import Random

from swath.conformance.trial import Conformance, Start, done, release, retry
from swath.core.store import MAX_CLAIM, PARTITIONS_PER_CLAIM


class Claims(Conformance):
    async def test_claim_of_an_empty_frontier_returns_no_items(self, start: Start) -> None:
        trial = await start(partitions=3)
        reply = (await trial.claim()).reply
        assert (reply.fence, list(reply.items), reply.next_ready_at) == (0, [], None)
        assert (reply.now, list(reply.skipped), reply.recovered, reply.died) == (trial.clock.now(), [], 0, 0)

    async def test_claim_returns_each_item_once(self, start: Start) -> None:
        """INV-1."""
        trial = await start()
        await trial.add("a", "b", "c")
        first, second, third = [await trial.claim(2) for _ in range(3)]
        assert (first.keys, second.keys, third.keys) == (["a", "b"], ["c"], [])
        assert 0 < first.reply.fence != second.reply.fence > 0 == third.reply.fence
        assert (await trial.status()).claimed == 3

    async def test_claim_returns_the_end_of_the_lease(self, start: Start) -> None:
        trial = await start()
        await trial.add("a")
        trial.clock.advance(1)
        batch = await trial.claim(lease=30, worker="wanda")
        assert batch.reply.now == trial.clock.now()
        assert batch.reply.expires_at == batch.reply.now + 30_000_000
        found = await trial.find_only("a")
        assert (found.state, found.worker, found.fence) == ("claimed", "wanda", batch.reply.fence)
        assert found.expires_at == batch.reply.expires_at

    async def test_claim_from_many_tasks_returns_disjoint_items(self, start: Start) -> None:
        """INV-1: claims are disjoint, and together they get every item."""
        trial = await start(partitions=4)
        await trial.store.add([trial.item(f"key{n}", lane=f"lane{n % 20}") for n in range(200)])
        batches = await asyncio.gather(*(trial.claim(15) for _ in range(20)))
        batches += [await trial.claim() for _ in range(4)]  # partitions that were skipped while others had locked them
        claimed = Counter(key for batch in batches for key in batch.keys)
        assert claimed == Counter(f"key{n}" for n in range(200))
        fences = [batch.reply.fence for batch in batches if batch.items]
        assert len(set(fences)) == len(fences)

    async def test_claim_returns_at_most_the_limit(self, start: Start) -> None:
        trial = await start(partitions=4)
        await trial.store.add([trial.item(f"key{n}", lane=trial.lane(n % 4)) for n in range(40)])
        assert [len((await trial.claim(limit)).items) for limit in (1, 7, 25, MAX_CLAIM)] == [1, 7, 25, 7]

    async def test_claim_covers_few_partitions(self, start: Start) -> None:
        """A claim covers few partitions, because each needs a lock and its own settlement."""
        trial = await start(partitions=16)
        await trial.store.add([trial.item(f"key{n}", lane=trial.lane(n)) for n in range(16)])
        batches = [await trial.claim(1000) for _ in range(16)]
        assert {len(batch.items) for batch in batches} <= set(range(PARTITIONS_PER_CLAIM + 1))
        assert sorted(key for batch in batches for key in batch.keys) == sorted(f"key{n}" for n in range(16))

    async def test_claim_follows_the_order_of_partitions(self, start: Start) -> None:
        trial = await start(partitions=4)
        await trial.store.add([trial.item(f"key{n}", lane=trial.lane(n)) for n in range(4)])
        assert (await trial.claim(1, order=[2, 0, 1, 3])).keys == ["key2"]
        assert (await trial.claim(order=[3])).keys == ["key3"]
        assert (await trial.claim(order=[2, 3])).keys == []
        assert sorted((await trial.claim()).keys) == ["key0", "key1"]

    async def test_claim_of_equal_priorities_is_first_come_first_served(self, start: Start) -> None:
        trial = await start()
        await trial.add("a", "b", "c")
        await trial.add("d")
        assert [(await trial.claim(1)).only.key for _ in range(4)] == ["a", "b", "c", "d"]

    async def test_claim_prefers_higher_priorities(self, start: Start) -> None:
        """Across lanes and within one, apart from the tenth that goes to low priorities."""
        trial = await start()
        for n in range(40):
            priority = n % 4
            await trial.add(f"{priority}.{n}", lane=f"lane{priority if n < 20 else 9}", priority=priority)
        first = Counter(item.priority for item in (await trial.claim(10)).items)
        assert first[3] >= 8
        second = Counter(item.priority for item in (await trial.claim(20)).items)
        assert second[2] >= 8
        assert second[0] + first[0] <= 4

    async def test_claim_prefers_higher_priorities_within_a_lane(self, start: Start) -> None:
        trial = await start()
        await trial.add("low", priority=1)
        await trial.add("high", priority=6)
        await trial.add("middle", priority=3)
        assert [(await trial.claim(1)).only.key for _ in range(3)] == ["high", "middle", "low"]

    async def test_claim_starves_no_priority(self, start: Start) -> None:
        """A small share goes to the lowest priority in claims of any size, however many items of a higher one wait."""
        for limit, claims, high, low in ((1, 20, 7, 0), (7, 20, 4, 3), (1, 20, 4, 3), (50, 2, 7, 0)):
            trial = await start()
            await trial.store.add([trial.item(f"high{n}", lane=f"h{n % 50}", priority=high) for n in range(200)])
            await trial.store.add([trial.item(f"low{n}", lane=f"l{n % 50}", priority=low) for n in range(200)])
            claimed = [item.priority for _ in range(claims) for item in (await trial.claim(limit)).items]
            assert len(claimed) == limit * claims
            assert 0.05 * len(claimed) <= claimed.count(low) <= 0.2 * len(claimed), (limit, high, low)

    async def test_claim_uses_the_low_share_for_others_if_no_low_priority_waits(self, start: Start) -> None:
        trial = await start()
        await trial.add(*(f"high{n}" for n in range(20)), priority=7)
        await trial.add("low", priority=0, lane="other")
        assert len((await trial.claim(21)).items) == 21
        await trial.add(*(f"more{n}" for n in range(20)), priority=7)
        assert len((await trial.claim(20)).items) == 20

    async def test_claim_takes_from_lanes_in_turn(self, start: Start) -> None:
        """A lane that still has items moves behind the other lanes."""
        trial = await start()
        for lane in ("a", "b", "c"):
            await trial.add(*(f"{lane}{n}" for n in range(10)), lane=lane)
            trial.clock.advance(0.001)
        turns = []
        for _ in range(9):
            (lane,) = {item.lane for item in (await trial.claim(2)).items}
            turns.append(lane)
            trial.clock.advance(0.001)
        assert turns == ["a", "b", "c"] * 3

    async def test_claim_gives_a_long_lane_no_extra_turns(self, start: Start) -> None:
        """One busy lane at the front does not starve the others."""
        trial = await start(concurrency=1)
        await trial.add(*(f"hot{n}" for n in range(500)), lane="hot")
        await trial.store.add([trial.item(f"cold{n}", lane=f"cold{n}") for n in range(20)])
        assert sorted(item.lane for item in (await trial.claim(21)).items) == sorted(
            ["hot", *(f"cold{n}" for n in range(20))]
        )

    async def test_claim_takes_a_whole_batch_from_a_lane_without_limits(self, start: Start) -> None:
        trial = await start()
        await trial.add(*(f"key{n:02}" for n in range(50)))
        assert (await trial.claim(40)).keys == [f"key{n:02}" for n in range(40)]

    async def test_claim_finds_everything_in_a_deep_lane(self, start: Start) -> None:
        """A store may remember where a long lane begins, but it still finds items that return before that place."""
        trial = await start(max_attempts=1000)
        random = Random(30)
        keys = [f"key{n}" for n in range(300)]
        for n in range(0, 300, 50):
            await trial.add(*keys[n : n + 50], priority=random.randrange(3))
        finished: list[str] = []
        for _ in range(200):
            batch = await trial.claim(random.choice((1, 10, 40)), lease=random.choice((1, 500)))
            if not batch.items:
                break
            done_now = [item for item in batch.items if random.random() < 0.5]
            other = [item for item in batch.items if item not in done_now and random.random() < 0.8]
            await batch.settle(*map(done, done_now), *(random.choice((release, retry))(item) for item in other))
            finished += [item.key for item in done_now]
            trial.clock.advance(random.choice((0.001, 2)))
        else:
            raise AssertionError(f"{await trial.status()}")
        trial.clock.advance(1000)
        finished += (last := await trial.claim(300)).keys
        assert sorted(finished) == sorted(keys)
        if last.items:
            await last.finish()

    async def test_claim_takes_returned_items_before_fresh_ones(self, start: Start) -> None:
        trial = await start()
        await trial.add("a", "b", "c")
        batch = await trial.claim(2)
        await batch.settle(release(batch["b"]))
        assert (await trial.claim()).keys == ["b", "c"]

    async def test_claim_returns_when_the_next_item_is_ready(self, start: Start) -> None:
        """A worker that sleeps until `next_ready_at` misses nothing and wakes no earlier than necessary."""
        trial = await start(partitions=2, min_interval=10, concurrency=1)
        await trial.add("a", "b", "c", lane=trial.lane(0))
        await trial.add("d", lane=trial.lane(1), after=3)
        got: list[str] = []
        for _ in range(20):
            batch = await trial.claim(lease=100)
            if batch.items:
                got += batch.keys
                await batch.finish()
                continue
            moment = batch.reply.next_ready_at
            if moment is None:
                break
            assert moment > trial.clock.now()
            await trial.wait_until(moment)
        assert got == ["a", "d", "b", "c"]

    async def test_claim_returns_when_the_next_lease_ends(self, start: Start) -> None:
        """Other workers must claim again to take over the items, even if nothing else waits."""
        trial = await start()
        await trial.add("a")
        batch = await trial.claim(lease=30)
        waiting = (await trial.claim()).reply.next_ready_at
        assert waiting is not None
        assert waiting <= batch.reply.expires_at
        await batch.finish()
        after = await trial.claim()
        if after.reply.next_ready_at is not None:  # a store may keep an earlier time and check once too often
            await trial.wait_until(after.reply.next_ready_at)
            after = await trial.claim()
        assert after.reply.next_ready_at is None

    async def test_claim_of_a_paused_frontier_returns_no_items(self, start: Start) -> None:
        trial = await start()
        await trial.add("a")
        await trial.store.change_settings(paused=True)
        batch = await trial.claim()
        assert (batch.keys, batch.reply.signal.paused) == ([], True)
        await trial.store.change_settings(paused=False)
        batch = await trial.claim()
        assert (batch.keys, batch.reply.signal.paused) == (["a"], False)
