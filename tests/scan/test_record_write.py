"""`record.write` replaces a file at once, and only a file of the tree."""

import fcntl
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from swath import UsageError
from swath.scan.record import FileRecord, Unreadable
from swath.scan.sources.filesystems import FileTree, open_tree
from swath.scan.sources.replace_in_tree import is_temporary
from tests.scan.driving import ROOT

OLD, NEW = b"o" * 100_000, b"n" * 100_000


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A tree with one file, beside something else."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_bytes(OLD)
    root = tmp_path / "tree"
    (root / "folder").mkdir(parents=True)
    (root / "folder" / "file").write_bytes(OLD)
    return root


def make_record(root: Path | str, path: str = "folder/file") -> FileRecord:
    return FileRecord(path, path, open_tree(str(root)))


def list_leftovers(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if is_temporary(path.name)]


def list_names(tree: FileTree, path: str) -> list[str]:
    return sorted(entry.name for entry in tree.list(path))


def test_a_file_is_replaced_and_keeps_what_it_was(root: Path) -> None:
    file = root / "folder" / "file"
    file.chmod(0o741)
    if os.geteuid() == 0:
        os.chown(file, 1234, 2345)
    with suppress(OSError):  # not on every file system
        os.setxattr(file, "user.origin", b"here")
    before, attributes = file.stat(), os.listxattr(file)
    with file.open("rb") as reader:
        make_record(root).write(NEW)
        assert reader.read() == OLD, "a reader sees one content or the other"
    after = file.stat()
    assert file.read_bytes() == NEW
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    assert os.listxattr(file) == attributes
    assert [path.name for path in file.parent.iterdir()] == ["file"]


def test_a_full_disk_leaves_the_file(root: Path) -> None:
    """A limit for the size of files stands for a full disk: the system writes the first half."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(NEW) // 2, hard))
    try:
        with pytest.raises(OSError, match=r"File too large: 'folder/file'"):
            make_record(root).write(NEW)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (root / "folder" / "file").read_bytes() == OLD
    assert list_leftovers(root / "folder") == []


def test_a_link_leads_to_its_target_in_the_tree_only(root: Path) -> None:
    (root / "inside").symlink_to("folder/file")
    (root / "outward").symlink_to(root.parent / "outside" / "file")
    make_record(root, "inside").write(NEW)
    assert (root / "inside").is_symlink()
    assert (root / "folder" / "file").read_bytes() == NEW
    with pytest.raises(OSError, match="the link leads out of the source"):
        make_record(root, "outward").write(NEW)
    assert (root.parent / "outside" / "file").read_bytes() == OLD
    assert list_leftovers(root.parent / "outside") == []


def test_a_directory_that_became_a_link_leads_nowhere(root: Path) -> None:
    record = make_record(root)
    (root / "folder").rename(root / "moved")
    (root / "folder").symlink_to(root.parent / "outside")
    with pytest.raises(OSError, match="'folder/file'"):
        record.write(NEW)
    assert (root.parent / "outside" / "file").read_bytes() == OLD
    assert list(map(str, (root.parent / "outside").iterdir())) == [str(root.parent / "outside" / "file")]


@pytest.mark.parametrize("path", ["../outside/file", "folder/../../outside/file"])
def test_a_key_does_not_lead_out_of_the_tree(root: Path, path: str) -> None:
    with pytest.raises(OSError, match="not a path inside the source"):
        make_record(root, path).write(NEW)
    assert (root.parent / "outside" / "file").read_bytes() == OLD


def test_other_names_of_a_file_keep_its_content(root: Path) -> None:
    """They may be outside of the tree."""
    other = root.parent / "outside" / "other"
    other.hardlink_to(root / "folder" / "file")
    make_record(root).write(NEW)
    assert other.read_bytes() == OLD
    assert (root / "folder" / "file").read_bytes() == NEW


@contextmanager
def ordinary_user() -> Iterator[None]:
    """Give up the rights of root for a while, which may write to anything."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65_534)
    try:
        yield
    finally:
        os.seteuid(before)


def test_a_read_only_file_is_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = root / "folder" / "file"
    file.chmod(0o444)
    if os.geteuid() == 0:
        os.chown(file, 65_534, os.getegid())
    for folder in (root, root / "folder"):
        folder.chmod(0o777)
    monkeypatch.chdir(root)
    tree = open_tree(".")
    with ordinary_user(), pytest.raises(PermissionError, match="'folder/file'"):
        tree.replace("folder/file", NEW)
    assert file.read_bytes() == OLD


def test_a_file_that_was_deleted_does_not_come_back(root: Path) -> None:
    record = make_record(root)
    (root / "folder" / "file").unlink()
    with pytest.raises(Unreadable) as raised:
        record.write(NEW)
    assert raised.value.code == "vanished"
    assert list((root / "folder").iterdir()) == []


def test_a_pipe_in_its_place_does_not_block(root: Path) -> None:
    file = root / "folder" / "file"
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(OSError, match="'folder/file'"):
        make_record(root).write(NEW)


KILLED = """
import os, signal, sys
from swath.scan.sources.filesystems import open_tree
step, root, size = sys.argv[1], sys.argv[2], int(sys.argv[3])
calls = 0
def dying(name, number):
    function = getattr(os, name)
    def call(*arguments, **options):
        global calls
        calls += 1
        if calls == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **options)
    setattr(os, name, call)
dying(step.split()[0], int(step.split()[1]))
open_tree(root).replace("folder/file", b"n" * size)
"""


@pytest.mark.parametrize(
    ("step", "content"),
    [("write 1", OLD), ("fsync 1", OLD), ("rename 1", OLD), ("fsync 2", NEW)],
    ids=["before the write", "before it is on disk", "before it is renamed", "afterwards"],
)
def test_a_killed_write_leaves_one_content_or_the_other(root: Path, step: str, content: bytes) -> None:
    words = [sys.executable, "-c", KILLED, step, str(root), str(len(NEW))]
    killed = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert (root / "folder" / "file").read_bytes() == content
    assert len(list_leftovers(root / "folder")) == (content == OLD)
    assert list_names(open_tree(str(root)), "folder") == ["file"], "the leftover is not a record"
    make_record(root).write(NEW)
    assert (root / "folder" / "file").read_bytes() == NEW
    assert list_leftovers(root / "folder") == []


def find_temporary_name(root: Path) -> Path:
    """Return the path that a write of the file uses."""
    words = [sys.executable, "-c", KILLED, "rename 1", str(root), "1"]
    subprocess.run(words, cwd=ROOT, capture_output=True, check=False)
    (found,) = list_leftovers(root / "folder")
    found.unlink()
    return found


def test_a_planted_temporary_file_is_not_written_to(root: Path) -> None:
    temporary, outside = find_temporary_name(root), root.parent / "outside" / "file"
    temporary.symlink_to(outside)
    with pytest.raises(OSError, match="'folder/file'"):
        make_record(root).write(NEW)
    temporary.unlink()
    temporary.hardlink_to(outside)
    make_record(root).write(NEW)
    assert outside.read_bytes() == OLD
    assert (root / "folder" / "file").read_bytes() == NEW


def test_a_write_waits_for_another_of_the_same_file(root: Path) -> None:
    temporary = find_temporary_name(root)
    with temporary.open("wb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        other.write(b"other")
        other.flush()
        writing = threading.Thread(target=make_record(root).write, args=(NEW,))
        writing.start()
        writing.join(0.2)
        assert writing.is_alive()
        assert temporary.read_bytes() == b"other"
        temporary.rename(root / "folder" / "file")
    writing.join(30)
    assert (root / "folder" / "file").read_bytes() == NEW
    assert list_leftovers(root / "folder") == []


def test_a_remote_file_is_replaced(root: Path) -> None:
    url = f"memory://{root}"
    tree = open_tree_of_memory(url)
    tree.replace("file", NEW)
    with tree.open("file") as file:
        assert file.read() == NEW
    with pytest.raises(Unreadable) as raised:
        FileRecord("gone", "gone", tree).write(NEW)
    assert raised.value.code == "vanished"
    assert list_names(tree, "") == ["file"]


def open_tree_of_memory(url: str) -> FileTree:
    import fsspec

    with fsspec.open(f"{url}/file", "wb") as file:
        file.write(OLD)
    return open_tree(url)


def test_a_record_is_opened_for_reading_only(root: Path) -> None:
    with pytest.raises(UsageError, match=r"Pass the new content to write\(\)"):
        make_record(root).open("wb")  # type: ignore[arg-type]


def test_a_file_is_printed_with_its_key_and_size(root: Path) -> None:
    record = FileRecord(r"odd\nname", "odd\nname", open_tree(str(root)), size=7)
    assert repr(record) == r"<FileRecord odd\nname: 7 bytes>"
