"""Discovered items: they are added with the settlement that found them (INV-4, INV-5, INV-7).

Items of another partition may wait in an inbox until a claim on that partition adds them.
"""

from swath.conformance.trial import Conformance, Start, dead, done, retry
from swath.core.store import ADD_CHUNK, INBOX_DRAIN


class DiscoveredItems(Conformance):
    async def test_settle_discovers_in_the_same_partition(self, start: Start) -> None:
        trial = await start()
        await trial.add("a", lane="one")
        batch = await trial.claim()
        found = [trial.item("b", lane="one", payload="[1]", priority=5), trial.item("c", lane="two", span=4)]
        reply = await batch.settle(done(batch.only), discovered=found)
        assert (reply.discovered, reply.checkpoint) == (2, 1)
        held = await trial.claim()
        assert held.keys == ["b", "c"]
        assert (held["b"].payload, held["b"].priority, held["b"].position) == ("[1]", 5, 2)
        assert (held["c"].lane, held["c"].span, held["c"].position) == ("two", 4, 3)
        assert (await trial.status()).end == 6

    async def test_settle_discovers_in_other_partitions(self, start: Start) -> None:
        trial = await start(partitions=4)
        await trial.add("a", lane=trial.lane(0))
        batch = await trial.claim()
        found = [trial.item(f"key{n}", lane=trial.lane(n), payload=str(n), priority=n, span=n + 1) for n in range(4)]
        await batch.settle(done(batch.only), discovered=found)
        for n in range(4):
            assert await trial.state(f"key{n}") in ("inbox", "ready")
        held = await trial.claim_each(*(f"key{n}" for n in range(4)))
        for n in range(4):
            item = held[f"key{n}"][f"key{n}"]
            assert (item.partition, item.lane, item.payload) == (n, trial.lane(n), str(n))
            assert (item.priority, item.span, item.attempts) == (n, n + 1, 0)
        assert await trial.total("inbox") == 0

    async def test_settle_discovers_one_item_that_is_ready_now(self, start: Start) -> None:
        """Workers of the other partition learn that they need not wait, although nobody has claimed there yet."""
        trial = await start(partitions=2)
        await trial.add("a", lane=trial.lane(0))
        batch = await trial.claim()
        assert (await trial.status(1)).next_ready_at is None
        await batch.settle(done(batch.only), discovered=[trial.item("b", lane=trial.lane(1))])
        for partitions in ((await trial.store.status()).partitions, await trial.store.recount()):
            assert partitions[0].next_ready_at is None
            assert partitions[1].next_ready_at is not None
            assert partitions[1].next_ready_at <= partitions[1].time
        assert (await trial.claim()).keys == ["b"]

    async def test_settle_discovers_once(self, start: Start) -> None:
        """INV-7: many settlements discover known items, and the same item twice."""
        trial = await start(partitions=2)
        near, far = trial.lane(0), trial.lane(1)
        await trial.add("a", "b", lane=near)
        await trial.add("known", lane=far, after=1000)
        batch = await trial.claim(order=[0])
        found = [trial.item("x", lane=near), trial.item("y", lane=far), trial.item("known", lane=far)]
        await batch.settle(done(batch["a"]), discovered=[*found, *found])
        await batch.settle(done(batch["b"]), discovered=found)
        await trial.add("y", lane=far)
        held = await trial.claim_each("x", "y")
        for key in ("x", "y"):
            await held[key].settle(done(held[key][key]), partition=held[key][key].partition)
        await trial.add("last", lane=near)
        batch = await trial.claim()
        await batch.settle(done(batch.only), discovered=found)
        for _ in range(5):
            assert (await trial.claim()).keys == []
        assert await trial.total("inbox") == 0
        assert await trial.total("done") == 5
        assert await trial.state("known") == "delayed"

    async def test_settle_discovers_an_item_that_was_just_settled(self, start: Start) -> None:
        trial = await start()
        await trial.add("a", "b")
        batch = await trial.claim()
        reply = await batch.settle(
            done(batch["a"]), dead(batch["b"]), discovered=[trial.item("a"), trial.item("b"), trial.item("c")]
        )
        assert reply.discovered == 1
        assert [await trial.state(key) for key in "abc"] == ["done", "dead", "ready"]

    async def test_settle_discovers_with_any_outcome(self, start: Start) -> None:
        trial = await start()
        await trial.add("a", "b")
        batch = await trial.claim()
        await batch.settle(retry(batch["a"], after=10), discovered=[trial.item("c")])
        await batch.settle(dead(batch["b"]), discovered=[trial.item("d")])
        assert (await trial.claim()).keys == ["c", "d"]

    async def test_settle_discovers_delayed_items(self, start: Start) -> None:
        trial = await start(partitions=2)
        near, far = trial.lane(0), trial.lane(1)
        await trial.add("a", lane=near)
        batch = await trial.claim()
        found = [trial.item("near", lane=near, after=10), trial.item("far", lane=far, after=10)]
        await batch.settle(done(batch.only), discovered=found)
        for _ in range(3):
            assert (await trial.claim()).keys == []
        assert await trial.state("near") == "delayed"
        trial.clock.advance(10)
        await trial.claim_each("near", "far")

    async def test_settle_discovers_while_others_claim(self, start: Start) -> None:
        """The checkpoint of another partition waits for items from its inbox once they are added (INV-6)."""
        trial = await start(partitions=2)
        near, far = trial.lane(0), trial.lane(1)
        await trial.add("a", lane=near)
        await trial.add("b", lane=far)
        one, two = await trial.claim(order=[0]), await trial.claim(order=[1])
        await one.settle(done(one.only), discovered=[trial.item("c", lane=far)])
        await two.finish()
        held = await trial.claim_each("c")
        status = await trial.status(1)
        assert (status.checkpoint, status.end) == (held["c"].only.position - 1, held["c"].only.position)
        await held["c"].finish()
        assert (await trial.status(1)).checkpoint == (await trial.status(1)).end

    async def test_settle_discovers_a_full_chunk(self, start: Start) -> None:
        trial = await start(partitions=4)
        await trial.add("a", lane=trial.lane(0))
        batch = await trial.claim()
        found = [trial.item(f"key{n}", lane=f"lane{n % 50}", priority=n % 8) for n in range(ADD_CHUNK)]
        await batch.settle(done(batch.only), discovered=found)
        assert await trial.total("ready", "inbox") == ADD_CHUNK
        await trial.claim_each(*(item.key for item in found))

    async def test_settle_discovers_more_than_a_claim_takes_in(self, start: Start) -> None:
        """An inbox is drained completely, a bounded number of items at a time."""
        trial = await start(partitions=2)
        near, far = trial.lane(0), trial.lane(1)
        await trial.add(*"abcd", lane=near)
        batch = await trial.claim()
        total = 0
        for key in "abcd":
            found = [trial.item(f"{key}{n}", lane=far) for n in range(INBOX_DRAIN * 2 // 3)]
            total += len(found)
            await batch.settle(done(batch[key]), discovered=found)
        assert await trial.total("ready", "inbox") == total
        claimed = [key for _ in range(10) for key in (await trial.claim(total)).keys]
        assert len(claimed) == len(set(claimed)) == total
        assert await trial.total("inbox") == 0

    async def test_settle_discovers_in_paced_lanes(self, start: Start) -> None:
        """INV-3: items from an inbox are paced like others."""
        trial = await start(partitions=2, min_interval=10, concurrency=1)
        near, far = trial.lane(0), trial.lane(1)
        await trial.add("a", lane=near)
        await trial.add("b", lane=far)
        one, two = await trial.claim(order=[0]), await trial.claim(order=[1])
        await one.settle(done(one.only), discovered=[trial.item(key, lane=far, priority=7) for key in ("c", "d")])
        assert (await trial.claim()).keys == []
        trial.clock.advance(1)
        settled = await two.finish()
        assert (await trial.claim()).keys == []
        await trial.wait_until(settled.now + 9_999_999)
        assert (await trial.claim()).keys == []
        await trial.wait_until(settled.now + 10_000_000)
        assert (await trial.claim()).keys == ["c"]

    async def test_settle_discovers_in_its_own_lane(self, start: Start) -> None:
        """INV-3: if an item discovers another of its own lane, new or known, the interval runs from the settlement."""
        trial = await start(min_interval=10, concurrency=1)
        await trial.add("a", "b", "c")
        batch = await trial.claim()
        for visits, (found, follower) in enumerate([("d", "b"), ("a", "c"), ("e", "d")], start=1):
            trial.clock.advance(5)
            settled = await batch.settle(done(batch.only), discovered=[trial.item(found)])
            await trial.wait_until(settled.now + 9_999_999)
            assert (await trial.claim()).keys == []
            await trial.wait_until(settled.now + 10_000_000)
            batch = await trial.claim()
            assert batch.keys == [follower]
            assert (batch.only.lane_visits, batch.only.lane_in_flight) == (visits, 0)
