"""Frontier and Claim: what they check, what they tell the observer, and how little they hold."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import swath
from swath import frontier as frontier_module
from swath.backends.memory import MemoryStore
from swath.claim import Claim
from swath.core import events
from swath.core import session as session_module
from swath.core.clock import as_datetime
from swath.core.item import Item
from swath.core.store import ADD_CHUNK, MAX_CLAIM, ClaimReply, EncodedItem, Settings, Signal
from swath.frontier import ADD_BUFFER, ADD_BYTES, Frontier
from tests.bench import Bench, bench, nothing
from tests.recorder import PATIENCE


async def claimed(b: Bench, limit: int = 100, **options: float) -> Claim:
    claim = await b.frontier.claim(limit, **options)
    assert claim is not None
    return claim


# add


async def test_add_takes_one_many_and_streams() -> None:
    async def stream() -> AsyncIterator[str]:
        for n in range(3):
            yield f"s{n}"

    async with bench() as b:
        assert await b.frontier.add("a") == 1
        assert await b.frontier.add(Item("b")) == 1
        assert await b.frontier.add(["a", "b", "c", "c"]) == 1
        assert await b.frontier.add(stream()) == 3
        assert await b.frontier.add([]) == 0
        assert (await b.frontier.status()).ready == 6


async def test_add_holds_no_more_than_a_buffer() -> None:
    drawn = 0

    def keys() -> Iterator[str]:
        nonlocal drawn
        for n in range(2 * ADD_BUFFER):
            drawn += 1
            yield f"k{n}"

    async with bench() as b:
        gate = b.faults.held_up["add"] = asyncio.Event()
        adding = asyncio.create_task(b.frontier.add(keys()))
        await b.faults.saw("add")
        assert drawn == ADD_BUFFER
        gate.set()
        assert await adding == 2 * ADD_BUFFER


async def test_add_holds_few_items_where_their_payloads_are_large() -> None:
    drawn = 0

    def items() -> Iterator[Item]:
        nonlocal drawn
        for n in range(300):
            drawn += 1
            yield Item(f"k{n}", payload="x" * 200_000)

    async with bench() as b:
        gate = b.faults.held_up["add"] = asyncio.Event()
        adding = asyncio.create_task(b.frontier.add(items()))
        await b.faults.saw("add")
        assert drawn == ADD_BYTES // 200_000
        gate.set()
        assert await adding == 300


class Watched(MemoryStore):
    """Notes how many items it is handed at a time."""

    def __init__(self, partitions: int) -> None:
        super().__init__(Settings(partitions))
        self.sizes: list[int] = []

    async def add(self, items: Sequence[EncodedItem]) -> int:
        self.sizes.append(len(items))
        return await super().add(items)


@pytest.mark.parametrize("partitions", [1, 4])
async def test_add_hands_over_a_chunk_at_a_time(partitions: int) -> None:
    """A long addition does not keep other callers of the store waiting."""
    store = Watched(partitions)
    frontier = Frontier(store)
    items = (Item(f"k{n}", lane=f"lane {n % 9}") for n in range(2_500))
    assert await frontier.add(items) == 2_500
    assert store.sizes == [ADD_CHUNK, ADD_CHUNK, 500]
    assert (await frontier.status()).ready == 2_500


async def test_add_draws_no_more_from_a_stream_than_a_buffer() -> None:
    """INV-9. What is drawn is handed over before more is."""
    store, drawn, most = Watched(1), 0, 0

    async def stream() -> AsyncIterator[str]:
        nonlocal drawn, most
        for n in range(ADD_BUFFER + 2_500):
            drawn += 1
            most = max(most, drawn - sum(store.sizes))
            yield f"k{n}"

    assert await Frontier(store).add(stream()) == ADD_BUFFER + 2_500
    assert store.sizes == [ADD_CHUNK] * 12 + [500]
    assert most == ADD_BUFFER


async def test_the_same_key_in_another_lane_is_another_item() -> None:
    async with bench() as b:
        assert await b.frontier.add([Item("a", lane="x"), Item("a", lane="y")]) == 2
        explanation = await b.frontier.explain("a")
        assert "also in lane" in explanation.sentence


@pytest.mark.parametrize("wrong", [7, None, [7], [None], "", [""], Item("k", priority=9), Item("k", lane="")])
async def test_add_refuses_what_is_no_item(wrong: Any) -> None:
    async with bench() as b:
        with pytest.raises(swath.UsageError):
            await b.frontier.add(wrong)
        assert (await b.frontier.status()).ready == 0


async def test_known_keys_are_not_offered_again_and_unsure_ones_are() -> None:
    """INV-7: a key is remembered only after its commit was confirmed."""
    async with bench() as b:
        b.faults.fail("add")
        with pytest.raises(swath.StoreUnavailable):
            await b.frontier.add("a")
        b.faults.come_back()
        assert await b.frontier.add("a") == 1
        calls = b.faults.calls["add"]
        assert await b.frontier.add("a") == 0
        assert b.faults.calls["add"] == calls


# claim


async def test_nothing_ready_is_none() -> None:
    async with bench() as b:
        assert await b.frontier.claim() is None
        assert b.seen.of(events.Claimed) == []


async def test_a_claim_that_took_nothing_yet_is_repeated_while_items_are_ready() -> None:
    """A store may do other work first, such as taking in discovered items, and ask for another claim at once."""
    async with bench() as b:
        await b.frontier.add(Item("a", not_before=as_datetime(b.clock.now() + 5_000_000)))

        def ask_for_more(reply: ClaimReply) -> ClaimReply:
            b.clock.advance(2)
            return reply if reply.items else reply._replace(next_ready_at=reply.now)

        b.faults.changed["claim"] = ask_for_more
        claim = await b.frontier.claim()
        assert claim is not None
        assert b.faults.calls["claim"] > 1


@pytest.mark.parametrize(
    "change",
    [
        {"next_ready_at": 2**50},
        {"next_ready_at": None},
        {"next_ready_at": 0, "signal": Signal(True, 1)},
        {"skipped": (0,), "signal": Signal(True, 1)},
    ],
)
async def test_a_claim_that_took_nothing_is_not_repeated_otherwise(change: dict[str, Any]) -> None:
    async with bench() as b:
        b.faults.changed["claim"] = lambda reply: reply._replace(**change)
        assert await b.frontier.claim() is None
        assert b.faults.calls["claim"] == 1


async def test_a_claim_gives_up_if_others_hold_every_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frontier_module, "BUSY_SECONDS", 0.05)
    async with bench() as b:
        b.faults.changed["claim"] = lambda reply: reply._replace(skipped=(0,))
        with pytest.raises(swath.StoreUnavailable, match="other transactions held every ready item"):
            await b.frontier.claim()
        assert b.faults.calls["claim"] > 1
        b.faults.changed.clear()
        assert await b.frontier.claim() is None


@pytest.mark.parametrize("limit", [0, -1, MAX_CLAIM + 1, 1.5, "9", None])
async def test_a_limit_out_of_range_is_refused(limit: Any) -> None:
    async with bench() as b:
        with pytest.raises(swath.UsageError, match="limit="):
            await b.frontier.claim(limit)


@pytest.mark.parametrize("lease", [0, 0.01, -5, "long", float("nan"), float("inf")])
async def test_a_lease_out_of_range_is_refused(lease: Any) -> None:
    async with bench() as b:
        await b.frontier.add("a")
        with pytest.raises(swath.InvalidSetting, match="lease="):
            await b.frontier.claim(lease=lease)
        claim = await claimed(b)
        with pytest.raises(swath.InvalidSetting, match="lease="):
            await claim.renew(lease=lease)


async def test_a_claim_says_what_it_holds_until_when() -> None:
    async with bench(partitions=4) as b:
        await b.frontier.add(Item(f"k{n}", lane=f"lane {n}", payload={"n": n}, priority=5) for n in range(20))
        claim = await claimed(b, lease=30)
        assert len(claim.items) == claim.remaining == 20
        assert claim.partitions == sorted({item.partition for item in claim.items})
        assert as_datetime(b.clock.now()) < claim.expires_at <= as_datetime(b.clock.now()) + timedelta(seconds=31)
        item = claim.items[0]
        assert (item.priority, item.attempts, item.payload) == (5, 0, {"n": int(item.key[1:])})
        before = claim.expires_at
        b.clock.advance(10)
        await claim.renew()
        assert timedelta(seconds=9) < claim.expires_at - before <= timedelta(seconds=10)
        assert repr(claim).startswith("<Claim 1: 20 of 20 items unsettled, leased until")


# settle


async def test_a_settlement_with_one_bad_outcome_changes_nothing() -> None:
    async with bench(partitions=4) as b:
        await b.frontier.add(Item(f"k{n}", lane=f"lane {n}") for n in range(20))
        claim = await claimed(b)
        good = [item.done() for item in claim.items[:-1]]
        last = claim.items[-1]
        stranger = Item("k0", lane="lane 0", partition=0, position=999)
        for bad in (last.done(result=object()), stranger.done(), 7, good[0], last.done(discovered=["a", ""])):
            with pytest.raises(swath.UsageError):
                await claim.settle([*good, bad])  # type: ignore[list-item]
            assert (await b.frontier.status()).claimed == claim.remaining == 20
        await claim.settle([*good, last.done()])
        assert (claim.remaining, (await b.frontier.status()).done) == (0, 20)


async def test_an_item_is_settled_once() -> None:
    async with bench() as b:
        await b.frontier.add(["a", "b"])
        claim = await claimed(b)
        await claim.settle([claim.items[0].done()])
        with pytest.raises(swath.InvalidOutcome, match="settled before"):
            await claim.settle([claim.items[0].retry()])
        await claim.settle([])
        assert claim.remaining == 1


async def test_outputs_go_with_one_partition() -> None:
    async with bench(partitions=4) as b:
        await b.frontier.add(Item(f"k{n}", lane=f"lane {n}") for n in range(20))
        claim = await claimed(b)
        output = swath.core.store.OutputMove("x.warc", 0, 10)
        with pytest.raises(swath.InvalidOutcome, match="one partition"):
            await claim.settle([item.done() for item in claim.items], outputs=[output])
        with pytest.raises(swath.InvalidOutcome, match="without an outcome"):
            await claim.settle([], outputs=[output])
        assert claim.remaining == 20
        first = [item for item in claim.items if item.partition == claim.partitions[0]]
        await claim.settle([item.done() for item in first], outputs=[output])
        assert await b.store.outputs() == {"x.warc": 10}


async def test_memory_has_no_transaction_to_share() -> None:
    async with bench() as b:
        await b.frontier.add("a")
        claim = await claimed(b)
        with pytest.raises(swath.WrongTransaction):
            await claim.settle([claim.items[0].done()], connection=object())
        assert await b.state("a") == "claimed"


async def test_every_move_is_told_to_the_observer() -> None:
    async with bench() as b:
        await b.frontier.add(["a", "b", "c", "d", "a"])
        claim = await claimed(b)
        await claim.renew()
        a, bb, c, d = claim.items
        await claim.settle([a.done(discovered=["x", "y", "a"]), bb.retry(), c.dead(reason="no"), d.release()])
        await b.frontier.pause("default")
        await b.frontier.configure(concurrency=2)
        await b.frontier.reopen(["c"])
    kinds = [type(event).__name__ for event in b.seen.events]
    assert kinds == ["Added", "Claimed", "Renewed", "Settled", "Died", "LaneChanged", "SettingsChanged", "Reopened"]
    (added,) = b.seen.of(events.Added)
    (settled,) = b.seen.of(events.Settled)
    assert (added.offered, added.added) == (4, 4)
    assert (settled.done, settled.retried, settled.died, settled.released, settled.discovered) == (1, 1, 1, 1, 2)
    assert b.seen.of(events.Died) == [events.Died(claim.fence, "c", "default", 1, "no")]


@pytest.mark.parametrize("kind", [RuntimeError, asyncio.CancelledError, GeneratorExit])
async def test_an_observer_that_raises_changes_nothing(
    caplog: pytest.LogCaptureFixture, kind: type[BaseException]
) -> None:
    def observe(event: events.Event) -> None:
        raise kind("not my day")

    frontier = Frontier(MemoryStore(Settings(partitions=1)), observer=observe)
    assert await frontier.add("a") == 1
    async with asyncio.timeout(PATIENCE):
        assert (await frontier.run(nothing)).done == 1
    assert "not my day" in caplog.text


# lanes and settings


async def test_a_block_for_some_seconds_holds_when_the_clock_has_stepped_back() -> None:
    """They are counted in the time by which a lane may start, which does not run back."""
    async with bench(partitions=2) as b:
        await b.frontier.add([Item("a", lane="x"), Item("b", lane="y")])
        b.clock.advance(-3_600)
        await b.frontier.block("x", seconds=60)
        assert [item.key for item in (await claimed(b, lease=600)).items] == ["b"]
        b.clock.advance(3_661)
        assert [item.key for item in (await claimed(b)).items] == ["a"]


async def test_pausing_and_blocking_lanes() -> None:
    async with bench() as b:
        await b.frontier.add([Item("a", lane="x"), Item("b", lane="y")])
        await b.frontier.pause("x")
        await b.frontier.block("y", seconds=60)
        assert await b.frontier.claim() is None
        await b.frontier.resume("x")
        assert [item.key for item in (await claimed(b, lease=600)).items] == ["a"]
        b.clock.advance(61)
        assert [item.key for item in (await claimed(b)).items] == ["b"]
        await b.frontier.block("y", until=datetime(2100, 1, 1, tzinfo=UTC))
        with pytest.raises(swath.UsageError, match="time zone"):
            await b.frontier.block("y", until=datetime(2100, 1, 1))  # noqa: DTZ001
        await b.frontier.block("y", seconds=0)
        lane = await b.frontier.lane("y")
        assert lane is not None
        assert lane.blocked_until is None
        assert await b.frontier.lane("z") is None


@pytest.mark.parametrize("how", ["configure", "open"])
@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
async def test_a_looser_default_reaches_lanes_that_wait(
    request: pytest.FixtureRequest, tmp_path: Path, store: str, how: str
) -> None:
    """Lanes that rest, and lanes at their limit, in several pages and partitions."""
    lanes = [f"lane {n}" for n in range(2 * ADD_CHUNK + 10)]
    url = f"sqlite:///{tmp_path}/f.db" if store == "sqlite" else request.getfixturevalue("database")
    async with swath.open(url, partitions=3, min_interval=3_600, concurrency=2) as frontier:
        await frontier.add([Item(f"{lane}/{n}", lane=lane) for lane in [*lanes, "full"] for n in range(4)])
        await frontier.limit("full", min_interval=0)
        started = Counter(item.lane for item in await all_claimed(frontier))
        assert started == Counter([*lanes, "full", "full"])
        if how == "configure":
            await frontier.configure(min_interval=0, concurrency=3)
            assert Counter(item.lane for item in await all_claimed(frontier)) == Counter([*lanes, *lanes, "full"])
        else:
            async with swath.open(url, min_interval=0) as again:
                assert Counter(item.lane for item in await all_claimed(again)) == Counter(lanes)


async def all_claimed(frontier: Frontier) -> list[Item]:
    """Everything that can be started, under one lease after the other."""
    items: list[Item] = []
    while (claim := await frontier.claim(1_000, lease=600)) is not None:
        items += claim.items
    return items


async def test_limits_of_a_lane_and_back_to_the_default() -> None:
    async with bench() as b:
        await b.frontier.limit("x", min_interval=1.5, concurrency=2)
        await b.frontier.limit("x", concurrency="default")
        lane = await b.frontier.lane("x")
        assert lane is not None
        assert (lane.min_interval, lane.concurrency, lane.overrides) == (1.5, None, frozenset({"min_interval"}))
        wrong: dict[str, Any]
        for wrong in ({"min_interval": -1}, {"concurrency": 1.5}, {"concurrency": "many"}):
            with pytest.raises(swath.InvalidSetting):
                await b.frontier.limit("x", **wrong)
        for wrong in ({"max_attempts": 0}, {"min_interval": float("nan")}):
            with pytest.raises(swath.InvalidSetting):
                await b.frontier.configure(**wrong)


# dead and done


async def test_dead_items_are_listed_and_reopened() -> None:
    async with bench() as b:
        await b.frontier.add(Item(f"k{n}", lane=f"lane {n % 2}") for n in range(6))
        claim = await claimed(b)
        await claim.settle([item.dead(reason=f"reason {item.key}") for item in claim.items])
        assert len([item async for item in b.frontier.dead()]) == 6
        assert await b.frontier.reopen(["k0", "nobody"]) == 1
        assert await b.frontier.reopen_dead(reason="k3") == 1
        assert await b.frontier.reopen_dead(lane="lane 0") == 2
        assert await b.frontier.reopen_dead() == 2
        assert (await b.frontier.status()).ready == 6


async def test_reopen_dead_by_key_leaves_done_items_alone() -> None:
    async with bench() as b:
        await b.frontier.add([Item("k", "done"), Item("k", "first"), Item("k", "second")])
        claim = await claimed(b)
        await claim.settle(
            [item.done() if item.lane == "done" else item.dead(reason=item.lane) for item in claim.items]
        )
        assert await b.frontier.reopen_dead(["k"], reason="second") == 1
        assert await b.frontier.reopen_dead(["k"], lane="done") == 0
        assert await b.frontier.reopen_dead("k") == 1
        assert (await b.frontier.status()).done == 1


async def settle_with_results(b: Bench, results: dict[str, Any]) -> None:
    await b.frontier.add(Item(key, lane=f"lane {n % 2}") for n, key in enumerate(results))
    claim = await claimed(b, MAX_CLAIM)
    await claim.settle([item.done(result=results[item.key]) for item in claim.items])


RESULTS = {
    "plain": None,
    "text": '{"why": 1}',
    "list": ["why"],
    "inner": {"a": {"why": 1}},
    "other": {"whyever": 1},
    "one": {"why": 1},
    "two": {"b": 1, "why": None},
    "escaped": {"wo\u0308": 1},
}


async def test_done_items_are_listed_with_their_results() -> None:
    async with bench(partitions=3) as b:
        await settle_with_results(b, RESULTS)
        everything = [item async for item in b.frontier.results()]
        assert {item.key: item.result for item in everything} == {k: v for k, v in RESULTS.items() if v is not None}
        assert [item.key async for item in b.frontier.results(lane="lane 1") if item.lane != "lane 1"] == []
        assert len([item async for item in b.frontier.results(lane="lane 1")]) == 4
        assert {item.key async for item in b.frontier.results(result_key="why")} == {"one", "two"}
        assert [item.key async for item in b.frontier.results(result_key="why", lane="lane 1")] == ["one"]
        assert [item.key async for item in b.frontier.results(result_key="wo\u0308")] == ["escaped"]
        for wrong in ({"lane": ""}, {"result_key": ""}, {"result_key": 7}):
            with pytest.raises(swath.UsageError):
                [item async for item in b.frontier.results(**wrong)]


async def test_done_items_are_listed_page_by_page() -> None:
    async with bench() as b:
        await settle_with_results(b, {f"k{n}": {"why": n} for n in range(ADD_CHUNK + 10)} | RESULTS)
        assert len([item async for item in b.frontier.results()]) == ADD_CHUNK + 10 + len(RESULTS) - 1
        assert b.faults.calls["items"] == 2


async def test_reopen_done_leaves_items_with_other_results_alone() -> None:
    async with bench(partitions=3) as b:
        await settle_with_results(b, RESULTS)
        assert await b.frontier.reopen_done(RESULTS, result_key="why", where=lambda item: item.result["why"] == 1) == 1
        assert await b.frontier.reopen_done("plain", result_key="why") == 0
        assert await b.frontier.reopen_done(result_key="why", lane="lane 1") == 0  # "one" is ready now
        assert await b.frontier.reopen_done(result_key="whyever", where=lambda item: item.key == "plain") == 0
        assert await b.frontier.reopen_done(result_key="why") == 1
        assert {key for key in RESULTS if await b.state(key) == "ready"} == {"one", "two"}
        assert [event.items for event in b.seen.of(events.Reopened)] == [1, 0, 0, 0, 1]


async def test_reopen_done_takes_an_item_once_although_it_is_done_again_meanwhile() -> None:
    async with bench() as b:
        await settle_with_results(b, {"k": {"why": 1}})
        b.faults.changed["items"] = lambda page: (
            page._replace(after=(0, 1, 0)) if b.faults.calls["items"] == 1 else page
        )
        reopens, lists = b.faults.held_up["reopen"], b.faults.held_up["items"] = asyncio.Event(), asyncio.Event()
        lists.set()
        reopening = asyncio.create_task(b.frontier.reopen_done(result_key="why"))
        await b.faults.saw("reopen")
        lists.clear()
        reopens.set()
        await b.faults.saw("items", 2)
        b.clock.advance(1)
        claim = await claimed(b)
        await claim.settle([item.done(result={"why": 1}) for item in claim.items])
        lists.set()
        assert await reopening == 1
        assert await b.state("k") == "done"


async def test_explain_follows_a_key_through_its_life() -> None:
    async with bench(max_attempts=2) as b:
        assert (await b.frontier.explain("a")).state == "unknown"
        await b.frontier.add("a")
        assert (await b.frontier.explain("a")).state == "ready"
        claim = await claimed(b)
        assert (await b.frontier.explain("a")).data["worker"] == b.frontier.worker
        await claim.settle([claim.items[0].retry(after=10, reason="busy")])
        assert (await b.frontier.explain("a")).data["reason"] == "busy"
        b.clock.advance(11)
        claim = await claimed(b)
        await claim.settle([claim.items[0].retry(reason="busy again")])
        explanation = await b.frontier.explain("a")
        assert explanation.state == "dead"
        assert "busy again" in str(explanation)


async def test_a_step_of_the_stores_clock_is_reported() -> None:
    async with bench() as b:
        await b.frontier.claim()
        b.clock.advance(3_600)
        await b.frontier.claim()
        (stepped,) = b.seen.of(events.ClockStepped)
        assert 3_590 < stepped.seconds < 3_610
        assert b.log.of("stepped forward")


async def test_a_step_back_of_the_stores_clock_is_no_step_forward() -> None:
    """Replies tell the clock or, where work is, the time that its partition had reached before."""
    async with bench() as b:
        await b.frontier.add([f"k{n}" for n in range(5)])
        b.clock.advance(-3_600)
        for _ in range(5):
            claim = await b.frontier.claim(1)
            assert claim is not None
            await claim.settle([claim.items[0].done()])
            await b.frontier.pause()
            assert await b.frontier.claim() is None
            await b.frontier.resume()
        assert not b.seen.of(events.ClockStepped)
        b.clock.advance(7_200)
        await b.frontier.claim()
        (stepped,) = b.seen.of(events.ClockStepped)
        assert 7_190 < stepped.seconds < 7_210


async def test_a_settlement_that_was_cut_off_between_two_partitions_can_be_repeated() -> None:
    async with bench(partitions=2) as b:
        await b.frontier.add([Item(f"k{n}", lane=f"lane{n}") for n in range(20)])
        claim = await b.frontier.claim()
        assert claim is not None
        assert len(claim.partitions) == 2
        open_ = b.faults.held_up["settle"] = asyncio.Event()
        open_.set()

        def shut(reply: Any) -> Any:
            open_.clear()
            return reply

        b.faults.changed["settle"] = shut
        outcomes = [item.done() for item in claim.items]
        settling = asyncio.create_task(claim.settle(outcomes))
        await b.faults.saw("settle", 2)
        settling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await settling
        b.faults.held_up.clear()
        await claim.settle(outcomes)
        assert (await b.frontier.status()).done == 20


async def test_a_reply_that_waited_for_a_blocked_loop_is_no_step_of_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes after it looks as if the store's clock had gone on while ours stood still."""
    monkeypatch.setattr(session_module, "CLOCK_TOLERANCE", 0.05)

    def late(reply: ClaimReply) -> ClaimReply:
        time.sleep(0.2)  # a handler blocks the loop while the reply is there
        b.clock.advance(0.2)
        return reply

    async with bench() as b:
        b.faults.changed["claim"] = late
        await b.frontier.claim()
        del b.faults.changed["claim"]
        await b.frontier.claim()
        assert not b.seen.of(events.ClockStepped)
        b.clock.advance(1)
        await b.frontier.claim()
        assert len(b.seen.of(events.ClockStepped)) == 1
