"""INV-4 and INV-5 of a whole crawl whose disk is full for a while: nothing is lost, and the archive stays exact."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from swath.testing.web import Web, WebProcess, spawn
from tests.crawl.driving import begin, crawl_words
from tests.crawl.killing import DELAY, END_SECONDS, check_whole
from tests.small_disk import SmallDisk, mount_small_disk

LEFT = 200_000  # bytes; the crawl needs several times as many


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with mount_small_disk(tmp_path / "disk") as disk:
        yield disk


@pytest.fixture
def spawned(tmp_path: Path) -> Iterator[WebProcess]:
    with spawn(Web(seed=7, hosts=6, pages=60, faults=False, skew=0.3), log=tmp_path / "requests.jsonl") as spawned:
        yield spawned


def await_full_disk(process: "subprocess.Popen[str]") -> str:
    """Return the detail of the state `disk full` when the crawl shows it, or the error if it could not start."""
    assert process.stdout is not None
    for line in process.stdout:
        for state in json.loads(line).get("states", ()):
            if state["name"] == "disk full":
                return str(state["detail"])
    _, err = process.communicate()
    assert process.returncode == 3, err
    return err


def test_a_crawl_waits_until_the_disk_of_its_archive_has_room(
    disk: SmallDisk, spawned: WebProcess, tmp_path: Path
) -> None:
    out, store = disk.path / "out", f"sqlite:///{tmp_path}/work.db"
    options = ("--scope", "domain", "--delay", str(DELAY), "--timeout", "5s", "--store", store)
    disk.fill(leave=LEFT)
    process = begin(crawl_words(spawned, out, *options, urls=spawned.web.seeds))
    assert await_full_disk(process) == f"--out {out} cannot be written to: No space left on device. Make room"
    disk.clear()
    _, err = process.communicate(timeout=END_SECONDS)
    assert process.returncode == 0, err
    assert " there is room again after " in err
    check_whole(spawned, [out], killed=0)


def test_a_crawl_that_was_killed_on_a_full_disk_resumes(disk: SmallDisk, spawned: WebProcess) -> None:
    """Its frontier and its archive are on that disk, which is still full when the crawl is started again."""
    out = disk.path / "out"
    words = crawl_words(
        spawned, out, "--scope", "domain", "--delay", str(DELAY), "--timeout", "5s", urls=spawned.web.seeds
    )
    disk.fill(leave=5 * LEFT)
    process = begin(words)
    await_full_disk(process)
    assert process.poll() is None
    process.kill()
    process.communicate()
    disk.fill()
    process = begin(words)
    assert "Make room" in await_full_disk(process)
    disk.clear()
    if process.poll() is not None:
        process = begin(words)
    _, err = process.communicate(timeout=END_SECONDS)
    assert process.returncode == 0, err
    check_whole(spawned, [out], killed=1)
