"""Clocks of machines that are wrong, are set, or stand still change nothing that a crawl decides."""

import asyncio
import itertools
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

import swath
from swath import Item, Release, Retry
from swath.backends.memory import MemoryStore
from swath.core.clock import as_datetime
from swath.core.store import Settings
from swath.crawl.fact_batcher import FactBatcher
from swath.crawl.frontier_clock import READ_SECONDS, FrontierClock
from swath.crawl.http.awake_clock import BEAT_SECONDS, MISSED_SECONDS, AwakeClock
from swath.crawl.http.response import Limits, Response
from swath.crawl.pacing import LanePacing
from swath.crawl.settings import CrawlSettings
from tests.bench import LeaseTime, bench
from tests.crash.children import stop
from tests.crawl.driving import TIMEOUT, environment
from tests.crawl.handling import answered, handler_on, handling
from tests.crawl.test_fetch import a_fetcher, hello
from tests.crawl.test_page_handler import item
from tests.crawl.web import Exchange, serving
from tests.machine import ManualMachine
from tests.skewed import write_offset

STOPPED_SECONDS = 2.5  # more than a slow response takes
HOUR = 3_600.0
YEAR = 365 * 86_400.0

# How long a response took.


async def test_the_clock_stands_still_while_the_process_does_not_run() -> None:
    now = 1_000.0
    clock = AwakeClock(asyncio.get_running_loop(), clock=lambda: now)
    began = clock.start()
    for step, counted in ((0.3, 0.3), (MISSED_SECONDS, MISSED_SECONDS), (20.0, BEAT_SECONDS), (HOUR, BEAT_SECONDS)):
        now += step
        before, began = began, clock.read()
        assert began - before == pytest.approx(counted)
    clock.stop()
    clock.close()


async def test_the_clock_is_read_while_somebody_measures() -> None:
    readings, often = 0, asyncio.Event()

    def read() -> float:
        nonlocal readings
        readings += 1
        if readings > 4:
            often.set()
        return readings * BEAT_SECONDS

    loop = asyncio.get_running_loop()
    clock = AwakeClock(loop, clock=read)
    clock.start()
    clock.start()
    clock.stop()
    await often.wait()
    clock.stop()
    clock.close()


async def test_a_step_of_the_wall_clock_makes_no_response_slow() -> None:
    wall = itertools.count(1_000_000.0, HOUR)
    async with serving(hello) as server, a_fetcher(wall_clock=lambda: next(wall)) as fetcher:
        for _ in range(2):
            response = await fetcher.fetch(server.url())
            assert response.error is None
            assert 0 <= response.ended - response.started < HOUR / 2


async def test_no_response_takes_longer_than_the_timeout() -> None:
    fast = itertools.count(1_000.0, MISSED_SECONDS)
    limits = Limits(total=MISSED_SECONDS / 2)
    async with serving(hello) as server, a_fetcher(clock=lambda: next(fast), limits=limits) as fetcher:
        response = await fetcher.fetch(server.url())
    assert response.ended - response.started == pytest.approx(limits.total)


async def test_a_visit_whose_lease_has_ended_teaches_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """INV-2. Whether the process was stopped for longer than the lease or cut off from the store."""
    time = LeaseTime()
    monkeypatch.setattr("swath.core.clock.time", time)
    async with bench() as b:
        pacing = LanePacing(b.frontier, FactBatcher(b.frontier), delay=1.0)
        learned = []

        async def handler(item: Item) -> None:
            if item.key == "late":
                time.advance(61)
            await pacing.record_response(item.lane, 4.0, failed=False)
            await pacing.block(item.lane, 100.0)
            learned.append(item.key)

        for key in ("late", "in time"):
            await b.frontier.add(Item(key, lane=key))
            await b.frontier.run(handler, until="idle", lease=60, handle_signals=False)
        late, in_time = await b.frontier.lane("late"), await b.frontier.lane("in time")
        assert late is not None
        assert in_time is not None
        assert (late.overrides, late.blocked_until) == (frozenset(), None)
        assert in_time.min_interval == 20.0
        assert in_time.blocked_until is not None
        assert learned == ["late", "in time"]
    assert swath.seconds_left() == float("inf")


@asynccontextmanager
async def crawling(port: int, out: Path, *options: str) -> AsyncIterator[asyncio.subprocess.Process]:
    words = ["crawl", "http://a.example/", "--out", str(out), "--allow-private", "--json", "--delay", "0.1", *options]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "swath", *words, "--connect-to", f"::127.0.0.1:{port}",
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment(),
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()  # also when it is stopped
            await process.wait()


async def test_a_process_that_was_stopped_does_not_wait_for_its_hosts(tmp_path: Path) -> None:
    """The response arrived while the process stood still, and looks slow to a clock that does not."""
    asked, may_answer = asyncio.Event(), asyncio.Event()

    async def answer(exchange: Exchange) -> None:
        if exchange.path == "/":
            asked.set()
            await may_answer.wait()
        await exchange.ok(b"<a href=/b>b</a>", headers=b"Content-Type: text/html\r\n")

    async with serving(answer) as server, crawling(server.port, tmp_path / "out", "--timeout", "30s") as process:
        await asyncio.wait_for(asked.wait(), TIMEOUT)
        await asyncio.to_thread(stop, process.pid)
        may_answer.set()
        await asyncio.sleep(STOPPED_SECONDS)  # the process stands still
        os.kill(process.pid, signal.SIGCONT)
        _, err = await asyncio.wait_for(process.communicate(), TIMEOUT)
    assert process.returncode == 0, err
    assert any(b"GET /b " in request for request in server.requests)
    async with swath.open(CrawlSettings(out=str(tmp_path / "out")).store_url, create=False) as frontier:
        lane = await frontier.lane("a.example")
        assert await frontier.facts(["pace a.example"]) == {}
    assert lane is not None
    assert "min_interval" not in lane.overrides


# Dates from hosts, and times that processes share. The clock of this machine is years ahead of the store's.


@pytest.fixture
def machine() -> ManualMachine:
    """The machine of the store."""
    return ManualMachine(epoch=1_000_000_000.0)


def store_on(machine: ManualMachine) -> MemoryStore:
    return MemoryStore(Settings(1), machine=machine)


def http_date(moment: datetime) -> str:
    return format_datetime(moment.astimezone(UTC), usegmt=True)


async def seconds_blocked(frontier: swath.Frontier, lane: str = "a.example") -> float:
    found, clock = await frontier.lane(lane), await frontier.read_clock()
    assert found is not None
    assert found.blocked_until is not None
    return (found.blocked_until - clock.wall).total_seconds()


@pytest.mark.parametrize("robots", [True, False])
@pytest.mark.parametrize("date", [-YEAR, YEAR, None])
async def test_a_date_of_retry_after_is_compared_with_the_clock_of_its_host(
    machine: ManualMachine, date: float | None, robots: bool
) -> None:
    """If the host does not tell the time, with the store's wall clock."""
    told = as_datetime(machine.wall()) + timedelta(seconds=date or 0)
    headers: dict[str, Any] = {"Retry_After": http_date(told + timedelta(seconds=1_000))}
    if date is not None:
        headers["Date"] = http_date(told)

    def say(url: str) -> Response:
        return answered(url, 503, **headers)

    async with handling(say, store=store_on(machine), delay=0.0, robots=robots, retries=3) as (frontier, handler, _):
        outcome = await handler(item("http://a.example/"))
        assert await seconds_blocked(frontier) == pytest.approx(1_000, abs=2)
    assert isinstance(outcome, Release if robots else Retry)


@pytest.mark.parametrize("date", [-YEAR, YEAR, None])
async def test_robots_txt_expires_after_the_duration_that_its_host_meant(
    machine: ManualMachine, date: float | None
) -> None:
    told = as_datetime(machine.wall()) + timedelta(seconds=date or 0)
    headers: dict[str, Any] = {"Expires": http_date(told + timedelta(hours=5))}
    if date is not None:
        headers["Date"] = http_date(told)

    async with handling(lambda url: answered(url, 200, **headers), store=store_on(machine), delay=0.0) as at:
        frontier, handler, _ = at
        await handler(item("http://a.example/"))
        (fact,) = (await frontier.facts(["robots http://a.example"])).values()
        now = (await frontier.read_clock()).now
    assert (as_datetime(fact["expires_at"]) - now).total_seconds() == pytest.approx(5 * HOUR, abs=2)


async def test_a_step_of_the_stores_wall_clock_expires_nothing(machine: ManualMachine) -> None:
    async with handling(lambda url: answered(url, 404), store=store_on(machine), delay=0.0) as (frontier, handler, one):
        await handler(item("http://a.example/"))
        machine.step(YEAR)
        for each in (handler, handler_on(frontier, handler._settings, one)):
            await each(item("http://a.example/b"))
    assert [url for url in one.asked if url.endswith("robots.txt")] == ["http://a.example/robots.txt"]


async def test_the_stores_clock_is_read_once_a_minute_and_continued(machine: ManualMachine) -> None:
    ours = 5.0
    async with swath.open(store=store_on(machine)) as frontier:
        clock = FrontierClock(frontier, clock=lambda: ours)
        first, *others = await asyncio.gather(*(clock.now() for _ in range(100)))
        assert set(others) == {first} == {machine.wall()}
        ours += 30
        assert await clock.now() == first + 30_000_000
        machine.advance(100)
        ours += READ_SECONDS
        assert await clock.now() == first + 100_000_000


# The same with whole processes. Each has a wall clock that is hours off.

Answer = Callable[[Exchange], Awaitable[None]]


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_machines_with_different_clocks_agree(request: pytest.FixtureRequest, tmp_path: Path, kind: str) -> None:
    """They share one robots.txt, and wait as long as the host asks for."""
    store = f"sqlite:///{tmp_path / 'crawl.db'}"
    if kind == "postgres":
        store = request.getfixturevalue("database")
    asked: list[tuple[float, str]] = []
    loop = asyncio.get_running_loop()

    async def answer(exchange: Exchange) -> None:
        asked.append((loop.time(), exchange.path))
        if sum(path == exchange.path for _, path in asked) == 1 and exchange.path.startswith("/busy"):
            now = datetime.now(UTC)
            dates = (http_date(now), http_date(now + timedelta(seconds=3)))
            head = "HTTP/1.1 503 Busy\r\nDate: {}\r\nRetry-After: {}\r\nContent-Length: 0\r\n\r\n".format(*dates)
            return await exchange.send(head.encode())
        return await exchange.ok(b"<a href=/busy>x</a>", headers=b"Content-Type: text/html\r\n")

    async with serving(answer) as server:
        for name, hours in (("behind", -30), ("ahead", 30)):
            offset = tmp_path / name
            write_offset(offset, hours * HOUR)
            words = ["crawl", f"http://a.example/{name}", "--out", str(tmp_path / f"out-{name}"), "--store", store]
            words += ["--connect-to", f"::127.0.0.1:{server.port}", "--allow-private", "--json", "--delay", "0.1"]
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "tests.skewed", str(offset), "swath.__main__", *words,
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment(),
            )  # fmt: skip
            _, err = await asyncio.wait_for(process.communicate(), TIMEOUT)
            assert process.returncode == 0, err
    paths = [path for _, path in asked]
    assert paths == ["/robots.txt", "/behind", "/busy", "/busy", "/ahead"]
    (refused, repeated) = [moment for moment, path in asked if path == "/busy"]
    assert repeated - refused > 2, "a date has whole seconds"
