"""Settlements: outcomes, discovered items and outputs commit together, once, or not at all (INV-5)."""

import asyncio

import pytest

from swath.conformance.trial import Conformance, Start, dead, done, release, retry
from swath.core.errors import InvalidOutcome, LeaseLost, OutputConflict
from swath.core.store import Move, MoveKind, OutputMove
from swath.core.validation import MAX_ERROR_CHARS, MAX_RESULT_BYTES


class Settlements(Conformance):
    async def test_settle_done(self, start: Start) -> None:
        trial = await start()
        await trial.add("a")
        batch = await trial.claim()
        trial.clock.advance(1)
        reply = await batch.settle(done(batch.only, result='{"size":1}'))
        assert (reply.now, reply.discovered, reply.checkpoint) == (trial.clock.now(), 0, 1)
        found = await trial.find_only("a")
        assert (found.state, found.settled_at, found.result, found.position) == ("done", reply.now, '{"size":1}', 1)
        assert (found.fence, found.worker, found.expires_at, found.due_at) == (None, None, None, None)
        status = await trial.status()
        assert (status.claimed, status.done) == (0, 1)

    async def test_settle_dead(self, start: Start) -> None:
        trial = await start()
        await trial.add("a")
        batch = await trial.claim()
        reply = await batch.settle(dead(batch.only, reason="gone", error="Traceback …"))
        found = await trial.find_only("a")
        assert (found.state, found.attempts, found.reason, found.error) == ("dead", 1, "gone", "Traceback …")
        assert (found.settled_at, found.result) == (reply.now, None)
        assert (await trial.status()).dead == 1

    async def test_settle_retry(self, start: Start) -> None:
        trial = await start()
        await trial.add("a")
        batch = await trial.claim()
        reply = await batch.settle(retry(batch.only, after=5, reason="timeout", error="…"))
        found = await trial.find_only("a")
        assert (found.state, found.attempts, found.due_at) == ("delayed", 1, reply.now + 5_000_000)
        assert (found.reason, found.error, found.position) == ("timeout", "…", 1)

    async def test_settle_release(self, start: Start) -> None:
        trial = await start()
        await trial.add("a", "b")
        batch = await trial.claim()
        await batch.settle(release(batch["a"]), release(batch["b"], started=False))
        for key in ("a", "b"):
            found = await trial.find_only(key)
            assert (found.state, found.attempts, found.fence, found.settled_at) == ("ready", 0, None, None)
        assert (await trial.claim()).keys == ["a", "b"]

    async def test_settle_keeps_long_texts(self, start: Start) -> None:
        trial = await start()
        await trial.add("a", "b")
        batch = await trial.claim()
        result, error = '"' + "r" * (MAX_RESULT_BYTES - 2) + '"', "é'\\\n" * (MAX_ERROR_CHARS // 4)
        await batch.settle(done(batch["a"], result=result), dead(batch["b"], error=error))
        assert (await trial.find_only("a")).result == result
        assert (await trial.find_only("b")).error == error

    async def test_settle_some_items_at_a_time(self, start: Start) -> None:
        trial = await start()
        await trial.add(*"abcd")
        batch = await trial.claim()
        await batch.finish("c")
        await batch.settle(retry(batch["a"], after=1), dead(batch["d"]))
        status = await trial.status()
        assert (status.claimed, status.delayed, status.done, status.dead) == (1, 1, 1, 1)
        await batch.finish("b")
        assert (await trial.status()).claimed == 0

    async def test_settle_in_each_partition_of_a_claim(self, start: Start) -> None:
        trial = await start(partitions=3)
        for n in range(3):
            await trial.add(f"key{n}", lane=trial.lane(n))
        batch = await trial.claim()
        assert batch.partitions == [0, 1, 2]
        for n in (2, 0):
            await batch.settle(done(batch[f"key{n}"]), partition=n)
        assert [(await trial.status(n)).done for n in range(3)] == [1, 0, 1]
        await batch.renew()
        await batch.settle(done(batch["key1"]), partition=1)

    async def test_settle_refuses_an_item_twice_in_one_settlement(self, start: Start) -> None:
        trial = await start()
        await trial.add("a", "b")
        batch = await trial.claim()
        before = await trial.take_snapshot("a", "b")
        with pytest.raises(InvalidOutcome):
            await batch.settle(done(batch["a"]), done(batch["b"]), retry(batch["a"]))
        assert await trial.take_snapshot("a", "b") == before

    async def test_settle_refuses_a_settled_item(self, start: Start) -> None:
        trial = await start()
        await trial.add("a", "b", "c")
        batch = await trial.claim()
        await batch.settle(done(batch["a"]), release(batch["c"]))
        before = await trial.take_snapshot("a", "b", "c")
        for key in ("a", "c"):
            with pytest.raises(InvalidOutcome):
                await batch.settle(done(batch["b"]), dead(batch[key]))
        assert await trial.take_snapshot("a", "b", "c") == before

    async def test_settle_refuses_an_item_of_another_claim(self, start: Start) -> None:
        """INV-2."""
        trial = await start()
        await trial.add("a", "b", "waiting")
        mine, other = await trial.claim(1), await trial.claim(1)
        before = await trial.take_snapshot("a", "b")
        with pytest.raises(InvalidOutcome):
            await mine.settle(done(mine["a"]), done(other["b"]))
        with pytest.raises(InvalidOutcome):
            await mine.settle(done(mine["a"]), Move(3, MoveKind.DONE))
        with pytest.raises(InvalidOutcome):
            await mine.settle(done(mine["a"]), Move(999, MoveKind.DONE))
        assert await trial.take_snapshot("a", "b") == before
        await mine.finish()
        await other.finish()

    async def test_settle_refuses_an_item_in_the_wrong_partition(self, start: Start) -> None:
        trial = await start(partitions=2)
        await trial.add("a", lane=trial.lane(0))
        await trial.add("b", lane=trial.lane(1))
        mine, other = await trial.claim(order=[0]), await trial.claim(order=[1])
        assert mine.only.position == other.only.position
        before = await trial.take_snapshot("a", "b")
        with pytest.raises(InvalidOutcome):
            await mine.settle(done(mine.only), partition=1)
        assert await trial.take_snapshot("a", "b") == before

    async def test_settle_under_the_same_number_is_applied_once(self, start: Start) -> None:
        """The reply was lost, and the caller repeats the settlement: it is applied once."""
        trial = await start()
        await trial.add("a", "b")
        batch = await trial.claim()
        found, outputs = [trial.item("new")], [OutputMove("file", 0, 7)]
        first = await batch.settle(retry(batch["a"], after=5), number=1, discovered=found, outputs=outputs)
        before = await trial.take_snapshot("a", "b", "new")
        again = await batch.settle(retry(batch["a"], after=5), number=1, discovered=found, outputs=outputs)
        assert again.checkpoint == first.checkpoint
        assert await trial.take_snapshot("a", "b", "new") == before
        await batch.settle(done(batch["b"]), number=2)
        await batch.settle(retry(batch["a"], after=5), number=1)
        assert (await trial.find_only("a")).attempts == 1

    async def test_settle_can_be_repeated_after_the_lease_was_lost(self, start: Start) -> None:
        """A settlement that took effect before the loss can be repeated; a new one is refused."""
        trial = await start()
        await trial.add("a", "b")
        lost = await trial.claim(lease=30)
        await lost.settle(done(lost["a"]), number=1)
        trial.clock.advance(31)
        assert (await trial.claim()).keys == ["b"]
        before = await trial.take_snapshot("a", "b")
        await lost.settle(done(lost["a"]), number=1)
        with pytest.raises(LeaseLost):
            await lost.settle(done(lost["b"]), number=2)
        assert await trial.take_snapshot("a", "b") == before

    async def test_settle_without_a_number(self, start: Start) -> None:
        """Settlements in a caller's transaction have the number 0 and are never taken for a repetition."""
        trial = await start()
        await trial.add("a", "b", "c")
        batch = await trial.claim()
        await batch.settle(done(batch["a"]), number=3)
        await batch.settle(done(batch["b"]), number=0)
        assert await trial.total("done") == 2
        with pytest.raises(InvalidOutcome):
            await batch.settle(done(batch["b"]), number=0)
        await batch.settle(done(batch["a"]), number=3)  # still recognised as applied
        await batch.settle(done(batch["c"]), number=4)
        assert await trial.total("done") == 3

    async def test_settle_under_a_number_that_was_refused(self, start: Start) -> None:
        trial = await start()
        await trial.add("a")
        batch = await trial.claim()
        with pytest.raises(InvalidOutcome):
            await batch.settle(Move(99, MoveKind.DONE), number=1)
        await batch.settle(done(batch.only), number=1)
        assert await trial.state("a") == "done"

    async def test_settle_records_outputs(self, start: Start) -> None:
        trial = await start()
        await trial.add("a", "b")
        batch = await trial.claim()
        await batch.settle(done(batch["a"]), outputs=[OutputMove("one", 0, 10), OutputMove("two", 0, 20)])
        assert await trial.store.outputs() == {"one": 10, "two": 20}
        await batch.settle(done(batch["b"]), outputs=[OutputMove("one", 10, 15)])
        assert await trial.store.outputs() == {"one": 15, "two": 20}

    async def test_settle_refuses_an_output_with_another_length(self, start: Start) -> None:
        """The committed length must be the expected one; otherwise nothing of the settlement is applied."""
        trial = await start(partitions=2)
        lane = trial.lane(0)
        await trial.add("a", "b", lane=lane)
        batch = await trial.claim()
        await batch.settle(done(batch["a"]), outputs=[OutputMove("one", 0, 10)])
        before = await trial.take_snapshot("a", "b", "new", "far")
        found = [trial.item("new", lane=lane), trial.item("far", lane=trial.lane(1))]
        for move in (OutputMove("one", 0, 10), OutputMove("one", 9, 12), OutputMove("new", 5, 6)):
            with pytest.raises(OutputConflict):
                await batch.settle(done(batch["b"]), discovered=found, outputs=[OutputMove("two", 0, 1), move])
        assert await trial.take_snapshot("a", "b", "new", "far") == before
        await batch.settle(done(batch["b"]), discovered=found, outputs=[OutputMove("one", 10, 12)])
        assert await trial.store.outputs() == {"one": 12}

    async def test_settle_outputs_from_many_tasks(self, start: Start) -> None:
        """If several tasks expect the same length, exactly one wins, whichever partitions they settle in."""
        trial = await start(partitions=4)
        for n in range(4):
            await trial.add(*(f"key{n}.{turn}" for turn in range(5)), lane=trial.lane(n))
        batches = [await trial.claim(order=[n]) for n in range(4)]
        for turn in range(5):
            lengths = await trial.store.outputs()

            async def settle(n: int, turn: int, lengths: dict[str, int]) -> str:
                names = ["one", "two"][:: 1 if n % 2 else -1]
                moves = [OutputMove(name, lengths.get(name, 0), lengths.get(name, 0) + n + 1) for name in names]
                try:
                    await batches[n].settle(done(batches[n][f"key{n}.{turn}"]), outputs=moves)
                except OutputConflict:
                    return "conflict"
                return f"{n}"

            results = await asyncio.gather(*(settle(n, turn, lengths) for n in range(4)))
            (winner,) = [int(result) for result in results if result != "conflict"]
            grown = {name: lengths.get(name, 0) + winner + 1 for name in ("one", "two")}
            assert await trial.store.outputs() == grown
            assert await trial.total("done") == turn + 1

    async def test_settle_applies_everything_or_nothing(self, start: Start) -> None:
        """INV-5: if one move is invalid, no other move and no discovered item is applied."""
        trial = await start(partitions=2)
        lane = trial.lane(0)
        await trial.add("a", "b", lane=lane)
        batch = await trial.claim()
        await batch.finish("a")
        before = await trial.take_snapshot("a", "b", "new", "far")
        with pytest.raises(InvalidOutcome):
            await batch.settle(
                done(batch["b"]),
                done(batch["a"]),
                discovered=[trial.item("new", lane=lane), trial.item("far", lane=trial.lane(1))],
                outputs=[OutputMove("file", 0, 1)],
            )
        assert await trial.take_snapshot("a", "b", "new", "far") == before
        assert await trial.store.outputs() == {}

    async def test_settle_without_moves(self, start: Start) -> None:
        trial = await start()
        await trial.add("a")
        batch = await trial.claim()
        assert (await batch.settle(discovered=[trial.item("b")])).discovered == 1
        assert (await trial.claim()).keys == ["b"]
        await batch.finish()

    async def test_settle_from_many_tasks(self, start: Start) -> None:
        trial = await start(partitions=2, concurrency=4)
        await trial.store.add([trial.item(f"key{n}", lane=f"lane{n % 10}") for n in range(80)])
        while (batches := await asyncio.gather(*(trial.claim(7) for _ in range(6)))) and any(b.items for b in batches):
            await asyncio.gather(*(batch.finish() for batch in batches if batch.items))
        assert await trial.total("done") == 80
        assert await trial.total("checkpoint") == await trial.total("end") == 80
