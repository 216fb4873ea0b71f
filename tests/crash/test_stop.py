"""A worker that is stopped past its lease and continued: its successor's results stand (INV-2)."""

import asyncio
import signal
from pathlib import Path

import pytest

from swath.core.frontier import Frontier
from tests.crash.checker import check
from tests.crash.conftest import TIMEOUT
from tests.crash.crew import Crew, Member, until
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
            sleeper.send(signal.SIGSTOP)
            successor = crew.spawn("loop")
            await until(lambda: not successor.alive, seconds=30)
            before = await frontier.store.status()
            sleeper.tell()
            sleeper.send(signal.SIGCONT)
            await crew.finish(seconds=20)
            after = await frontier.store.status()
        log = crew.log()
        await check(place, log, WORK)
    assert [line["by"] for line in sleeper.said("lost")] == ["settle", "renew", "settle"]
    assert not sleeper.said("settle")
    assert {row.worker for row in place.rows()} == {successor.name}
    assert [part._replace(time=0) for part in after.partitions] == [part._replace(time=0) for part in before.partitions]


async def test_a_runner_that_overslept_drops_its_work(place: Place, tmp_path: Path, seed: int) -> None:
    stuck = [f"n/{number}" for number in range(0, WORK.roots, 4)]
    async with place.open() as frontier:
        await WORK.begin(frontier)
        with Crew(tmp_path, place.url, WORK, seed=seed, lease=LEASE) as crew:
            sleeper = crew.spawn("run", stuck=stuck)
            await until(lambda: len(sleeper.said("start")) - len(sleeper.said("end")) >= len(stuck), seconds=20)
            await _stop_outside_of_a_transaction(sleeper, frontier)
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


async def _stop_outside_of_a_transaction(member: Member, frontier: Frontier) -> None:
    """Whoever is stopped while it writes to an SQLite file keeps all others out, which is another story."""
    for _ in range(20):
        member.send(signal.SIGSTOP)
        write = asyncio.create_task(frontier.limit("probe", concurrency=1))
        done, _ = await asyncio.wait([write], timeout=0.2)
        if done:
            return
        member.send(signal.SIGCONT)
        await write
    raise TimeoutError(f"{member.name} was always writing")
