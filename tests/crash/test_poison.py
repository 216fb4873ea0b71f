"""An item that kills its worker every time ends up dead with that reason, and the rest goes on."""

from pathlib import Path
from typing import Any

import pytest

import swath
from swath.core.store import LOST_WORKER
from swath.frontier import Frontier
from tests.crash.checker import check
from tests.crash.conftest import TIMEOUT
from tests.crash.crew import Crew, until
from tests.crash.places import Place
from tests.crash.workload import Workload

LEASE = 0.8
ATTEMPTS = 3
PROCESSES = 3
POISON = ("poison/kill", "poison/exit")

pytestmark = pytest.mark.timeout(TIMEOUT)


@pytest.mark.parametrize("mode", ["run", "loop"])
async def test_poison_dies_and_the_rest_goes_on(place: Place, tmp_path: Path, seed: int, mode: str) -> None:
    """INV-4. What its process holds with it does not die of it: it is held in ever smaller company."""
    workload = Workload(items=150, roots=60, lanes=10)
    options: dict[str, Any] = {"poison": POISON, "workers": 20, "limit": 1}
    async with place.open(max_attempts=ATTEMPTS) as frontier:
        await workload.begin(frontier)
        await frontier.add([swath.Item(key, lane=f"free/{number}") for number, key in enumerate(POISON)])
        with Crew(tmp_path, place.url, workload, seed=seed, lease=LEASE) as crew:
            for _ in range(ATTEMPTS * len(POISON) * PROCESSES):
                while len(crew.alive) < PROCESSES:
                    crew.spawn(mode, **options)
                await until(lambda: len(crew.alive) < PROCESSES, seconds=30)
                if await _finished(frontier):
                    break
            await crew.finish(seconds=20)
        reason = LOST_WORKER.format(losses=ATTEMPTS)
        dead = {item.key: item.reason async for item in frontier.dead()}
        assert {key: dead.get(key) for key in POISON} == dict.fromkeys(POISON, reason)
        await check(place, crew.log(), workload, also_dead=dict.fromkeys(POISON, reason))


async def _finished(frontier: Frontier) -> bool:
    return (await frontier.status()).waiting == 0
