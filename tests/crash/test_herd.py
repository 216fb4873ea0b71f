"""Many processes at once on one frontier, with hot lanes, and nobody dies."""

from pathlib import Path

import pytest

from tests.crash.checker import check
from tests.crash.conftest import TIMEOUT
from tests.crash.crew import Crew
from tests.crash.places import Place
from tests.crash.workload import Workload

LEASE = 60.0

pytestmark = pytest.mark.timeout(TIMEOUT)


async def test_a_herd_covers_everything_once(place: Place, tmp_path: Path, seed: int, scale: int) -> None:
    """INV-1, INV-3, INV-4, INV-6, INV-7 over eight processes, half of them runners."""
    workload = Workload(items=20_000 * scale, slow=60 * scale, brisk=150 * scale, roots=400, lanes=400)
    async with place.open() as frontier:
        await workload.begin(frontier)
        with Crew(tmp_path, place.url, workload, seed=seed, lease=LEASE) as crew:
            for _ in range(4):
                crew.spawn("run", workers=100)
                crew.spawn("loop", limit=200)
            await crew.finish(seconds=90 * scale)
        log = crew.log()
        await check(place, log, workload, calm=True)
    assert len({hand_out.process for hand_out in log.hand_outs}) == 8, "some process got nothing to do"
