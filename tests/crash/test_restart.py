"""PostgreSQL stopped in immediate mode under load, and started again: workers wait, and finish."""

import asyncio
import random
from pathlib import Path

import pytest

from tests.conftest import StartPostgres
from tests.crash.checker import check
from tests.crash.conftest import TIMEOUT
from tests.crash.crew import Crew, until
from tests.crash.places import postgres_place
from tests.crash.workload import Workload

LEASE = 3.0

pytestmark = pytest.mark.timeout(TIMEOUT)


async def test_the_server_crashes_under_load(
    start_postgres: StartPostgres, tmp_path: Path, seed: int, scale: int
) -> None:
    """INV-4, INV-5: what was confirmed is there after recovery, and nobody gives up."""
    server = start_postgres()
    place = postgres_place(server.dsn())
    workload = Workload(items=5_000 * scale, slow=20 * scale, brisk=50 * scale, roots=300, lanes=150)
    random_ = random.Random(seed)
    crashes = 0
    async with place.open(max_attempts=1_000) as frontier:
        await workload.begin(frontier)
        with Crew(tmp_path, place.url, workload, seed=seed, lease=LEASE) as crew:
            for _ in range(4):
                crew.spawn("run", workers=50)
                crew.spawn("loop")
            await until(lambda: all(member.written for member in crew.members), seconds=30)
            for _ in range(3 * scale):
                await crew.progress(random_.randrange(50_000, 250_000), seconds=3)
                if len(crew.alive) < len(crew.members):
                    break
                crashes += 1
                await asyncio.to_thread(server.stop, "immediate")
                await asyncio.sleep(random_.uniform(0, 0.5))
                await asyncio.to_thread(server.start)
            await crew.finish(seconds=60)
        await check(place, crew.log(), workload, exact_times=False)
    assert crashes >= 2 * scale, f"it was over after {crashes} crashes: give it more items"
