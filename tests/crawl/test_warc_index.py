"""The index beside each finished WARC file: when it is written, and when it is removed (INV-5)."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from swath.crawl.archive import cdxj, index, page_list, warc_index
from tests.crawl import indexing
from tests.crawl.archives import check_warc_indexes
from tests.crawl.indexing import SIZE, UNIQUE, Archive


def list_warcs(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.warc.gz"))


def index_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.cdxj")


def test_a_full_file_gets_its_index_and_the_current_one_has_none(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    archive.settle(*range(20))
    archive.output._indexer.finish()  # during the crawl, not only at its end
    archive.output.close()
    *full, current = list_warcs(tmp_path)
    assert len(full) > 2
    assert check_warc_indexes(tmp_path) == len(full)
    assert not index_of(current).exists()
    assert not list(tmp_path.glob("*.new"))


def test_a_missing_index_is_written_after_the_next_start(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    archive.settle(*range(10))
    archive.output.close()
    for path in tmp_path.glob("*.cdxj"):
        path.unlink()
    again = Archive(tmp_path, archive.committed)
    again.settle(*range(10, 14))  # its lines are in the list that the first run began
    again.output.finish_indexes()
    again.output.close()
    assert check_warc_indexes(tmp_path) == len(list_warcs(tmp_path)) - 1 > 2


def test_only_the_part_of_the_lists_with_the_pages_of_the_file_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts: list[int] = []

    def read(path: Path, length: int, *, start: int = 0) -> Iterator[bytes]:
        starts.append(start)
        return page_list.read_lines(path, length, start=start)

    monkeypatch.setattr(warc_index, "read_lines", read)
    archive = Archive(tmp_path)
    archive.settle(*range(20))
    archive.output.finish_indexes()
    archive.output.close()
    assert starts == sorted(set(starts))
    assert starts[-1] > 0


def test_an_index_is_removed_when_its_file_changes(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    archive.settle(*range(5))
    earlier = dict(archive.committed)
    archive.settle(*range(5, 20))
    archive.output.finish_indexes()
    before = check_warc_indexes(tmp_path)
    archive.output.restore(earlier)  # the store was restored from a backup
    assert 0 < check_warc_indexes(tmp_path) < before
    archive.committed = earlier
    archive.settle(*range(20, 30))
    archive.output.finish_indexes()
    archive.output.close()
    assert check_warc_indexes(tmp_path) > 2


def test_the_index_of_a_file_that_grows_again_is_removed(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    archive.settle(*range(20))
    archive.output.finish_indexes()
    archive.output.close()
    *_, last = list_warcs(tmp_path)
    last.unlink()  # so that the last file is one with an index
    del archive.committed[last.name]
    larger = Archive(tmp_path, archive.committed, size=10 * SIZE)
    larger.output.close()
    *full, current = list_warcs(tmp_path)
    assert not index_of(current).exists()
    assert check_warc_indexes(tmp_path) == len(full)


def test_a_stop_leaves_no_partial_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = Archive(tmp_path)

    def stop_then_read(path: Path, length: int, *, start: int = 0) -> Iterator[bytes]:
        archive.output._indexer._stopping.set()
        return page_list.read_lines(path, length, start=start)

    monkeypatch.setattr(warc_index, "read_lines", stop_then_read)
    archive.settle(*range(20))
    archive.output.close()
    assert not [path.name for path in tmp_path.iterdir() if "cdxj" in path.name]
    monkeypatch.undo()
    again = Archive(tmp_path, archive.committed)
    again.output.finish_indexes()
    again.output.close()
    assert check_warc_indexes(tmp_path) == len(list_warcs(tmp_path)) - 1


@pytest.mark.parametrize("step", ["before", "after"])
def test_a_kill_while_an_index_is_written_is_repaired(tmp_path: Path, step: str) -> None:
    directory = tmp_path / "out"
    command = [sys.executable, indexing.__file__, str(directory), step]
    path = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, check=False)
    assert done.returncode == -9, done.stderr
    assert len(list(directory.glob("*.cdxj.new"))) == (step == "before")
    assert len(list(directory.glob("*.cdxj"))) == (step == "after")
    (directory / f"cdxj-{UNIQUE}-left").mkdir()
    (directory / f"swath-20260101000000000-99999-{UNIQUE}.warc.gz.cdxj.new").touch()  # the file was not committed
    lines = (tmp_path / "committed").read_text().splitlines()
    again = Archive(directory, {name: int(length) for name, length in (line.rsplit(" ", 1) for line in lines)})
    again.settle(*range(1_000, 1_010))
    again.output.finish_indexes()
    again.output.close()
    assert check_warc_indexes(directory) == len(list_warcs(directory)) - 1
    assert not [path.name for path in directory.iterdir() if path.name.endswith(".new") or path.is_dir()]


def test_the_index_of_the_archive_merges_those_of_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cdxj, "FAN_IN", 2)
    archive = Archive(tmp_path)
    archive.settle(*range(30))
    archive.output.finish_indexes()
    archive.output.close()
    full = list_warcs(tmp_path)[:-1]
    index_of(full[1]).unlink()  # for example, a process that no longer runs had no time to write it
    index.write_index(tmp_path, archive.committed)
    lines = (tmp_path / index.FILE).read_text().splitlines()
    assert lines == list(index.read_cdxj_lines(tmp_path, archive.committed))
    assert len(lines) == 30
    assert check_warc_indexes(tmp_path) == len(full)
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]


def test_pages_of_unfinished_files_are_in_the_index_of_the_archive(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    archive.settle(1)
    archive.output.close()
    index.write_index(tmp_path, archive.committed)
    (line,) = (tmp_path / index.FILE).read_text().splitlines()
    assert json.loads(line.split(" ", 2)[2])["url"] == "https://h1.example/1"
