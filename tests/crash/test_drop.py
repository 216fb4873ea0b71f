"""Lanes are dropped while many processes work on them, and droppers are killed in the middle of it."""

import signal
from pathlib import Path

import pytest

from tests.crash.checker import check
from tests.crash.conftest import TIMEOUT
from tests.crash.crew import Crew, until
from tests.crash.places import Place
from tests.crash.workload import BRISK, HOT, SLOW, Workload

LEASE = 60.0
SECONDS = 60.0
KILLS = 3

pytestmark = pytest.mark.timeout(TIMEOUT)


async def test_lanes_are_dropped_while_a_herd_works_on_them(
    place: Place, tmp_path: Path, seed: int, scale: int
) -> None:
    """INV-1, INV-3, INV-4, INV-6: every item is handled or dropped, and never both."""
    items = 4_000 * scale
    # The slow lanes alone would take half a minute, so there is something to drop when the droppers begin.
    workload = Workload(items=items, slow=1_000 * scale, brisk=500 * scale, roots=items, lanes=40, deaths=False)
    async with place.open() as frontier:
        await workload.begin(frontier)
        with Crew(tmp_path, place.url, workload, seed=seed, lease=LEASE) as crew:
            for _ in range(2):
                crew.spawn("run", workers=50)
                crew.spawn("loop", limit=60)
            await until(lambda: all(member.said("settle") for member in crew.members), seconds=SECONDS)
            lanes = [HOT, SLOW, "free/1", *(f"small/{number}" for number in range(0, 40, 2)), BRISK]
            for order in (lanes, lanes, lanes[::-1]):
                crew.spawn("drop", lanes=order)
            await crew.finish(seconds=SECONDS * scale)
        log = crew.log()
        await check(place, log, workload, calm=True)
        droppers = {row.dropped for row in place.rows()}
        assert None in droppers, "every item was dropped, so nothing was put to the test"
        assert len(droppers) > 1, "no item was dropped"
        count = sum(line["count"] for member in crew.members for line in member.said("dropped"))
        assert count == sum(row.dropped is not None for row in place.rows())


async def test_droppers_are_killed_again_and_again(place: Place, tmp_path: Path, seed: int) -> None:
    """INV-4, INV-6: each transaction of a drop is applied as a whole, and the next dropper does the rest."""
    workload = Workload(items=9_000, roots=9_000, lanes=5, deaths=False)
    lanes = [HOT, *(f"free/{number}" for number in range(3)), *(f"small/{number}" for number in range(5))]
    async with place.open() as frontier:
        await workload.begin(frontier)
        with Crew(tmp_path, place.url, workload, seed=seed, lease=LEASE) as crew:
            for kill in range(KILLS):
                victim = crew.spawn("drop", lanes=lanes)
                await until(lambda: bool(victim.said("dropping")), seconds=SECONDS)  # noqa: B023  called at once
                victim.kill()
                assert victim.process.returncode == -signal.SIGKILL
                assert (await frontier.status()).waiting > 0, f"it was over after {kill} kills: give it more items"
                report = await frontier.check()
                assert report.ok, report.mismatches
            for point in ("dropping", "dropped"):
                crew.spawn("drop", lanes=lanes, die_at=(point, 2))
            crew.spawn("drop", lanes=lanes[::-1])
            await crew.finish(seconds=SECONDS)
        await check(place, crew.log(), workload)
        assert all(row.dropped for row in place.rows())
