"""What doctor says of mounts, disks and descriptors."""

import subprocess
import sys
from pathlib import Path

import pytest

from swath.cli.doctor import machine
from swath.cli.doctor.machine import (
    Growth,
    check_descriptors,
    check_disk,
    check_file_system,
    measure_growth,
    read_mounts,
)
from swath.crawl import fd_limit
from tests.small_disk import mount_small_disk

MOUNTS = """\
22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
40 22 0:35 / /srv/shared rw,relatime shared:2 master:1 - nfs4 files.example:/srv rw,vers=4.2
41 22 0:36 / /srv/with\\040space rw - cifs //files.example/x rw
42 40 254:2 / /srv/shared/local rw - xfs /dev/vdb rw
damaged
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/srv/shared/work.db", "nfs4"),
        ("/srv/shared", "nfs4"),
        ("/srv/with space/a/work.db", "cifs"),
        ("/srv/shared/local/work.db", None),
        ("/srv/sharedelsewhere/work.db", None),
        ("/home/work.db", None),
    ],
)
def test_a_network_file_system_is_found_by_the_longest_mount_point(tmp_path: Path, path: str, kind: str | None) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(MOUNTS)
    found = list(check_file_system(path, read_mounts(table)))
    assert [f"({kind} at " in problem.text for problem in found] == ([] if kind is None else [True])


def test_the_mounts_of_this_machine_are_read(tmp_path: Path) -> None:
    assert "/" in {mount.point for mount in read_mounts()}
    assert read_mounts(tmp_path / "none") == []
    assert not list(check_file_system(str(tmp_path), read_mounts()))


def test_a_full_disk_is_a_problem(tmp_path: Path) -> None:
    with mount_small_disk(tmp_path / "disk") as disk:
        (disk.path / "work.db").write_bytes(bytes(1_000_000))
        growth = measure_growth(disk.path / "work.db", settled=10, waiting=0)
    assert growth.used_bytes == 1_000_000
    (problem,) = check_disk(growth)
    assert "has only " in problem.text


@pytest.mark.parametrize(
    ("growth", "needed"),
    [
        (Growth("d", 10**9, 10**9, 1_000, 1_001), "1.0 GB"),
        (Growth("d", 10**9, 10**9, 1_000, 1_000), None),
        (Growth("d", 10**9, 10**9, 0, 10**9), None),  # nothing is known yet
    ],
)
def test_a_disk_is_too_small_if_the_rest_of_the_job_does_not_fit(growth: Growth, needed: str | None) -> None:
    found = list(check_disk(growth))
    assert [f"take about {needed}" in problem.text for problem in found] == ([] if needed is None else [True])


def test_descriptors_are_counted_as_a_crawl_does() -> None:
    assert (machine.DESCRIPTORS_PER_WORKER, machine.RESERVED) == (fd_limit.DESCRIPTORS_PER_WORKER, fd_limit.RESERVED)
    assert not list(check_descriptors(1_128, workers=500))
    (problem,) = check_descriptors(1_127, workers=500)
    assert "`ulimit -n 1128`" in problem.advice


def test_the_hard_limit_counts_because_a_crawl_raises_the_soft_one() -> None:
    script = "from swath.cli.doctor.machine import read_hard_limit; print(read_hard_limit())"
    ran = subprocess.run(
        ["bash", "-c", f"ulimit -Sn 200; ulimit -Hn 300; {sys.executable} -c '{script}'"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert ran.stdout == "300\n"
