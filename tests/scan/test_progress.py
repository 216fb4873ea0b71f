"""Progress that is true: no share is greater than what was checked, whoever checked it, and the end is 100 %."""

import asyncio
import gzip
import io
import json
import re
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import swath
from swath import Checkpoint, Status, Stop
from swath.cli.scan_progress import describe_read, describe_records, describe_share, progress_to_json
from swath.cli.scan_view import format_line, make_progress_panel
from swath.scan import workspace
from swath.scan.counts import Counts
from swath.scan.job import ScanJob
from swath.scan.progress import (
    SAMPLE_SECONDS,
    SAMPLES,
    SCAN,
    STALE_SECONDS,
    UNFINISHED,
    ScanProgress,
    estimate_share,
    read_progress,
    sample_share,
)
from swath.scan.settings import ScanSettings
from swath.scan.sources import json_lines, streams, table, table_comparison, tree
from swath.scan.sources.filesystems import LocalTree
from swath.scan.sources.registry import open_source
from swath.scan.sources.tree import TreeSource
from swath.tables.key_share import estimate_key_share
from tests.cli.conftest import run_swath
from tests.recorder import PATIENCE
from tests.scan.driving import settings_of
from tests.tables.conftest import Database, a_database, name, shared  # noqa: F401  fixtures

RECORDS = 3_000


class Check:
    """Counts the records it sees, and stops the scan after some of them."""

    def __init__(self, after: int | None) -> None:
        self.seen = 0
        self.stop = Stop()
        self._after = after
        self._loop = asyncio.get_running_loop()

    def __call__(self, record: Any) -> None:
        self.seen += 1
        if self.seen == self._after:
            self._loop.call_soon_threadsafe(self.stop.request, "enough")


async def run(settings: ScanSettings, *, after: int | None = None) -> ScanProgress:
    """Run a scan, stop it after some records, and return its progress."""
    source = await asyncio.to_thread(open_source, settings)
    try:
        prepared = await workspace.prepare(settings, source)
        check = Check(after)
        if settings.against is None:
            job = ScanJob(settings, source, check=check, fix=None, stop=check.stop)
        else:
            job = ScanJob(settings, source, check=None, fix=None, stop=check.stop)
            if after is not None:
                check.stop.request("at once")
        await job.run(prepared)
    finally:
        await asyncio.to_thread(source.close)
    return await read(settings)


async def read(settings: ScanSettings) -> ScanProgress:
    async with swath.open(settings.store_url, create=False) as frontier:
        progress = await read_progress(frontier)
    assert progress is not None
    return progress


async def check_shares(settings: ScanSettings, *, total: int = RECORDS) -> list[ScanProgress]:
    """Scan in two runs, and return the progress after each. Each share is at most what was checked."""
    first = await run(settings, after=total // 3)
    assert first.share is not None
    assert 0 < first.share <= first.counts.records / total + 0.02  # records differ in size
    assert first.share < 1
    last = await run(settings)
    assert last.share == 1.0
    assert last.counts.records == total
    assert last.seconds_left is None
    return [first, last]


def write_lines(path: Path) -> Path:
    lines = "".join(json.dumps({"number": number, "text": "x" * (number % 7)}) + "\n" for number in range(RECORDS))
    path.write_bytes(gzip.compress(lines.encode()) if path.suffix == ".gz" else lines.encode())
    return path


async def test_json_lines_are_measured_in_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_lines, "RANGE", 3_000)
    source = write_lines(tmp_path / "all.jsonl")
    size = source.stat().st_size
    first, last = await check_shares(settings_of(source, tmp_path / "f.jsonl", check="odd", workers=1))
    assert first.share == first.counts.bytes / size
    assert describe_read(last) == describe_read(replace(last, counts=replace(last.counts, bytes=size)))
    assert progress_to_json(first)["total_bytes"] == size


async def test_a_compressed_file_is_measured_in_compressed_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_lines, "SECTION", 3_000)
    monkeypatch.setattr(streams, "COMPRESSED_CHUNK", 64)
    source = write_lines(tmp_path / "all.jsonl.gz")
    first, last = await check_shares(settings_of(source, tmp_path / "f.jsonl", check="odd", workers=1))
    assert first.counts.compressed < source.stat().st_size == last.counts.compressed
    assert "compressed" in describe_read(first)


async def test_parquet_is_measured_in_rows(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    source = tmp_path / "all.parquet"
    parquet.write_table(arrow.table({"number": list(range(RECORDS))}), source, row_group_size=200)
    first, last = await check_shares(settings_of(source, tmp_path / "f.jsonl", check="odd", workers=1))
    assert first.share == first.counts.records / RECORDS
    assert describe_records(last, noun="record") == "3,000 of 3,000 records"


@pytest.fixture
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "FIRST_SLICE", 100)
    monkeypatch.setattr(table, "LARGEST", 100)
    monkeypatch.setattr(table_comparison, "MAX_ROWS", 100)


def fill(database: Database, table_name: str, key: str, values: str = "g") -> str:
    series = f"WITH RECURSIVE s (g) AS (SELECT 1 UNION ALL SELECT g + 1 FROM s WHERE g < {RECORDS})"
    database.do(
        f"CREATE TABLE {table_name} (id {key} PRIMARY KEY, n integer NOT NULL DEFAULT 0)",
        f"INSERT INTO {table_name} (id) {series} SELECT {values} FROM s",
        "ANALYZE",
    )
    return f"{database.url}#{table_name}"


@pytest.mark.usefixtures("small_slices")
async def test_a_table_is_measured_by_its_keys(a_database: Database, name: str, tmp_path: Path) -> None:  # noqa: F811
    source = fill(a_database, name, "integer")
    first, _ = await check_shares(settings_of(source, tmp_path / "f.jsonl", check="odd", workers=1))
    assert describe_records(first, noun="record").endswith("of about 3,000 records")


@pytest.mark.usefixtures("small_slices")
async def test_a_table_with_text_keys_is_measured_by_its_rows(
    a_database: Database,  # noqa: F811
    name: str,  # noqa: F811
    tmp_path: Path,
) -> None:
    source = fill(a_database, name, "text", "'key ' || (10000 + g)")
    first, _ = await check_shares(settings_of(source, tmp_path / "f.jsonl", check="odd", workers=1))
    assert first.share == first.counts.records / RECORDS


@pytest.mark.usefixtures("small_slices")
async def test_a_comparison_is_measured_by_the_keys_of_both_sides(
    a_database: Database,  # noqa: F811
    name: str,  # noqa: F811
    tmp_path: Path,
) -> None:
    source = fill(a_database, name, "integer")
    against = fill(a_database, f"{name}_b", "integer", f"g + {RECORDS // 2}")
    settings = ScanSettings(source=source, against=against, out=str(tmp_path / "f.jsonl"))
    begun = await run(settings, after=0)
    assert begun.share == 0.0
    assert (int(begun.size["first_key"][0]), int(begun.size["last_key"][0])) == (1, RECORDS + RECORDS // 2)
    done = await run(settings)
    assert done.share == 1.0


async def test_a_tree_is_unknown_until_it_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "SECONDS", 0.0)
    monkeypatch.setattr(LocalTree, "budget", 50)
    files = 0
    for folder in range(20):
        (tmp_path / f"tree/{folder}").mkdir(parents=True)
        for file in range(20):
            (tmp_path / f"tree/{folder}/{file}").write_text("x")
            files += 1
    settings = settings_of(tmp_path / "tree", tmp_path / "f.jsonl", check="odd", workers=1)
    first = await run(settings, after=files // 3)
    assert first.share is None
    assert first.folders_left > 0
    assert describe_share(first).startswith(f"unknown while {first.folders_left} directories are not listed; ")
    assert progress_to_json(first)["directories_left"] == first.folders_left
    last = await run(settings)
    assert (last.share, last.folders_left, last.counts.listed) == (1.0, 0, files)


async def test_a_compared_tree_is_counted_once(tmp_path: Path) -> None:
    for side in ("a", "b"):
        for folder in range(3):
            (tmp_path / side / f"{folder}").mkdir(parents=True)
            (tmp_path / side / f"{folder}/{side}").write_text("x")
            (tmp_path / side / f"{folder}/both").write_text("x")
    settings = ScanSettings(source=str(tmp_path / "a"), against=str(tmp_path / "b"), out=str(tmp_path / "f.jsonl"))
    done = await run(settings)
    assert (done.share, done.folders_left, done.counts.listed, done.counts.records) == (1.0, 0, 9, 9)


async def test_a_listed_tree_has_a_share() -> None:
    counts = Counts(records=30, skipped=2, listed=64, folders_found=4, folders_listed=5)
    assert estimate_share({"listing": True}, counts, []) == 0.5
    assert estimate_share({"listing": True}, replace(counts, folders_listed=4), []) is None


@pytest.mark.parametrize(
    ("size", "counts", "starts"),
    [
        ({"bytes": 10}, Counts(bytes=50), []),
        ({"about_records": 10}, Counts(records=50), []),
        ({"about_records": 10, "first_key": [1], "last_key": [5], "text_key": False}, Counts(records=50), [[90]]),
    ],
)
def test_no_share_is_above_one(size: dict[str, Any], counts: Counts, starts: list[Any]) -> None:
    assert estimate_share(size, counts, starts) == 1.0


NOW = datetime(2026, 1, 1, tzinfo=UTC)
STATUS = Status(
    ready=1, delayed=0, claimed=1, done=0, visits=1, dead=0, lanes=1, inbox=0, paused=False, min_interval=0.0,
    concurrency=None, max_attempts=1, checkpoints=[Checkpoint(0, 0, 0, 1)], next_ready_at=NOW, now=NOW,
)  # fmt: skip


def at(seconds: float, share: float | None, samples: Any = None) -> ScanProgress:
    return ScanProgress(replace(STATUS, now=NOW + timedelta(seconds=seconds)), Counts(), share, {}, samples)


def test_the_time_left_follows_from_the_last_seconds() -> None:
    samples = sample_share(at(0, 0.1))
    assert at(0, 0.1, samples).seconds_left is None
    assert sample_share(at(SAMPLE_SECONDS - 1, 0.2, samples)) is None
    samples = sample_share(at(SAMPLE_SECONDS, 0.2, samples))
    assert at(SAMPLE_SECONDS, 0.2, samples).seconds_left == pytest.approx(80.0)
    samples = sample_share(at(2 * SAMPLE_SECONDS, 0.6, samples))  # faster now
    assert at(2 * SAMPLE_SECONDS, 0.6, samples).seconds_left == pytest.approx(10.0)


def test_the_time_left_is_unknown_while_nothing_scans() -> None:
    samples = sample_share(at(SAMPLE_SECONDS, 0.2, sample_share(at(0, 0.1))))
    idle = at(SAMPLE_SECONDS + 1, 0.2, samples)
    assert replace(idle, status=replace(idle.status, claimed=0)).seconds_left is None
    resumed = at(SAMPLE_SECONDS + STALE_SECONDS + 1, 0.2, samples)
    assert resumed.seconds_left is None
    assert sample_share(resumed) == sample_share(at(SAMPLE_SECONDS + STALE_SECONDS + 1, 0.2))  # starts anew
    assert at(SAMPLE_SECONDS, None, samples).seconds_left is None


@asynccontextmanager
async def opened(settings: ScanSettings) -> AsyncIterator[swath.Frontier]:
    async with swath.open(settings.store_url, create=False) as frontier:
        yield frontier


async def test_a_scan_records_samples_for_everybody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_lines, "RANGE", 3_000)
    settings = settings_of(write_lines(tmp_path / "all.jsonl"), tmp_path / "f.jsonl", check="odd", workers=1)
    await run(settings, after=1)
    async with opened(settings) as frontier:
        assert SAMPLES in await frontier.facts([SAMPLES])


async def test_the_progress_continues_after_a_full_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    learn, calls = swath.Frontier.learn, asyncio.Semaphore(0)

    async def fail_once(frontier: swath.Frontier, facts: Any) -> None:
        calls.release()
        if not failed:
            failed.append(facts)
            raise swath.StoreFull("database or disk is full")
        await learn(frontier, facts)

    failed: list[Any] = []
    settings = settings_of(write_lines(tmp_path / "all.jsonl"), tmp_path / "f.jsonl", check="odd", workers=1)
    source = await asyncio.to_thread(open_source, settings)
    prepared = await workspace.prepare(settings, source)
    monkeypatch.setattr("swath.scan.job.REFRESH_SECONDS", 0.01)
    monkeypatch.setattr(swath.Frontier, "learn", fail_once)
    stop, may_end = Stop(), threading.Event()
    job = ScanJob(settings, source, check=lambda record: may_end.wait(60) and None, fix=None, stop=stop)
    running = asyncio.create_task(job.run(prepared))
    try:
        async with asyncio.timeout(PATIENCE):
            for _ in range(2):
                await calls.acquire()
    finally:
        may_end.set()
        await running
        source.close()
    assert failed


async def test_the_command_and_status_show_the_same_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_lines, "RANGE", 3_000)
    settings = settings_of(write_lines(tmp_path / "all.jsonl"), tmp_path / "f.jsonl", check="odd", workers=1)
    first = await run(settings, after=RECORDS // 3)
    shown = f"{first.share:.1%}"
    told = await asyncio.to_thread(run_swath, "status", "--store", settings.store_url)
    assert f"share {shown}" in told.words
    line = format_line(replace(first, samples=None), rate=12.0)
    assert f"of {first.size['bytes'] / 1000:.1f} kB, {shown}, " in line
    job = ScanJob(settings, TreeSource(str(tmp_path)), check=None, fix=None)
    job.progress = first
    console = Console(width=100, file=io.StringIO())
    console.print(make_progress_panel(job, rate=12.0))
    panel = console.file.getvalue()  # type: ignore[attr-defined]
    assert re.search(rf"share +{re.escape(shown)}", panel)


async def test_records_of_a_running_slice_are_shown(tmp_path: Path) -> None:
    """A slice may take minutes if the check is slow. Until it is settled, its records count for nothing else."""
    settings = settings_of(write_lines(tmp_path / "all.jsonl"), tmp_path / "f.jsonl", check="odd", workers=1)
    checking, may_end = threading.Event(), threading.Event()

    def check(record: Any) -> None:
        if record["number"] == RECORDS // 2:
            checking.set()
            may_end.wait(60)

    source = await asyncio.to_thread(open_source, settings)
    prepared = await workspace.prepare(settings, source)
    job = ScanJob(settings, source, check=check, fix=None)
    running = asyncio.create_task(job.run(prepared))
    assert await asyncio.to_thread(checking.wait, 60)
    shown = await read(settings)
    assert RECORDS // 2 <= job.unsettled < RECORDS
    assert f"{job.unsettled:,} records not settled yet, 1 slice waiting" in format_line(
        shown, rate=0.0, unsettled=job.unsettled
    )
    assert shown.share == 0.0
    may_end.set()
    await running
    assert job.unsettled == 0
    assert (await read(settings)).share == 1.0


async def test_a_dead_slice_keeps_the_share_below_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_lines, "RANGE", 30_000)
    settings = settings_of(write_lines(tmp_path / "all.jsonl"), tmp_path / "f.jsonl", check="odd", workers=1)
    await run(settings, after=1)
    async with opened(settings) as frontier:
        claim = await frontier.claim(1)
        assert claim is not None
        await claim.settle([item.dead(reason="fate") for item in claim.items])
    last = await run(settings)
    assert last.status.waiting == 0
    assert last.share == last.counts.bytes / last.size["bytes"] < UNFINISHED
    async with opened(settings) as frontier:  # as if there were more than was measured
        known = (await frontier.facts([SCAN]))[SCAN]
        await frontier.learn({SCAN: {**known, "size": {"about_records": 1}}})
    assert (await read(settings)).share == UNFINISHED


def test_the_share_of_a_key_needs_both_ends() -> None:
    def share(reached: Any, first: Any, last: Any, *, is_text: bool = False) -> float | None:
        return estimate_key_share(reached, first=first, last=last, is_text=is_text)

    assert share([5], [0], [10]) == 0.5
    assert share(None, None, None) == 0.0
    assert [share([5], None, [10]), share([5], [0], None), share([5], [10], [10]), share([5], [10], [0])] == [None] * 4
    assert [share([-5], [0], [10]), share([15], [0], [10])] == [0.0, 1.0]
    assert share(["5"], ["0"], ["10"], is_text=True) is None  # "10" comes before "5"
    assert share(["x"], ["0"], ["10"]) is None
    assert share([5, "a"], [0, "z"], [10, "a"]) == 0.5  # the first column counts
    days = [[f"2030-01-{day:02}"] for day in (3, 1, 5)]
    assert share(*days, is_text=True) == 0.5
