"""Delays: retries, items with not_before, revisits and reopened items become ready when they are due."""

from swath.conformance.trial import Conformance, Start, dead, done, release, retry
from swath.core.store import DELAYED_DRAIN


class Delays(Conformance):
    async def test_add_not_before_delays_an_item(self, start: Start) -> None:
        trial = await start()
        await trial.add("later", after=10)
        await trial.add("now", after=-5)
        due = trial.clock.now() + 10_000_000
        found = await trial.find_only("later")
        assert (found.state, found.due_at, found.attempts) == ("delayed", due, 0)
        batch = await trial.claim()
        assert (batch.keys, batch.reply.next_ready_at) == (["now"], due)
        await trial.wait_until(due - 1)
        assert (await trial.claim()).keys == []
        await trial.wait_until(due)
        batch = await trial.claim()
        assert (batch.keys, batch.only.attempts, batch.only.position) == (["later"], 0, 1)

    async def test_settle_retry_is_ready_when_due(self, start: Start) -> None:
        trial = await start()
        await trial.add("a")
        for attempts in range(3):
            batch = await trial.claim()
            assert (batch.only.attempts, batch.only.position) == (attempts, 1)
            reply = await batch.settle(retry(batch.only, after=10, reason=f"try {attempts}"))
            assert (await trial.find_only("a")).reason == f"try {attempts}"
            await trial.wait_until(reply.now + 9_999_999)
            assert (await trial.claim()).keys == []
            await trial.wait_until(reply.now + 10_000_000)

    async def test_settle_retry_is_claimed_before_fresh_items(self, start: Start) -> None:
        trial = await start()
        await trial.add("a", "b", "c")
        batch = await trial.claim(2)
        await batch.settle(retry(batch["b"], after=1), done(batch["a"]))
        trial.clock.advance(2)
        assert (await trial.claim()).keys == ["b", "c"]

    async def test_settle_done_resets_attempts(self, start: Start) -> None:
        """A done item starts again with no attempts counted."""
        trial = await start()
        await trial.add("a")
        batch = await trial.claim()
        await batch.settle(retry(batch.only, reason="once", error="…"))
        trial.clock.advance(1)
        await (await trial.claim()).finish()
        found = await trial.find_only("a")
        assert (found.state, found.attempts, found.reason, found.error) == ("done", 0, None, None)

    async def test_settle_done_with_a_revisit_opens_the_item_again(self, start: Start) -> None:
        """INV-7: a done item opens again when it is due, at a new position, so that the checkpoint waits for it."""
        trial = await start()
        await trial.add("a", "b")
        batch = await trial.claim(1)
        reply = await batch.settle(done(batch.only, result="1", revisit=10))
        assert reply.checkpoint == 1
        found = await trial.find_only("a")
        assert (found.state, found.due_at, found.settled_at, found.result) == (
            "delayed",
            reply.now + 10_000_000,
            reply.now,
            "1",
        )
        await (await trial.claim()).finish()
        status = await trial.status()
        assert (status.checkpoint, status.end, status.delayed, status.done) == (2, 2, 1, 1)
        assert await trial.add("a") == 0
        await trial.wait_until(reply.now + 10_000_000)
        again = await trial.claim()
        assert (again.keys, again.only.position, again.only.attempts) == (["a"], 3, 0)
        status = await trial.status()
        assert (status.checkpoint, status.end, status.claimed, status.delayed) == (2, 3, 1, 0)
        assert (await again.finish()).checkpoint == 3
        found = await trial.find_only("a")
        assert (found.state, found.position, found.result) == ("done", 3, None)

    async def test_settle_release_of_a_revisit(self, start: Start) -> None:
        trial = await start()
        await trial.add("a")
        batch = await trial.claim()
        await batch.settle(done(batch.only, revisit=1))
        trial.clock.advance(2)
        batch = await trial.claim()
        assert (await batch.settle(release(batch.only))).checkpoint == 1
        assert (await trial.claim()).only.position == 2

    async def test_settle_retry_of_a_revisit(self, start: Start) -> None:
        trial = await start()
        await trial.add("a")
        batch = await trial.claim()
        await batch.settle(done(batch.only, result="1", revisit=1))
        trial.clock.advance(2)
        batch = await trial.claim()
        assert (await batch.settle(retry(batch.only, after=5))).checkpoint == 1
        found = await trial.find_only("a")
        assert (found.state, found.settled_at, found.result, found.attempts) == ("delayed", None, None, 1)
        trial.clock.advance(6)
        batch = await trial.claim()
        assert batch.only.position == 2
        assert (await batch.finish()).checkpoint == 2

    async def test_reopen_makes_done_and_dead_items_ready(self, start: Start) -> None:
        trial = await start()
        await trial.add("done", "dead", "wide", "other")
        batch = await trial.claim(2)
        await batch.settle(done(batch["done"], result="1"), dead(batch["dead"], reason="broken", error="…"))
        status = await trial.status()
        assert (status.checkpoint, status.checkpoint_dead) == (2, 1)
        assert await trial.store.reopen([(0, 1), (0, 2)]) == 2
        for key, position in (("done", 5), ("dead", 6)):
            found = await trial.find_only(key)
            assert (found.state, found.position, found.attempts) == ("ready", position, 0)
            assert (found.settled_at, found.result, found.reason, found.error) == (None, None, None, None)
        status = await trial.status()
        assert (status.checkpoint, status.checkpoint_dead, status.done, status.dead) == (2, 0, 0, 0)
        assert list((await trial.store.items("dead")).rows) == []
        batch = await trial.claim()
        assert sorted(batch.keys) == ["dead", "done", "other", "wide"]
        assert (await batch.finish()).checkpoint == 6

    async def test_reopen_ignores_unsettled_items(self, start: Start) -> None:
        trial = await start()
        await trial.add("claimed", "retried", "revisited", "ready")
        await trial.add("delayed", after=10)
        batch = await trial.claim(3)
        await batch.settle(retry(batch["retried"], after=10), done(batch["revisited"], revisit=10))
        before = await trial.take_snapshot("claimed", "retried", "revisited", "ready", "delayed")
        assert await trial.store.reopen([(0, position) for position in range(1, 9)]) == 0
        assert await trial.store.reopen([]) == 0
        assert await trial.take_snapshot("claimed", "retried", "revisited", "ready", "delayed") == before

    async def test_reopen_twice_counts_once(self, start: Start) -> None:
        trial = await start()
        await trial.add("a")
        await (await trial.claim()).finish()
        assert await trial.store.reopen([(0, 1), (0, 1)]) == 1
        assert await trial.store.reopen([(0, 1)]) == 0
        await (await trial.claim()).finish()
        assert await trial.store.reopen([(0, 2)]) == 1
        assert (await trial.claim()).keys == ["a"]

    async def test_reopen_of_an_item_settled_out_of_order(self, start: Start) -> None:
        """INV-6: its old position is free and no longer holds back the checkpoint."""
        trial = await start()
        await trial.add("a", "b", "c")
        batch = await trial.claim()
        await batch.settle(dead(batch["b"]))
        assert await trial.store.reopen([(0, 2)]) == 1
        assert (await batch.finish("a", "c")).checkpoint == 3
        assert (await trial.status()).checkpoint_dead == 0
        assert (await (await trial.claim()).finish()).checkpoint == 4

    async def test_reopen_in_several_partitions(self, start: Start) -> None:
        trial = await start(partitions=3)
        for n in range(3):
            await trial.add(f"key{n}", lane=trial.lane(n))
        await (await trial.claim()).finish()
        assert await trial.store.reopen([(2, 1), (0, 1)]) == 2
        assert sorted((await trial.claim()).keys) == ["key0", "key2"]

    async def test_reopen_keeps_the_pace_of_the_lane(self, start: Start) -> None:
        """INV-3: a reopened item does not make its lane ready earlier."""
        trial = await start(min_interval=10, concurrency=1)
        await trial.add("a")
        settled = await (await trial.claim()).finish()
        await trial.store.reopen([(0, 1)])
        assert (await trial.claim()).keys == []
        await trial.wait_until(settled.now + 10_000_000)
        assert (await trial.claim()).keys == ["a"]

    async def test_claim_makes_many_due_items_ready(self, start: Start) -> None:
        """More items are due than one claim makes ready: none is forgotten or announced too late."""
        trial = await start()
        total = DELAYED_DRAIN + 200
        items = [trial.item(f"key{n}", lane=f"lane{n % 7}", after=1) for n in range(total)]
        assert await trial.store.add(items[:1000]) + await trial.store.add(items[1000:]) == total
        trial.clock.advance(2)
        got = 0
        for _ in range(10):
            batch = await trial.claim(600)
            got += len(batch.items)
            if got < total:
                assert batch.items or batch.reply.next_ready_at is not None
                assert batch.items or (batch.reply.next_ready_at or 0) <= trial.clock.now()
        assert got == total
