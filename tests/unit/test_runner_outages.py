"""The runner, its leases, and a store that goes away."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import swath
from swath.backends.memory import MemoryStore
from swath.core import events
from swath.core.clock import lease_clock
from swath.core.encoding import encode_item
from swath.core.errors import InvalidOutcome, LeaseLost, SchemaOutdated, StoreFull, StoreUnavailable, SwathError
from swath.core.item import Item, Outcome
from swath.core.store import ClaimReply, SettleReply
from swath.frontier import Frontier
from swath.runner import committer, dispatcher, run, store_retry
from swath.runner.committer import DISCOVERED_BYTES
from tests.bench import Bench, LeaseTime, bench, nothing
from tests.recorder import PATIENCE, Recorder


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_retry, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(store_retry, "LONGEST_PAUSE", 0.05)


@pytest.fixture
def lease_time(monkeypatch: pytest.MonkeyPatch) -> LeaseTime:
    monkeypatch.setattr(dispatcher, "TICK", 0.01)
    lease_time = LeaseTime()
    monkeypatch.setattr("swath.core.clock.time", lease_time)
    return lease_time


class Gate:
    """A handler that holds every item until the gate opens, and knows who was cancelled when."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.started = asyncio.Event()
        self.ended = asyncio.Event()
        self.cancelled: dict[str, float] = {}

    async def __call__(self, item: Item) -> None:
        self.started.set()
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            self.cancelled[item.key] = lease_clock()
            self.ended.set()
            raise


async def taken_over(b: Bench, *, after: float) -> list[str]:
    """Let the leases end on the store's clock, and let another worker claim."""
    b.clock.advance(after)
    claim = await Frontier(b.store).claim(limit=100, lease=60)
    assert claim is not None
    return [item.key for item in claim.items]


# leases


async def test_leases_are_renewed_while_handlers_work(lease_time: LeaseTime) -> None:
    gate = Gate()
    async with bench() as b:
        await b.frontier.add(["a", "b"])
        running = asyncio.create_task(b.frontier.run(gate, lease=60))
        await gate.started.wait()
        for count in range(1, 4):
            lease_time.advance(41)
            await b.seen.saw(events.Renewed, count)
        gate.open.set()
        summary = await running
    assert (summary.done, summary.lost, gate.cancelled) == (2, 0, {})


async def test_the_lease_that_ends_first_is_renewed_first(lease_time: LeaseTime) -> None:
    """Only so many are renewed at once. One that was renewed before ends after one that was claimed later."""
    gate = Gate()
    async with bench() as b:
        running = asyncio.create_task(b.frontier.run(gate, lease=60, until="stopped"))
        for key, seconds in (("a", 30), ("b", 12)):
            gate.started.clear()
            await b.frontier.add(key)
            await gate.started.wait()
            lease_time.advance(seconds)
        await b.seen.saw(events.Renewed)
        lease_time.advance(41)
        await b.seen.saw(events.Renewed, 3)
        running.cancel()
        gate.open.set()
        await asyncio.wait([running])
    first, second = (claimed.fence for claimed in b.seen.of(events.Claimed))
    assert [renewed.fence for renewed in b.seen.of(events.Renewed)] == [first, second, first]


async def test_a_claim_of_which_nothing_is_left_is_let_go(lease_time: LeaseTime) -> None:
    """INV-9: it is neither kept nor renewed."""
    gate = Gate()

    async def handler(item: Item) -> None:
        if item.key == "b":
            await gate(item)

    async with bench() as b:
        await b.frontier.add("a")
        running = asyncio.create_task(b.frontier.run(handler, lease=60))
        await b.seen.saw(events.Settled)
        await b.frontier.add("b")
        await gate.started.wait()
        lease_time.advance(41)
        await b.seen.saw(events.Renewed)
        gate.open.set()
        assert (await running).done == 2
    first, second = b.seen.of(events.Claimed)
    assert {renewed.fence for renewed in b.seen.of(events.Renewed)} == {second.fence} != {first.fence}


async def test_a_lost_lease_ends_the_work_and_drops_it(lease_time: LeaseTime) -> None:
    """INV-2: a worker that slept past its lease changes nothing."""
    gate = Gate()
    async with bench() as b:
        await b.frontier.add(["a", "b"])
        running = asyncio.create_task(b.frontier.run(gate, lease=60, until="idle"))
        await gate.started.wait()
        assert sorted(await taken_over(b, after=61)) == ["a", "b"]
        lease_time.advance(41)
        summary = await running
        (lost,) = b.seen.of(events.Lost)
        assert (lost.items, summary.lost, summary.done) == (2, 2, 0)
        assert sorted(gate.cancelled) == ["a", "b"]
        assert await b.state("a") == "claimed"
        assert b.log.of("dropping the results of 2 items")


async def test_what_a_lost_claim_came_to_holds_nobody_up(
    lease_time: LeaseTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if one of its handlers does not return."""
    monkeypatch.setattr(dispatcher, "MAX_PENDING_BYTES", DISCOVERED_BYTES)
    monkeypatch.setattr(committer, "MAX_WAIT", 60)
    go_on, others = asyncio.Event(), asyncio.Event()

    async def handler(item: Item) -> Outcome | None:
        while item.key == "deaf" and not go_on.is_set():
            try:
                await go_on.wait()
            except asyncio.CancelledError:
                continue
        if item.key == "rich":
            return item.done(discovered=["found"])
        if item.key == "other":
            others.set()
        return None

    async with bench() as b:
        await b.frontier.add(["deaf", "rich"])
        running = asyncio.create_task(b.frontier.run(handler, workers=2, lease=60))
        await b.seen.saw(events.Claimed)
        await asyncio.sleep(0.1)
        await taken_over(b, after=61)
        await b.frontier.add("other")
        lease_time.advance(50)
        await asyncio.wait([asyncio.create_task(others.wait())], timeout=10)
        go_on.set()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert others.is_set()


async def test_what_came_of_a_claim_while_it_was_being_lost_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher, "MAX_PENDING_BYTES", 2 * DISCOVERED_BYTES)
    monkeypatch.setattr(committer, "ENOUGH_OUTCOMES", 1)
    first_is_sent, others = asyncio.Event(), asyncio.Event()

    async def handler(item: Item) -> Outcome | None:
        if item.key == "other":
            others.set()
            return None
        if item.key == "second":
            await first_is_sent.wait()
        return item.done(discovered=[f"{item.key}/{n}" for n in range(2)])

    async with bench() as b:
        settling = b.faults.held_up["settle"] = asyncio.Event()
        await b.frontier.add(["first", "second"])
        running = asyncio.create_task(b.frontier.run(handler, workers=2, lease=60))
        await b.faults.saw("settle")
        first_is_sent.set()
        await asyncio.sleep(0.1)
        await taken_over(b, after=61)
        await b.frontier.add("other")
        settling.set()
        await asyncio.wait([asyncio.create_task(others.wait())], timeout=10)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert others.is_set()


async def test_outcomes_of_a_lost_claim_are_dropped_when_they_are_settled() -> None:
    gate = Gate()
    async with bench() as b:
        await b.frontier.add(["a", "b"])
        running = asyncio.create_task(b.frontier.run(gate, lease=60, until="idle"))
        await gate.started.wait()
        await taken_over(b, after=61)
        gate.open.set()
        summary = await running
        (lost,) = b.seen.of(events.Lost)
    assert (lost.items, summary.lost, summary.done) == (2, 2, 0)


async def test_a_handler_is_not_called_after_its_lease_has_ended(lease_time: LeaseTime) -> None:
    """INV-3. The process was suspended after it had created the tasks of a claim, and before their first steps."""
    left = []

    async def handler(item: Item) -> None:
        left.append(swath.seconds_left())

    async with bench() as b:
        await b.frontier.add(["a", "b", "c"])

        def suspend(reply: ClaimReply) -> ClaimReply:
            if reply.items and not left:
                del b.faults.changed["claim"]
                asyncio.get_running_loop().call_soon(lease_time.advance, 61)
            return reply

        b.faults.changed["claim"] = suspend
        summary = await b.frontier.run(handler, until="idle", lease=60, handle_signals=False)
    assert len(left) == summary.done == 3
    assert min(left) > 0


async def test_work_is_abandoned_before_its_lease_ends_unrenewed(lease_time: LeaseTime) -> None:
    gate = Gate()
    async with bench() as b:
        await b.frontier.add(["a", "b"])
        began = lease_clock()
        running = asyncio.create_task(b.frontier.run(gate, lease=60, workers=1, until="idle"))
        await gate.started.wait()
        b.faults.go_away()
        lease_time.advance(55)
        await b.faults.saw("renew", 2)
        assert gate.cancelled == {}
        lease_time.advance(3)
        await b.log.saw("ended without renewal")
        await gate.ended.wait()
        assert gate.cancelled["a"] - began < 60
        b.faults.come_back()
        gate.open.set()
        summary = await running
    # Nobody had taken it over, so it could be given back, and was claimed again.
    assert (summary.released, summary.done, summary.lost) == (1, 2, 0)


async def test_nothing_is_started_that_has_no_lease_left(
    lease_time: LeaseTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "TICK", 3.0)  # so that it is not found to be claimed too long ago
    monkeypatch.setattr(dispatcher.Dispatcher, "_count_ahead", lambda self: 5)
    gate = Gate()
    async with bench() as b:
        await b.frontier.add(["a", "b", "c"])
        running = asyncio.create_task(b.frontier.run(gate, lease=60, workers=1, until="idle"))
        await gate.started.wait()
        lease_time.advance(56.5)
        gate.open.set()
        await b.seen.until(lambda: sum(settled.released for settled in b.seen.of(events.Settled)) == 2)
        assert (await running).done == 3


async def test_a_late_renewal_does_not_drop_what_can_still_be_settled(lease_time: LeaseTime) -> None:
    """An expired lease cannot be renewed, but finished items can be settled until another worker takes them over."""
    gate = Gate()
    async with bench() as b:
        await b.frontier.add(["a", "b"])
        running = asyncio.create_task(b.frontier.run(gate, lease=60, until="idle"))
        await gate.started.wait()
        b.faults.fail("settle")
        late = b.faults.held_up["renew"] = asyncio.Event()
        lease_time.advance(41)
        await b.faults.saw("renew")
        gate.open.set()
        await b.faults.saw("settle")
        lease_time.advance(18)
        await b.log.saw("ended without renewal")
        b.clock.advance(100)
        late.set()
        del b.faults.held_up["renew"]
        await b.faults.saw("settle", b.faults.calls["settle"] + 2)
        b.faults.come_back()
        summary = await running
    assert (summary.done, summary.lost) == (2, 0)
    assert b.seen.of(events.Lost) == []


async def test_what_was_settled_before_a_lease_was_lost_is_not_counted_as_lost(lease_time: LeaseTime) -> None:
    """Its reply comes after the word of the renewal. What still runs ends at once all the same."""
    gate, replying, settle_in_store = Gate(), asyncio.Event(), MemoryStore.settle

    async def handler(item: Item) -> None:
        if item.key == "b":
            await gate(item)

    async def settle(*args: Any, **options: Any) -> SettleReply:
        reply = await settle_in_store(b.store, *args, **options)
        await replying.wait()
        return reply

    async with bench() as b:
        await b.frontier.add(["a", "b"])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(b.store, "settle", settle)
            running = asyncio.create_task(b.frontier.run(handler, lease=60, until="idle"))
            await b.faults.saw("settle")
            assert await taken_over(b, after=61) == ["b"]
            lease_time.advance(41)
            await b.faults.saw("renew")
            async with asyncio.timeout(PATIENCE):
                await gate.ended.wait()
        replying.set()
        summary = await running
        (lost,) = b.seen.of(events.Lost)
    assert (summary.done, summary.lost, lost.items) == (1, 1, 1)


async def test_claims_of_one_number_are_told_apart_after_a_restore(lease_time: LeaseTime, tmp_path: Path) -> None:
    """After a restore, fences continue from an earlier number while a claim from before the restore is in flight."""
    gates = {"a": Gate(), "b": Gate()}
    seen = Recorder()
    async with swath.open(f"sqlite:///{tmp_path}/work.db", observer=seen) as frontier:
        with closing(sqlite3.connect(tmp_path / "work.db")) as file, closing(sqlite3.connect(":memory:")) as before:
            file.backup(before)
            await frontier.add("a")
            running = asyncio.create_task(
                frontier.run(lambda item: gates[item.key](item), lease=60, until="stopped", grace=0)
            )
            await gates["a"].started.wait()
            before.backup(file)
        await frontier.add("b")
        await gates["b"].started.wait()
        first, second = seen.of(events.Claimed)
        assert first.fence == second.fence
        gates["a"].open.set()
        await seen.saw(events.Lost)
        lease_time.advance(41)
        await seen.saw(events.Renewed)
        lease_time.advance(41)
        await seen.saw(events.Renewed, 2)
        assert gates["b"].cancelled == {}
        running.cancel()
        await asyncio.wait([running])


# outages


async def test_an_outage_is_waited_out_and_what_is_in_hand_settled() -> None:
    gate = Gate()
    async with bench() as b:
        await b.frontier.add(["a", "b", "c"])
        running = asyncio.create_task(b.frontier.run(gate, workers=2))
        await gate.started.wait()
        b.faults.go_away()
        gate.open.set()
        await b.seen.saw(events.Waiting)
        before = b.faults.calls["settle"]
        await b.faults.saw("settle", before + 4)
        b.faults.come_back()
        summary = await running
    assert (summary.done, summary.lost) == (3, 0)
    assert len(b.seen.of(events.Waiting)) == 1
    assert len(b.seen.of(events.Reached)) == 1
    assert len(b.log.of("waiting for the store")) == 1
    assert len(b.log.of("the store answers again")) == 1


async def test_an_outage_outlasting_the_lease_drops_what_others_took_over() -> None:
    gate = Gate()
    async with bench() as b:
        await b.frontier.add(["a", "b"])
        running = asyncio.create_task(b.frontier.run(gate, lease=5, until="idle"))
        await gate.started.wait()
        b.faults.go_away()
        gate.open.set()
        await b.faults.saw("settle", 2)
        await taken_over(b, after=6)
        b.faults.come_back()
        summary = await running
        assert (summary.done, summary.lost) == (0, 2)
        assert sum(lost.items for lost in b.seen.of(events.Lost)) == 2
        assert await b.state("a") == "claimed"


async def test_finished_work_is_settled_after_its_lease_if_nobody_took_it_over(
    lease_time: LeaseTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "IDLE_SECONDS", 0.001)
    gate = Gate()
    async with bench() as b:
        await b.frontier.add(["a", "b"])
        running = asyncio.create_task(b.frontier.run(gate, lease=60, until="idle"))
        await gate.started.wait()
        b.faults.fail("settle", "renew")
        gate.open.set()
        await b.faults.saw("settle")
        lease_time.advance(59)
        await b.log.saw("ended without renewal")
        claims = b.faults.calls["claim"]
        await b.faults.saw("settle", b.faults.calls["settle"] + 3)
        # Its own next claim would take them back: it makes none before they are settled.
        assert b.faults.calls["claim"] == claims
        b.clock.advance(100)
        b.faults.come_back()
        summary = await running
    assert (summary.done, summary.lost) == (2, 0)
    assert b.seen.of(events.Recovered) == []


@pytest.mark.parametrize("partitions", [1, 8])
async def test_a_lost_reply_is_looked_up(partitions: int) -> None:
    """INV-5: the settlement took effect; it is neither repeated nor lost."""

    async def handler(item: Item) -> Outcome:
        return item.done(discovered=[f"{item.key}/x"] if "/" not in item.key else [])

    async with bench(partitions=partitions) as b:
        await b.frontier.add(Item(f"k{n}", lane=f"lane {n}") for n in range(40))
        b.faults.losing["settle"] = 3
        summary = await b.frontier.run(handler, workers=10)
        status = await b.frontier.status()
    assert (summary.done, summary.lost, summary.retried) == (80, 0, 0)
    assert (status.done, status.waiting) == (80, 0)


async def test_a_full_store_is_waited_for_though_it_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher, "SIGNAL_SECONDS", 0.01)
    async with bench() as b:
        b.faults.fail("settle", error=StoreFull)
        await b.frontier.add(["a", "b"])
        running = asyncio.create_task(b.frontier.run(nothing, workers=1))
        await b.seen.saw(events.Waiting)
        await b.faults.saw("signal", b.faults.calls.get("signal", 0) + 5)
        assert b.seen.of(events.Reached) == []
        b.faults.come_back()
        assert (await running).done == 2
    assert len(b.seen.of(events.Waiting)) == 1


async def test_a_store_that_can_only_be_read_does_not_answer_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Like an SQLite file that another process has locked."""
    monkeypatch.setattr(dispatcher, "SIGNAL_SECONDS", 0.01)
    async with bench() as b:
        b.faults.fail("claim")
        await b.frontier.add("a")
        running = asyncio.create_task(b.frontier.run(nothing))
        await b.seen.saw(events.Waiting)
        await b.faults.saw("signal", 5)
        assert not b.seen.of(events.Reached)
        b.faults.come_back()
        assert (await running).done == 1
    assert (len(b.seen.of(events.Waiting)), len(b.seen.of(events.Reached))) == (1, 1)


async def test_a_store_that_is_away_at_the_start_is_waited_for() -> None:
    async with bench() as b:
        await b.frontier.add("a")
        b.faults.go_away()
        running = asyncio.create_task(b.frontier.run(nothing))
        await b.seen.saw(events.Waiting)
        b.faults.come_back()
        assert (await running).done == 1


async def test_what_waiting_cannot_mend_ends_the_run() -> None:
    gate = Gate()
    async with bench() as b:
        await b.frontier.add(["a", "b"])
        running = asyncio.create_task(b.frontier.run(gate, workers=1))
        await gate.started.wait()
        b.faults.fail("settle", error=SchemaOutdated)
        gate.open.set()
        with pytest.raises(SchemaOutdated):
            await running


async def test_after_a_settlement_that_failed_what_else_was_in_hand_is_given_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The run does not wait for items that can no longer be settled."""
    monkeypatch.setattr(run, "STOP_SECONDS", 2 * PATIENCE)
    async with bench() as b:
        started = asyncio.Event()

        async def handler(item: Item) -> None:
            if item.key == "b":
                started.set()
                await asyncio.Event().wait()
            await started.wait()

        b.faults.fail("settle", error=SwathError)
        await b.frontier.add(["a", "b"])
        running = asyncio.create_task(b.frontier.run(handler, workers=2))
        await b.faults.saw("settle")
        b.faults.come_back()
        async with asyncio.timeout(PATIENCE):
            with pytest.raises(SwathError, match="pulled the plug"):
                await running
        assert (await b.state("a"), await b.state("b")) == ("claimed", "ready")
        assert [lost.items for lost in b.seen.of(events.Lost)] == [1]


async def test_a_stop_does_not_wait_for_a_store_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swath.runner.run.STOP_SECONDS", 0.2)
    gate = Gate()
    async with bench() as b:
        await b.frontier.add(["a", "b"])
        running = asyncio.create_task(b.frontier.run(gate))
        await gate.started.wait()
        b.faults.go_away()
        gate.open.set()
        await b.seen.saw(events.Waiting)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert sum(lost.items for lost in b.seen.of(events.Lost)) == 2
        assert b.log.of("the outcomes of 2 items")


# a claim by itself


async def test_a_settlement_broken_off_can_be_repeated() -> None:
    async with bench(partitions=4) as b:
        await b.frontier.add(Item(f"k{n}", lane=f"lane {n}") for n in range(20))
        claim = await b.frontier.claim(limit=20)
        assert claim is not None
        assert len(claim.partitions) > 2
        outcomes = [item.done() for item in claim.items]
        replies = iter([True, False, False, True, False])

        def lost(reply: SettleReply) -> SettleReply:
            if not next(replies, True):
                raise StoreUnavailable("the reply was lost on its way")
            return reply

        b.faults.changed["settle"] = lost
        for _ in range(3):  # the first partition is settled, the others one by one
            with pytest.raises(StoreUnavailable):
                await claim.settle(outcomes)
        await claim.settle(outcomes)
        assert (claim.remaining, claim._leased.counts["done"]) == (0, 20)
        assert (await b.frontier.status()).done == 20
        with pytest.raises(InvalidOutcome):
            await claim.settle(outcomes)


async def test_of_two_outcomes_for_an_item_the_one_sent_first_stands() -> None:
    async with bench() as b:
        await b.frontier.add("a")
        claim = await b.frontier.claim()
        assert claim is not None
        b.faults.losing["settle"] = 1
        with pytest.raises(StoreUnavailable):
            await claim.settle([claim.items[0].done()])
        await claim.settle([claim.items[0].release()])
        assert await b.state("a") == "done"


async def test_a_settlement_broken_off_can_be_repeated_after_another() -> None:
    async with bench() as b:
        await b.frontier.add(["a", "b"])
        claim = await b.frontier.claim()
        assert claim is not None
        first, second = claim.items
        b.faults.losing["settle"] = 1
        with pytest.raises(StoreUnavailable):
            await claim.settle([first.done()])
        await claim.settle([second.done()])
        await claim.settle([first.done()])
        assert (claim.remaining, claim._leased.counts["done"]) == (0, 2)
        for item in claim.items:
            with pytest.raises(InvalidOutcome):
                await claim.settle([item.done()])


@pytest.mark.parametrize("error", [StoreUnavailable, StoreFull])
async def test_what_a_store_that_was_set_back_has_lost_is_discovered_again(error: type[Exception]) -> None:
    """INV-4: the settlement itself is the first to hear of it, and what it left out as known is added then."""
    async with bench() as b:
        await b.frontier.add("a")
        claim = await b.frontier.claim()
        assert claim is not None
        b.frontier._session.known_keys.update([encode_item("gone", 1).hash])

        def set_back(reply: SettleReply) -> SettleReply:
            b.store.generation = 1
            return reply

        b.faults.changed["settle"] = set_back
        b.faults.fail("add", error=error)
        outcomes = [claim.items[0].done(discovered=["gone"])]
        with pytest.raises(error):
            await claim.settle(outcomes)
        b.faults.come_back()
        await claim.settle(outcomes)
        assert (await b.state("a"), await b.state("gone")) == ("done", "ready")
        assert b.faults.calls["settle"] == 1
        assert (claim.remaining, claim._leased.counts["done"]) == (0, 1)


async def test_a_lost_claim_says_so_once() -> None:
    async with bench() as b:
        await b.frontier.add("a")
        claim = await b.frontier.claim(lease=1)
        assert claim is not None
        await taken_over(b, after=2)
        with pytest.raises(LeaseLost):
            await claim.renew()
        with pytest.raises(LeaseLost):
            await claim.settle([claim.items[0].done()])
        assert len(b.seen.of(events.Lost)) == 1
