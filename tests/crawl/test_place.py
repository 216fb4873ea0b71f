"""The directory of a crawl is made ready by one run at a time, and whole after any crash."""

import os
import secrets
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier
from pathlib import Path

from swath.crawl import place
from tests.recorder import PATIENCE

TOGETHER = 4
ROUNDS = 20


def _name(folder: Path, number: int, barrier: Barrier, tell: Callable[[list[str]], None]) -> None:
    """Name every folder, together with others, and let these go first where there is nothing to keep them."""
    token = secrets.token_hex

    def slowly(size: int) -> str:
        for _ in range(1_000):
            os.sched_yield()
        return token(size)

    secrets.token_hex = slowly  # type: ignore[assignment]
    names = []
    for path in sorted(folder.iterdir()):
        barrier.wait(PATIENCE)
        names.append(place.unique(path, number))
    tell(names)


def test_processes_that_begin_together_write_under_one_name(tmp_path: Path) -> None:
    """By which a resume finds the files of each, and cuts off what was not settled."""
    folders = [tmp_path / str(number) for number in range(ROUNDS)]
    for folder in folders:
        folder.mkdir()
    context = get_context("spawn")
    barrier, told = context.Barrier(TOGETHER), context.Queue()
    processes = [context.Process(target=_name, args=(tmp_path, n, barrier, told.put)) for n in range(TOGETHER)]
    for process in processes:
        process.start()
    names = [told.get(timeout=PATIENCE) for _ in processes]
    for process in processes:
        process.join()
    for folder, given in zip(sorted(folders), zip(*names, strict=True), strict=True):
        kept = (folder / place.NAME).read_text().strip()
        assert sorted(given) == [f"{kept}~{number}" for number in range(TOGETHER)]


def test_a_name_that_a_crash_kept_from_being_written_is_made_anew(tmp_path: Path) -> None:
    (tmp_path / place.NAME).touch()
    name = place.unique(tmp_path, 0)
    assert len(name) > len("~0")
    assert place.unique(tmp_path, 0) == name
