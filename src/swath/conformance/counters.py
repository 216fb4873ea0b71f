"""Counters of the frontier and of its lanes: they change with a settlement, once or not at all (INV-2, INV-5)."""

import asyncio

import pytest

from swath.conformance.trial import LANE, Batch, Conformance, Start, dead, done, release, retry
from swath.core.errors import InvalidOutcome, LeaseLost, OutputConflict
from swath.core.store import Move, MoveKind, OutputMove


class Counters(Conformance):
    async def test_counters_of_a_new_frontier_are_empty(self, start: Start) -> None:
        trial = await start(partitions=2)
        await trial.add("a")
        assert await trial.store.counters() == {}
        assert (await trial.lane_status()).counters == {}
        assert (await trial.claim()).only.lane_counters == {}

    async def test_settle_adds_to_counters(self, start: Start) -> None:
        trial = await start()
        await trial.add("a", "b", "c")
        batch = await trial.claim()
        await batch.settle(done(batch["a"]), counters={"records": 12, "bytes": 2**52})
        await batch.settle(dead(batch["b"]), counters={"records": -2, "bytes": 2**52})
        assert await trial.store.counters() == {"records": 10, "bytes": 2**53}
        await batch.settle(release(batch["c"]), counters={"é 'quoted' \"name\"": 1})
        assert (await trial.store.counters())["é 'quoted' \"name\""] == 1

    async def test_settle_adds_to_counters_of_lanes(self, start: Start) -> None:
        trial = await start()
        await trial.add("a", "b", "c")
        await trial.add("other", lane="other")
        batch = await trial.claim()
        await batch.settle(done(batch["a"]), lane_counters={LANE: {"pages": 1, "é 'n' \"m\"": 2}})
        await batch.settle(
            done(batch["b"]),
            retry(batch["c"]),
            done(batch["other"]),
            lane_counters={LANE: {"pages": 2}, "other": {"pages": -5}},
        )
        assert (await trial.lane_status()).counters == {"pages": 3, "é 'n' \"m\"": 2}
        assert (await trial.lane_status("other")).counters == {"pages": -5}
        listed = {row.lane: row.counters for _, row in await trial.store.lanes()}
        assert listed == {LANE: {"pages": 3, "é 'n' \"m\"": 2}, "other": {"pages": -5}}
        found = (await trial.find_only("a")).lane
        assert found is not None
        assert found.counters == {"pages": 3, "é 'n' \"m\"": 2}
        assert await trial.store.counters() == {}, "a lane's counters are not the frontier's"

    async def test_claim_returns_the_counters_of_lanes(self, start: Start) -> None:
        trial = await start()
        await trial.add("a", "b", "c", "d")
        await trial.add("x", "y", lane="other")
        await trial.add("quiet", lane="quiet")
        batch = await trial.claim(1)
        await batch.settle(done(batch["a"]), lane_counters={LANE: {"pages": 7}})
        batch = await trial.claim()
        counters = {item.key: item.lane_counters for item in batch.items}
        pages = {key: {"pages": 7} for key in ("b", "c", "d")}
        assert counters == {**pages, "x": {}, "y": {}, "quiet": {}}

    async def test_claim_of_one_item_returns_the_counters_of_its_lane(self, start: Start) -> None:
        """Some stores have a separate code path for lanes with a concurrency of 1."""
        trial = await start(concurrency=1)
        await trial.add("a", "b", "c")
        for pages, key in enumerate("abc"):
            batch = await trial.claim()
            assert (batch.only.key, batch.only.lane_counters) == (key, {"pages": pages} if pages else {})
            await batch.settle(done(batch.only), lane_counters={LANE: {"pages": 1}})

    async def test_counters_sum_over_partitions(self, start: Start) -> None:
        trial = await start(partitions=3)
        for n in range(3):
            await trial.add(f"key{n}", lane=trial.lane(n))
        batch = await trial.claim()
        for n in range(3):
            await batch.settle(done(batch[f"key{n}"]), partition=n, counters={"records": 10**n, f"only{n}": 1})
        assert await trial.store.counters() == {"records": 111, "only0": 1, "only1": 1, "only2": 1}

    async def test_settle_under_the_same_number_counts_once(self, start: Start) -> None:
        """The reply was lost, and the caller repeats the settlement (INV-5)."""
        trial = await start()
        await trial.add("a", "b")
        batch = await trial.claim()
        for _ in range(3):
            await batch.settle(done(batch["a"]), number=1, counters={"records": 1}, lane_counters={LANE: {"pages": 1}})
        assert await trial.store.counters() == {"records": 1}
        assert (await trial.lane_status()).counters == {"pages": 1}

    async def test_settle_after_a_lost_lease_counts_nothing(self, start: Start) -> None:
        """INV-2."""
        trial = await start()
        await trial.add("a")
        lost = await trial.claim(lease=30)
        trial.clock.advance(31)
        batch = await trial.claim()
        with pytest.raises(LeaseLost):
            await lost.settle(done(lost.only), counters={"records": 1}, lane_counters={LANE: {"pages": 1}})
        assert await trial.store.counters() == {}
        assert (await trial.lane_status()).counters == {}
        await batch.finish()

    async def test_settle_that_is_refused_counts_nothing(self, start: Start) -> None:
        trial = await start()
        await trial.add("a")
        batch = await trial.claim()
        counters, lane_counters = {"records": 1}, {LANE: {"pages": 1}}
        with pytest.raises(InvalidOutcome):
            await batch.settle(Move(99, MoveKind.DONE), counters=counters, lane_counters=lane_counters)
        with pytest.raises(OutputConflict):
            await batch.settle(
                done(batch.only),
                outputs=[OutputMove("file", 5, 6)],
                counters=counters,
                lane_counters=lane_counters,
            )
        assert await trial.store.counters() == {}
        assert (await trial.lane_status()).counters == {}

    async def test_settle_without_moves_counts(self, start: Start) -> None:
        trial = await start()
        await trial.add("a")
        batch = await trial.claim()
        await batch.settle(counters={"records": 1}, lane_counters={LANE: {"pages": 1}})
        assert await trial.store.counters() == {"records": 1}
        assert (await trial.lane_status()).counters == {"pages": 1}

    async def test_change_lane_keeps_the_counters_of_the_lane(self, start: Start) -> None:
        trial = await start()
        await trial.add("a", "b")
        batch = await trial.claim(1)
        await batch.settle(done(batch.only), lane_counters={LANE: {"pages": 1}})
        await trial.change_lane(min_interval=0, concurrency=1)
        await trial.add("c")
        assert (await trial.claim()).only.lane_counters == {"pages": 1}

    async def test_settle_from_many_tasks_counts_each_settlement(self, start: Start) -> None:
        trial = await start(partitions=2, concurrency=4)
        lanes = [trial.lane(n % 2, n // 2) for n in range(6)]
        await trial.store.add([trial.item(f"key{n}", lane=lanes[n % 6]) for n in range(60)])

        async def settle(batch: Batch) -> None:
            for item in batch.items:  # one after the other: the settlements of a claim are numbered
                await batch.settle(
                    done(item),
                    partition=item.partition,
                    counters={"records": 1},
                    lane_counters={item.lane: {"pages": 1}},
                )

        while (batches := await asyncio.gather(*(trial.claim(7) for _ in range(4)))) and any(b.items for b in batches):
            await asyncio.gather(*map(settle, batches))
        assert await trial.store.counters() == {"records": 60}
        assert [(await trial.lane_status(lane)).counters for lane in lanes] == [{"pages": 10}] * 6

    async def test_settle_replaces_the_payload_for_the_next_visit(self, start: Start) -> None:
        trial = await start()
        await trial.store.add([trial.item(key, payload='{"n":1}') for key in "abc"])
        batch = await trial.claim()
        await batch.settle(
            done(batch["a"], revisit=5, payload='{"n":2}'),
            done(batch["b"], revisit=5),
            done(batch["c"], revisit=5, payload="null"),
        )
        trial.clock.advance(6)
        batch = await trial.claim()
        assert [batch[key].payload for key in "abc"] == ['{"n":2}', '{"n":1}', "null"]
        await batch.settle(done(batch["a"], revisit=5, payload='{"n":3}'))
        assert (await trial.find_only("a")).payload == '{"n":3}'
