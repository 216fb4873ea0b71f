"""Checkpoints: everything at or below the checkpoint is settled, and it reaches the end with the last item (INV-6)."""

from random import Random

from swath.conformance.trial import Conformance, Start, dead, done, release, retry


class Checkpoints(Conformance):
    async def test_settle_advances_the_checkpoint(self, start: Start) -> None:
        trial = await start()
        await trial.add(*"abcde")
        batch = await trial.claim()
        expected = {"b": 0, "a": 2, "d": 2, "e": 2, "c": 5}
        for key, checkpoint in expected.items():
            assert (await batch.finish(key)).checkpoint == checkpoint
            assert (await trial.status()).checkpoint == checkpoint

    async def test_settle_counts_dead_items_below_the_checkpoint(self, start: Start) -> None:
        trial = await start()
        await trial.add(*"abcd")
        batch = await trial.claim()
        await batch.settle(dead(batch["b"]), dead(batch["d"]))
        status = await trial.status()
        assert (status.checkpoint, status.checkpoint_dead, status.dead) == (0, 0, 2)
        await batch.finish("a")
        status = await trial.status()
        assert (status.checkpoint, status.checkpoint_dead) == (2, 1)
        await batch.finish("c")
        status = await trial.status()
        assert (status.checkpoint, status.checkpoint_dead) == (4, 2)

    async def test_settle_keeps_the_checkpoint_below_unsettled_items(self, start: Start) -> None:
        """Ready, delayed and claimed items hold back the checkpoint."""
        trial = await start()
        await trial.add("a", "b", "c", "d", "e", "f")
        batch = await trial.claim(5)
        await batch.finish("a")
        await batch.settle(retry(batch["b"], after=10), release(batch["d"]))
        assert (await batch.finish("e")).checkpoint == 1
        trial.clock.advance(11)
        again = await trial.claim(1)
        assert again.keys == ["d"]
        assert (await again.finish()).checkpoint == 1
        again = await trial.claim(1)
        assert again.keys == ["b"]
        assert (await again.finish()).checkpoint == 2
        assert (await batch.finish("c")).checkpoint == 5
        await (await trial.claim()).finish()
        status = await trial.status()
        assert status.checkpoint == status.end == 6

    async def test_settle_keeps_the_checkpoint_below_delayed_items(self, start: Start) -> None:
        trial = await start()
        await trial.add("later", after=100)
        await trial.add("now")
        assert (await (await trial.claim()).finish()).checkpoint == 0
        trial.clock.advance(100)
        assert (await (await trial.claim()).finish()).checkpoint == 2

    async def test_settle_keeps_the_checkpoint_below_discovered_items(self, start: Start) -> None:
        trial = await start()
        await trial.add("a")
        batch = await trial.claim()
        assert (await batch.settle(done(batch.only), discovered=[trial.item("b")])).checkpoint == 1
        batch = await trial.claim()
        assert (await batch.settle(done(batch.only), discovered=[])).checkpoint == 2

    async def test_add_does_not_move_the_checkpoint(self, start: Start) -> None:
        trial = await start()
        await trial.add("a")
        await (await trial.claim()).finish()
        await trial.add("b", "c")
        status = await trial.status()
        assert (status.checkpoint, status.end) == (1, 3)

    async def test_settle_advances_the_checkpoint_of_its_partition_only(self, start: Start) -> None:
        trial = await start(partitions=2)
        await trial.add("a", "b", lane=trial.lane(0))
        await trial.add("c", lane=trial.lane(1))
        batch = await trial.claim()
        await batch.settle(done(batch["c"]), partition=1)
        assert [((s := await trial.status(n)).checkpoint, s.end) for n in (0, 1)] == [(0, 2), (1, 1)]

    async def test_settle_in_any_order_keeps_the_checkpoint_correct(self, start: Start) -> None:
        """For seeded random outcomes: the checkpoint never moves back or past an unsettled item and reaches the end."""
        trial = await start(max_attempts=100)
        random = Random(20)
        for n in range(24):
            await trial.add(f"key{n}", lane=f"lane{n % 7}", priority=random.randrange(8), span=random.choice((1, 1, 5)))
        before = 0
        for _ in range(400):
            batch = await trial.claim(random.randrange(1, 6))
            for item in batch.items:
                outcomes = (done(item), done(item), dead(item), retry(item, after=random.randrange(3)), release(item))
                reply = await batch.settle(random.choice(outcomes))
                assert reply.checkpoint >= before
                before = reply.checkpoint
                unsettled = [item.position for item in await trial.store.pending()]
                assert reply.checkpoint < min(unsettled, default=reply.checkpoint + 1)
            trial.clock.advance(1)
            if await trial.total("ready", "delayed", "claimed") == 0:
                break
        status = await trial.status()
        assert status.checkpoint == status.end
        assert status.checkpoint_dead == status.dead
