"""Repairs: dead items are settled again without a claim."""

import pytest

from swath.conformance.trial import Conformance, Start, Trial, dead, done
from swath.core.errors import InvalidOutcome, OutputConflict
from swath.core.item import Item
from swath.core.store import Fact, Move, OutputMove, Settlement, SettleReply


async def start_with_dead(start: Start, *keys: str) -> Trial:
    """Start a trial with dead items at positions 1, 2, …."""
    trial = await start()
    await trial.add(*keys)
    batch = await trial.claim()
    await batch.settle(*(dead(item, reason="handler: bug", error="trace") for item in batch.items))
    return trial


def at(position: int) -> Item:
    return Item("", partition=0, position=position)


async def repair(trial: Trial, *moves: Move, partition: int = 0) -> SettleReply:
    return await trial.store.repair(Settlement(partition, 0, moves))


class Repairs(Conformance):
    async def test_repair_settles_dead_items(self, start: Start) -> None:
        """INV-6: the checkpoint stays where it is, and counts one dead item less."""
        trial = await start_with_dead(start, "fixed", "broken", "untouched")
        untouched = await trial.find_only("untouched")
        trial.clock.advance(5)
        reply = await repair(trial, done(at(1), result="1"), dead(at(2), reason="handler: another", error="new trace"))
        assert (reply.checkpoint, reply.discovered) == (3, 0)
        found = await trial.find_only("fixed")
        assert (found.state, found.position, found.result, found.settled_at) == ("done", 1, "1", reply.now)
        assert (found.reason, found.error) == (None, None)
        found = await trial.find_only("broken")
        assert (found.state, found.position, found.attempts) == ("dead", 2, 2)
        assert (found.reason, found.error, found.settled_at) == ("handler: another", "new trace", reply.now)
        assert await trial.find_only("untouched") == untouched
        status = await trial.status()
        assert (status.done, status.dead, status.checkpoint, status.checkpoint_dead) == (1, 2, 3, 2)

    async def test_repair_above_the_checkpoint(self, start: Start) -> None:
        """INV-6: only dead items that the checkpoint has passed are counted."""
        trial = await start()
        await trial.add("held", "dead", "more")
        batch = await trial.claim()
        await batch.settle(dead(batch["dead"]), dead(batch["more"]))
        assert (await repair(trial, done(at(2)))).checkpoint == 0
        status = await trial.status()
        assert (status.dead, status.checkpoint_dead) == (1, 0)
        assert (await batch.finish("held")).checkpoint == 3
        assert (await trial.status()).checkpoint_dead == 1

    async def test_repair_commits_all_that_belongs_to_it(self, start: Start) -> None:
        """INV-5, INV-7: discovered items of several partitions, outputs, facts and counters."""
        trial = await start(partitions=2)
        lane = trial.lane(0)
        await trial.add("a", "known", lane=lane)
        batch = await trial.claim()
        await batch.settle(dead(batch["a"]), done(batch["known"]))
        found = [trial.item(key, lane=lane) for key in ("known", "near")] + [trial.item("far", lane=trial.lane(1))]
        reply = await trial.store.repair(
            Settlement(
                0,
                0,
                [done(at(1))],
                found,
                [OutputMove("items", 0, 10)],
                [Fact("fact", "1")],
                {"items": 3},
                {lane: {"items": 3}},
            )
        )
        assert reply.discovered >= 1
        assert sorted(await trial.claim_each("near", "far")) == ["far", "near"]
        assert await trial.state("known") == "done"
        assert await trial.store.outputs() == {"items": 10}
        assert await trial.store.facts(["fact"]) == {"fact": "1"}
        assert await trial.store.counters() == {"items": 3}
        assert (await trial.lane_status(lane)).counters == {"items": 3}

    async def test_repair_of_items_that_are_not_dead_changes_nothing(self, start: Start) -> None:
        """INV-1, INV-5: what was re-opened meanwhile belongs to whoever claims it, and what is done stays so."""
        trial = await start_with_dead(start, "dead", "reopened", "repaired")
        await trial.add("ready", "claimed")
        assert await trial.store.reopen([(0, 2)]) == 1
        batch = await trial.claim(1)
        await repair(trial, done(at(3), result="1"))
        keys = ("dead", "reopened", "repaired", "ready", "claimed")
        before = await trial.take_snapshot(*keys)
        new = trial.item("new")
        for position in (2, 3, 4, 5, 6, 99):
            with pytest.raises(InvalidOutcome, match="1 of the 2 items to repair are dead"):
                await trial.store.repair(
                    Settlement(0, 0, [done(at(1)), done(at(position))], [new], [OutputMove("items", 0, 1)])
                )
        with pytest.raises(InvalidOutcome, match="named twice"):
            await repair(trial, done(at(1)), dead(at(1)))
        assert await trial.take_snapshot(*keys) == before
        assert await trial.find("new") == []
        await batch.finish()

    async def test_repair_with_a_wrong_output_length_changes_nothing(self, start: Start) -> None:
        trial = await start_with_dead(start, "a")
        before = await trial.take_snapshot("a")
        with pytest.raises(OutputConflict):
            await trial.store.repair(Settlement(0, 0, [done(at(1))], outputs=[OutputMove("items", 5, 9)]))
        assert await trial.take_snapshot("a") == before

    async def test_repair_keeps_the_pace_of_the_lane(self, start: Start) -> None:
        """INV-3: nothing was started, so the next item is not ready earlier or later, and no visit is counted."""
        trial = await start(min_interval=10, concurrency=1)
        await trial.add("a", "b")
        batch = await trial.claim()
        settled = await batch.settle(dead(batch.only))
        trial.clock.advance(4)
        lane = await trial.lane_status()
        await repair(trial, done(at(1)))
        assert await trial.lane_status() == lane
        assert (await trial.status()).visits == 0
        await trial.wait_until(settled.now + 9_999_999)
        assert (await trial.claim()).keys == []
        await trial.wait_until(settled.now + 10_000_000)
        assert (await trial.claim()).keys == ["b"]

    async def test_repair_in_a_paused_frontier(self, start: Start) -> None:
        trial = await start_with_dead(start, "a")
        await trial.store.change_settings(paused=True)
        await repair(trial, done(at(1)))
        assert await trial.state("a") == "done"

    async def test_repair_of_an_item_that_was_reopened_before(self, start: Start) -> None:
        """INV-7: a repaired item keeps its key and its new position, and can be re-opened like any other."""
        trial = await start_with_dead(start, "a")
        assert await trial.store.reopen([(0, 1)]) == 1
        batch = await trial.claim()
        await batch.settle(dead(batch.only))
        await repair(trial, done(at(2), result="1"))
        assert (await trial.find_only("a")).position == 2
        assert await trial.add("a") == 0
        assert await trial.store.reopen([(0, 2)]) == 1
        assert (await (await trial.claim()).finish()).checkpoint == 3
