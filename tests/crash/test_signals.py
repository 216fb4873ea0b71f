"""Real signals to real processes: the first stops them cleanly, the second at once."""

import asyncio
import signal
from pathlib import Path

import pytest

import swath
from tests.crash.children import child

SIGNALS = [signal.SIGINT, signal.SIGTERM]

# A run that says when a handler has started, and after the signal lets it finish.
CLEAN = """
import asyncio, sys, swath
from swath.core import events

stopping = asyncio.Event()

def observe(event):
    if isinstance(event, events.Stopping):
        print("stopping", flush=True)
        stopping.set()

async def handler(item):
    print("started", flush=True)
    await stopping.wait()

async def main():
    async with swath.open(sys.argv[1], observer=observe) as frontier:
        await frontier.add(f"k{n}" for n in range(10))
        summary = await frontier.run(handler, workers=2)
        print(summary.stopped_by, summary.done, flush=True)

asyncio.run(main())
"""

# A run whose handlers never end.
STUCK = """
import asyncio, sys, swath
from swath.core import events

def observe(event):
    if isinstance(event, events.Stopping):
        print("stopping", flush=True)

async def handler(item):
    print("started", flush=True)
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if {deaf}:
                continue
            raise

async def main():
    async with swath.open(sys.argv[1], observer=observe) as frontier:
        await frontier.add(["a", "b"])
        try:
            await frontier.run(handler, grace={grace})
        finally:
            print("returned", flush=True)

asyncio.run(main())
"""

# A handler that blocks the event loop, so that it hears of nothing.
BLOCKING = """
import asyncio, sys, time, swath

async def handler(item):
    print("started", flush=True)
    while True:
        time.sleep(0.01)

async def main():
    async with swath.open(sys.argv[1]) as frontier:
        await frontier.add("a")
        await frontier.run(handler)

asyncio.run(main())
"""

SYNC = """
import os, sys, threading, swath.sync
from swath.core import events

stopping = threading.Event()

def say(line):
    os.write(1, line.encode() + b"\\n")  # in one piece, whoever else writes

def observe(event):
    if isinstance(event, events.Stopping):
        say("stopping")
        stopping.set()

def handler(item):
    say("started")
    {wait}

with swath.sync.open(sys.argv[1], observer=observe) as frontier:
    frontier.add(f"k{{n}}" for n in range(10))
    summary = frontier.run(handler, workers=2, grace={grace})
    say(f"{{summary.stopped_by}} {{summary.done}}")
"""

# Two runs at once, one begun after the other, of which "short" may end first. Each says when its handler has started.
TOGETHER = """
import asyncio, signal, sys, swath
from swath.core import events

def observe(event):
    if isinstance(event, events.Stopping):
        print("stopping", flush=True)

async def cover(name, started, end):
    async def handler(item):
        print(name, flush=True)
        started.set()
        await end.wait()

    async with swath.open(f"{{sys.argv[1]}}.{{name}}", observer=observe) as frontier:
        await frontier.add("a")
        summary = await frontier.run(handler, grace={grace})
    print(name, summary.stopped_by, summary.done, flush=True)

async def main():
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    ends = {{"short": asyncio.Event(), "long": asyncio.Event()}}
    async with asyncio.TaskGroup() as runs:
        for name in {names}:
            started = asyncio.Event()
            runs.create_task(cover(name, started, ends[name]))
            await started.wait()
        if {one_ends}:
            ends["short"].set()
    assert before == (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)), "left behind"

asyncio.run(main())
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/work.db"


def status(url: str) -> swath.Status:
    async def look() -> swath.Status:
        async with swath.open(url) as frontier:
            return await frontier.status()

    return asyncio.run(look())


def said(number: signal.Signals, items: str, seconds: int) -> str:
    """What a run logs at the first signal; without any configuration of logging it is on standard error."""
    end = "; a second signal ends the run now"
    return f"stopping ({number.name}): {items} in flight, at most {seconds:,} s{end}\n"


def leaving(items: str) -> str:
    """What it logs at the second signal."""
    return f"ending now: {items} in flight come back when their lease ends\n"


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_stops_a_run_cleanly(url: str, number: signal.Signals) -> None:
    with child(CLEAN, url) as run:
        run.says("started")
        run.says("started")
        run.signal(number)
        code, out, err, _ = run.ends()
    assert (code, out, err) == (0, f"stopping\n{number.name} 2\n", said(number, "2 items", 15))
    found = status(url)
    assert (found.done, found.ready, found.claimed) == (2, 8, 0)


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("deaf", [False, True])
def test_a_second_signal_ends_it_at_once(url: str, number: signal.Signals, deaf: bool) -> None:
    with child(STUCK.format(grace=1_000, deaf=deaf), url) as run:
        run.says("started")
        run.signal(number)
        run.says("stopping")
        run.signal(number)
        code, out, err, seconds = run.ends()
    assert out == "returned\n"
    assert seconds < 5
    if number == signal.SIGINT:
        assert code == -signal.SIGINT
        assert err.startswith(said(number, "2 items", 1_005) + leaving("2 items"))
        assert err.endswith("KeyboardInterrupt\n")
    else:
        assert (code, err) == (143, said(number, "2 items", 1_005) + leaving("2 items"))
    assert status(url).claimed == 2  # until the lease ends


@pytest.mark.parametrize("deaf", [False, True])
def test_handlers_that_do_not_end_cannot_hang_the_process(url: str, deaf: bool) -> None:
    with child(STUCK.format(grace=0.1, deaf=deaf), url) as run:
        run.says("started")
        run.signal(signal.SIGTERM)
        run.says("returned")
        code, _, err, seconds = run.ends()
    assert code == 0
    assert ("ignores its cancellation" in err) is deaf
    assert "destroyed" not in err
    assert seconds < 5
    found = status(url)
    assert (found.claimed, found.ready) == ((2, 0) if deaf else (0, 2))


def test_a_second_signal_ends_a_process_whose_loop_is_blocked(url: str) -> None:
    with child(BLOCKING, url) as run:
        run.says("started")
        run.signal(signal.SIGINT)
        run.signal(signal.SIGTERM)
        code, _, err, seconds = run.ends()
    assert code in (143, -signal.SIGINT)
    assert "started" not in err
    assert seconds < 5


def test_signals_do_afterwards_what_they_did_before(url: str) -> None:
    program = """
import asyncio, signal, sys, swath

async def handler(item):
    assert signal.getsignal(signal.SIGTERM) is not before[1], "not handled"

async def main():
    global before
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    async with swath.open(sys.argv[1]) as frontier:
        await frontier.add(["a", "b"])
        assert (await frontier.run(handler)).done == 2
    assert before == (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM))

asyncio.run(main())
"""
    with child(program, url) as run:
        code, _, err, _ = run.ends()
    assert (code, err) == (0, "")


ORDERS = [["short", "long"], ["long", "short"]]  # in which they begin


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_stops_all_runs_of_a_process_cleanly(url: str, number: signal.Signals) -> None:
    with child(TOGETHER.format(names=ORDERS[0], one_ends=False, grace=0.1), url) as run:
        run.says("long")
        run.signal(number)
        code, out, err, _ = run.ends()
    assert (code, err) == (0, 2 * said(number, "1 item", 6))
    assert sorted(out.splitlines()) == [f"long {number.name} 0", f"short {number.name} 0", "stopping", "stopping"]
    assert [status(f"{url}.{name}").claimed for name in ORDERS[0]] == [0, 0]


@pytest.mark.parametrize("names", ORDERS)
def test_a_signal_stops_the_run_that_is_left_cleanly(url: str, names: list[str]) -> None:
    with child(TOGETHER.format(names=names, one_ends=True, grace=0.1), url) as run:
        run.says("short done 1")
        run.signal(signal.SIGTERM)
        code, out, err, _ = run.ends()
    assert (code, out, err) == (0, "stopping\nlong SIGTERM 0\n", said(signal.SIGTERM, "1 item", 6))
    assert status(f"{url}.long").claimed == 0


@pytest.mark.parametrize("number", SIGNALS)
def test_a_second_signal_ends_all_runs_of_a_process_at_once(url: str, number: signal.Signals) -> None:
    with child(TOGETHER.format(names=ORDERS[0], one_ends=False, grace=1_000), url) as run:
        run.says("long")
        run.signal(number)
        run.says("stopping")
        run.says("stopping")
        run.signal(number)
        code, _, _, seconds = run.ends()
    assert code == (-signal.SIGINT if number == signal.SIGINT else 143)
    assert seconds < 5
    assert [status(f"{url}.{name}").claimed for name in ORDERS[0]] == [1, 1]


def test_signals_are_left_alone_if_asked(url: str) -> None:
    """Ctrl-C then cancels the main task, which stops the run as cleanly."""
    with child(CLEAN.replace("workers=2", "workers=2, handle_signals=False"), url) as run:
        run.says("started")
        run.says("started")
        run.signal(signal.SIGINT)
        code, out, err, _ = run.ends()
    assert (code, out) == (-signal.SIGINT, "stopping\n")
    assert err.endswith("KeyboardInterrupt\n")
    found = status(url)
    assert (found.done, found.claimed) == (2, 0)


@pytest.mark.parametrize("number", SIGNALS)
def test_sync_a_signal_stops_a_run_cleanly(url: str, number: signal.Signals) -> None:
    with child(SYNC.format(wait="stopping.wait()", grace=10), url) as run:
        run.says("started")
        run.says("started")
        run.signal(number)
        code, out, err, _ = run.ends()
    assert (code, out, err) == (0, f"stopping\n{number.name} 2\n", said(number, "2 items", 15))
    found = status(url)
    assert (found.done, found.ready, found.claimed) == (2, 8, 0)


@pytest.mark.parametrize("number", SIGNALS)
def test_sync_a_second_signal_ends_it_at_once(url: str, number: signal.Signals) -> None:
    with child(SYNC.format(wait="threading.Event().wait()", grace=1_000), url) as run:
        run.says("started")
        run.signal(number)
        run.says("stopping")
        run.signal(number)
        code, _, err, seconds = run.ends()
    assert code == (-signal.SIGINT if number == signal.SIGINT else 143)
    assert seconds < 5
    assert "Exception ignored" not in err


def test_sync_functions_that_do_not_end_cannot_hang_the_process(url: str) -> None:
    with child(SYNC.format(wait="threading.Event().wait()", grace=0.1), url) as run:
        run.says("started")
        run.signal(signal.SIGTERM)
        run.says("SIGTERM 0")
        code, _, err, seconds = run.ends()
    assert code == 0
    assert "ignores its cancellation" in err
    assert seconds < 5
