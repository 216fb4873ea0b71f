"""The runner stops: cleanly, at once, and for a pause."""

import asyncio
import gc
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import swath
from swath.core import events
from swath.core.item import Item
from swath.core.store import ClaimReply
from swath.frontier import Frontier
from swath.runner import dispatcher, run, shutdown
from swath.runner.execution import Handler
from swath.runner.shutdown import Stop
from tests.bench import Bench, bench, nothing
from tests.unit.test_runner_outages import Gate


async def start(
    b: Bench, handler: Handler, *, grace: float = 10.0, stop: Stop | None = None
) -> tuple["asyncio.Task[run.Summary]", Stop]:
    """A run that can be asked to stop as a signal would."""
    stop = stop or Stop()
    running = b.frontier.run(
        handler,
        workers=2,
        lease=60.0,
        timeout=None,
        grace=grace,
        until="done",
        handle_signals=False,
        stop=stop,
    )
    return asyncio.create_task(running), stop


@pytest.fixture
def two_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher.Dispatcher, "_count_ahead", lambda self: 2)


@pytest.mark.usefixtures("two_ahead")
async def test_a_clean_stop_finishes_what_runs_and_releases_the_rest() -> None:
    gate = Gate()
    async with bench() as b:
        await b.frontier.add(f"k{n}" for n in range(10))
        running, stop = await start(b, gate)
        await gate.started.wait()
        stop.request("SIGTERM")
        await b.seen.saw(events.Settled)  # what was claimed ahead is free before the handlers are through
        (shutdown,) = b.seen.of(events.Stopping)
        assert (shutdown.reason, shutdown.in_flight) == ("SIGTERM", 4)
        assert (await b.frontier.status()).claimed == 2
        gate.open.set()
        summary = await running
        status = await b.frontier.status()
    assert (summary.done, summary.released, summary.stopped_by) == (2, 2, "SIGTERM")
    assert (status.done, status.ready, status.claimed) == (2, 8, 0)
    assert gate.cancelled == {}


async def test_after_the_grace_handlers_are_cancelled_and_their_items_released() -> None:
    gate = Gate()
    async with bench() as b:
        await b.frontier.add(["a", "b"])
        running, stop = await start(b, gate, grace=0.1)
        await gate.started.wait()
        stop.request("SIGINT")
        summary = await running
        assert sorted(gate.cancelled) == ["a", "b"]
        assert (summary.released, summary.lost, summary.done) == (2, 0, 0)
        assert (await b.frontier.status()).ready == 2
        assert (await b.data("a"))["attempts"] == 0


async def test_a_handler_that_ignores_its_cancellation_cannot_hang_the_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "CANCEL_SECONDS", 0.05)
    started, end = asyncio.Event(), asyncio.Event()

    async def handler(item: Item) -> None:
        started.set()
        while item.key == "deaf" and not end.is_set():
            try:
                await end.wait()
            except asyncio.CancelledError:
                continue

    async with bench() as b:
        await b.frontier.add(["deaf", "good"])
        running, stop = await start(b, handler, grace=0.05)
        await started.wait()
        stop.request("SIGINT")
        summary = await running
        assert (summary.done, summary.lost, summary.released) == (1, 1, 0)
        assert b.log.of("handler for 'deaf' ignores its cancellation")
        assert await b.state("deaf") == "claimed"
        assert len(asyncio.all_tasks()) == 1  # not even asyncio.run would wait for it
        end.set()


async def test_cancelling_the_run_stops_it_cleanly() -> None:
    gate = Gate()
    async with bench() as b:
        await b.frontier.add(f"k{n}" for n in range(5))
        running = asyncio.create_task(b.frontier.run(gate, workers=2))
        await gate.started.wait()
        running.cancel()
        await b.seen.saw(events.Stopping)
        gate.open.set()
        with pytest.raises(asyncio.CancelledError):
            await running
        status = await b.frontier.status()
    assert (status.done, status.ready, status.claimed) == (2, 3, 0)


async def test_cancelling_it_twice_ends_it_at_once() -> None:
    gate = Gate()
    async with bench() as b:
        await b.frontier.add(["a", "b"])
        running = asyncio.create_task(b.frontier.run(gate, grace=1_000))
        await gate.started.wait()
        running.cancel()
        await b.seen.saw(events.Stopping)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running


async def test_at_once_waits_for_nobody() -> None:
    gate = Gate()
    async with bench() as b:
        await b.frontier.add(["a", "b"])
        running, stop = await start(b, gate, grace=1_000)
        await gate.started.wait()
        b.faults.held_up["settle"] = asyncio.Event()
        stop.request("SIGINT")
        await b.seen.saw(events.Stopping)
        stop.abort(ConnectionAbortedError("stands in for KeyboardInterrupt, which would end the tests"))
        with pytest.raises(ConnectionAbortedError):
            await running
        assert (await b.frontier.status()).claimed == 2


async def test_a_claim_under_way_when_the_stop_comes_is_released() -> None:
    async with bench() as b:
        gate = b.faults.held_up["claim"] = asyncio.Event()
        await b.frontier.add(["a", "b"])
        running, stop = await start(b, nothing)
        await b.faults.saw("claim")
        stop.request("SIGTERM")
        await b.seen.saw(events.Stopping)
        gate.set()
        summary = await running
        status = await b.frontier.status()
    assert (summary.done, summary.released) == (0, 2)
    assert (status.ready, status.claimed) == (2, 0)


async def test_what_a_claim_under_way_brings_is_free_before_the_handlers_are_through() -> None:
    gate = Gate()
    async with bench() as b:
        await b.frontier.add("a")
        running, stop = await start(b, gate)
        await gate.started.wait()
        late = b.faults.held_up["claim"] = asyncio.Event()
        before = b.faults.calls["claim"]
        await b.frontier.add("b")
        await b.faults.saw("claim", before + 1)
        stop.request("SIGTERM")
        await b.seen.saw(events.Stopping)
        late.set()
        await b.seen.until(lambda: sum(settled.released for settled in b.seen.of(events.Settled)) == 1)
        assert await b.state("a") == "claimed"
        gate.open.set()
        assert (await running).done == 1


async def test_a_stop_asked_for_before_the_start_starts_nothing() -> None:
    async with bench() as b:
        await b.frontier.add("a")
        stop = Stop()
        stop.request("enough")
        running, _ = await start(b, nothing, stop=stop)
        summary = await running
        assert (summary.done, summary.stopped_by) == (0, "enough")


async def test_nothing_is_left_behind() -> None:
    async with bench() as b:
        await b.frontier.add(f"k{n}" for n in range(100))
        await b.frontier.run(nothing, workers=10)
        assert len(asyncio.all_tasks()) == 1
    gc.collect()  # a task that was destroyed while pending would be an error


# pauses


@pytest.mark.usefixtures("two_ahead")
@pytest.mark.parametrize("lane", [None, "slow"])
async def test_a_pause_releases_what_was_not_started(lane: str | None) -> None:
    gate = Gate()
    async with bench() as b:
        await b.frontier.add(Item(f"k{n}", lane="slow") for n in range(10))
        running = asyncio.create_task(b.frontier.run(gate, workers=2))
        await gate.started.wait()
        await Frontier(b.store).pause(lane)
        async with asyncio.timeout(2.0):  # in force within two seconds
            await b.seen.until(lambda: sum(settled.released for settled in b.seen.of(events.Settled)) == 2)
        assert gate.cancelled == {}
        gate.open.set()
        await b.seen.until(lambda: sum(settled.done for settled in b.seen.of(events.Settled)) == 2)
        assert (await b.frontier.status()).ready == 8
        await Frontier(b.store).resume(lane)
        summary = await running
    assert (summary.done, summary.released) == (10, 2)


@pytest.mark.usefixtures("two_ahead")
async def test_a_claim_that_brings_word_of_a_pause_starts_nothing() -> None:
    """The lane may have been paused between the claim of its partition and the look at the signal."""
    started: list[str] = []

    async def handler(item: Item) -> None:
        started.append(item.key)

    async with bench() as b:
        await b.frontier.add(["a"])
        version = 0

        def pausing(reply: ClaimReply) -> ClaimReply:
            nonlocal version
            version += bool(reply.items) and version < 1
            return reply._replace(signal=reply.signal._replace(version=version))

        b.faults.changed["claim"] = pausing
        running = asyncio.create_task(b.frontier.run(handler))
        await b.seen.saw(events.Settled)
        assert started == []
        await running
    assert started == ["a"]


# signals


def test_a_signal_that_comes_while_another_is_handled_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two that follow one another at once: the second ends the run, and is not taken for the first as well."""
    request = shutdown._Listener.request

    def interrupted(listener: shutdown._Listener, reason: str) -> None:
        monkeypatch.setattr(shutdown._Listener, "request", request)
        signal.raise_signal(signal.SIGTERM)
        request(listener, reason)

    monkeypatch.setattr(shutdown._Listener, "request", interrupted)
    loop = asyncio.new_event_loop()
    with pytest.raises(SystemExit), shutdown.stop_on_signals(Stop(), loop):
        signal.raise_signal(signal.SIGINT)
    loop.close()


async def test_a_signal_that_is_handled_outside_of_python_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a program that Python is a part of: Python says None for its handler, and could not restore that."""
    get = signal.getsignal
    monkeypatch.setattr(signal, "getsignal", lambda number: None if number == signal.SIGTERM else get(number))
    installed: list[int] = []
    install = signal.signal

    def note(number: int, handler: Any) -> Any:
        installed.append(number)
        return install(number, handler)

    monkeypatch.setattr(signal, "signal", note)
    async with bench() as b:
        await b.frontier.add("a")
        assert (await b.frontier.run(nothing)).done == 1
    assert installed == [signal.SIGINT, signal.SIGINT]


TWO_SIGNALS = """
import asyncio, os, signal, sys, swath

async def main():
    stop, loop, started = swath.Stop(), asyncio.get_running_loop(), asyncio.Event()

    def answer(name, first):  # the second signal comes before the loop has got the first one
        if first:
            os.kill(os.getpid(), signal.SIGINT)

    async def handler(item):
        loop.call_soon(os.kill, os.getpid(), signal.SIGINT)
        await asyncio.Event().wait()

    async with swath.open(sys.argv[1]) as frontier:
        await frontier.add("k")
        with swath.stop_on_signals(stop, loop, on_signal=answer):
            await frontier.run(handler, handle_signals=False, stop=stop)

asyncio.run(main())
"""


async def test_a_second_signal_leaves_the_items_to_their_lease_although_the_loop_ends(tmp_path: Path) -> None:
    """Python cancels all tasks when the loop ends, and none of them may settle an item as failed then."""
    store = f"sqlite:///{tmp_path}/work.db"
    ran = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", TWO_SIGNALS, store], capture_output=True, text=True, check=False
    )
    assert ran.stderr.rstrip().endswith("KeyboardInterrupt")
    async with swath.open(store, create=False) as frontier:
        found = await frontier.explain("k")
    assert (found.state, found.data["attempts"]) == ("claimed", 0), ran.stderr
