"""Where each problem of `swath doctor` begins, and what it says in full."""

import dataclasses
import os
from pathlib import Path
from typing import Any

import pytest

from swath import LaneInfo
from swath.cli.doctor.machine import (
    MIN_FREE_BYTES,
    Growth,
    Mount,
    check_descriptors,
    check_disk,
    check_file_system,
    measure_growth,
    read_mounts,
)
from swath.cli.doctor.queue import (
    LaneTotals,
    check_largest_lane,
    check_lost,
    check_skew,
    check_workers,
    list_problems,
)

LANE = LaneInfo(
    "a.example", 0, 4.0, 1, frozenset(), paused=False, blocked_until=None, waiting=1_000, in_flight=0, visits=0,
    ready_at=None, last_at=None,
)  # fmt: skip


def make_totals(waiting: int = 1_999, lanes: int = 10, *, complete: bool = True, **lane: Any) -> LaneTotals:
    largest = dataclasses.replace(LANE, **lane)
    return LaneTotals(lanes, waiting, startable=3, largest=largest, complete=complete)


@pytest.mark.parametrize(
    ("totals", "found"),
    [
        (make_totals(), True),
        (make_totals(lanes=9), False),
        (make_totals(waiting=2_000), False),
        (make_totals(complete=False), False),
        (make_totals(min_interval=3.6), False),
        (make_totals(min_interval=3.61), True),
        (make_totals(concurrency=2), False),
        (make_totals(concurrency=2, min_interval=8.0), True),
        (make_totals(concurrency=None), True),
        (LaneTotals(10, 1_200, 3, dataclasses.replace(LANE, waiting=999, min_interval=9.0), complete=True), False),
        (LaneTotals(10, 1_200, 3, None, complete=True), False),
    ],
)
def test_one_lane_with_most_of_the_queue(totals: LaneTotals, found: bool) -> None:
    assert bool(list(check_largest_lane(totals))) == found


def test_what_is_said_of_the_largest_lane() -> None:
    (problem,) = check_largest_lane(make_totals(waiting=1_001))
    assert problem.text == (
        "the lane a.example holds 1,000 of 1,001 ready items, and at its pace they take at least 67 min"
    )


def test_lanes_are_added_up() -> None:
    totals = LaneTotals()
    for change in (
        {"waiting": 0},
        {"waiting": 4, "concurrency": None, "in_flight": 2},
        {"waiting": 7, "concurrency": 3, "lane": "most"},
        {"waiting": 1, "concurrency": 3, "in_flight": 1},
        {"waiting": 7, "paused": True},
        {"waiting": 0, "in_flight": 1},
    ):
        totals.add(dataclasses.replace(LANE, **change))
    assert (totals.lanes, totals.waiting, totals.startable) == (5, 19, 6 + 3 + 2 + 0 + 1)
    assert totals.largest is not None
    assert totals.largest.lane == "most"
    assert not totals.complete


def test_idle_workers() -> None:
    (problem,) = check_workers(LaneTotals(1, 5, 3, LANE, complete=True), 4)
    assert problem.text == "4 workers, but 1 lane with ready items, whose limits allow 3 in flight"
    assert problem.advice.startswith("use --workers 3:")
    (problem,) = check_workers(LaneTotals(2, 5, 0, LANE, complete=True), 1)
    assert problem.text == "1 worker, but 2 lanes with ready items, whose limits allow 0 in flight"
    assert problem.advice.startswith("use --workers 1:")
    assert not list(check_workers(LaneTotals(1, 5, 3, LANE, complete=True), 3))
    assert not list(check_workers(LaneTotals(1, 5, 3, LANE, complete=False), 4))


def test_lost_workers() -> None:
    assert not list(check_lost(0))
    assert [problem.text.partition(":")[0] for number in (1, 2) for problem in check_lost(number)] == [
        "1 item dead because their workers were lost again and again",
        "2 items dead because their workers were lost again and again",
    ]


def test_clocks() -> None:
    assert not list(check_skew(5.0))
    assert not list(check_skew(-5.0))
    assert [problem.text.partition(". ")[0] for seconds in (5.5, -60.0) for problem in check_skew(seconds)] == [
        "the clock of this machine is 5.5 s ahead of the store's",
        "the clock of this machine is 60 s behind the store's",
    ]


def test_all_problems_of_a_queue_come_in_an_order() -> None:
    totals = make_totals()
    found = [problem.name for problem in list_problems(totals, workers=4, lost=1, skew=9.0)]
    assert found == ["clock", "largest-lane", "lost-workers", "idle-workers"]
    assert [problem.name for problem in list_problems(totals, workers=None, lost=1, skew=0.0)] == found[1:3]
    assert not list_problems(LaneTotals(complete=True), workers=9, lost=0, skew=0.0)


def test_disks() -> None:
    full, enough = (Growth("/d", 10, free, 1, 0) for free in (MIN_FREE_BYTES - 1, MIN_FREE_BYTES))
    assert [problem.text for problem in check_disk(full)] == ["the disk of /d has only 100.0 MB free"]
    assert not list(check_disk(enough))
    (problem,) = check_disk(Growth("/d", 3 * 10**8, 2 * 10**8, settled=3, waiting=3))
    assert problem.text == "the disk of /d has 200.0 MB free, and the 3 items that wait will take about 300.0 MB"


def test_what_a_job_has_written(tmp_path: Path) -> None:
    (tmp_path / "work.db").write_bytes(bytes(1_000))
    (tmp_path / "work.db-wal").write_bytes(bytes(500))
    (tmp_path / "other").write_bytes(bytes(70))
    (tmp_path / "part").mkdir()
    system = os.statvfs(tmp_path)
    of_file = measure_growth(tmp_path / "work.db", settled=3, waiting=4)
    assert (of_file.path, of_file.used_bytes, of_file.settled, of_file.waiting) == (
        f"{tmp_path / 'work.db'}", 1_500, 3, 4,
    )  # fmt: skip
    assert 0.5 < of_file.free_bytes / (system.f_bavail * system.f_frsize) < 2
    assert measure_growth(tmp_path, settled=3, waiting=4).used_bytes == 1_570


@pytest.mark.parametrize(
    ("line", "mounts"),
    [
        ("22 1 254:1 / / rw shared:1 - ext4 /dev/vda1 rw", [Mount("/", "ext4")]),
        ("22 1 254:1 / / rw - ext4", [Mount("/", "ext4")]),  # no optional field
        ("22 1 254:1 / / - ext4", []),
        ("22 1 254:1 / / rw shared:1 -", []),
        ("22 1 254:1 / /a\\011b\\012c\\134d rw - xfs", [Mount("/a\tb\nc\\d", "xfs")]),
    ],
)
def test_lines_of_the_mount_table(tmp_path: Path, line: str, mounts: list[Mount]) -> None:
    (tmp_path / "table").write_text(f"{line}\n")
    assert read_mounts(tmp_path / "table") == mounts


def test_what_is_said_of_a_network_file_system(tmp_path: Path) -> None:
    (problem,) = check_file_system("/mnt/x.db", [Mount("/", "ext4"), Mount("/mnt", "nfs")])
    assert problem.text.startswith("/mnt/x.db is on a network file system (nfs at /mnt), where SQLite may lose data")
    assert not list(check_file_system("/mnt/x.db", []))


def test_what_is_said_of_descriptors() -> None:
    (problem,) = check_descriptors(1_024, workers=1_000)
    assert problem.text == "this user may open 1,024 files per process, and 1,000 workers of a crawl need 2,128"
