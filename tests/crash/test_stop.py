"""A worker that is stopped past its lease and continued: its successor's results stand (INV-2)."""

import asyncio
import signal
from pathlib import Path

import pytest

import swath
from swath import Item
from swath.core.clock import lease_clock
from swath.core.store import MoveKind
from swath.frontier import Frontier
from swath.runner.execution import CancelReason, Execution, Result, execute
from tests.crash.checker import check
from tests.crash.conftest import TIMEOUT
from tests.crash.crew import Crew, Member, until
from tests.crash.journal import read_lines
from tests.crash.places import Place
from tests.crash.workload import Workload

LEASE = 1.0
WORK = Workload(items=200, roots=40, lanes=10, retries=False, releases=False, deaths=False)

pytestmark = pytest.mark.timeout(TIMEOUT)


async def test_a_late_settlement_changes_nothing(place: Place, tmp_path: Path, seed: int) -> None:
    async with place.open() as frontier:
        await WORK.begin(frontier)
        with Crew(tmp_path, place.url, WORK, seed=seed, lease=LEASE) as crew:
            sleeper = crew.spawn("hold", limit=25)
            await until(lambda: bool(sleeper.said("claim")), seconds=20)
            sleeper.stop()
            successor = crew.spawn("loop")
            await until(lambda: not successor.alive, seconds=30)
            before = await frontier._store.status()
            sleeper.tell()
            sleeper.send(signal.SIGCONT)
            await crew.finish(seconds=20)
            after = await frontier._store.status()
        log = crew.log()
        await check(place, log, WORK)
    assert [line["by"] for line in sleeper.said("lost")] == ["settle", "renew", "settle"]
    assert not sleeper.said("settle")
    assert {row.worker for row in place.rows()} == {successor.name}
    assert [part._replace(time=0) for part in after.partitions] == [part._replace(time=0) for part in before.partitions]


async def test_a_runner_that_overslept_drops_its_work(place: Place, tmp_path: Path, seed: int) -> None:
    stuck = {f"n/{number}" for number in range(0, WORK.roots, 4)}
    async with place.open() as frontier:
        await WORK.begin(frontier)
        with Crew(tmp_path, place.url, WORK, seed=seed, lease=LEASE) as crew:
            sleeper = crew.spawn("run", stuck=sorted(stuck))
            await _stop_while_it_holds(stuck, sleeper, frontier)
            successor = crew.spawn("loop")
            await until(lambda: not successor.alive, seconds=30)
            sleeper.tell()  # the handlers end as soon as it is awake, and say done
            sleeper.send(signal.SIGCONT)
            await crew.finish(seconds=20)
        log = crew.log()
        await check(place, log, WORK)
    by = {row.key: row.worker for row in place.rows()}
    assert {by[key] for key in stuck} == {successor.name}
    assert sleeper.said("lost"), "nobody told it"
    assert log.summaries[sleeper.name]["lost"] >= len(stuck)


async def test_work_that_is_cancelled_before_its_first_step_is_given_back() -> None:
    """A runner that is stopped between handing out and starting finds, when it wakes, that the lease has ended.

    Found by the storm of `test_kill`: the task never ran a line, its worker was never free again, and the run never
    ended.
    """
    handled: list[Item] = []
    ended: list[Result] = []

    async def handler(item: Item) -> None:
        handled.append(item)

    async def body() -> None:
        ended.append(await execute(execution, handler, timeout=None))

    async with swath.open("memory:") as frontier:
        await frontier.add("k")
        claim = await frontier.claim(1)
        assert claim is not None
        execution = Execution(claim._leased, claim.items[0], lease_clock())
        execution.task = asyncio.create_task(body())
        execution.cancel(CancelReason.LEASE, lease_clock())
        await asyncio.wait([execution.task])
    assert [(outcome and (outcome.move.kind, outcome.move.started), failure) for outcome, failure in ended] == [
        ((MoveKind.RELEASE, False), None)
    ]
    assert not handled


async def _stop_while_it_holds(keys: set[str], member: Member, frontier: Frontier) -> None:
    """Stop it outside of a transaction: whoever is stopped while it writes to an SQLite file keeps all others out."""
    for _ in range(100):
        await until(lambda: keys <= _held(member), seconds=20)
        member.stop()
        write = asyncio.create_task(frontier.limit("probe", concurrency=1))
        done, _ = await asyncio.wait([write], timeout=LEASE / 4)
        if done and keys <= _held(member):
            return
        member.send(signal.SIGCONT)
        await write
    raise TimeoutError(f"{member.name} was always writing")


def _held(member: Member) -> set[str]:
    """The keys that it was given and has not settled."""
    held: dict[tuple[int, int], str] = {}
    for line in read_lines(member.journal) if member.written else []:
        if line["event"] == "claim":
            held.update({(partition, position): key for partition, position, key, *_ in line["items"]})
        elif line["event"] == "settle":
            for position, *_ in line["moves"]:
                held.pop((line["partition"], position), None)
    return set(held.values())
