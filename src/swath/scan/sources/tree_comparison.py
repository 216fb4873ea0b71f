"""Compare two trees. An item lists a directory on both sides."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from swath import Item, UsageError
from swath.scan.finding import Finding
from swath.scan.path_keys import key_to_path, path_to_key
from swath.scan.record import get_error_text
from swath.scan.sources import tree
from swath.scan.sources.filesystems import DirectoryEntry, FileTree, open_tree
from swath.scan.sources.source import ReadCounts, ReadStep, Source, SourceFinding, SourceSize, Task, make_item
from swath.scan.sources.table_comparison import DIFFERENT, MISSING_HERE, MISSING_THERE
from swath.scan.sources.tree import (
    filter_bucket,
    get_code_or_raise,
    join_path,
    make_bucket_items,
    make_folder_item,
    make_folder_key,
)

COLUMNS = ("size", "mtime", "hash")
DEFAULT = ("size", "hash")
CHUNK = 1 << 20  # bytes per read
SIDES = ("the source", "the other side")


class _SideFailed(Exception):
    """One side of a comparison could not be read."""

    def __init__(self, number: int, error: OSError) -> None:
        self.number = number
        self.error = error


class TreeComparison(Source):
    """Compares a tree with another that should hold the same files."""

    def __init__(self, source: str, against: str, *, columns: Sequence[str], excluded: Sequence[str] = ()) -> None:
        if unknown := [name for name in columns if name not in COLUMNS]:
            raise UsageError(f"--columns: {', '.join(unknown)} is not known for files. Use {', '.join(COLUMNS)}")
        self._columns = tuple(columns) or DEFAULT
        self._trees: tuple[FileTree, FileTree] = (
            open_tree(source, excluded=excluded),
            open_tree(against, excluded=excluded),
        )

    def snapshot(self) -> Mapping[str, Any]:
        return {"columns": list(self._columns)}

    def measure(self, snapshot: Mapping[str, Any]) -> SourceSize:
        return {"listing": True}

    def explain_change(self, before: Mapping[str, Any]) -> str | None:
        return None  # keys are paths, which still name the same files

    def list_first_items(self, snapshot: Mapping[str, Any]) -> Iterable[Item]:
        return [make_folder_item("")]

    def read(self, task: Task) -> Iterator[ReadStep]:
        path = key_to_path(task["dir"])
        if "names" in task:
            return self._compare_names(path, [key_to_path(name) for name in task["names"]])
        return self._walk(path, task.get("bucket"))

    def fetch(self, keys: Sequence[str]) -> Iterator[ReadStep]:
        for key in keys:
            yield from self._compare(key_to_path(key))

    def find_unread_part(self, key: str, finding: Mapping[str, Any]) -> Task | None:
        if not key.endswith("/"):
            return None
        folder = {"dir": "" if key == "./" else key.removesuffix("/")}
        return {**folder, **({"bucket": finding["data"]["bucket"]} if finding.get("data") else {})}

    def _walk(self, top: str, bucket: Sequence[int] | None) -> Iterator[ReadStep]:
        """Compare a directory and what is below it, up to the budget, and turn the rest into items."""
        left = min(side.budget for side in self._trees)
        folders = [top]
        while folders and left > 0:
            path = folders.pop()
            part = bucket if path == top else None
            try:
                found = [self._list_entries(number, path, part) for number in (0, 1)]
            except _SideFailed as side:
                data = None if part is None else {"bucket": part}
                yield ReadCounts(folders_listed=1)
                yield self._make_finding(make_folder_key(path), side, data)
                continue
            if any(entries is None for entries in found):
                yield from make_bucket_items(path, max(self._count(number, path) for number in (0, 1)))
                continue
            entries = [entry for side in found for entry in side or ()]
            names = sorted({entry.name for entry in entries if entry.kind != "dir"})
            below = sorted({join_path(path, entry.name) for entry in entries if entry.kind == "dir"})
            yield ReadCounts(listed=len(names), folders_found=len(below), folders_listed=1)
            left -= 1 + len(names)
            if left < 0 and len(names) > tree.FILES_PER_ITEM:
                yield from _make_file_items(path, names, part)
            else:
                yield from self._compare_names(path, names)
            folders += below
        yield from map(make_folder_item, folders)

    def _list_entries(self, number: int, path: str, bucket: Sequence[int] | None) -> list[DirectoryEntry] | None:
        """Return a directory's entries on one side; empty if it does not exist, None if there are too many."""
        found: list[DirectoryEntry] = []
        try:
            entries = self._trees[number].list(path)
            for entry in filter_bucket(entries, bucket) if bucket is not None else entries:
                found.append(entry)
                if bucket is None and len(found) > tree.MAX_ENTRIES:
                    return None
        except (FileNotFoundError, NotADirectoryError):
            if not path:
                raise
            return []
        except OSError as error:
            raise _SideFailed(number, error) from error
        return found

    def _count(self, number: int, path: str) -> int:
        try:
            return sum(1 for _ in self._trees[number].list(path))
        except (FileNotFoundError, NotADirectoryError):
            return 0

    def _compare_names(self, path: str, names: Iterable[str]) -> Iterator[ReadStep]:
        for name in names:
            yield from self._compare(join_path(path, name))

    def _compare(self, path: str) -> Iterator[ReadStep]:
        key = path_to_key(path)
        try:
            here, there = self._stat(0, path), self._stat(1, path)
            if here is None and there is None:
                return  # deleted on both sides, or not a file
            if here is None:
                yield SourceFinding(key, Finding(MISSING_HERE, "not in the source"))
            elif there is None:
                yield SourceFinding(key, Finding(MISSING_THERE, "only in the source"))
            elif changed := self._find_differences(path, here, there):
                message = f"{', '.join(changed)} differ{'s' if len(changed) == 1 else ''}"
                yield SourceFinding(key, Finding(DIFFERENT, message, {"columns": changed}))
            else:
                yield ReadCounts(records=1, bytes=here.size or 0)
        except _SideFailed as side:
            yield self._make_finding(key, side)

    def _stat(self, number: int, path: str) -> DirectoryEntry | None:
        """Return the file at a path, or None."""
        try:
            found = self._trees[number].stat(path, DirectoryEntry(path.rpartition("/")[2], "file"))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise _SideFailed(number, error) from error
        return found if found.kind in ("file", "link", "broken") else None

    def _find_differences(self, path: str, here: DirectoryEntry, there: DirectoryEntry) -> dict[str, list[Any]]:
        if "broken" in (here.kind, there.kind):
            return {} if here.kind == there.kind else {"kind": [here.kind, there.kind]}
        changed: dict[str, list[Any]] = {
            name: [getattr(here, name), getattr(there, name)]
            for name in ("size", "mtime")
            if name in self._columns and getattr(here, name) != getattr(there, name)
        }
        if "hash" in self._columns and "size" not in changed and not _have_same_etag(here, there):
            hashes = [self._hash(number, path) for number in (0, 1)]
            if hashes[0] != hashes[1]:
                changed["hash"] = hashes
        return changed

    def _hash(self, number: int, path: str) -> str:
        hashed = blake2b(digest_size=16)
        try:
            with self._trees[number].open(path) as file:
                while chunk := file.read(CHUNK):
                    hashed.update(chunk)
        except OSError as error:
            raise _SideFailed(number, error) from error
        return hashed.hexdigest()

    def _make_finding(self, key: str, side: _SideFailed, data: Any = None) -> SourceFinding:
        code = get_code_or_raise(side.error, remote=self._trees[side.number].remote)
        finding = Finding(code, f"{SIDES[side.number]}: {get_error_text(side.error)}", data)
        return SourceFinding(key, finding, records=0 if key.endswith("/") else 1)


def _have_same_etag(here: DirectoryEntry, there: DirectoryEntry) -> bool:
    """Return whether ETags prove equal content. The ETag of a multipart upload does not."""
    return here.etag is not None and here.etag == there.etag and "-" not in here.etag


def _make_file_items(path: str, names: Sequence[str], bucket: Sequence[int] | None) -> Iterator[Item]:
    part = f" of part {bucket[0] + 1}" if bucket is not None else ""
    for start in range(0, len(names), tree.FILES_PER_ITEM // 4):
        batch = [path_to_key(name) for name in names[start : start + tree.FILES_PER_ITEM // 4]]
        key = f"{make_folder_key(path)} files {start + 1} to {start + len(batch)}{part}"
        yield make_item(key, {"dir": path_to_key(path), "names": batch})
