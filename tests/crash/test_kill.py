"""SIGKILL at seeded moments, and SIGSTOP beyond the lease, until the frontier is finished all the same."""

import asyncio
import random
import signal
from pathlib import Path

import pytest

from swath.frontier import Frontier
from tests.crash.checker import check
from tests.crash.conftest import TIMEOUT
from tests.crash.crew import Crew, Member
from tests.crash.places import Place
from tests.crash.workload import Workload

LEASE = 2.0
PROCESSES = 8
POINTS = ("claimed", "settling", "settled")
MANY = 1_000  # attempts: nothing is to die because others did

pytestmark = pytest.mark.timeout(TIMEOUT)


async def test_killed_again_and_again(place: Place, tmp_path: Path, seed: int, scale: int) -> None:
    """INV-1 to INV-6, whoever dies when, with fresh processes in the place of the dead."""
    workload = Workload(items=10_000 * scale, slow=20 * scale, brisk=40 * scale, roots=300, lanes=150)
    random_ = random.Random(seed)
    async with place.open(max_attempts=MANY) as frontier:
        await workload.begin(frontier)
        with Crew(tmp_path, place.url, workload, seed=seed, lease=LEASE) as crew:
            blows = await _storm(crew, random_, blows=12 * scale)
            await crew.finish(seconds=60 * scale)
        log = crew.log()
        await check(place, log, workload)
    assert blows >= 6 * scale, f"it was over after {blows} blows: give it more items"
    assert log.recovered, "no lease ended, so nothing was put to the test"


async def _storm(crew: Crew, random_: random.Random, *, blows: int) -> int:
    """Strike again and again; return how often. In the end there is a full crew, and nobody is stopped."""
    stopped: list[asyncio.Task[None]] = []
    struck = 0
    while struck < blows and not any(member.process.returncode == 0 for member in crew.members):
        while len(crew.alive) < PROCESSES:
            crew.spawn(random_.choice(["run", "loop"]), workers=50, **_doom(random_))
        await crew.progress(random_.randrange(60_000), seconds=1.5)
        if victims := crew.alive:
            struck += 1
            victim = random_.choice(victims)
            if random_.random() < 0.25:
                stopped.append(asyncio.create_task(_stop_for(victim, random_.uniform(0.1, 1.5) * LEASE)))
            else:
                victim.kill()
    while len(crew.alive) < PROCESSES:
        crew.spawn(random_.choice(["run", "loop"]), workers=50)
    await asyncio.gather(*stopped)
    return struck


def _doom(random_: random.Random) -> dict[str, tuple[str, int]]:
    """Some die at a moment that a signal from outside seldom meets."""
    return {"die_at": (random_.choice(POINTS), random_.randint(1, 12))} if random_.random() < 0.5 else {}


async def _stop_for(member: Member, seconds: float) -> None:
    member.send(signal.SIGSTOP)
    await asyncio.sleep(seconds)
    if member.alive:
        member.send(signal.SIGCONT)


@pytest.mark.parametrize("point", POINTS)
async def test_killed_at_a_point(place: Place, tmp_path: Path, seed: int, point: str) -> None:
    """INV-4, INV-5: what was not committed is somebody else's once the lease ended; what was stays."""
    workload = Workload(items=12, roots=12, lanes=3, retries=False, releases=False, deaths=False)
    async with place.open() as frontier:
        await workload.begin(frontier)
        with Crew(tmp_path, place.url, workload, seed=seed, lease=0.5) as crew:
            victim = crew.spawn("loop", die_at=(point, 1))
            await crew.finish(seconds=20)
            assert victim.process.returncode == -signal.SIGKILL
            claimed = await _claimed(frontier)
            crew.spawn("loop")
            await crew.finish(seconds=20)
        log = crew.log()
        await check(place, log, workload)
        rows = {row.key: row.worker for row in place.rows()}
    assert claimed > 0, "the victim held nothing when it died" if point != "settled" else "it settled all at once"
    attempts = [out.attempts for out in log.hand_outs if out.process != victim.name]
    assert sorted(attempts, reverse=True)[: claimed + 1] == [1] * claimed + [0] * (len(attempts) > claimed)
    settled_by_victim = sum(worker == victim.name for worker in rows.values())
    assert (settled_by_victim > 0) is (point == "settled")


async def _claimed(frontier: Frontier) -> int:
    return (await frontier.status()).claimed
