"""Trees of files, with everything that file systems have."""

import os
import random
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from swath import Item
from swath.scan.path_keys import key_to_path
from swath.scan.sources import filesystems, tree
from swath.scan.sources.filesystems import DirectoryEntry, LocalTree
from swath.scan.sources.source import ReadCounts, SourceFinding
from swath.scan.sources.tree import TreeSource
from tests.scan import checks
from tests.scan.driving import scan


def grow(root: Path, *, folders: int, files: int) -> set[str]:
    """A tree of folders within folders; returns the keys of its files."""
    keys = set()
    for number in range(folders):
        folder = root / f"{number % 7}" / f"{number % 3}" / f"{number}"
        folder.mkdir(parents=True)
        for name in range(files):
            (folder / f"{name}.txt").write_bytes(b"x" * (name % 3))
            keys.add(str((folder / f"{name}.txt").relative_to(root)))
    return keys


@pytest.mark.parametrize(
    ("budget", "batch", "many"), [(2_000, 500, 50_000), (10, 3, 50_000), (10, 3, 8)], ids=["inline", "batches", "parts"]
)
def test_every_file_is_looked_at_once_however_the_tree_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, budget: int, batch: int, many: int
) -> None:
    monkeypatch.setattr(tree, "SECONDS", 0.0)
    monkeypatch.setattr(LocalTree, "budget", budget)
    monkeypatch.setattr(tree, "FILES_PER_ITEM", batch)
    monkeypatch.setattr(tree, "MAX_ENTRIES", many)
    root = tmp_path / "tree"
    keys = grow(root, folders=12, files=20)
    found = scan(root, tmp_path / "out.jsonl", check="every")
    assert sorted(finding["key"] for finding in found.findings) == sorted(keys)
    assert found.proof.counts.records == len(keys)
    assert found.proof.counts.bytes == sum(path.stat().st_size for path in root.rglob("*.txt"))
    assert found.code == 1


def test_the_frontier_of_a_scan_is_not_looked_at(tmp_path: Path) -> None:
    """Not even through a link: a process that closes a file by hand loses the locks that SQLite has on it."""
    (tmp_path / "file.txt").write_bytes(b"x")
    for suffix in ("", "-wal", "-shm", "-turn"):
        (tmp_path / f"link{suffix}").symlink_to(f"out.jsonl.swath.db{suffix}")
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "out.jsonl.swath.db").write_bytes(b"another")
    found = scan(tmp_path, tmp_path / "out.jsonl", check="every")
    assert {finding["key"] for finding in found.findings} == {"file.txt", "below/out.jsonl.swath.db", "out.jsonl"}


@pytest.mark.parametrize("budget", [1, 3, 10, 40])
def test_directories_that_share_an_item_are_discovered_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, budget: int
) -> None:
    """No two items have one name, whatever an item leaves to others: the second would be taken for the first."""
    monkeypatch.setattr(tree, "SECONDS", 0.0)
    monkeypatch.setattr(tree, "FILES_PER_ITEM", 5)
    monkeypatch.setattr(LocalTree, "budget", budget)
    chance = random.Random(budget)
    folders = [tmp_path / "tree"]
    for number in range(200):
        folders.append(chance.choice(folders[-20:]) / f"{number}")
    for folder in folders:
        folder.mkdir()
        for number in range(chance.choice([0, 1, 3, 12])):
            (folder / f"{number}.txt").write_bytes(b"")
    source = TreeSource(str(tmp_path / "tree"))
    waiting, names, files = list(source.list_first_items({})), set[str](), list[str]()
    while waiting:
        item = waiting.pop(chance.randrange(len(waiting)))
        assert item.key not in names
        names.add(item.key)
        for step in source.read(item.payload):
            if isinstance(step, Item):
                waiting.append(step)
            elif isinstance(step, list):
                files += [record.key for record in step]
    assert sorted(files) == sorted(str(path.relative_to(tmp_path / "tree")) for path in tmp_path.rglob("*.txt"))
    assert any(name.endswith(" more") for name in names) or budget == 1


def test_what_an_item_is_named_by_is_looked_at_by_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else what is left of `a`, `b` and something below `b` would have the name that `a` and `b` had."""
    monkeypatch.setattr(tree, "SECONDS", 0.0)
    monkeypatch.setattr(LocalTree, "budget", 2)
    for name in ("a", "b/1", "b/2", "c", "d"):
        (tmp_path / name).mkdir(parents=True)
    left = [
        step.key for step in TreeSource(str(tmp_path)).read({"dirs": ["a", "b", "c", "d"]}) if isinstance(step, Item)
    ]
    assert left in (["b/1/ and 1 more", "c/ and 1 more"], ["b/2/ and 1 more", "c/ and 1 more"])


def test_a_clean_tree_is_a_proof(tmp_path: Path) -> None:
    root = tmp_path / "tree"
    keys = grow(root, folders=3, files=5)
    found = scan(f"file://{root}", tmp_path / "out.jsonl", check="nothing")
    assert found.code == 0
    assert found.findings == []
    assert found.proof.clean
    assert found.proof.counts.records == len(keys)
    assert not found.proof.status.lag


def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    root = tmp_path / "tree"
    folder = os.fsencode(root) + b"/\xff\xfe%"
    os.makedirs(folder)
    for name in (b"\x80.txt", b"line\nbreak", b"50%", "Grüße".encode()):
        (Path(os.fsdecode(folder)) / os.fsdecode(name)).write_bytes(b"")
    found = scan(root, tmp_path / "out.jsonl", check="empty")
    assert found.keys("empty") == {"%FF%FE%25/" + name for name in ("%80.txt", "line%0Abreak", "50%25", "Grüße")}
    assert all((root / key_to_path(key)).exists() for key in found.keys("empty"))


def test_links_are_not_followed_round_in_circles(tmp_path: Path) -> None:
    root = tmp_path / "tree"
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "file").write_bytes(b"")
    (root / "a" / "b" / "up").symlink_to("../..")
    (root / "self").symlink_to("self")
    (root / "nowhere").symlink_to("gone")
    (root / "to-file").symlink_to("a/file")
    found = scan(root, tmp_path / "out.jsonl", check="empty")
    assert found.keys("broken-link") == {"self", "nowhere"}
    assert found.keys("empty") == {"a/file", "to-file"}
    assert found.proof.counts.skipped == 1


def test_what_is_no_file_is_passed_over(tmp_path: Path) -> None:
    root = tmp_path / "tree"
    root.mkdir()
    os.mkfifo(root / "pipe")  # whoever opened it would wait for ever
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(root / "socket"))
        found = scan(root, tmp_path / "out.jsonl", check="empty")
    assert (found.code, found.proof.counts.skipped) == (0, 2)


def test_what_cannot_be_read_is_a_finding(tmp_path: Path) -> None:
    root = tmp_path / "tree"
    root.mkdir()
    (root / "fine").write_bytes(b"x")
    (root / "memory").symlink_to("/proc/self/mem")  # a file, of which the first byte cannot be read
    found = scan(root, tmp_path / "out.jsonl", check="empty")
    assert [(finding["key"], finding["code"]) for finding in found.findings] == [("memory", "unreadable")]


@pytest.fixture
def too_deep(tmp_path: Path) -> Iterator[Path]:
    """A tree that goes deeper than a path can be long."""
    root = tmp_path / "deep"
    root.mkdir()
    here = os.getcwd()
    os.chdir(root)
    for _ in range(20):
        os.mkdir("d" * 250)
        os.chdir("d" * 250)
    for _ in range(20):
        os.chdir("..")
    os.chdir(here)
    yield root
    os.chdir(root)
    for _ in range(19):
        os.chdir("d" * 250)
    for _ in range(20):
        if os.path.exists("d" * 250):
            os.rmdir("d" * 250)
        os.chdir("..")
    os.chdir(here)


def test_a_directory_that_cannot_be_listed_is_a_finding(too_deep: Path, tmp_path: Path) -> None:
    found = scan(too_deep, tmp_path / "out.jsonl", check="empty")
    assert found.codes == {"unreadable": 1}
    (key,) = found.keys("unreadable")
    assert key.endswith("d/")
    assert len(key) > 3_000


def test_a_directory_that_comes_back_is_looked_at_by_a_recheck(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a finding kept from being looked at is looked at once that is gone."""
    root = tmp_path / "tree"
    keys = grow(root, folders=4, files=3)
    monkeypatch.setattr(LocalTree, "list", _vanishing(LocalTree.list, "2"))
    found = scan(root, tmp_path / "out.jsonl", check="every")
    assert found.keys("vanished") == {"2/"}
    missed = {key for key in keys if key.startswith("2/")}
    assert found.keys("seen") == keys - missed
    monkeypatch.undo()
    monkeypatch.setattr(tree, "SECONDS", 0.0)
    monkeypatch.setattr(LocalTree, "budget", 1)  # so that what is below is discovered
    again = scan(root, tmp_path / "out.jsonl", check="every", recheck=True)
    assert again.keys("seen") == keys
    assert again.proof.open == {"seen": len(keys)}
    assert again.proof.counts.records == len(keys)
    assert all(finding["round"] == 1 for finding in again.findings if finding["key"] in missed)
    assert [finding["state"] for finding in again.findings if finding["code"] == "vanished"] == ["open", "resolved"]


def test_a_directory_that_stays_away_is_resolved_by_a_recheck(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a file is that is gone. The tree itself is not: if that is away, nobody knows what is in it."""
    root = tmp_path / "tree"
    keys = grow(root, folders=4, files=3)
    monkeypatch.setattr(LocalTree, "list", _vanishing(LocalTree.list, "2"))
    scan(root, tmp_path / "out.jsonl", check="every")
    again = scan(root, tmp_path / "out.jsonl", check="every", recheck=True)
    assert [finding["state"] for finding in again.findings if finding["code"] == "vanished"] == ["open", "resolved"]
    assert again.proof.open == {"seen": sum(not key.startswith("2/") for key in keys)}
    monkeypatch.setattr(LocalTree, "list", _vanishing(LocalTree.list, ""))
    _, trouble = TreeSource(str(root)).read({"dir": "", "round": 1, "before": {"./": {"unreadable": 1}}})
    assert isinstance(trouble, SourceFinding)


def _vanishing(listed: Callable[[LocalTree, str], Iterator[DirectoryEntry]], gone: str) -> object:
    def listing(self: LocalTree, path: str) -> Iterator[DirectoryEntry]:
        if path == gone:
            raise FileNotFoundError(2, "No such file or directory")
        return listed(self, path)

    return listing


def test_a_file_that_goes_away_between_listing_and_reading(tmp_path: Path) -> None:
    root = tmp_path / "tree"
    root.mkdir()
    for name in ("a", "b"):
        (root / name).write_bytes(b"x")
    source = TreeSource(str(root))
    steps = source.read({"dir": "", "files": [["a", "file"], ["b", "file"], ["c", "file"]]})
    trouble, records = list(steps)
    assert isinstance(records, list)
    first, second = records
    assert isinstance(trouble, SourceFinding)
    assert (trouble.key, trouble.finding.code) == ("c", "vanished")
    assert first.key == "a"
    (root / "b").unlink()
    with pytest.raises(OSError, match="No such file") as raised:
        second.read()
    assert raised.value.code == "vanished"  # type: ignore[attr-defined]


def test_a_tree_that_changes_while_it_is_scanned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files and folders come, go and change all the time; those that stay are each looked at once."""
    monkeypatch.setattr(tree, "SECONDS", 0.001)
    monkeypatch.setattr(LocalTree, "budget", 50)
    monkeypatch.setattr(tree, "FILES_PER_ITEM", 20)
    root = tmp_path / "tree"
    keys = grow(root, folders=300, files=60)  # 18,000 files
    staying = {key for key in keys if not key.endswith(("/7.txt", "/8.txt"))}
    going = sorted(keys - staying)
    checks.asked.clear()
    monkeypatch.setattr(checks, "remembering", _disturbing(root, going))
    gone = set(going)
    found = scan(root, tmp_path / "out.jsonl", check="remembering", workers=4)
    asked = [key for key in checks.asked if key in staying]
    assert len(asked) == len(set(asked)) == len(staying)
    assert set(found.codes) <= {"vanished"}
    assert found.keys("vanished") <= gone
    assert found.proof.complete


def _disturbing(root: Path, going: list[str]) -> object:
    """A check that changes the tree with every few records that it is asked about."""

    def check(record: filesystems.DirectoryEntry) -> None:
        checks.asked.append(record.key)  # type: ignore[attr-defined]
        number = len(checks.asked)
        if number % 20 == 0 and going:
            (root / going.pop()).unlink(missing_ok=True)
            folder = root / f"new{number % 5}" / f"{number}"
            folder.mkdir(parents=True)
            (folder / "7.txt").write_bytes(b"")

    return check


def test_keys_of_folders_lead_back_to_work() -> None:
    source = TreeSource("/")
    assert source.find_unread_part("a/b/", {"code": "unreadable", "data": None}) == {"dir": "a/b"}
    assert source.find_unread_part("./", {"code": "unreadable", "data": None}) == {"dir": ""}
    assert source.find_unread_part("a/", {"code": "vanished", "data": {"bucket": [1, 3]}}) == {
        "dir": "a",
        "bucket": [1, 3],
    }
    assert source.find_unread_part("a/b", {"code": "empty", "data": None}) is None


def test_batches_fit_into_a_payload(tmp_path: Path) -> None:
    root = tmp_path / "tree"
    root.mkdir()
    long = "\u4e2d" * 80
    for number in range(600):
        (root / f"{number:03}{long}").write_bytes(b"")
    found = scan(root, tmp_path / "out.jsonl", check="every")
    assert len(found.findings) == 600


def test_a_huge_directory_is_scanned_in_parts_of_bounded_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No part is empty, every name is in one of them, and the share counts a directory per part."""
    monkeypatch.setattr(tree, "MAX_ENTRIES", 50)
    names = {f"file {number}" for number in range(201)}
    for name in names:
        (tmp_path / name).touch()
    source = TreeSource(str(tmp_path))
    (first,) = source.list_first_items({})
    steps = list(source.read(first.payload))
    assert ReadCounts(folders_found=5, folders_listed=1) in steps, "five parts, rounded up"
    parts = [step for step in steps if isinstance(step, Item)]
    assert [part.key for part in parts] == [f"./ part {number} of 5" for number in range(1, 6)]
    found = []
    for part in parts:
        steps = list(source.read(part.payload))
        keys = [record.key for step in steps if isinstance(step, list) for record in step]
        assert ReadCounts(listed=len(keys), folders_listed=1) in steps
        assert 20 <= len(keys) <= 60
        found += keys
    assert sorted(found) == sorted(names)


@pytest.mark.parametrize("number", [50, 51])
def test_a_directory_is_cut_only_if_it_has_too_many_entries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(tree, "MAX_ENTRIES", 50)
    for name in range(number):
        (tmp_path / str(name)).touch()
    steps = list(TreeSource(str(tmp_path)).read({"dir": ""}))
    assert sum(isinstance(step, Item) for step in steps) == (2 if number == 51 else 0)
    assert sum(len(step) for step in steps if isinstance(step, list)) == (0 if number == 51 else 50)


def test_a_recheck_covers_the_part_that_could_not_be_listed(tmp_path: Path) -> None:
    source = TreeSource(str(tmp_path / "gone"))
    source._tree = LocalTree(str(tmp_path / "gone"))
    steps = list(source.read({"dir": "", "bucket": [2, 5]}))
    (found,) = (step for step in steps if isinstance(step, SourceFinding))
    assert source.find_unread_part(found.key, {"data": found.finding.data}) == {"dir": "", "bucket": [2, 5]}
