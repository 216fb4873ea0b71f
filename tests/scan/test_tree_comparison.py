"""Two trees compared, here and in an object store."""

import shutil
from pathlib import Path

import fsspec
import pytest

from swath import UsageError
from swath.scan.sources import tree
from swath.scan.sources.filesystems import LocalTree, RemoteTree
from tests.scan.driving import scan
from tests.scan.test_tree import grow


@pytest.fixture
def trees(tmp_path: Path) -> tuple[Path, Path]:
    here, there = tmp_path / "here", tmp_path / "there"
    grow(here, folders=10, files=12)
    shutil.copytree(here, there)
    return here, there


@pytest.mark.parametrize(("budget", "many"), [(500, 50_000), (5, 50_000), (5, 6)], ids=["inline", "batches", "parts"])
def test_every_difference_is_found_and_nothing_else(
    trees: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, budget: int, many: int
) -> None:
    monkeypatch.setattr(LocalTree, "budget", budget)
    monkeypatch.setattr(tree, "FILES_PER_ITEM", 8)
    monkeypatch.setattr(tree, "MAX_ENTRIES", many)
    here, there = trees
    assert scan(here, tmp_path / "equal.jsonl", against=str(there)).proof.clean
    shutil.rmtree(there / "3")
    (there / "0" / "0" / "0" / "1.txt").write_bytes(b"y")  # as long as before
    (there / "0" / "0" / "0" / "2.txt").write_bytes(b"longer")
    (there / "0" / "0" / "0" / "3.txt").unlink()
    (there / "0" / "0" / "0" / "3.txt").mkdir()
    (there / "0" / "0" / "0" / "3.txt" / "inside").write_bytes(b"")
    (there / "new" / "deep").mkdir(parents=True)
    (there / "new" / "deep" / "file").write_bytes(b"")
    found = scan(here, tmp_path / "out.jsonl", against=str(there))
    lost = {str(path.relative_to(here)) for path in (here / "3").rglob("*.txt")}
    assert found.keys("missing-there") == lost | {"0/0/0/3.txt"}
    assert found.keys("missing-here") == {"new/deep/file", "0/0/0/3.txt/inside"}
    assert found.keys("different") == {"0/0/0/1.txt", "0/0/0/2.txt"}
    assert len(found.findings) == len(lost) + 5
    assert found.proof.counts.records == 122
    columns = {finding["key"]: finding["data"]["columns"] for finding in found.findings if finding["data"]}
    assert columns["0/0/0/2.txt"] == {"size": [2, 6]}
    assert list(columns["0/0/0/1.txt"]) == ["hash"]
    assert {finding["message"] for finding in found.findings if finding["data"]} == {"size differs", "hash differs"}


def test_a_folder_with_too_many_entries_on_one_side_is_compared_once(
    trees: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, "MAX_ENTRIES", 6)
    here, there = trees
    kept = there / "0" / "0" / "0" / "1.txt"
    for path in kept.parent.glob("*.txt"):
        if path != kept:
            path.unlink()
    kept.write_bytes(b"y")
    found = scan(here, tmp_path / "out.jsonl", against=str(there))
    assert found.codes["different"] == 1
    assert found.proof.counts.records == len(list(here.rglob("*.txt")))


def test_a_recheck_of_two_trees(trees: tuple[Path, Path], tmp_path: Path) -> None:
    here, there = trees
    (there / "0" / "0" / "0" / "1.txt").write_bytes(b"y")
    (there / "new").write_bytes(b"")
    assert scan(here, tmp_path / "out.jsonl", against=str(there)).proof.open == {"different": 1, "missing-here": 1}
    (there / "0" / "0" / "0" / "1.txt").write_bytes(b"x")
    (there / "new").unlink()
    assert scan(here, tmp_path / "out.jsonl", against=str(there), recheck=True).proof.clean


def test_what_is_compared_can_be_chosen(trees: tuple[Path, Path], tmp_path: Path) -> None:
    here, there = trees
    (there / "0" / "0" / "0" / "1.txt").write_bytes(b"y")
    assert scan(here, tmp_path / "out.jsonl", against=str(there), columns=("size",)).code == 0
    with pytest.raises(UsageError, match="colour is not known for files"):
        scan(here, tmp_path / "other.jsonl", against=str(there), columns=("colour",))


def test_links_and_what_cannot_be_read(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for root in (here, there):
        root.mkdir()
        (root / "loop").symlink_to("loop")
        (root / "up").symlink_to("..")
        (root / "memory").symlink_to("/proc/self/mem")
    (here / "link").symlink_to("loop")
    (there / "link").write_bytes(b"")
    found = scan(here, tmp_path / "out.jsonl", against=str(there))
    assert {(finding["key"], finding["code"]) for finding in found.findings} == {
        ("memory", "unreadable"),
        ("link", "different"),
    }


def test_a_tree_and_its_copy_in_an_object_store(
    trees: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RemoteTree, "budget", 5)
    here, _ = trees
    memory = fsspec.filesystem("memory")
    memory.put(f"{here}/", "/copy/", recursive=True)
    assert scan(here, tmp_path / "equal.jsonl", against="memory://copy").proof.clean
    memory.rm("/copy/0/0/0/1.txt")
    memory.pipe("/copy/0/0/0/2.txt", b"yy")
    found = scan(here, tmp_path / "out.jsonl", against="memory://copy")
    memory.rm("/copy", recursive=True)
    assert found.codes == {"missing-there": 1, "different": 1}
