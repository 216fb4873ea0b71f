"""The clock of a store on this machine: durations do not change when the wall clock is set, and absolute times do."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path

import pytest

from swath import DEFAULT_LANE, Frontier, Item, Stop
from swath.backends.memory import MemoryStore
from swath.backends.sqlite import SqliteStore
from swath.core import clock
from swath.core.clock import SECOND, SystemClock, as_datetime, read_boot_id
from swath.core.store import Settings, Store
from tests.machine import ManualMachine

HOUR = 3_600.0
TICKS = 0.001  # more than all the microseconds by which partition time runs ahead of a clock that stands still
Open = Callable[..., Awaitable[Frontier]]


@pytest.fixture
def machine() -> ManualMachine:
    return ManualMachine()


@pytest.fixture(params=["memory", "sqlite"])
async def start(request: pytest.FixtureRequest, tmp_path: Path, machine: ManualMachine) -> AsyncIterator[Open]:
    async with AsyncExitStack() as stack:

        async def start(**settings: float) -> Frontier:
            given = Settings(1, **{name: round(value) for name, value in settings.items()})
            store: Store
            if request.param == "memory":
                store = MemoryStore(given, machine=machine)
            else:
                store = await SqliteStore.open(str(tmp_path / "work.db"), settings=given, machine=machine)
            return await stack.enter_async_context(Frontier(store))

        yield start


async def open_file(path: Path, machine: ManualMachine, **settings: float) -> Frontier:
    given = Settings(1, **{name: round(value) for name, value in settings.items()})
    return Frontier(await SqliteStore.open(str(path), settings=given, machine=machine))


async def claim_keys(frontier: Frontier) -> list[str]:
    claim = await frontier.claim(lease=100 * HOUR)
    return [] if claim is None else [item.key for item in claim.items]


async def finish_one(frontier: Frontier) -> str:
    claim = await frontier.claim(1)
    assert claim is not None
    await claim.settle([claim.items[0].done()])
    return claim.items[0].key


# durations


@pytest.mark.parametrize("step", [HOUR, -HOUR, 5 * 365 * 86_400.0])
async def test_a_step_of_the_wall_clock_does_not_change_an_interval(
    start: Open, machine: ManualMachine, step: float
) -> None:
    """INV-3."""
    frontier = await start(min_interval=10 * SECOND, concurrency=1)
    await frontier.add(["a", "b", "c"])
    for key in ("a", "b"):
        assert await finish_one(frontier) == key
        machine.step(step)
        machine.advance(9.9)
        assert await claim_keys(frontier) == []
        machine.advance(0.2)
    assert await claim_keys(frontier) == ["c"]


@pytest.mark.parametrize("step", [HOUR, -HOUR])
async def test_a_step_of_the_wall_clock_does_not_change_a_lease(
    start: Open, machine: ManualMachine, step: float
) -> None:
    """INV-1, INV-2."""
    frontier = await start()
    await frontier.add("a")
    claim = await frontier.claim(lease=60)
    assert claim is not None
    machine.step(step)
    assert await claim_keys(frontier) == []
    await claim.renew(lease=60)
    machine.advance(59)
    assert await claim_keys(frontier) == []
    machine.advance(2)
    assert await claim_keys(frontier) == ["a"]


@pytest.mark.parametrize("step", [HOUR, -HOUR])
async def test_a_step_of_the_wall_clock_does_not_change_a_delay(
    start: Open, machine: ManualMachine, step: float
) -> None:
    frontier = await start()
    await frontier.add(["retry", "release", "revisit"])
    claim = await frontier.claim()
    assert claim is not None
    retry, release, revisit = claim.items
    await claim.settle([retry.retry(after=50), release.release(after=50), revisit.done(revisit_after=50)])
    await frontier.add(Item("blocked", lane="other"))
    await frontier.block("other", seconds=50)
    machine.step(step)
    machine.advance(49)
    assert await claim_keys(frontier) == []
    machine.advance(2)
    assert sorted(await claim_keys(frontier)) == ["blocked", "release", "retry", "revisit"]


# absolute times


@pytest.mark.parametrize("step", [HOUR, -HOUR])
async def test_absolute_times_follow_the_wall_clock(start: Open, machine: ManualMachine, step: float) -> None:
    frontier = await start()
    noon = as_datetime(machine.wall()) + timedelta(hours=2)
    await frontier.add(Item("item", not_before=noon))
    await frontier.add(Item("blocked", lane="other"))
    await frontier.block("other", until=noon)
    machine.step(step)
    assert await claim_keys(frontier) == []
    lane, found = await frontier.lane("other"), await frontier.explain("item")
    assert lane is not None
    assert (lane.blocked_until, lane.ready_at, found.data["due_at"]) == (noon, noon, noon.isoformat())
    assert (await frontier.status()).next_ready_at == noon
    machine.advance(2 * HOUR - step - 1)
    assert await claim_keys(frontier) == []
    machine.advance(1)
    assert sorted(await claim_keys(frontier)) == ["blocked", "item"]


async def test_a_step_ends_a_block_at_once_and_a_longer_one_stays(start: Open, machine: ManualMachine) -> None:
    frontier = await start()
    await frontier.add([Item("wall", lane="wall"), Item("both", lane="both")])
    until = as_datetime(machine.wall()) + timedelta(minutes=30)
    await frontier.block("wall", until=until)
    await frontier.block("both", seconds=60)
    await frontier.block("both", until=until, at_least=True)
    machine.step(HOUR)
    assert await claim_keys(frontier) == ["wall"]
    machine.advance(59)
    assert await claim_keys(frontier) == []
    machine.advance(2)
    assert await claim_keys(frontier) == ["both"]


async def test_a_new_block_replaces_one_of_the_other_clock(start: Open, machine: ManualMachine) -> None:
    frontier = await start()
    await frontier.add("a")
    await frontier.block(DEFAULT_LANE, until=as_datetime(machine.wall()) + timedelta(hours=1))
    await frontier.block(DEFAULT_LANE, seconds=10)
    machine.advance(11)
    assert await claim_keys(frontier) == ["a"]
    await frontier.add(Item("b", lane="other"))
    await frontier.block("other", seconds=1_000)
    await frontier.block("other", until=as_datetime(machine.wall()) + timedelta(seconds=10))
    machine.advance(11)
    assert await claim_keys(frontier) == ["b"]


async def test_a_lane_that_was_busy_when_its_block_ended_is_ready(start: Open, machine: ManualMachine) -> None:
    frontier = await start(concurrency=1)
    await frontier.add(["a", "b"])
    claim = await frontier.claim(1)
    assert claim is not None
    await frontier.block(DEFAULT_LANE, until=as_datetime(machine.wall()) + timedelta(seconds=10))
    machine.advance(20)
    await claim.settle([claim.items[0].done()])
    assert await claim_keys(frontier) == ["b"]


async def test_times_are_shown_by_the_wall_clock_as_it_is_set_now(start: Open, machine: ManualMachine) -> None:
    """A machine that boots in the wrong year, and whose clock is set later, shows the right times."""
    frontier = await start(min_interval=10 * SECOND)
    await frontier.add(["done", "dead", "ready"])
    for outcome in ("done", "dead"):
        claim = await frontier.claim(1)
        assert claim is not None
        await claim.settle([claim.items[0].done(result=1) if outcome == "done" else claim.items[0].dead(reason="x")])
        machine.advance(10 + TICKS)
    machine.step(5 * 365 * 86_400.0)
    now = as_datetime(machine.wall())
    assert (await frontier.status()).now == now
    lane = await frontier.lane(DEFAULT_LANE)
    claim = await frontier.claim(lease=60)
    assert lane is not None
    assert claim is not None
    (done,) = [item.settled_at async for item in frontier.results()]
    (dead,) = [item.settled_at async for item in frontier.dead()]
    shown = [(moment - now).total_seconds() for moment in (done, dead, lane.last_at, claim.expires_at) if moment]
    assert shown == pytest.approx([-20, -10, -10, 60], abs=3 * TICKS)
    clock = await frontier.read_clock()
    assert (clock.wall, clock.wall - clock.now) == (now, timedelta(days=5 * 365))


# several processes, boots and machines


async def test_processes_share_the_offset_of_the_boot(tmp_path: Path, machine: ManualMachine) -> None:
    """INV-3. A process that starts after a step has the same time as those that started before it."""
    settings = {"min_interval": 10 * SECOND, "concurrency": 1}
    async with await open_file(tmp_path / "work.db", machine, **settings) as first:
        await first.add(["a", "b"])
        assert await finish_one(first) == "a"
        machine.step(HOUR)
        async with await open_file(tmp_path / "work.db", machine) as second:
            assert (await second.read_clock()) == (await first.read_clock())
            assert await claim_keys(second) == []
            machine.advance(10 + TICKS)
            assert await claim_keys(second) == ["b"]


@pytest.mark.parametrize(("down", "waits"), [(0.0, True), (4.0, True), (20.0, False), (-HOUR, True)])
async def test_a_boot_continues_with_the_wall_clock_but_never_goes_back(
    tmp_path: Path, machine: ManualMachine, down: float, waits: bool
) -> None:
    """INV-3. If the wall clock lost its time, durations continue from the latest time that the store has seen."""
    path = tmp_path / "work.db"
    async with await open_file(path, machine, min_interval=10 * SECOND, concurrency=1) as frontier:
        await frontier.add(["a", "b"])
        assert await finish_one(frontier) == "a"
        latest = (await frontier.read_clock()).now
    machine.restart("second", down=down)
    async with await open_file(path, machine) as frontier:
        gone = (await frontier.read_clock()).now - latest  # without a write
        assert abs(gone.total_seconds() - max(down, 0)) < TICKS
        assert await claim_keys(frontier) == ([] if waits else ["b"])
        if waits:
            machine.advance(10 - max(down, 0) + TICKS)
            assert await claim_keys(frontier) == ["b"]


async def test_the_offset_is_chosen_once_per_boot(tmp_path: Path, machine: ManualMachine) -> None:
    path = tmp_path / "work.db"
    for boot in ("first", "second"):
        machine.restart(boot, down=100)
        async with await open_file(path, machine) as frontier:
            await frontier.add(boot)
        before = machine.wall()
        for _ in range(3):
            machine.step(HOUR)
            machine.advance(1)
            async with await open_file(path, machine) as frontier:
                await frontier.learn({"any": "write"})
                assert (await frontier.read_clock()).now < as_datetime(before) + timedelta(seconds=10)


async def test_an_open_store_notices_the_offset_of_another_machine(tmp_path: Path, machine: ManualMachine) -> None:
    """As when two time namespaces share a file: time goes on, and never back."""
    path = tmp_path / "work.db"
    other = ManualMachine("other", up=5.0, epoch=machine.epoch + HOUR)
    async with await open_file(path, machine) as first, await open_file(path, other) as second:
        times = []
        for number in range(3):
            for name, frontier in (("first", first), ("second", second)):
                await frontier.add(f"{name} {number}")
                times.append((await frontier.read_clock()).now)
                machine.advance(1)
                other.advance(1)
        assert times == sorted(times)


def test_the_boot_id_is_the_same_until_the_next_boot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On Linux, on macOS, and where nothing names the boot."""
    file = tmp_path / "boot_id"
    file.write_text("one\n")
    ids = set()
    for path, command in ((file, "false"), (tmp_path / "none", "echo two"), (tmp_path / "none", "false")):
        monkeypatch.setattr(clock, "_LINUX_BOOT_ID", path)
        monkeypatch.setattr(clock, "_MACOS_BOOT_ID", command.split())
        assert read_boot_id.__wrapped__() == read_boot_id.__wrapped__()
        ids.add(read_boot_id.__wrapped__().split()[0])
    assert ids == {"one", "two", "booted"}
    assert read_boot_id() == SystemClock().boot, "read once"


async def test_a_run_waits_for_the_wall_clock_without_polling_for_long(start: Open, machine: ManualMachine) -> None:
    """`next_ready_at` of a claim is on the clock of its `now`, so that the difference is the time to wait."""
    frontier = await start()
    machine.step(HOUR)
    await frontier.add(Item("a", not_before=as_datetime(machine.wall()) + timedelta(seconds=0.5)))
    seen: list[str] = []
    stop = Stop()

    async def handler(item: Item) -> None:
        seen.append(item.key)
        stop.request("seen")

    machine.advance(1)
    await frontier.run(handler, until="stopped", stop=stop, handle_signals=False)
    assert seen == ["a"]
