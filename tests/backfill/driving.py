"""Backfills in this process, as the command runs them, and in processes of their own."""

import asyncio
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from swath import Frontier, Stop, Summary
from swath.backfill.job import BackfillJob, StartInfo, open_frontier
from swath.backfill.progress import Progress, read_progress
from swath.backfill.settings import BackfillSettings
from tests.cli.conftest import environment
from tests.tables.conftest import Database

ROOT = Path(__file__).parents[2]
HANDLERS = "tests.backfill.handlers"
END_SECONDS = 60.0
LEASE = "1s"  # so that survivors take over the slices of a killed process soon
SERIES = "WITH RECURSIVE s (g) AS (SELECT 1 UNION ALL SELECT g + 1 FROM s WHERE g < {})"


class Backfilled(NamedTuple):
    """What a backfill came to."""

    job: BackfillJob
    start: StartInfo
    summary: Summary
    progress: Progress
    said: list[str]
    dead: list[Any]


class Running(NamedTuple):
    """A backfill at work in this process."""

    job: BackfillJob
    frontier: Frontier
    stop: Stop
    said: list[str]
    ended: asyncio.Task[Summary]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for something that the backfill does."""
        await until(lambda: condition() or self.ended.done())
        if not condition():
            await self.ended
        assert condition()

    async def finished(self) -> Summary:
        return await asyncio.wait_for(asyncio.shield(self.ended), END_SECONDS)


def settings_of(database: Database, table: str, **more: Any) -> BackfillSettings:
    if not {"set", "sql", "run"} & more.keys():
        more["set"] = "n = n + 1"
    if "run" in more and ":" not in more["run"]:
        more["run"] = f"{HANDLERS}:{more['run']}"
    return BackfillSettings(db=database.url, table=table, **more)


@asynccontextmanager
async def ready(
    settings: BackfillSettings, *, attempts: int | None = None
) -> AsyncIterator[tuple[BackfillJob, Frontier, StartInfo, Stop, list[str]]]:
    """Start a backfill without running it."""
    said: list[str] = []
    stop = Stop()
    async with BackfillJob.open(settings, stop=stop, report=said.append) as job:
        await job.check()
        async with open_frontier(settings) as frontier:
            if attempts is not None:
                await frontier.configure(max_attempts=attempts)
            yield job, frontier, await job.start(frontier), stop, said


async def backfill(settings: BackfillSettings, *, attempts: int | None = None) -> Backfilled:
    """Run a backfill to its end. `attempts`: the number of attempts after which a slice is dead."""
    async with ready(settings, attempts=attempts) as (job, frontier, start, _, said):
        summary = await asyncio.wait_for(job.run(frontier), END_SECONDS)
        now = await read_progress(frontier)
        assert now is not None
        return Backfilled(job, start, summary, now, said, [item async for item in frontier.dead()])


@asynccontextmanager
async def running(settings: BackfillSettings, *, attempts: int | None = None) -> AsyncIterator[Running]:
    """Run a backfill in the background. Stop it at the end if it is still running."""
    async with ready(settings, attempts=attempts) as (job, frontier, _, stop, said):
        ended = asyncio.create_task(job.run(frontier))
        try:
            yield Running(job, frontier, stop, said, ended)
        finally:
            stop.request("the test is over")
            await asyncio.wait_for(asyncio.gather(ended, return_exceptions=True), END_SECONDS)


async def until(condition: Callable[[], bool]) -> None:
    ends_at = time.monotonic() + END_SECONDS
    while not condition():
        assert time.monotonic() < ends_at
        await asyncio.sleep(0.01)


def wait(condition: Callable[[], bool]) -> None:
    ends_at = time.monotonic() + END_SECONDS
    while not condition():
        assert time.monotonic() < ends_at
        time.sleep(0.01)


def counts(database: Database, table: str, column: str = "n") -> dict[int, int]:
    """Map a value of the column to the number of rows that have it."""
    return dict(Counter(value for (value,) in database.do(f"SELECT {column} FROM {table}")))


@contextmanager
def processes(number: int, settings: BackfillSettings, **variables: str) -> Iterator[list["subprocess.Popen[str]"]]:
    """Run `number` processes of the real command. Kill those that still run at the end."""
    with ExitStack() as stack:
        yield [stack.enter_context(_process(words(settings), variables)) for _ in range(number)]


@contextmanager
def _process(command: Sequence[str], variables: dict[str, str]) -> Iterator["subprocess.Popen[str]"]:
    env = environment(**variables)
    with subprocess.Popen(
        command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def words(settings: BackfillSettings) -> list[str]:
    """The command line of a backfill."""
    given = [
        word
        for name in ("db", "table", "set", "where", "sql", "run", "store", "workers", "batch")
        if (value := getattr(settings, name)) is not None
        for word in (f"--{name}", str(value))
    ]
    return [
        sys.executable, "-m", "swath", "backfill", *given, "--target-time", f"{settings.target_time * 1000:.0f}ms",
        "--lease", LEASE, "--quiet", *(["--force"] if settings.force else []),
    ]  # fmt: skip


def end(process: "subprocess.Popen[str]", code: int = 0) -> str:
    out, _ = process.communicate(timeout=END_SECONDS)
    assert process.returncode == code, out
    return out
