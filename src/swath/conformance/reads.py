"""Reads: status, find, lanes, pending items, outputs and signals agree with what was written."""

from collections import Counter

from swath.conformance.trial import LANE, Conformance, Start, dead, done, list_counts, retry
from swath.core.store import AHEAD_LIMIT, LaneChange


class Reads(Conformance):
    async def test_status_of_an_empty_frontier(self, start: Start) -> None:
        trial = await start(partitions=3, min_interval=1.5, concurrency=2, max_attempts=7)
        status = await trial.store.status()
        assert tuple(status.settings) == (3, 1_500_000, 2, 7) == tuple(trial.store.settings)
        assert (status.now, status.signal.paused) == (trial.clock.now(), False)
        assert [partition.partition for partition in status.partitions] == [0, 1, 2]
        for partition in status.partitions:
            assert not any(list_counts(partition).values())
            assert partition.next_ready_at is None

    async def test_status_counts_every_state(self, start: Start) -> None:
        trial = await start(partitions=2)
        lane = trial.lane(1)
        await trial.add("done", "dead", "retried", "revisited", "claimed", "ready", "ready2", lane=lane)
        await trial.add("delayed", lane=trial.lane(1, 1), after=10)
        batch = await trial.claim(5)
        await batch.settle(
            done(batch["done"]),
            dead(batch["dead"]),
            retry(batch["retried"], after=5),
            done(batch["revisited"], revisit=5),
        )
        assert not any(list_counts(await trial.status(0)).values())
        assert list_counts(await trial.status(1)) == {
            "ready": 2,
            "delayed": 3,
            "claimed": 1,
            "done": 1,
            "visits": 2,
            "dead": 1,
            "lanes": 2,
            "inbox": 0,
            "checkpoint": 2,
            "checkpoint_dead": 1,
            "end": 8,
        }
        assert [list_counts(s) for s in await trial.store.recount()] == [
            list_counts(await trial.status(n)) for n in (0, 1)
        ]

    async def test_status_returns_when_the_next_item_is_ready(self, start: Start) -> None:
        trial = await start(min_interval=10, concurrency=1)
        await trial.add("a", after=5)
        assert (await trial.status()).next_ready_at == trial.clock.now() + 5_000_000
        await trial.add("b", "c")
        status = await trial.status()
        assert status.next_ready_at is not None
        assert status.next_ready_at <= status.time

    async def test_status_returns_none_if_nothing_waits(self, start: Start) -> None:
        """`next_ready_at` ignores the leases of settled claims and times that have passed."""
        trial = await start(min_interval=10)
        await trial.add("a", after=5)
        trial.clock.advance(6)
        batch = await trial.claim()
        await batch.settle(done(batch["a"]))
        assert (await trial.status()).next_ready_at is None

    async def test_find_of_an_unknown_key_returns_nothing(self, start: Start) -> None:
        trial = await start(partitions=2)
        await trial.add("a")
        assert list(await trial.find("b")) == []
        assert list(await trial.find("a", "other")) == []

    async def test_find_in_every_lane(self, start: Start) -> None:
        trial = await start(partitions=4)
        lanes = [trial.lane(0), trial.lane(0, 1), trial.lane(2)]
        for priority, lane in enumerate(lanes):
            await trial.add("a", lane=lane, priority=priority)
            await trial.add("b", lane=lane)
        found = await trial.find("a")
        assert sorted(f.lane.lane for f in found if f.lane) == sorted(lanes)
        for priority, lane in enumerate(lanes):
            one = await trial.find_only("a", lane)
            assert one.lane is not None
            assert (one.key, one.priority, one.lane.lane, one.partition) == ("a", priority, lane, one.lane.partition)

    async def test_find_in_order_of_position(self, start: Start) -> None:
        """A reopened item is listed by its new position."""
        trial = await start(partitions=2)
        lanes = [trial.lane(0, n) for n in range(3)]
        for lane in lanes:
            await trial.add("a", lane=lane)
        await trial.add("a", lane=trial.lane(1))
        await (await trial.claim(order=[0])).finish()
        assert await trial.store.reopen([(0, 1)]) == 1
        found = await trial.find("a")
        assert [(f.partition, f.position) for f in found] == [(0, 2), (0, 3), (0, 4), (1, 1)]
        assert [f.lane and f.lane.lane for f in found] == [lanes[1], lanes[2], lanes[0], trial.lane(1)]

    async def test_find_ready(self, start: Start) -> None:
        trial = await start()
        await trial.add("a", "b", "c")
        await trial.add("urgent", priority=5)
        await trial.add("elsewhere", lane="other")
        ahead = {key: (await trial.find_only(key)).ahead for key in ("a", "b", "c", "urgent", "elsewhere")}
        assert ahead == {"a": 1, "b": 2, "c": 3, "urgent": 0, "elsewhere": 0}
        found = await trial.find_only("a")
        assert (found.state, found.position, found.attempts, found.due_at, found.fence) == ("ready", 1, 0, None, None)
        assert found.lane is not None
        assert (found.lane.lane, found.lane.waiting, found.lane.in_flight) == (LANE, 4, 0)

    async def test_find_ready_behind_many(self, start: Start) -> None:
        """The store counts up to a limit, so that the call stays cheap."""
        trial = await start()
        for chunk in range(3):
            await trial.add(*(f"key{n}" for n in range(chunk * 500, chunk * 500 + 500)))
        assert (await trial.find_only("key999")).ahead == 999
        assert (await trial.find_only("key1499")).ahead == AHEAD_LIMIT

    async def test_find_claimed(self, start: Start) -> None:
        trial = await start()
        await trial.store.add([trial.item("a", payload="[1]")])
        batch = await trial.claim(worker="wanda", lease=9)
        found = await trial.find_only("a")
        assert (found.state, found.worker, found.expires_at) == ("claimed", "wanda", batch.reply.expires_at)
        assert found.fence == batch.reply.fence
        assert (found.payload, found.ahead, found.due_at, found.settled_at) == ("[1]", None, None, None)
        assert found.lane is not None
        assert (found.lane.waiting, found.lane.in_flight) == (0, 1)

    async def test_lanes_of_every_state(self, start: Start) -> None:
        trial = await start(min_interval=10, concurrency=1)
        now = trial.clock.now()
        await trial.add("w1", "w2", lane="waiting")
        first = await trial.claim()
        settled = await first.finish()
        await trial.add("b1", "b2", lane="busy")
        await trial.claim()
        await trial.add("p1", lane="paused")
        await trial.change_lane("paused", paused=True)
        await trial.add("x1", lane="blocked")
        await trial.change_lane("blocked", blocked_until=now + 70_000_000)
        await trial.change_lane("empty", min_interval=3, concurrency=4)
        await trial.add("r1", lane="ready")
        lanes = {status.lane: status for _, status in await trial.store.lanes()}
        assert list(lanes) == ["waiting", "busy", "paused", "blocked", "empty", "ready"]
        assert {name: (lane.waiting, lane.in_flight) for name, lane in lanes.items()} == {
            "waiting": (1, 0),
            "busy": (1, 1),
            "paused": (1, 0),
            "blocked": (1, 0),
            "empty": (0, 0),
            "ready": (1, 0),
        }
        assert lanes["waiting"].ready_at == settled.now + 10_000_000
        assert lanes["waiting"].last_at == settled.now
        assert lanes["blocked"].ready_at == now + 70_000_000
        assert (lanes["busy"].ready_at, lanes["paused"].ready_at, lanes["empty"].ready_at) == (None, None, None)
        ready_at = lanes["ready"].ready_at
        assert ready_at is not None
        assert now <= ready_at <= (await trial.status()).time
        assert lanes["paused"].limits.paused
        assert (lanes["empty"].limits.min_interval, lanes["empty"].limits.concurrency) == (3_000_000, 4)
        assert (lanes["ready"].limits.min_interval, lanes["ready"].limits.concurrency) == (None, None)

    async def test_lanes_page_by_page(self, start: Start) -> None:
        trial = await start(partitions=3)
        for n in range(10):
            await trial.add(f"key{n}", lane=f"lane{n}")
        everything = list(await trial.store.lanes())
        places = [(status.partition, number) for number, status in everything]
        assert places == sorted(set(places))
        pages: list[str] = []
        after: tuple[int, int] | None = None
        for _ in range(20):
            page = await trial.store.lanes(after=after, limit=3)
            if not page:
                break
            pages += [status.lane for _, status in page]
            after = (page[-1][1].partition, page[-1][0])
        assert pages == [status.lane for _, status in everything]
        assert sorted(pages) == sorted(f"lane{n}" for n in range(10))

    async def test_lane_returns_one_lane(self, start: Start) -> None:
        trial = await start(partitions=3)
        names = [trial.lane(n % 3, n // 3) for n in range(6)]
        for name in names:
            await trial.add("a", lane=name)
        everything = await trial.store.lanes()
        assert len(everything) == len(names)
        for _, status in everything:
            assert await trial.store.lane(status.partition, status.lane) == status
        assert await trial.store.lane(1, names[0]) is None
        assert await trial.store.lane(0, "unknown") is None

    async def test_pending_lists_the_items_that_hold_the_checkpoint_back(self, start: Start) -> None:
        """INV-6: lists items that are ready, delayed or claimed, but not done or dead items and revisits."""
        trial = await start()
        await trial.add("ready", lane="later")
        await trial.add("done", "dead", "retried", "revisited", "claimed", lane=LANE)
        await trial.store.change_lane(trial.item("ready", lane="later").partition, "later", LaneChange(paused=True))
        batch = await trial.claim()
        await batch.settle(
            done(batch["done"]),
            dead(batch["dead"]),
            retry(batch["retried"], after=5),
            done(batch["revisited"], revisit=1),
        )
        found = await trial.store.pending()
        assert {item.key: item.state for item in found} == {
            "ready": "ready",
            "retried": "delayed",
            "claimed": "claimed",
        }
        assert {item.key: item.attempts for item in found}["retried"] == 1
        (part,) = (await trial.store.status()).partitions
        assert min(item.position for item in found) == part.checkpoint + 1

    async def test_pending_page_by_page(self, start: Start) -> None:
        trial = await start(partitions=2)
        for n in range(9):
            lane = trial.lane(n % 2)
            await trial.store.add([trial.item(f"key{n}", lane=lane, payload=f"[{n}]", priority=n % 8)])
        batch = await trial.claim(limit=6)
        for item in batch.items[:3]:
            await batch.settle(retry(item, after=5), partition=item.partition)
        everything = list(await trial.store.pending())
        assert Counter(item.state for item in everything) == {"ready": 3, "claimed": 3, "delayed": 3}
        places = [(item.partition, item.position) for item in everything]
        assert places == sorted(places)
        assert len(places) == 9
        for listed in everything:
            n = int(listed.key[3:])
            assert (listed.lane, listed.payload, listed.priority) == (trial.lane(n % 2), f"[{n}]", n % 8)
        assert list(await trial.store.pending(limit=4)) == everything[:4]
        assert list(await trial.store.pending(limit=4, after=places[3])) == everything[4:8]
        assert list(await trial.store.pending(after=places[8])) == []

    async def test_outputs_of_an_empty_frontier(self, start: Start) -> None:
        assert await (await start()).store.outputs() == {}

    async def test_signal_rises_with_every_pause(self, start: Start) -> None:
        trial = await start()
        await trial.add("a")
        first = await trial.store.signal()
        assert not first.paused
        await trial.store.change_settings(paused=True)
        second = await trial.store.signal()
        assert second.paused
        assert second.version > first.version
        await trial.store.change_settings(paused=False)
        third = await trial.store.signal()
        assert not third.paused
        await trial.change_lane(paused=True)
        fourth = await trial.store.signal()
        assert not fourth.paused
        assert fourth.version > third.version
        assert (await trial.claim()).reply.signal == fourth == (await trial.store.status()).signal

    async def test_signal_stays_when_nothing_is_paused(self, start: Start) -> None:
        trial = await start()
        first = await trial.store.signal()
        await trial.add("a")
        await (await trial.claim()).finish()
        await trial.change_lane(concurrency=3, min_interval=1)
        await trial.change_lane(paused=False)
        await trial.store.change_settings(min_interval=1, concurrency=2, max_attempts=3)
        assert await trial.store.signal() == first

    async def test_change_settings_one_by_one(self, start: Start) -> None:
        trial = await start(partitions=2, min_interval=1, concurrency=2, max_attempts=3)
        await trial.store.change_settings(concurrency=9)
        await trial.store.change_settings(min_interval=0)
        await trial.store.change_settings()
        assert tuple((await trial.store.status()).settings) == (2, 0, 9, 3)
        await trial.store.change_settings(max_attempts=1, concurrency=0)
        assert tuple((await trial.store.status()).settings) == (2, 0, 0, 1)

    async def test_wait_returns_after_its_time(self, start: Start) -> None:
        trial = await start()
        await trial.store.wait(0.01)
