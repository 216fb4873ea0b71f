"""The states of a run: from facts to sentences, and from a store to facts."""

import asyncio
import os
import socket
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import swath
from swath import RunMonitor
from swath.core import events
from swath.core.errors import StoreFull, StoreUnavailable
from swath.core.item import Item
from swath.frontier import Frontier
from swath.runner import dispatcher, state_watch
from swath.runner.run_state import Holder, IdleCounts, Outage, RunFacts, StopProgress, list_states
from swath.runner.state_watch import has_ended
from swath.runner.store_retry import StoreRetry
from tests.bench import LeaseTime, bench
from tests.recorder import PATIENCE
from tests.unit.test_runner_outages import Gate

NOW = datetime(2030, 1, 1, 14, 0, 44, tzinfo=UTC)
LEASES_ENDED = (
    "; the leases of 3 pages ended, so other processes may take them. Results are kept until the store answers"
)
RENEWABLE = "whose lease ends at 14:02:11 UTC (at most 87 s) unless it renews it"
GONE = Outage("no route to host", since=95.0, full=False)


def waiting(
    *, ready: int = 0, delayed: int = 0, claimed: int = 0, soon: float | None = 3.0, holder: Holder | None = None
) -> RunFacts:
    until = None if soon is None else NOW + timedelta(seconds=soon)
    return RunFacts(100.0, idle_since=90.0, waiting=IdleCounts(ready, delayed, claimed, NOW, until, holder))


def holder(*, ended: bool) -> Holder:
    return Holder("host:1:abcdef", ended, NOW + timedelta(seconds=87))


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        (RunFacts(100.0, in_flight=5), []),
        (RunFacts(100.0, idle_since=99.5), []),
        (
            RunFacts(100.0, in_flight=1, stop=StopProgress("SIGINT", 98.0, 108.0)),
            ["stopping: 1 page in flight, at most 8 s"],
        ),
        (
            RunFacts(100.0, in_flight=2, paused_since=1.0, outage=GONE, stop=StopProgress("SIGINT", 98.0, 107.2)),
            ["stopping: 2 pages in flight, at most 8 s", "store away: no route to host"],
        ),
        (RunFacts(100.0, outage=GONE._replace(full=True)), ["disk full: no route to host"]),
        (
            RunFacts(100.0, outage=GONE, expired=3),
            [f"store away: no route to host{LEASES_ENDED}"],
        ),
        (RunFacts(100.0, unanswered_since=98.0), []),
        (RunFacts(100.0, unanswered_since=96.0), ["store away: the store does not answer"]),
        (RunFacts(100.0, paused_since=90.0), ["paused: the frontier is paused until `swath resume`"]),
        (
            waiting(ready=4)._replace(paused_since=90.0),
            ["paused: the frontier is paused until `swath resume`"],
        ),
        (waiting(ready=4)._replace(outage=GONE), ["store away: no route to host"]),
        (
            waiting(ready=4),
            ["pacing: 4 pages in lanes that are not ready: see `swath lanes`; the next one may start in 3 s"],
        ),
        (
            waiting(ready=1, soon=None),
            ["paused: 1 page in lanes that are paused until `swath resume LANE`: see `swath lanes`"],
        ),
        (
            waiting(delayed=2, soon=29.1),
            ["delayed: 2 pages to be tried again or started later; the next one may start in 30 s"],
        ),
        (waiting(claimed=3), ["leased: 3 pages of other workers"]),
        (
            waiting(claimed=3, holder=holder(ended=True)),
            ["leased: 3 pages of a process that ended (host:1:abcdef), until 14:02:11 UTC (at most 87 s)"],
        ),
        (
            waiting(claimed=1, holder=holder(ended=False)),
            [f"leased: 1 page of another worker (host:1:abcdef), {RENEWABLE}"],
        ),
        (
            waiting(ready=2, claimed=1),
            ["leased: 1 page of other workers", "pacing: 2 pages in lanes that are not ready: see `swath lanes`"],
        ),
    ],
    ids=lambda value: value[0].partition(":")[0] if value and isinstance(value, list) else "",
)
def test_facts_become_sentences(facts: RunFacts, said: list[str]) -> None:
    assert [str(state) for state in list_states(facts, noun="page")] == said


def test_a_state_says_for_how_long_it_has_held() -> None:
    assert [state.seconds for state in list_states(RunFacts(100.0, outage=GONE))] == [5.0]
    assert [state.seconds for state in list_states(waiting(delayed=1))] == [10.0]


def test_a_worker_has_ended_if_its_process_of_this_machine_has() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    host = socket.gethostname()
    assert has_ended(f"{host}:{child.pid}:abc123")
    assert not has_ended(f"{host}:{os.getpid()}:abc123")
    assert not has_ended(f"{host}:1:abc123")
    assert has_ended(f"{host}:{10**30}:abc123")
    assert not has_ended(f"elsewhere:{child.pid}:abc123")
    assert not has_ended("a name that the user chose")


class ChangedMeanwhile(dict[object, float]):
    """Calls of a run to which another thread adds one while they are listed."""

    def values(self) -> Any:
        found = iter(super().values())
        self[object()] = 99.0
        yield from found


def test_another_thread_may_read_when_the_oldest_call_was_sent() -> None:
    retry = StoreRetry(lambda event: None)
    retry._calls = ChangedMeanwhile({"settle": 5.0})
    assert retry.unanswered_since == 5.0


# runs


@pytest.fixture(autouse=True)
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_watch, "WATCH_SECONDS", 0.01)
    monkeypatch.setattr(state_watch, "IDLE_SECONDS", 0.02)


def start(
    frontier: Frontier, handler: Gate | None = None, *, grace: float = 0.0, stop: swath.Stop | None = None
) -> "tuple[asyncio.Task[swath.Summary], RunMonitor]":
    monitor = RunMonitor()
    running = frontier.run(handler or Gate(), monitor=monitor, handle_signals=False, grace=grace, stop=stop)
    return asyncio.create_task(running), monitor


async def shows(monitor: RunMonitor, *names: str) -> None:
    """Wait until a run has exactly these states."""
    async with asyncio.timeout(PATIENCE):
        while [state.name for state in monitor.states] != list(names):  # noqa: ASYNC110  it is read, not awaited
            await asyncio.sleep(0)


async def end(running: "asyncio.Task[swath.Summary]") -> None:
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_run_on_a_paused_frontier_says_so_until_it_is_resumed() -> None:
    async with bench() as b:
        await b.frontier.add("a")
        await b.frontier.pause()
        gate = Gate()
        running, monitor = start(b.frontier, gate)
        await shows(monitor, "paused")
        await b.log.saw("paused: the frontier is paused until `swath resume`")
        await b.frontier.resume()
        await gate.started.wait()
        await shows(monitor)
        await b.log.saw("no longer paused, after")
        await b.frontier.pause()
        await shows(monitor, "paused")
        gate.open.set()
        await end(running)
        assert monitor.states == ()


async def test_paused_lanes_pacing_and_retries_have_names() -> None:
    async with bench() as b:
        await b.frontier.add(Item("a", "one"))
        await b.frontier.pause("one")
        running, monitor = start(b.frontier)
        await shows(monitor, "paused")
        assert "1 item in lanes that are paused" in monitor.states[0].detail
        await b.frontier.resume("one")
        await b.frontier.block("one", seconds=60)
        await end(running)
        running, monitor = start(b.frontier)
        await shows(monitor, "pacing")
        await end(running)
        await b.frontier.add([Item("b", "two", not_before=datetime(2040, 1, 1, tzinfo=UTC))])
        running, monitor = start(b.frontier)
        await shows(monitor, "pacing", "delayed")
        await end(running)


async def test_a_run_is_idle_only_since_its_last_item_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    lease_time = LeaseTime()
    monkeypatch.setattr("swath.core.clock.time", lease_time)
    async with bench() as b:
        await b.frontier.add(["a", Item("b", "two", not_before=datetime(2040, 1, 1, tzinfo=UTC))])
        gate = Gate()
        running, monitor = start(b.frontier, gate)
        await gate.started.wait()
        for _ in range(100):  # it claims again, and gets nothing
            await asyncio.sleep(0)
        lease_time.advance(20)
        gate.open.set()
        await shows(monitor, "delayed")
        assert monitor.states[0].seconds < 10
        await end(running)


HOLDER = """
import asyncio, sys, swath

async def main():
    async with swath.open(sys.argv[1]) as frontier:
        await frontier.add(["a", "b"])
        assert await frontier.claim(lease=60)
        print("claimed", flush=True)
        await asyncio.sleep(1000)

asyncio.run(main())
"""


def start_holder(url: str) -> "subprocess.Popen[str]":
    """Start a process that holds two items until it is killed."""
    child = subprocess.Popen([sys.executable, "-c", HOLDER, url], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    with child.stdout:
        assert child.stdout.readline() == "claimed\n"
    return child


async def test_items_of_a_process_that_was_killed_are_waited_for_by_name(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/work.db"
    child = start_holder(url)
    async with swath.open(url) as frontier:
        running, monitor = start(frontier)
        await shows(monitor, "leased")
        assert f":{child.pid}:" in monitor.states[0].detail
        assert monitor.states[0].detail.startswith("2 items of another worker (")
        child.kill()
        child.wait()
        await end(running)
        running, monitor = start(frontier)
        await shows(monitor, "leased")
        assert "2 items of a process that ended (" in monitor.states[0].detail
        await end(running)


@pytest.mark.parametrize(("error", "name"), [(StoreUnavailable, "store away"), (StoreFull, "disk full")])
async def test_an_outage_has_a_name_and_its_error_while_it_lasts(error: type[Exception], name: str) -> None:
    async with bench() as b:
        await b.frontier.add("a")
        gate = Gate()
        running, monitor = start(b.frontier, gate)
        await gate.started.wait()
        b.faults.fail("claim", "settle", error=error)
        gate.open.set()
        await shows(monitor, name)
        assert monitor.states[0].detail == "the test pulled the plug"
        b.faults.come_back()
        await running
        assert monitor.states == ()


async def test_an_outage_is_noticed_while_all_workers_are_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher, "SIGNAL_SECONDS", 0.01)
    async with bench() as b:
        await b.frontier.add("a")
        gate = Gate()
        running, monitor = start(b.frontier, gate)
        await gate.started.wait()
        b.faults.fail("signal")
        await shows(monitor, "store away")
        b.faults.come_back()
        await shows(monitor)
        gate.open.set()
        await running


async def test_a_store_that_does_not_answer_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swath.runner.run_state.SLOW_SECONDS", 0.01)
    async with bench() as b:
        b.faults.held_up["claim"] = asyncio.Event()
        await b.frontier.add("a")
        running, monitor = start(b.frontier)
        await shows(monitor, "store away")
        assert monitor.states[0].detail == "the store does not answer"
        await b.log.saw("store away: the store does not answer")
        b.faults.held_up.pop("claim").set()
        await b.log.saw("no longer store away, after")
        await end(running)


async def test_an_idle_run_logs_that_the_store_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swath.runner.run_state.SLOW_SECONDS", 0.01)
    async with bench() as b:
        await b.frontier.add(Item("a", "one"))
        await b.frontier.block("one", seconds=60)
        running, monitor = start(b.frontier)
        await shows(monitor, "pacing")
        hangs = b.faults.held_up["status"] = b.faults.held_up["claim"] = asyncio.Event()
        await b.faults.saw("status", b.faults.calls["status"] + 1)
        await b.frontier.add("b")
        await b.log.saw("store away: the store does not answer")
        hangs.set()
        await end(running)


async def test_a_run_that_stops_says_so_until_it_has_ended() -> None:
    async with bench() as b:
        await b.frontier.add("a")
        gate, stop = Gate(), swath.Stop()
        running, monitor = start(b.frontier, gate, grace=30.0, stop=stop)
        await gate.started.wait()
        stop.request("max-pages")
        await shows(monitor, "stopping")
        assert monitor.states[0].detail == "1 item in flight, at most 35 s"
        gate.open.set()
        await running
        assert monitor.states == ()


async def test_what_a_run_waited_for_before_its_last_item_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench() as b:
        await b.frontier.add(Item("later", not_before=datetime(2040, 1, 1, tzinfo=UTC)))
        gate = Gate()
        running, monitor = start(b.frontier, gate)
        await shows(monitor, "delayed")
        monkeypatch.setattr(state_watch, "WATCH_SECONDS", 1_000.0)
        await b.frontier.add("now")
        await gate.started.wait()
        gate.open.set()
        await b.seen.saw(events.Settled)
        await b.faults.saw("claim", b.faults.calls["claim"] + 2)  # it is idle again
        assert monitor.states == ()
        await end(running)


async def test_a_busy_run_asks_the_store_nothing_for_its_states(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = asyncio.Semaphore(0)
    monkeypatch.setattr(state_watch.StateWatch, "log_changes", lambda self, states: looks.release())
    async with bench() as b:
        await b.frontier.add("a")
        gate = Gate()
        running, monitor = start(b.frontier, gate)
        await gate.started.wait()
        for _ in range(5):
            await looks.acquire()
        assert (monitor.states, b.faults.calls.get("status", 0)) == ((), 0)
        await end(running)
