"""INV-2, INV-3, INV-4 of a fleet whose processes are stopped and whose wall clocks are set while it works."""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from swath import Item
from tests.crash.children import ROOT, stop
from tests.crash.clock_worker import LEASE_SECONDS
from tests.crash.conftest import SOAK, TIMEOUT
from tests.crash.places import Place
from tests.skewed import write_offset

INTERVAL = 0.3
SLACK = 0.002  # the store rounds to microseconds, and a handler logs its end before it is settled
PROCESSES, LANES, ITEMS = (4, 20, 60) if SOAK else (2, 5, 8)
STEPS = (3_600.0, -3_600.0, 30 * 86_400.0)  # that the wall clocks are set by
PATIENCE = 600.0 if SOAK else 90.0

pytestmark = pytest.mark.timeout(TIMEOUT)


@dataclass
class Fleet:
    """Processes, and the files that say by how much their wall clocks are wrong."""

    processes: list["subprocess.Popen[bytes]"]
    offsets: list[Path]
    logs: list[Path]

    def read(self) -> list[tuple[str, float, str, str]]:
        lines = [line for log in self.logs if log.exists() for line in log.read_text().splitlines(keepends=True)]
        return sorted((tuple(json.loads(line)) for line in lines if line.endswith("\n")), key=lambda line: line[1])

    @property
    def running(self) -> list["subprocess.Popen[bytes]"]:
        return [process for process in self.processes if process.poll() is None]

    async def await_starts(self, more: int) -> None:
        """Wait for some more starts, or for the end of the work."""
        wanted = len(self.read()) + 2 * more
        while self.running and len(self.read()) < wanted:  # noqa: ASYNC110 other processes write the logs
            await asyncio.sleep(0.02)


@contextmanager
def fleet(place: Place, directory: Path, chance: random.Random) -> Iterator[Fleet]:
    """Start the processes. Those of one SQLite file are on one machine; others have a machine of their own each."""
    one_machine = place.url.startswith("sqlite")
    started = Fleet([], [], [])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    for number in range(PROCESSES):
        offset, log = directory / f"offset-{0 if one_machine else number}", directory / f"log-{number}"
        write_offset(offset, 0.0 if one_machine else chance.choice(STEPS))
        words = ["-m", "tests.skewed", str(offset), "tests.crash.clock_worker", place.url, str(log)]
        started.processes.append(subprocess.Popen([sys.executable, *words], cwd=ROOT, env=environment))
        started.offsets.append(offset)
        started.logs.append(log)
    try:
        yield started
    finally:
        for process in started.running:
            process.kill()
        for process in started.processes:
            process.wait()


async def test_a_fleet_is_paced_while_its_clocks_are_set_and_its_processes_stopped(
    place: Place, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    async with place.open(max_attempts=1_000) as frontier:
        await frontier.configure(min_interval=INTERVAL, concurrency=1)
        await frontier.add(Item(f"{lane}/{key}", lane=str(lane)) for lane in range(LANES) for key in range(ITEMS))
        with fleet(place, tmp_path, chance) as processes:
            async with asyncio.timeout(PATIENCE):
                while processes.running:
                    await processes.await_starts(LANES)
                    write_offset(chance.choice(processes.offsets), chance.choice(STEPS))
                    await processes.await_starts(LANES)
                    if processes.running:
                        await stop_for_a_while(chance.choice(processes.running), chance)
            assert [process.returncode for process in processes.processes] == [0] * PROCESSES
        status = await frontier.status()
        assert (status.done, status.visits, status.dead) == (LANES * ITEMS, LANES * ITEMS, 0)
        assert (await frontier.check()).ok
    early = find_early_starts(processes.read())
    assert early == [], early


async def stop_for_a_while(process: "subprocess.Popen[bytes]", chance: random.Random) -> None:
    """Stop a process, for less than its lease or for longer."""
    try:
        await asyncio.to_thread(stop, process.pid)
    except ProcessLookupError:
        return
    if process.poll() is None:
        await asyncio.sleep(LEASE_SECONDS * chance.choice((0.5, 2.0)))  # the process stands still
        process.send_signal(signal.SIGCONT)


def find_early_starts(log: list[tuple[str, float, str, str]]) -> list[tuple[str, str, float]]:
    """Return the keys, and the seconds, of starts that came too soon after the end of the last item of their lane."""
    ended: defaultdict[str, list[tuple[float, str]]] = defaultdict(list)
    early = []
    for kind, moment, lane, key in log:
        if kind == "end":
            ended[lane].append((moment, key))
        elif ended[lane] and moment - ended[lane][-1][0] < INTERVAL - SLACK:
            early.append((key, ended[lane][-1][1], moment - ended[lane][-1][0]))
    return early
