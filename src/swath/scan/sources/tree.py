"""Trees of files: scanning a directory discovers its subdirectories as new items.

Symbolic links to directories are not followed, so loops cannot occur. A link to a file is a record. A link whose
target does not exist, or that is circular, is a finding.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any
from zlib import crc32

from swath import Item
from swath.scan.finding import Finding
from swath.scan.path_keys import key_to_path, path_to_key
from swath.scan.record import FileRecord, get_error_text, get_finding_code
from swath.scan.sources.filesystems import DirectoryEntry, FileTree, explain_read_errors, open_tree
from swath.scan.sources.source import ReadCounts, ReadStep, Source, SourceFinding, SourceSize, Task, make_item

MAX_ENTRIES = 50_000  # of a directory held in memory; a larger one is split into parts of this size
RECORDS_PER_STEP = 50
FILES_PER_ITEM = 500
FOLDERS_PER_ITEM = 50
NAMES_PER_ITEM = 200_000  # bytes
SECONDS = 0.25  # how long an item continues with subdirectories after its budget of entries


class TreeSource(Source):
    """A directory and everything below it."""

    def __init__(self, source: str, *, excluded: Sequence[str] = ()) -> None:
        self._source = source
        self._excluded = excluded
        self._tree: FileTree | None = None

    @property
    def tree(self) -> FileTree:
        if self._tree is None:
            self._tree = open_tree(self._source, excluded=self._excluded)
        return self._tree

    @property
    def readahead(self) -> int:
        return 1 if self.tree.remote else 0

    def snapshot(self) -> Mapping[str, Any]:
        with explain_read_errors(self._source):
            next(iter(self.tree.list("")), None)
        return {}

    def measure(self, snapshot: Mapping[str, Any]) -> SourceSize:
        return {"listing": True}

    def explain_change(self, before: Mapping[str, Any]) -> str | None:
        return None  # keys are paths, which still name the same files

    def list_first_items(self, snapshot: Mapping[str, Any]) -> Iterable[Item]:
        return [make_folder_item("")]

    def read(self, task: Task) -> Iterator[ReadStep]:
        if "dirs" in task:
            return self._walk([key_to_path(key) for key in task["dirs"]], None)
        path = key_to_path(task["dir"])
        if "files" in task:
            return self._read_files(path, [unpack_entry(fields) for fields in task["files"]])
        steps = self._walk([path], task.get("bucket"))
        return _ignore_vanished(make_folder_key(path), steps) if path and "before" in task else steps

    def fetch(self, keys: Sequence[str]) -> Iterator[ReadStep]:
        for path in map(key_to_path, keys):
            entry = DirectoryEntry(path.rpartition("/")[2], "file")
            yield from _ignore_vanished(path_to_key(path), self._make_records([(path, entry)]))

    def find_unread_part(self, key: str, finding: Mapping[str, Any]) -> Task | None:
        if not key.endswith("/"):
            return None
        folder = {"dir": "" if key == "./" else key.removesuffix("/")}
        return {**folder, **({"bucket": finding["data"]["bucket"]} if finding.get("data") else {})}

    def _walk(self, folders: list[str], bucket: Sequence[int] | None) -> Iterator[ReadStep]:
        """Scan directories and what is below them, up to the budget, and turn the rest into items.

        With `bucket`, scan one part of a directory. The first directory, which names the item, is always
        scanned, so no new item gets the same name.
        """
        folders.reverse()
        left, until = self.tree.budget, time.monotonic() + SECONDS
        walked = 0
        while folders and (left > 0 or time.monotonic() < until):
            path = folders.pop()
            part = None if walked else bucket
            walked += 1
            try:
                found = self._list_entries(path, part)
            except OSError as error:
                yield ReadCounts(folders_listed=1)
                yield self._make_finding(make_folder_key(path), error, None if part is None else {"bucket": part})
                continue
            if isinstance(found, int):
                yield from make_bucket_items(path, found)
                continue
            files = [entry for entry in found if entry.kind != "dir"]
            yield ReadCounts(listed=len(files), folders_found=len(found) - len(files), folders_listed=1)
            folders += [join_path(path, entry.name) for entry in reversed(found) if entry.kind == "dir"]
            left -= 1 + len(files)
            done = 0
            while done < len(files) and (left >= 0 or len(files) - done <= FILES_PER_ITEM or time.monotonic() < until):
                yield from self._read_files(path, files[done : done + FILES_PER_ITEM])
                done += FILES_PER_ITEM
            yield from _make_file_items(path, files[done:], part, before=done)
        yield from _make_folder_items(folders[::-1], walked)

    def _list_entries(self, path: str, bucket: Sequence[int] | None) -> list[DirectoryEntry] | int:
        """Return the entries of a directory, or only their number if there are too many."""
        if bucket is not None:
            return list(filter_bucket(self.tree.list(path), bucket))
        entries = self.tree.list(path)
        found = list(islice(entries, MAX_ENTRIES))
        more = sum(1 for _ in entries)
        return len(found) + more if more else found

    def _read_files(self, path: str, entries: Iterable[DirectoryEntry]) -> Iterator[ReadStep]:
        return self._make_records((f"{path}/{entry.name}" if path else entry.name, entry) for entry in entries)

    def _make_records(self, entries: Iterable[tuple[str, DirectoryEntry]]) -> Iterator[ReadStep]:
        """Yield records in small batches, so that `stat` runs shortly before the check."""
        tree, stat = self.tree, self.tree.stat
        records: list[FileRecord] = []
        for path, entry in entries:
            try:
                _, kind, size, mtime, etag = stat(path, entry)
            except OSError as error:
                yield self._make_finding(path_to_key(path), error)
                continue
            if kind == "file" or kind == "link":
                records.append(FileRecord(path_to_key(path), path, tree, kind, size or 0, mtime, etag))
                if len(records) == RECORDS_PER_STEP:
                    yield records
                    records = []
            elif kind == "broken":
                yield SourceFinding(
                    path_to_key(path), Finding("broken-link", "the target does not exist, or the link is circular")
                )
            else:
                yield ReadCounts(skipped=1)
        if records:
            yield records

    def _make_finding(self, key: str, error: OSError, data: Any = None) -> SourceFinding:
        finding = Finding(get_code_or_raise(error, remote=self.tree.remote), get_error_text(error), data)
        return SourceFinding(key, finding, records=0 if key.endswith("/") else 1)


def _ignore_vanished(key: str, steps: Iterable[ReadStep]) -> Iterator[ReadStep]:
    """Leave out the finding that this key has vanished: for a recheck, a deleted file has no findings."""
    for step in steps:
        if not (isinstance(step, SourceFinding) and step.key == key and step.finding.code == "vanished"):
            yield step


def get_code_or_raise(error: OSError, *, remote: bool) -> str:
    """Return the code of a finding. Raise most errors of remote trees, so that the item is retried."""
    if remote and not isinstance(error, FileNotFoundError | PermissionError):
        raise error
    return get_finding_code(error)


def make_folder_key(path: str) -> str:
    return f"{path_to_key(path)}/" if path else "./"


def join_path(path: str, name: str) -> str:
    return f"{path}/{name}" if path else name


def make_folder_item(path: str) -> Item:
    return make_item(make_folder_key(path), {"dir": path_to_key(path)})


def make_bucket_items(path: str, count: int) -> Iterator[Item | ReadCounts]:
    """Split a directory with very many entries by the hash of their names. Each part lists the directory again.

    Memory stays bounded, and a name belongs to the same part even if others are added or removed.
    """
    number = -(-count // MAX_ENTRIES)
    yield ReadCounts(folders_found=number, folders_listed=1)
    for one in range(number):
        yield make_item(
            f"{make_folder_key(path)} part {one + 1} of {number}", {"dir": path_to_key(path), "bucket": [one, number]}
        )


def filter_bucket(entries: Iterable[DirectoryEntry], bucket: Sequence[int]) -> Iterator[DirectoryEntry]:
    one, number = bucket
    for entry in entries:
        if crc32(entry.name.encode(errors="surrogateescape")) % number == one:
            yield entry


def _make_folder_items(paths: Sequence[str], at_once: int) -> Iterator[Item]:
    """Make items of the remaining directories: per item, as many as this one has scanned."""
    for _, batch in _split_batches([[path_to_key(path)] for path in paths], most=min(FOLDERS_PER_ITEM, at_once)):
        keys = [key for (key,) in batch]
        if len(keys) == 1:
            yield make_folder_item(key_to_path(keys[0]))
        else:
            yield make_item(f"{make_folder_key(key_to_path(keys[0]))} and {len(keys) - 1} more", {"dirs": keys})


def _make_file_items(
    path: str, files: Sequence[DirectoryEntry], bucket: Sequence[int] | None, *, before: int
) -> Iterator[Item]:
    """Make items of the remaining files of a directory. `before` is the number of files already scanned."""
    part = f" of part {bucket[0] + 1}" if bucket is not None else ""
    for start, batch in _split_batches([pack_entry(entry) for entry in files], most=FILES_PER_ITEM):
        first = before + start + 1
        key = f"{make_folder_key(path)} files {first} to {first + len(batch) - 1}{part}"
        yield make_item(key, {"dir": path_to_key(path), "files": batch})


def _split_batches(names: Sequence[Sequence[Any]], *, most: int) -> Iterator[tuple[int, list[Sequence[Any]]]]:
    """Yield batches that fit into a payload, each with the number of entries before it. Names come first in entries."""
    batch: list[Sequence[Any]] = []
    room = NAMES_PER_ITEM
    for number, name in enumerate(names):
        size = 6 * len(name[0]) + 100  # upper bound of its size as JSON
        if len(batch) == most or size > room:
            yield number - len(batch), batch
            batch, room = [], NAMES_PER_ITEM
        batch.append(name)
        room -= size
    if batch:
        yield len(names) - len(batch), batch


def pack_entry(entry: DirectoryEntry) -> list[Any]:
    """Return an entry in the form for an item's payload."""
    fields = [path_to_key(entry.name), *entry[1:]]
    while fields[-1] is None:
        fields.pop()
    return fields


def unpack_entry(fields: Sequence[Any]) -> DirectoryEntry:
    return DirectoryEntry(key_to_path(fields[0]), *fields[1:])
