"""A pause holds in every process that works on a frontier, whoever asked for it."""

import asyncio
from pathlib import Path

import pytest

from swath.frontier import Frontier
from tests.crash.checker import check
from tests.crash.conftest import TIMEOUT
from tests.crash.crew import POLL_SECONDS, Crew, Member, until
from tests.crash.places import Place
from tests.crash.workload import Workload

PROCESSES, WORKERS = 3, 5
LEASE = 600.0  # nothing is given back because it ended, or soon will
WORK = Workload(items=1_000, roots=1_000, lanes=100, retries=False, releases=False, deaths=False)
STUCK = {f"n/{number}" for number in range(0, WORK.items, 2)}
PATIENCE = 30.0
A_WHILE = 1.0

pytestmark = pytest.mark.timeout(TIMEOUT)


async def test_a_pause_reaches_every_process(place: Place, tmp_path: Path, seed: int) -> None:
    """What was claimed ahead is given back, what is under way goes on, and nothing starts until it is resumed."""
    under_way = PROCESSES * WORKERS
    async with place.open() as frontier:
        await WORK.begin(frontier)
        with Crew(tmp_path, place.url, WORK, seed=seed, lease=LEASE) as crew:
            for _ in range(PROCESSES):
                crew.spawn("run", workers=WORKERS, stuck=sorted(STUCK))
            await until(lambda: all(_stuck(member) == WORKERS for member in crew.members), seconds=PATIENCE)
            assert (await frontier.status()).claimed > under_way, "nobody has claimed ahead"
            await frontier.pause()
            await _until_claimed(frontier, under_way)
            started = _started(crew)
            for member in crew.members:
                member.tell()  # from now on, nothing is stuck
            await _until_claimed(frontier, 0)
            await asyncio.sleep(A_WHILE)
            assert _started(crew) == started
            await frontier.resume()
            await crew.finish(seconds=PATIENCE)
        await check(place, crew.log(), WORK)


async def _until_claimed(frontier: Frontier, items: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while (await frontier.status()).claimed != items:  # noqa: ASYNC110 it is other processes that are waited for
            await asyncio.sleep(POLL_SECONDS)


def _stuck(member: Member) -> int:
    """How many it has started that do not end."""
    starts = member.said("start")  # before the claims, which come first
    claimed = [item for line in member.said("claim") for item in line["items"]]
    keys = {(partition, position): key for partition, position, key, *_ in claimed}
    return sum(keys[tuple(line["place"])] in STUCK for line in starts)


def _started(crew: Crew) -> int:
    return sum(len(member.said("start")) for member in crew.members)
