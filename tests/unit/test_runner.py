"""The runner: what it does with items, handlers and their outcomes."""

import asyncio
import contextvars
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import swath
from swath.core import events
from swath.core.clock import as_datetime
from swath.core.item import Item, Outcome
from swath.core.store import ClaimRequest
from swath.frontier import Frontier
from swath.runner import dispatcher
from swath.runner.committer import DISCOVERED_BYTES
from swath.runner.execution import Handler
from tests.bench import bench, nothing
from tests.recorder import PATIENCE


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    match request.param:
        case "memory":
            return "memory:"
        case "sqlite":
            return f"sqlite:///{tmp_path}/work.db"
        case _:
            database: str = request.getfixturevalue("database")
            return database


# what becomes of items


async def test_covers_everything_and_what_is_discovered(url: str) -> None:
    async def handler(item: Item) -> Outcome:
        depth = item.payload or 0
        below = [Item(f"{item.key}/{n}", lane=f"lane {n}", payload=depth + 1) for n in range(3)] if depth < 3 else []
        return item.done(result=depth, discovered=below)

    async with swath.open(url) as frontier:
        await frontier.add(["a", "b"])
        summary = await frontier.run(handler, workers=10)
        status = await frontier.status()
    count = 2 * (1 + 3 + 9 + 27)
    assert (summary.done, summary.discovered, summary.stopped_by) == (count, count - 2, "done")
    assert (status.done, status.waiting, status.lag) == (count, 0, 0)


@pytest.mark.parametrize("discovered", ["http://x", Item("http://x"), ["http://x"], iter(["http://x"])])
async def test_what_is_discovered_may_be_one(discovered: Any) -> None:
    async def handler(item: Item) -> Outcome:
        return item.done(discovered=discovered) if item.key == "a" else item.done()

    async with bench() as b:
        await b.frontier.add("a")
        summary = await b.frontier.run(handler)
        assert (summary.done, summary.discovered, await b.state("http://x")) == (2, 1, "done")


async def test_every_outcome_is_settled_and_counted(url: str) -> None:
    async def handler(item: Item) -> Outcome | None:
        match item.key:
            case "done":
                return item.done(result={"n": 1})
            case "retry":
                return item.retry(after=0, reason="not yet") if item.attempts == 0 else None
            case "dead":
                return item.dead(reason="no use")
            case "range" if item.payload["hi"] == 10:
                return item.split(at=5)
            case _:
                return None

    async with swath.open(url) as frontier:
        await frontier.add(["done", "retry", "dead", "none", Item("range", payload={"lo": 0, "hi": 10}, span=8)])
        summary = await frontier.run(handler)
        status = await frontier.status()
        dead = [item async for item in frontier.dead()]
    assert (summary.done, summary.retried, summary.died, summary.split) == (4, 1, 1, 1)
    assert (summary.released, summary.lost) == (0, 0)
    assert (status.done, status.dead, status.waiting) == (5, 1, 0)
    assert [item.reason for item in dead] == ["no use"]


async def test_no_more_than_workers_at_once_and_no_fewer() -> None:
    running, most, full = 0, 0, asyncio.Event()

    async def handler(item: Item) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 7:
            full.set()
        await full.wait()
        running -= 1

    async with bench() as b:
        await b.frontier.add(f"k{n}" for n in range(50))
        summary = await b.frontier.run(handler, workers=7)
    assert most == 7
    assert summary.done == 50


async def test_items_of_a_lane_start_in_order() -> None:
    started: list[str] = []

    async def handler(item: Item) -> None:
        started.append(item.key)

    async with bench() as b:
        keys = [f"k{n:04}" for n in range(700)]
        await b.frontier.add(keys)
        await b.frontier.run(handler, workers=3)
    assert started == keys


async def test_idle_workers_cost_no_tasks() -> None:
    most = 0

    async def handler(item: Item) -> None:
        nonlocal most
        most = max(most, len(asyncio.all_tasks()))

    async with bench() as b:
        await b.frontier.add(["a", "b", "c"])
        await b.frontier.run(handler, workers=5_000)
    assert most < 15


def eager(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> Any:
    """In Python 3.11, what `asyncio.eager_task_factory` makes of handlers that wait for nothing."""
    if coroutine.__qualname__ != "Dispatcher._execute":
        return asyncio.Task(coroutine, loop=loop, **options)
    ended = loop.create_future()
    try:
        coroutine.send(None)
    except StopIteration as end:
        ended.set_result(end.value)
    return ended


async def test_handlers_may_end_before_their_task_is_there() -> None:
    asyncio.get_running_loop().set_task_factory(getattr(asyncio, "eager_task_factory", eager))
    async with bench() as b:
        await b.frontier.add(f"k{n}" for n in range(2_000))
        async with asyncio.timeout(PATIENCE):
            summary = await b.frontier.run(nothing, workers=2_000)
    assert summary.done == 2_000


async def test_each_item_has_a_context_of_its_own() -> None:
    seen = contextvars.ContextVar("seen", default="nothing")
    found: list[str] = []

    async def handler(item: Item) -> None:
        found.append(seen.get())
        seen.set(item.key)

    async with bench() as b:
        await b.frontier.add(["a", "b", "c"])
        await b.frontier.run(handler, workers=1)
    assert found == ["nothing"] * 3


# what goes wrong in handlers


async def test_an_exception_is_a_retry_with_its_traceback() -> None:
    async def handler(item: Item) -> None:
        raise ValueError("no such thing")

    async with bench() as b:
        await b.frontier.add("a")
        summary = await b.frontier.run(handler, until="idle")
        data = await b.data("a")
    assert summary.retried == 1
    assert data["reason"] == "ValueError: no such thing"
    assert "in handler" in data["error"]
    assert 'raise ValueError("no such thing")' in data["error"]
    (failed,) = b.seen.of(events.HandlerFailed)
    assert (failed.key, failed.reason) == ("a", "ValueError: no such thing")


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (42, "InvalidOutcome: the handler returned 42, which is not an outcome"),
        (Item("b").done(), "InvalidOutcome: the handler of 'a' returned an outcome for 'b'"),
        (Unprintable(), "Unprintable: (its text cannot be shown)"),
        (asyncio.CancelledError(), "the handler was cancelled, but not by the runner"),
        (GeneratorExit(), "GeneratorExit"),
        ({"result": {1, 2}}, "InvalidItem: result of 'a' cannot be encoded as JSON"),
        ({"discovered": [Item("x", payload=object())]}, "InvalidItem: payload of 'x' cannot be encoded as JSON"),
        ({"discovered": [Item("x", not_before="tomorrow")]}, ""),  # type: ignore[arg-type]
        ({"discovered": [""]}, "InvalidItem: the key is empty"),
        ({"discovered": [7]}, "InvalidItem: 7 is not an item: pass a swath.Item or a key"),
        ({"revisit_after": -1}, "InvalidOutcome: revisit_after=-1"),
        ({"output": b""}, "InvalidOutcome: the outcome of 'a' has an output, but nothing writes it"),
    ],
)
async def test_what_cannot_be_settled_is_a_retry_and_spares_its_group(wrong: Any, reason: str) -> None:
    async def handler(item: Item) -> Any:
        if item.key != "a":
            return item.done()
        if isinstance(wrong, BaseException):
            raise wrong
        return item.done(**wrong) if isinstance(wrong, dict) else wrong

    async with bench() as b:
        await b.frontier.add(["b", "a", "c"])
        summary = await b.frontier.run(handler, until="idle")
        data = await b.data("a")
    assert (summary.done, summary.retried, summary.lost) == (2, 1, 0)
    assert data["reason"].startswith(reason)


class Untraceable(Exception):
    """Looks up in a reply what it is asked for, as some do: also its notes, for a traceback."""

    def __getattr__(self, name: str) -> Any:
        raise KeyError(name)


async def test_an_exception_that_cannot_be_traced_is_a_failure_like_others() -> None:
    async def handler(item: Item) -> None:
        raise Untraceable("what it says")

    async with bench(max_attempts=1) as b:
        await b.frontier.add("a")
        async with asyncio.timeout(PATIENCE):
            summary = await b.frontier.run(handler)
        data = await b.data("a")
    assert summary.died == 1
    assert data["reason"] == "gave up after 1 attempt: Untraceable: what it says"


async def test_a_plain_function_is_refused_and_costs_no_attempt() -> None:
    async with bench() as b:
        await b.frontier.add(["a", "b"])
        with pytest.raises(swath.UsageError, match="define the handler with `async def`, or use swath"):
            await b.frontier.run(lambda item: item.done())
        assert (await b.frontier.status()).ready == 2
        assert (await b.data("a"))["attempts"] == 0
        summary = await b.frontier.run(lambda item: asyncio.ensure_future(nothing(item)))  # whatever is awaited will do
    assert summary.done == 2


async def test_what_the_store_alone_can_refuse_is_a_retry_and_spares_its_group() -> None:
    async def handler(item: Item) -> Outcome | None:
        return item.split(at=5) if item.key == "range" else None

    async with bench() as b:
        split = Item("range", payload={"lo": 0, "hi": 10}, span=8)
        await b.frontier.add([Item("range|5"), "x", split, "y"])
        summary = await b.frontier.run(handler, until="idle")
        data = await b.data("range")
    assert (summary.done, summary.retried) == (3, 1)
    assert "exists already" in data["reason"]


async def test_the_last_attempt_is_dead() -> None:
    async def handler(item: Item) -> None:
        raise OSError("down")

    async with bench(max_attempts=1) as b:
        await b.frontier.add("a")
        summary = await b.frontier.run(handler)
        (dead,) = [item async for item in b.frontier.dead()]
    assert (summary.died, summary.retried) == (1, 0)
    assert dead.reason == "gave up after 1 attempt: OSError: down"
    assert dead.error is not None
    assert "Traceback" in dead.error


class UnprintableExit(SystemExit):
    def __str__(self) -> str:
        raise RuntimeError("not even this")


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), UnprintableExit()])
async def test_what_ends_the_process_ends_the_run_and_counts_an_attempt(error: BaseException) -> None:
    async def handler(item: Item) -> None:
        if item.key == "a":
            raise error
        await asyncio.Event().wait()

    async with bench() as b:
        await b.frontier.add(["a", "b"])
        caught: BaseException | None = None
        try:
            async with asyncio.timeout(PATIENCE):
                await b.frontier.run(handler)
        except (SystemExit, KeyboardInterrupt) as raised:
            caught = raised
        assert caught is error
        assert (await b.data("a"))["attempts"] == 1
        assert await b.state("b") == "ready"


async def test_too_slow_is_a_retry() -> None:
    cancelled = []

    async def handler(item: Item) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(item.key)
            raise

    async with bench() as b:
        await b.frontier.add(["a", "b"])
        summary = await b.frontier.run(handler, timeout=0.05, until="idle")
        data = await b.data("a")
    assert sorted(cancelled) == ["a", "b"]
    assert summary.retried == 2
    assert data["reason"] == "timed out after 0.05 s"
    assert {failed.reason for failed in b.seen.of(events.HandlerFailed)} == {"timed out after 0.05 s"}


async def test_out_of_time_an_outcome_counts_but_silence_is_not_done() -> None:
    async def handler(item: Item) -> Outcome | None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return item.dead(reason="too slow") if item.key == "a" else None
        return None

    async with bench() as b:
        await b.frontier.add(["a", "b"])
        summary = await b.frontier.run(handler, timeout=0.05, until="idle")
    assert (summary.died, summary.retried, summary.done) == (1, 1, 0)


async def test_a_handler_that_ignores_its_time_limit_keeps_its_worker_and_item(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The log says so once, however often the dispatcher looks."""
    monkeypatch.setattr(dispatcher, "TICK", 0.01)
    go_on, looks = asyncio.Event(), asyncio.Semaphore(0)
    warn = dispatcher.Dispatcher._warn_about_stuck_handlers

    def count_looks(self: dispatcher.Dispatcher, now: float) -> None:
        warn(self, now)
        if b.log.of("is still running"):
            looks.release()

    monkeypatch.setattr(dispatcher.Dispatcher, "_warn_about_stuck_handlers", count_looks)

    async def handler(item: Item) -> None:
        while not go_on.is_set():
            try:
                await go_on.wait()
            except asyncio.CancelledError:
                continue

    async with bench() as b:
        await b.frontier.add(["deaf", "other"])
        running = asyncio.create_task(b.frontier.run(handler, workers=1, timeout=0.05, grace=0, until="idle"))
        await b.log.saw("'deaf' is still running")
        for _ in range(5):
            await asyncio.wait_for(looks.acquire(), 20)
        warnings = len(b.log.of("is still running"))
        assert await b.state("deaf") == "claimed"
        assert await b.state("other") == "ready"
        go_on.set()
        summary = await running
    assert warnings == 1
    assert (summary.retried, summary.done) == (1, 1)


async def test_a_handler_that_cleans_up_within_the_grace_is_not_complained_about(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dispatcher, "TICK", 0.01)

    async def handler(item: Item) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.2)

    async with bench() as b:
        await b.frontier.add("tidy")
        summary = await b.frontier.run(handler, timeout=0.05, grace=60, until="idle")
        assert not b.log.of("is still running")
    assert summary.retried == 1


# until


async def test_until_done_waits_for_what_is_delayed_and_for_others() -> None:
    async with bench() as b:
        later = as_datetime(b.clock.now()) + timedelta(hours=1)
        await b.frontier.add([Item("later", not_before=later), "now", "theirs"])
        other = Frontier(b.store)
        theirs = await other.claim(limit=1, lease=60)
        assert theirs is not None
        running = asyncio.create_task(b.frontier.run(nothing, workers=2))
        await b.seen.until(lambda: sum(settled.done for settled in b.seen.of(events.Settled)) == 1)
        b.clock.advance(3_601)
        await other.add("wake up")
        await b.seen.until(lambda: sum(settled.done for settled in b.seen.of(events.Settled)) == 4)
        summary = await running
    assert (summary.done, summary.stopped_by) == (4, "done")


async def test_until_idle_leaves_what_is_not_ready() -> None:
    async with bench(min_interval=1_000_000, concurrency=1) as b:
        await b.frontier.add([Item("later", not_before=as_datetime(b.clock.now()) + timedelta(hours=1)), "a", "b"])
        summary = await b.frontier.run(nothing, until="idle")
        status = await b.frontier.status()
    assert (summary.done, summary.stopped_by) == (1, "idle")
    assert (status.ready, status.delayed) == (1, 1)


async def test_until_stopped_goes_on_when_all_is_done() -> None:
    async with bench() as b:
        await b.frontier.add("a")
        running = asyncio.create_task(b.frontier.run(nothing, until="stopped"))
        await b.seen.saw(events.Settled)
        await b.faults.saw("claim", 3)
        await b.faults.saw("wait")
        assert not running.done()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running


# waking


async def test_added_work_wakes_an_idle_runner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher, "IDLE_SECONDS", 1_000.0)
    async with bench() as b:
        running = asyncio.create_task(b.frontier.run(nothing, until="stopped"))
        await b.faults.saw("wait")
        await b.frontier.add("a")
        await b.seen.saw(events.Settled)
        running.cancel()
        await asyncio.wait([running])


async def test_its_own_settlements_wake_it_where_the_store_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher, "IDLE_SECONDS", 1_000.0)
    async with bench(concurrency=1) as b:
        b.faults.held_up["wait"] = asyncio.Event()
        await b.frontier.add(f"k{n}" for n in range(20))
        summary = await b.frontier.run(nothing)
    assert summary.done == 20


async def test_skipped_is_not_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher, "IDLE_SECONDS", 1_000.0)
    async with bench() as b:
        empty = (await b.store.claim(_request()))._replace(skipped=[0])
        await b.frontier.add("a")
        replies = iter([empty] * 5)
        b.faults.held_up["wait"] = asyncio.Event()
        real = b.store.claim

        async def skipping(request: Any) -> Any:
            reply = next(replies, None)
            return await real(request) if reply is None else reply

        monkeypatch.setattr(b.store, "claim", skipping)
        summary = await b.frontier.run(nothing)
    assert summary.done == 1


async def test_a_claim_that_looked_before_a_settlement_says_nothing_about_what_that_made_ready(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked, settled = asyncio.Event(), asyncio.Event()
    async with bench() as b:
        await b.frontier.add("a")
        claim, settle = b.store.claim, b.store.settle

        async def answered_late(request: Any) -> Any:
            reply = await claim(request)
            if not reply.items:
                looked.set()
                await settled.wait()
                for _ in range(100):  # until the runner knows of the settlement
                    await asyncio.sleep(0)
            return reply

        async def seen(*arguments: Any, **more: Any) -> Any:
            reply = await settle(*arguments, **more)
            settled.set()
            return reply

        monkeypatch.setattr(b.store, "claim", answered_late)
        monkeypatch.setattr(b.store, "settle", seen)

        async def handler(item: Item) -> Any:
            await looked.wait()
            return item.done(discovered=["b"] if item.key == "a" else ())

        summary = await b.frontier.run(handler, until="idle")
    assert summary.done == 2


def _request() -> Any:
    return ClaimRequest(1, 1_000_000, "w", 1, [0])


# groups and bounds


async def test_outcomes_are_settled_in_groups() -> None:
    async with bench() as b:
        await b.frontier.add(f"k{n}" for n in range(2_000))
        await b.frontier.run(nothing, workers=500)
    assert len(b.seen.of(events.Settled)) <= 20


async def test_outcomes_that_come_one_by_one_wait_for_each_other() -> None:
    through = asyncio.Event()

    async def handler(item: Item) -> None:
        if item.key == "last":
            await through.wait()
            return
        for _ in range(int(item.key)):
            await asyncio.sleep(0)
        if item.key == "60":
            through.set()

    async with bench() as b:
        await b.frontier.add([*(str(n) for n in range(61)), "last"])
        assert (await b.frontier.run(handler)).done == 62
    assert len(b.seen.of(events.Settled)) <= 15


async def test_stragglers_are_settled_without_waiting_for_their_claim() -> None:
    go_on = asyncio.Event()

    async def handler(item: Item) -> None:
        if item.key == "slow":
            await go_on.wait()

    async with bench() as b:
        await b.frontier.add(["slow", "quick"])
        running = asyncio.create_task(b.frontier.run(handler))
        await b.seen.saw(events.Settled)
        assert await b.state("quick") == "done"
        assert await b.state("slow") == "claimed"
        go_on.set()
        await running


async def test_claiming_stops_when_settling_falls_behind() -> None:
    started = 0

    async def handler(item: Item) -> None:
        nonlocal started
        started += 1

    async with bench() as b:
        gate = b.faults.held_up["settle"] = asyncio.Event()
        await b.frontier.add(f"k{n}" for n in range(5_000))
        running = asyncio.create_task(b.frontier.run(handler, workers=10))
        calls = -1
        while calls != b.faults.calls.get("claim", 0):
            calls = b.faults.calls.get("claim", 0)
            await asyncio.sleep(0.3)
        held_up = started
        del b.faults.held_up["settle"]
        gate.set()
        summary = await running
    assert held_up <= 2 * dispatcher.MAX_CLAIM_ITEMS + dispatcher.MAX_CLAIM_ITEMS
    assert summary.done == 5_000


def leads_to(count: int) -> Handler:
    """A handler of sitemaps: each key that has no slash leads to so many that have one."""

    async def handler(item: Item) -> Outcome:
        return item.done(discovered=[f"{item.key}/{n}" for n in range(count)] if "/" not in item.key else [])

    return handler


async def test_what_was_discovered_is_settled_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody else waits for the partition as long as a settlement takes."""
    monkeypatch.setattr("swath.runner.committer.MAX_DISCOVERED", 50)
    async with bench() as b:
        await b.frontier.add([f"map {n}" for n in range(20)])
        assert (await b.frontier.run(leads_to(20))).done == 20 + 400
        await b.frontier.add("large")
        assert (await b.frontier.run(leads_to(70))).done == 1 + 70
    sizes = [event.discovered for event in b.seen.of(events.Settled)]
    assert (sum(sizes), max(sizes)) == (470, 70)
    assert sorted(sizes)[-2] == 40


async def test_nothing_is_started_while_too_much_that_was_discovered_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """INV-9."""
    monkeypatch.setattr(dispatcher, "MAX_PENDING_BYTES", 100 * DISCOVERED_BYTES)
    async with bench() as b:
        gate = b.faults.held_up["settle"] = asyncio.Event()
        await b.frontier.add([f"map {n}" for n in range(60)])
        running = asyncio.create_task(b.frontier.run(leads_to(20), workers=10))
        before, claimed = -1, 0
        while before != claimed:
            await asyncio.sleep(0.3)
            before, claimed = claimed, sum(event.items for event in b.seen.of(events.Claimed))
        assert claimed < 40
        del b.faults.held_up["settle"]
        gate.set()
        assert (await running).done == 60 + 1_200


async def test_what_was_claimed_ahead_and_cannot_be_started_in_time_is_released(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dispatcher.Dispatcher, "_count_ahead", lambda self: 5 if self.in_flight.executions else 0)
    go_on = asyncio.Event()

    async def handler(item: Item) -> None:
        await go_on.wait()

    async with bench() as b:
        await b.frontier.add(f"k{n}" for n in range(10))
        running = asyncio.create_task(b.frontier.run(handler, workers=1, lease=1.0, grace=0))
        await b.seen.until(lambda: sum(settled.released for settled in b.seen.of(events.Settled)) >= 5)
        running.cancel()
        await asyncio.wait([running])
        status = await b.frontier.status()
        found = await b.data("k1")
    assert (status.ready, status.claimed) == (10, 0)
    assert found["attempts"] == 0


@pytest.mark.parametrize(("lease", "ahead"), [(60, 200), (0.8, 100)])
async def test_no_more_is_claimed_ahead_than_can_start_in_a_part_of_the_lease(
    monkeypatch: pytest.MonkeyPatch, lease: float, ahead: int
) -> None:
    monkeypatch.setattr(dispatcher.Rate, "measure", lambda self, now: 1_000.0)
    async with bench() as b:
        await b.frontier.add(f"k{n}" for n in range(1_000))
        await b.frontier.run(nothing, workers=10, lease=lease)
    assert b.seen.of(events.Claimed)[0].items == 10 + ahead


@pytest.mark.parametrize(("min_interval", "concurrency", "ahead"), [(1, 0, False), (1, 1, True), (0, 0, True)])
async def test_nothing_is_claimed_ahead_where_starts_are_paced(
    min_interval: int, concurrency: int, ahead: bool
) -> None:
    """INV-3: an interval that runs from the claim on must not be shortened by what waits in this process."""

    async def handler(item: Item) -> None:
        await asyncio.sleep(0.001)

    async with bench(min_interval=min_interval, concurrency=concurrency) as b:
        await b.frontier.add(Item(f"k{n}", lane=f"lane {n}") for n in range(600))  # for longer than a rate is measured
        await b.frontier.run(handler, workers=2)
    assert (max(claimed.items for claimed in b.seen.of(events.Claimed)) > 2) is ahead


async def test_what_has_to_start_at_once_is_given_back_if_it_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    """INV-3: also where a lane's own limits pace its starts, and the frontier's do not."""
    monkeypatch.setattr(dispatcher.Dispatcher, "_count_ahead", lambda self: 5)
    gate = asyncio.Event()

    async def handler(item: Item) -> None:
        await gate.wait()

    async with bench() as b:
        await b.frontier.limit("paced", min_interval=0.1, concurrency=2)
        await b.frontier.add([Item("a", priority=7), Item("b", priority=7), Item("c", lane="paced")])
        running = asyncio.create_task(b.frontier.run(handler, workers=2, lease=3_600, until="idle"))
        await b.seen.saw(events.Settled)
        assert (await b.state("a"), await b.state("b"), await b.state("c")) == ("claimed", "claimed", "ready")
        b.clock.advance(1)
        gate.set()
        assert (await running).done == 3


@pytest.mark.parametrize(
    "options",
    [
        {"workers": 0},
        {"workers": True},
        {"workers": 10**9},
        {"lease": 0.01},
        {"timeout": 0},
        {"timeout": -1},
        {"timeout": 1e-6},
        {"grace": -1},
        {"until": "tomorrow"},
    ],
)
async def test_options_out_of_range_are_refused(options: dict[str, Any]) -> None:
    async with bench() as b:
        with pytest.raises(swath.InvalidSetting, match=next(iter(options))):
            await b.frontier.run(nothing, **options)
        with pytest.raises(swath.UsageError, match="cannot be called"):
            await b.frontier.run("handler")  # type: ignore[arg-type]


async def test_a_run_on_an_empty_frontier_is_done_without_a_word() -> None:
    async with bench() as b:
        summary = await b.frontier.run(nothing)
    assert (summary.done, summary.stopped_by) == (0, "done")
    assert b.log.lines == []


async def test_a_run_without_items_counts_nothing() -> None:
    async with bench() as b:
        summary = await b.frontier.run(nothing)
    counts = (summary.done, summary.retried, summary.died, summary.released, summary.split, summary.lost)
    assert (counts, summary.discovered, summary.stopped_by) == ((0, 0, 0, 0, 0, 0), 0, "done")
