"""Pacing: a lane never starts too many items or too early, even if its limits change (INV-3)."""

from swath.conformance.trial import LANE, Batch, Conformance, Start, Trial, dead, done, release, retry, split
from swath.core.lane import LaneLimits
from swath.core.store import DEFAULT, Move


async def next_start(trial: Trial, *, limit: int = 100, lease: float = 1000) -> Batch:
    """Move the clock to the time that the store announced, and check that nothing was ready a microsecond earlier."""
    for _ in range(20):
        batch = await trial.claim(limit, lease=lease)
        if batch.items:
            return batch
        assert batch.reply.next_ready_at is not None
        await trial.wait_until(batch.reply.next_ready_at - 1)
        assert (await trial.claim(limit, lease=lease)).keys == []
        trial.clock.advance(0.000001)
    raise AssertionError("nothing became ready")


class Pacing(Conformance):
    async def test_claim_waits_min_interval_after_settlement(self, start: Start) -> None:
        """INV-3: with a concurrency of 1, the interval runs from the settlement."""
        trial = await start(min_interval=10, concurrency=1)
        await trial.add("a", "b", "c")
        first = await trial.claim()
        assert first.keys == ["a"]
        trial.clock.advance(25)
        assert (await trial.claim()).keys == []
        settled = await first.finish()
        second = await next_start(trial)
        assert (second.keys, second.reply.now) == (["b"], settled.now + 10_000_000)

    async def test_claim_waits_min_interval_after_the_start(self, start: Start) -> None:
        """INV-3: with a higher concurrency, the interval runs from the start."""
        for concurrency in (0, 3):
            trial = await start(min_interval=10, concurrency=concurrency)
            await trial.add("a", "b", "c", "d")
            first = await trial.claim()
            assert first.keys == ["a"]
            trial.clock.advance(4)
            await first.finish()
            second = await next_start(trial)
            assert (second.keys, second.reply.now) == (["b"], first.reply.now + 10_000_000)
            third = await next_start(trial)
            assert (third.keys, third.reply.now) == (["c"], second.reply.now + 10_000_000)

    async def test_claim_starts_no_more_than_concurrency(self, start: Start) -> None:
        trial = await start(concurrency=3)
        await trial.add(*"abcdefg")
        first = await trial.claim()
        assert first.keys == ["a", "b", "c"]
        assert (await trial.claim()).keys == []
        await first.finish("b")
        second = await trial.claim()
        assert second.keys == ["d"]
        await first.finish("a", "c")
        assert (await trial.claim(1)).keys == ["e"]
        assert (await trial.claim()).keys == ["f"]
        assert (await trial.lane_status()).in_flight == 3

    async def test_claim_paces_each_lane_separately(self, start: Start) -> None:
        trial = await start(min_interval=10, concurrency=1)
        for lane in ("x", "y", "z"):
            await trial.add(f"{lane}1", f"{lane}2", lane=lane)
        batch = await trial.claim()
        assert sorted(batch.keys) == ["x1", "y1", "z1"]
        await batch.finish("x1")
        trial.clock.advance(11)
        assert (await trial.claim(lease=100)).keys == ["x2"]

    async def test_settle_of_any_kind_starts_the_interval(self, start: Start) -> None:
        trial = await start(min_interval=10, concurrency=1)
        await trial.add("a", span=8)
        await trial.add("b", "c", "d", "e", "f")
        for number in range(5):
            batch = await next_start(trial)
            item = batch.only
            moves: list[Move] = [
                done(item),
                retry(item, after=1_000),
                dead(item),
                release(item),
                split(item, 1, rest="rest"),
            ]
            trial.clock.advance(2)
            settled = await batch.settle(moves[number if item.span == 1 else 4])
            assert (await trial.lane_status()).ready_at == settled.now + 10_000_000

    async def test_settle_of_unstarted_work_leaves_the_lane_ready(self, start: Start) -> None:
        trial = await start(min_interval=10, concurrency=1)
        await trial.add("a", "b")
        batch = await trial.claim()
        trial.clock.advance(1)
        await batch.settle(release(batch.only, started=False))
        again = await trial.claim()
        assert (again.keys, again.only.attempts) == (["a"], 0)

    async def test_settle_of_unstarted_work_keeps_the_interval_before_it(self, start: Start) -> None:
        trial = await start(min_interval=10, concurrency=1)
        await trial.add("a", "b", "c")
        settled = await (await trial.claim()).finish()
        trial.clock.advance(11)
        batch = await trial.claim()
        await trial.change_lane(min_interval=30)
        await batch.settle(release(batch.only, started=False))
        again = await next_start(trial)
        assert (again.keys, again.reply.now) == (["b"], settled.now + 30_000_000)

    async def test_claim_paces_the_lane_of_taken_over_items(self, start: Start) -> None:
        """Taking items back from a lost worker starts the interval of their lane and frees their slots."""
        for concurrency in (0, 1, 2):
            trial = await start(min_interval=10, concurrency=concurrency)
            await trial.add("a", "b")
            lost = await trial.claim(lease=30)
            assert lost.keys == ["a"]
            if concurrency != 1:
                await (await next_start(trial)).finish()
            await trial.wait_until(lost.reply.expires_at + 5_000_000)
            taken_back = await trial.claim()
            assert (taken_back.keys, taken_back.reply.recovered) == ([], 1)
            again = await next_start(trial)
            assert (again.keys, again.reply.now) == (["a"], taken_back.reply.now + 10_000_000)

    async def test_add_makes_no_lane_ready_sooner(self, start: Start) -> None:
        trial = await start(min_interval=10, concurrency=1)
        await trial.add("a", "b")
        settled = await (await trial.claim()).finish()
        trial.clock.advance(1)
        await trial.add("urgent", priority=7)
        urgent = await next_start(trial)
        assert (urgent.keys, urgent.reply.now) == (["urgent"], settled.now + 10_000_000)

    async def test_claim_keeps_the_interval_of_an_empty_lane(self, start: Start) -> None:
        trial = await start(min_interval=10, concurrency=1)
        await trial.add("a")
        settled = await (await trial.claim()).finish()
        trial.clock.advance(1)
        await trial.add("b")
        second = await next_start(trial)
        assert second.reply.now == settled.now + 10_000_000

    async def test_change_lane_sets_and_resets_limits(self, start: Start) -> None:
        trial = await start(min_interval=10, concurrency=1)
        await trial.change_lane(min_interval=0, concurrency=0)
        await trial.add(*"abcdef")
        assert (await trial.claim(3)).keys == ["a", "b", "c"]
        await trial.change_lane(concurrency=4)
        assert (await trial.claim()).keys == ["d"]
        limits = (await trial.lane_status()).limits
        assert (limits.min_interval, limits.concurrency) == (0, 4)
        await trial.change_lane(min_interval=DEFAULT, concurrency=DEFAULT)
        limits = (await trial.lane_status()).limits
        assert (limits.min_interval, limits.concurrency) == (None, None)
        assert (await trial.claim()).keys == []

    async def test_change_lane_keeps_limits_that_are_not_passed(self, start: Start) -> None:
        trial = await start(min_interval=10, concurrency=1)
        until = trial.clock.now() + 70_000_000
        await trial.change_lane(min_interval=20, concurrency=3, paused=True, blocked_until=until)
        limits = (await trial.lane_status()).limits
        assert limits == LaneLimits(20_000_000, 3, True, until)
        await trial.change_lane(min_interval=20)
        await trial.change_lane(concurrency=3)
        await trial.change_lane(paused=True)
        await trial.change_lane(blocked_until=until)
        assert (await trial.lane_status()).limits == limits

    async def test_change_lane_before_its_first_item(self, start: Start) -> None:
        """Changing a lane that does not exist creates it with these limits."""
        trial = await start()
        await trial.change_lane("new", concurrency=1)
        assert (await trial.status()).lanes == 1
        await trial.add("a", "b", lane="new")
        assert (await trial.claim()).keys == ["a"]
        assert (await trial.status()).lanes == 1

    async def test_change_lane_of_a_waiting_lane(self, start: Start) -> None:
        trial = await start(min_interval=10, concurrency=1)
        await trial.add("a", "b", "c")
        settled = await (await trial.claim()).finish()
        await trial.change_lane(min_interval=20)
        assert (await trial.lane_status()).ready_at == settled.now + 20_000_000
        await trial.change_lane(min_interval=5)
        second = await next_start(trial)
        assert (second.keys, second.reply.now) == (["b"], settled.now + 5_000_000)

    async def test_change_lane_of_a_busy_lane(self, start: Start) -> None:
        trial = await start(concurrency=1)
        await trial.add("a", "b", "c")
        batch = await trial.claim()
        await trial.change_lane(concurrency=2)
        other = await trial.claim()
        assert other.keys == ["b"]
        await trial.change_lane(concurrency=1)
        await batch.finish()
        assert (await trial.claim()).keys == [], "one item is still in flight"
        await other.finish()
        assert (await trial.claim()).keys == ["c"]

    async def test_change_lane_makes_starts_count(self, start: Start) -> None:
        """INV-3: with a concurrency of 1 no start is recorded, so items in flight count as started at the change."""
        for concurrency in (2, 0, DEFAULT):
            trial = await start(min_interval=10, concurrency=3)
            await trial.change_lane(concurrency=1)
            await trial.add("a", "b", "c")
            first = await trial.claim()
            assert first.keys == ["a"]
            trial.clock.advance(4)
            await trial.change_lane(concurrency=concurrency)
            changed = trial.clock.now()
            second = await next_start(trial)
            assert (second.keys, second.reply.now) == (["b"], changed + 10_000_000)
            await first.finish()
            third = await next_start(trial)
            assert (third.keys, third.reply.now) == (["c"], second.reply.now + 10_000_000)

    async def test_change_lane_keeps_the_interval_of_an_idle_lane(self, start: Start) -> None:
        """Nothing is in flight, and the last item was settled long ago."""
        trial = await start(min_interval=10, concurrency=1)
        await trial.add("a", "b")
        await (await trial.claim()).finish()
        trial.clock.advance(30)
        await trial.change_lane(concurrency=2)
        assert (await trial.claim()).keys == ["b"]

    async def test_change_lane_sets_an_interval_while_in_flight(self, start: Start) -> None:
        """INV-3: starts count for the interval even if they happened before it was set."""
        trial = await start(concurrency=2)
        await trial.add("a", "b", "c")
        first = await trial.claim(1)
        trial.clock.advance(4)
        await trial.change_lane(min_interval=10)
        second = await next_start(trial)
        assert (second.keys, second.reply.now) == (["b"], first.reply.now + 10_000_000)

    async def test_change_lane_blocks_until(self, start: Start) -> None:
        trial = await start()
        await trial.add("a", "b")
        until = trial.clock.now() + 50_000_000
        await trial.change_lane(blocked_until=until)
        batch = await next_start(trial, limit=1)
        assert batch.reply.now == until
        await trial.change_lane(blocked_until=until + 50_000_000)
        assert (await trial.claim()).keys == []
        await trial.change_lane(blocked_until=0)
        assert (await trial.claim()).keys == ["b"]

    async def test_change_lane_blocks_at_least_until(self, start: Start) -> None:
        trial = await start()
        await trial.add("a")
        until = trial.clock.now() + 50_000_000
        await trial.change_lane(blocked_until=until, at_least=True)
        await trial.change_lane(blocked_until=until - 40_000_000, at_least=True)
        assert (await next_start(trial)).reply.now == until

    async def test_claim_returns_when_the_first_lane_of_any_priority_is_ready(self, start: Start) -> None:
        """A worker that waits until then is not too late. It may be too early."""
        trial = await start()
        for priority in range(8):
            begin = trial.clock.now()
            for seconds in (9, 5, 7):
                lane = f"priority {priority} in {seconds} s"
                await trial.add(f"{priority} in {seconds}", lane=lane, priority=priority)
                await trial.change_lane(lane, blocked_until=begin + seconds * 1_000_000)
            batch = await trial.claim()
            assert batch.keys == []
            assert batch.reply.next_ready_at is not None
            assert batch.reply.next_ready_at <= begin + 5_000_000
            await trial.wait_until(begin + 5_000_000)
            batch = await trial.claim()
            assert batch.keys == [f"{priority} in 5"]
            await batch.finish()
            await trial.wait_until(begin + 9_000_000)
            await (await trial.claim()).finish()

    async def test_change_lane_blocks_a_lane_in_flight(self, start: Start) -> None:
        trial = await start(concurrency=1)
        await trial.add("a", "b")
        batch = await trial.claim()
        until = trial.clock.now() + 50_000_000
        await trial.change_lane(blocked_until=until)
        await batch.finish()
        assert (await next_start(trial)).reply.now == until

    async def test_change_lane_blocks_for_a_duration(self, start: Start) -> None:
        """The duration runs on the store's clock, from the time of the change."""
        trial = await start()
        await trial.add("a")
        await trial.change_lane(blocked_for=50)
        status = await trial.lane_status()
        ends = (await trial.status()).time + 50_000_000
        assert (status.limits.blocked_until, status.ready_at) == (ends, ends)
        await trial.change_lane(blocked_for=20, at_least=True)
        assert (await trial.lane_status()).ready_at == ends
        assert (await next_start(trial)).reply.now == ends
        await trial.add("b")
        await trial.change_lane(blocked_for=50)
        await trial.change_lane(blocked_for=0)
        assert (await trial.lane_status()).limits.blocked_until == 0
        assert (await trial.claim()).keys == ["b"]

    async def test_change_lane_of_both_kinds_of_block(self, start: Start) -> None:
        trial = await start(concurrency=1)
        await trial.add("a", "b", "c")
        until = trial.clock.now() + 50_000_000
        await trial.change_lane(blocked_until=until)
        await trial.change_lane(blocked_for=20)
        assert (await trial.lane_status()).limits.blocked_until < until
        await trial.change_lane(blocked_until=until, at_least=True)
        await trial.change_lane(blocked_for=20, at_least=True)
        batch = await next_start(trial)
        assert (batch.keys, batch.reply.now) == (["a"], until)
        await trial.change_lane(blocked_until=until + 10_000_000)
        await trial.wait_until(until + 30_000_000)
        await batch.finish()
        assert (await trial.claim()).keys == ["b"], "the block ended while the lane was busy"

    async def test_change_lane_pauses_and_resumes(self, start: Start) -> None:
        trial = await start()
        await trial.add("a", "b", "c")
        await trial.add("other", lane="other")
        batch = await trial.claim(1)
        await trial.change_lane(paused=True)
        assert (await trial.claim()).keys == ["other"]
        await batch.settle(release(batch.only))
        await trial.add("d", priority=7)
        waiting = (await trial.claim()).reply
        assert list(waiting.items) == []
        status = await trial.lane_status()
        assert (status.limits.paused, status.ready_at, status.waiting) == (True, None, 4)
        await trial.change_lane(paused=False)
        assert sorted((await trial.claim()).keys) == ["a", "b", "c", "d"]

    async def test_change_lane_paused_still_takes_back_lost_items(self, start: Start) -> None:
        trial = await start()
        await trial.add("a")
        lost = await trial.claim(lease=30)
        await trial.change_lane(paused=True)
        await trial.wait_until(lost.reply.expires_at)
        batch = await trial.claim()
        assert (batch.keys, batch.reply.recovered, await trial.state("a")) == ([], 1, "ready")
        await trial.change_lane(paused=False)
        assert (await trial.claim()).keys == ["a"]

    async def test_change_settings_raises_the_interval_of_waiting_lanes(self, start: Start) -> None:
        """The new default applies to all lanes that were queued under the old one, however many they are."""
        trial = await start(min_interval=10, concurrency=1)
        await trial.add("a", "b")
        settled = await (await trial.claim()).finish()
        await trial.store.change_settings(min_interval=30_000_000)
        assert trial.store.settings.min_interval == 30_000_000
        await trial.wait_until(settled.now + 10_000_000)
        assert (await trial.claim()).keys == []
        batch = await next_start(trial)
        assert (batch.keys, batch.reply.now) == (["b"], settled.now + 30_000_000)

    async def test_change_settings_lowers_the_concurrency_of_waiting_lanes(self, start: Start) -> None:
        trial = await start(concurrency=3)
        await trial.add(*"abcdef")
        batch = await trial.claim(2)
        await trial.store.change_settings(concurrency=2)
        assert (await trial.claim()).keys == []
        await batch.finish("a")
        assert (await trial.claim()).keys == ["c"]

    async def test_claim_that_starts_nothing_does_not_restart_the_interval(self, start: Start) -> None:
        """A lane that is too busy under its new limits starts nothing."""
        trial = await start()
        await trial.add(*"abcdef")
        batch = await trial.claim(2)
        await trial.store.change_settings(concurrency=2)
        trial.clock.advance(5)
        assert (await trial.claim()).keys == []
        assert (await trial.lane_status()).last_at == batch.reply.now
        await trial.store.change_settings(min_interval=10_000_000)
        await batch.finish("a")
        assert (await next_start(trial)).reply.now == batch.reply.now + 10_000_000

    async def test_change_settings_raises_the_concurrency(self, start: Start) -> None:
        """A lane that is busy under the old default follows the new one after its next settlement at the latest."""
        trial = await start(concurrency=1)
        await trial.add(*"abcdef")
        batch = await trial.claim()
        await trial.store.change_settings(concurrency=3)
        await batch.finish()
        assert len((await trial.claim()).items) == 3

    async def test_requeue_lanes_applies_the_present_settings_to_waiting_lanes(self, start: Start) -> None:
        """The named lanes are placed by the present settings; lanes with their own limits are not changed."""
        trial = await start(min_interval=100, concurrency=2)
        for lane in ("resting", "other", "own", "busy", "paused"):
            await trial.add(f"{lane} 1", f"{lane} 2", f"{lane} 3", lane=lane)
        await trial.change_lane("own", min_interval=50)
        await trial.change_lane("busy", min_interval=0)
        batch = await trial.claim()
        await trial.change_lane("paused", paused=True)
        await trial.store.change_settings(min_interval=10_000_000, concurrency=3)
        trial.clock.advance(20)
        assert (await trial.claim()).keys == []
        numbers = {status.lane: number for number, status in await trial.store.lanes()}
        await trial.store.requeue_lanes(0, [numbers[lane] for lane in ("resting", "own", "busy", "paused")])
        assert sorted((await trial.claim()).keys) == ["busy 3", "resting 2"]
        assert (await trial.lane_status("own")).ready_at == batch.reply.now + 50_000_000
        assert (await trial.lane_status("other")).ready_at == batch.reply.now + 100_000_000
        await trial.check()

    async def test_requeue_lanes_updates_next_ready_at(self, start: Start) -> None:
        trial = await start(min_interval=100)
        await trial.add("a", "b")
        assert (await trial.claim()).keys == ["a"]
        await trial.store.change_settings(min_interval=0)
        assert (await trial.claim()).keys == []
        ((number, _),) = await trial.store.lanes()
        await trial.store.requeue_lanes(0, [number])
        status = await trial.status()
        assert status.next_ready_at is not None
        assert status.next_ready_at <= status.time
        assert (await trial.claim()).keys == ["b"]

    async def test_change_settings_makes_starts_count(self, start: Start) -> None:
        """INV-3: items in flight under the old default count as started at the change."""
        for concurrency in (2, 0):
            for moved_by in ("add", "settle", "nothing"):
                trial = await start(partitions=2, min_interval=10, concurrency=1)
                lane, other, idle = trial.lane(0), trial.lane(1), trial.lane(1, 1)
                await trial.change_lane(other, concurrency=1)
                for name in (lane, other, idle):
                    await trial.add(f"{name} 1", f"{name} 2", lane=name)
                batch = await trial.claim()
                await batch.finish(f"{idle} 1")
                trial.clock.advance(4)
                before = await trial.lane_status(other), await trial.lane_status(idle)
                await trial.store.change_settings(concurrency=concurrency)
                assert before == (await trial.lane_status(other), await trial.lane_status(idle))
                changed = trial.clock.now()
                if moved_by == "add":
                    await trial.add(f"{lane} 0", lane=lane, priority=7)
                elif moved_by == "settle":
                    await batch.finish(f"{lane} 1")
                await trial.wait_until(changed + 10_000_000 - 1)
                assert (await trial.claim(lease=1000)).keys == [f"{idle} 2"]
                trial.clock.advance(0.000001)
                second = await trial.claim(lease=1000)
                assert second.keys == [f"{lane} {0 if moved_by == 'add' else 2}"]

    async def test_change_settings_of_the_interval_while_in_flight(self, start: Start) -> None:
        """INV-3: starts count for the interval even if they happened before it was set."""
        trial = await start(concurrency=2)
        await trial.add("a", "b", "c")
        first = await trial.claim(1)
        trial.clock.advance(4)
        await trial.store.change_settings(min_interval=10_000_000)
        second = await next_start(trial)
        assert (second.keys, second.reply.now) == (["b"], first.reply.now + 10_000_000)

    async def test_change_settings_leaves_lanes_with_their_own_limits(self, start: Start) -> None:
        trial = await start(concurrency=1)
        await trial.change_lane(LANE, concurrency=2)
        await trial.add(*"abc")
        await trial.store.change_settings(concurrency=5, min_interval=0)
        assert len((await trial.claim()).items) == 2

    async def test_settle_release_of_unstarted_items_leaves_the_lane_ready(self, start: Start) -> None:
        trial = await start(min_interval=10, concurrency=1)
        await trial.add(*"abcd")
        for move in (done, dead, release):
            batch = await trial.claim()
            await batch.settle(move(batch.only, started=False))
        batch = await trial.claim()
        assert batch.keys == ["c"], "it was released, and is the first of its lane"
        await batch.finish()
        assert (await trial.claim()).keys == []

    async def test_settle_of_unstarted_items_keeps_an_interval_that_runs_from_the_claim(self, start: Start) -> None:
        for concurrency in (0, 2):
            trial = await start(min_interval=10, concurrency=concurrency)
            await trial.add(*"abcd")
            for move in (done, dead, release):
                batch = await next_start(trial)
                trial.clock.advance(1)
                await batch.settle(move(batch.only, started=False))
                assert (await trial.lane_status()).ready_at == batch.reply.now + 10_000_000
                assert (await trial.claim()).keys == []

    async def test_settle_release_can_delay_an_item(self, start: Start) -> None:
        trial = await start(min_interval=1, concurrency=1)
        await trial.add("a", "b")
        batch = await trial.claim()
        settled = await batch.settle(release(batch.only, after=30))
        found = await trial.find_only("a")
        assert (found.state, found.attempts, found.due_at) == ("delayed", 0, settled.now + 30_000_000)
        assert (await trial.status()).checkpoint == 0
        second = await next_start(trial)
        assert second.keys == ["b"]
        await second.finish()
        third = await next_start(trial)
        assert (third.keys, third.only.attempts, third.reply.now) == (["a"], 0, found.due_at)

    async def test_claim_returns_the_visits_of_the_lane(self, start: Start) -> None:
        trial = await start(concurrency=3)
        await trial.add(*"abcdefg")
        batch = await trial.claim()
        assert [(item.lane_visits, item.lane_in_flight) for item in batch.items] == [(0, 0), (0, 1), (0, 2)]
        await batch.settle(done(batch["a"]), done(batch["b"], started=False))
        batch = await trial.claim(1)
        assert (batch.only.lane_visits, batch.only.lane_in_flight) == (1, 1)
        await batch.settle(retry(batch.only, after=100))
        batch = await trial.claim(1)
        await batch.settle(done(batch.only, revisit=100))
        batch = await trial.claim()
        assert [(item.lane_visits, item.lane_in_flight) for item in batch.items] == [(2, 1), (2, 2)]
        assert (await trial.lane_status()).visits == 2
        assert (await trial.status()).visits == 2

    async def test_claim_reports_that_an_interval_runs_from_it(self, start: Start) -> None:
        trial = await start()
        await trial.change_lane("from starts", min_interval=10, concurrency=2)
        await trial.change_lane("from settlements", min_interval=10, concurrency=1)
        for lane in ("free", "from settlements", "from starts"):
            await trial.add(f"{lane} 1", f"{lane} 2", lane=lane)
        batch = await trial.claim()
        assert (sorted(batch.keys), batch.reply.starts_count) == (
            ["free 1", "free 2", "from settlements 1", "from starts 1"],
            True,
        )
        await batch.finish()
        assert (await trial.claim()).keys == []
        await trial.add("free 3", lane="free")
        trial.clock.advance(9)
        assert not (await trial.claim(lease=100)).reply.starts_count
        trial.clock.advance(2)
        assert (await trial.claim()).reply.starts_count

    async def test_claim_returns_what_is_in_flight_in_lanes_of_different_levels(self, start: Start) -> None:
        trial = await start(partitions=2)
        await trial.add("a", "b", lane="low", priority=2)
        assert (await trial.claim(1)).keys == ["a"]
        await trial.add("c", lane="high", priority=6)
        await trial.add("d", lane=trial.lane(1))
        batch = await trial.claim(order=[1, 0])
        assert {item.key: item.lane_in_flight for item in batch.items} == {"b": 1, "c": 0, "d": 0}

    async def test_claim_of_nothing_leaves_the_next_one_whole(self, start: Start) -> None:
        """A lane at the head of the queue may not start anything since a limit was changed."""
        trial = await start()
        await trial.add("a", "b")
        first = await trial.claim(1)
        await trial.store.change_settings(concurrency=1)
        assert (await trial.claim()).keys == []
        await first.finish()
        second = await trial.claim()
        assert second.keys == ["b"]
        await second.finish()
        assert (await trial.status()).done == 2

    async def test_claim_reports_an_interval_in_any_of_its_partitions(self, start: Start) -> None:
        trial = await start(partitions=2)
        await trial.change_lane(trial.lane(0), min_interval=10, concurrency=2)
        await trial.add("from the start", lane=trial.lane(0))
        await trial.add("free", lane=trial.lane(1))
        batch = await trial.claim(order=[0, 1])
        assert (sorted(batch.keys), batch.reply.starts_count) == (["free", "from the start"], True)
