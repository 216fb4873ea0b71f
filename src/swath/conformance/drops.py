"""Dropping: waiting items become done without a claim."""

from swath.conformance.trial import Conformance, Start, Trial, dead, done, release, retry
from swath.core.store import ADD_CHUNK, INBOX_DRAIN

RESULT = '{"dropped":"test"}'


async def drop(trial: Trial, *keys: str) -> int:
    """Drop the items with these keys, wherever they are."""
    found = [place for key in keys for place in await trial.find(key)]
    return await trial.store.drop([(place.partition, place.position or 0) for place in found], RESULT)


class Drops(Conformance):
    async def test_drop_settles_ready_and_delayed_items(self, start: Start) -> None:
        """INV-4, INV-6: the checkpoint passes them, and nothing counts as a visit."""
        trial = await start()
        await trial.store.add([trial.item("ready", payload="[1]", priority=5, span=3)])
        await trial.add("delayed", after=10)
        await trial.add("kept")
        assert await drop(trial, "ready", "delayed") == 2
        for key, position, payload, priority in (("ready", 1, "[1]", 5), ("delayed", 4, None, 3)):
            found = await trial.find_only(key)
            assert (found.state, found.position, found.payload, found.priority) == ("done", position, payload, priority)
            assert (found.result, found.settled_at) == (RESULT, (await trial.status()).time)
        status = await trial.status()
        assert (status.ready, status.delayed, status.done, status.visits, status.checkpoint) == (1, 0, 2, 0, 4)
        assert (await trial.lane_status()).visits == 0
        assert (await trial.claim()).keys == ["kept"]
        trial.clock.advance(20)
        assert (await trial.claim()).keys == []

    async def test_drop_forgets_earlier_attempts(self, start: Start) -> None:
        trial = await start()
        await trial.add("a")
        batch = await trial.claim()
        await batch.settle(retry(batch.only, after=5, reason="busy", error="trace"))
        assert await drop(trial, "a") == 1
        found = await trial.find_only("a")
        assert (found.state, found.attempts, found.reason, found.error) == ("done", 0, None, None)

    async def test_drop_ignores_claimed_and_settled_items(self, start: Start) -> None:
        """INV-1: items in flight stay with their worker."""
        trial = await start()
        await trial.add("claimed", "done", "dead")
        batch = await trial.claim()
        await batch.settle(done(batch["done"]), dead(batch["dead"]))
        before = await trial.take_snapshot("claimed", "done", "dead")
        assert await trial.store.drop([(0, position) for position in range(1, 9)], RESULT) == 0
        assert await trial.store.drop([], RESULT) == 0
        assert await trial.take_snapshot("claimed", "done", "dead") == before
        assert (await batch.finish("claimed")).checkpoint == 3

    async def test_drop_cancels_a_revisit(self, start: Start) -> None:
        trial = await start()
        await trial.add("a")
        batch = await trial.claim()
        await batch.settle(done(batch.only, result="1", revisit=10))
        trial.clock.advance(1)
        assert await drop(trial, "a") == 1
        found = await trial.find_only("a")
        assert (found.state, found.position, found.result) == ("done", 1, RESULT)
        assert (await trial.status()).visits == 1
        trial.clock.advance(20)
        assert (await trial.claim()).keys == []
        assert await trial.store.reopen([(0, 1)]) == 1
        assert (await (await trial.claim()).finish()).checkpoint == 2

    async def test_drop_of_an_item_with_a_new_position(self, start: Start) -> None:
        """INV-7: an item keeps its key through revisits, re-opening and drops."""
        trial = await start()
        await trial.add("a")
        batch = await trial.claim()
        await batch.settle(done(batch.only, revisit=1))
        trial.clock.advance(2)
        batch = await trial.claim()
        await batch.settle(release(batch.only))
        for position in (2, 3, 4):
            assert (await trial.find_only("a")).position == position
            assert await drop(trial, "a") == 1
            assert await trial.state("a") == "done"
            assert await trial.add("a") == 0
            assert await trial.store.reopen([(0, position)]) == 1
        assert (await (await trial.claim()).finish()).checkpoint == 5

    async def test_drop_twice_counts_once(self, start: Start) -> None:
        trial = await start()
        await trial.add("a", "b")
        assert await trial.store.drop([(0, 1), (0, 1)], RESULT) == 1
        assert await trial.store.drop([(0, 1)], None) == 0
        assert (await trial.find_only("a")).result == RESULT
        assert await trial.store.drop([(0, 1), (0, 2)], None) == 1
        assert (await trial.find_only("b")).result is None

    async def test_drop_in_several_partitions(self, start: Start) -> None:
        trial = await start(partitions=3)
        for n in range(3):
            await trial.add(f"key{n}", lane=trial.lane(n))
        assert await trial.store.drop([(2, 1), (0, 1)], RESULT) == 2
        assert (await trial.claim()).keys == ["key1"]

    async def test_drop_of_some_items_keeps_the_others_in_order(self, start: Start) -> None:
        trial = await start()
        await trial.add("low1", "low2", "low3", priority=1)
        await trial.add("high1", "high2", priority=6)
        assert await drop(trial, "high1", "low2") == 2
        assert (await trial.lane_status()).waiting == 3
        assert (await trial.claim(1)).keys == ["high2"]
        assert (await trial.claim()).keys == ["low1", "low3"]

    async def test_drop_of_the_first_items_lowers_the_level_of_their_lane(self, start: Start) -> None:
        """The lane is queued under the priority of its next item, behind lanes of a higher one."""
        trial = await start(concurrency=1)
        await trial.add("before", lane="before")
        await (await trial.claim(1)).finish()  # one claim in ten begins with the lowest priority: the first one
        await trial.add("high", priority=6, lane="first")
        await trial.add("low", priority=1, lane="first")
        await trial.add("middle", priority=3, lane="second")
        assert await drop(trial, "high") == 1
        assert (await trial.claim(1)).keys == ["middle"]
        assert (await trial.claim(1)).keys == ["low"]

    async def test_drop_of_all_items_takes_the_lane_out_of_the_queue(self, start: Start) -> None:
        trial = await start(min_interval=10, concurrency=1)
        await trial.add("a", "b")
        await trial.add("other", lane="other")
        assert await drop(trial, "a", "b") == 2
        lane = await trial.lane_status()
        assert (lane.waiting, lane.ready_at) == (0, None)
        assert (await trial.claim()).keys == ["other"]
        assert (await trial.status()).checkpoint == 2
        await trial.add("c")
        assert (await trial.claim()).keys == ["c"]

    async def test_drop_keeps_the_pace_of_the_lane(self, start: Start) -> None:
        """INV-3: the next item is not ready earlier or later than without the drop."""
        trial = await start(min_interval=10, concurrency=1)
        await trial.add("a", "b", "c")
        settled = await (await trial.claim()).finish()
        await trial.wait_until(settled.now + 4_000_000)
        assert await drop(trial, "b") == 1
        lane = await trial.lane_status()
        assert (lane.last_at, lane.ready_at) == (settled.now, settled.now + 10_000_000)
        assert (await trial.claim()).keys == []
        await trial.wait_until(settled.now + 10_000_000)
        assert (await trial.claim()).keys == ["c"]

    async def test_drop_in_paused_and_busy_lanes(self, start: Start) -> None:
        trial = await start(concurrency=1)
        await trial.add("a", "b", "c", lane="busy")
        await trial.add("d", "e", lane="paused")
        await trial.change_lane("paused", paused=True)
        batch = await trial.claim()
        assert batch.keys == ["a"]
        assert await drop(trial, "b", "d") == 2
        assert (await trial.claim()).keys == []
        await batch.finish()
        assert (await trial.claim()).keys == ["c"]
        await trial.change_lane("paused", paused=False)
        assert (await trial.claim()).keys == ["e"]

    async def test_drop_of_a_deep_lane(self, start: Start) -> None:
        """Many items are dropped before, among and behind those that were claimed."""
        trial = await start()
        keys = [f"key{n}" for n in range(ADD_CHUNK)]
        await trial.add(*keys)
        for _ in range(3):
            await (await trial.claim(20)).finish()
        assert await trial.store.drop([(0, position) for position in range(1, 501)], RESULT) == 440
        batch = await trial.claim(20)
        assert batch.keys == keys[500:520]
        assert await trial.store.drop([(0, position) for position in range(511, 1001)], RESULT) == 480
        assert (await trial.claim()).keys == []
        assert (await batch.finish()).checkpoint == ADD_CHUNK
        await trial.add("fresh")
        assert (await trial.claim()).keys == ["fresh"]

    async def test_empty_inbox_takes_all_discovered_items_in(self, start: Start) -> None:
        """INV-4: even in a pause, items that were discovered for another partition can be listed and dropped."""
        trial = await start(partitions=2)
        await trial.add("finder0", "finder1", "finder2", lane=trial.lane(0))
        batch = await trial.claim()
        keys = [f"key{n}" for n in range(INBOX_DRAIN + 300)]
        for n, item in enumerate(batch.items):
            found = [trial.item(key, lane=trial.lane(1)) for key in keys[n::3]]
            await batch.settle(done(item), discovered=found)
        more = trial.item("more", lane=trial.lane(1))
        await trial.add("finder3", lane=trial.lane(0))
        batch = await trial.claim(1, order=[0])
        await batch.settle(done(batch.only), discovered=[more])
        await trial.store.change_settings(paused=True)
        for partition in (0, 1):
            await trial.store.empty_inbox(partition)
        assert await trial.total("inbox") == 0
        await trial.store.empty_inbox(1)
        assert sorted(row.key for row in (await trial.store.items("ready", limit=10_000)).rows) == sorted(
            [*keys, "more"]
        )
        assert await drop(trial, *keys[:50]) == 50
        assert await trial.total("ready") == len(keys) - 49

    async def test_pending_lists_revisits_if_asked(self, start: Start) -> None:
        trial = await start(partitions=2)
        lanes = [trial.lane(0), trial.lane(1)]
        for n in range(8):
            await trial.add(f"key{n}", lane=lanes[n % 2])
        batch = await trial.claim()
        for item in batch.items[:6]:
            await batch.settle(done(item, revisit=5), partition=item.partition)
        everything = list(await trial.store.pending(revisits=True))
        assert [(row.partition, row.position) for row in everything] == [(0, n) for n in (1, 2, 3, 4)] + [
            (1, n) for n in (1, 2, 3, 4)
        ]
        revisits = {row.key for row in everything if row.revisit}
        assert revisits == {item.key for item in batch.items[:6]}
        assert {row.state for row in everything if row.revisit} == {"delayed"}
        assert [row for row in everything if not row.revisit] == list(await trial.store.pending())
        pages = list(await trial.store.pending(revisits=True, limit=3))
        pages += await trial.store.pending(revisits=True, limit=5, after=(pages[-1].partition, pages[-1].position))
        assert pages == everything
