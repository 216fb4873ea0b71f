"""Trees: a directory discovers its entries, as a page discovers its links.

Symbolic links are not followed into directories, so there are no loops: what they lead to is looked at where it is. A
link to a file is a record; one that leads nowhere, or round in a circle, is a finding.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any
from zlib import crc32

from swath import Item
from swath.scan.finding import Finding
from swath.scan.path_keys import key_of, path_of
from swath.scan.record import FileRecord, said, trouble_code
from swath.scan.sources.filesystems import Entry, Place, place_of, reading
from swath.scan.sources.source import Counted, Step, Task, Trouble, work

MANY = 50_000  # entries of a directory that are held in memory; a larger one is listed once for each so many
AT_ONCE = 50  # records that are handed out together
BATCH = 500  # files of one directory that become an item
FOLDERS = 50  # directories that become one
BATCH_SIZE = 200_000  # and bytes of their names
SECONDS = 0.25  # that an item goes on with what is below it, after as many entries as are always looked at


class TreeSource:
    """A directory and all that is below it."""

    def __init__(self, source: str, *, spared: Sequence[str] = ()) -> None:
        self._source = source
        self._spared = spared
        self._place: Place | None = None

    @property
    def place(self) -> Place:
        if self._place is None:
            self._place = place_of(self._source, spared=self._spared)
        return self._place

    @property
    def ahead(self) -> int:
        return 1 if self.place.remote else 0

    def state(self) -> Mapping[str, Any]:
        with reading(self._source):
            next(iter(self.place.list("")), None)
        return {}

    def changed(self, before: Mapping[str, Any]) -> str | None:
        return None  # trees live

    def first(self, state: Mapping[str, Any]) -> Iterable[Item]:
        return [folder_work("")]

    def read(self, task: Task) -> Iterator[Step]:
        if "dirs" in task:
            return self._walk([path_of(key) for key in task["dirs"]], None)
        path = path_of(task["dir"])
        if "files" in task:
            return self._files(path, [unpacked(fields) for fields in task["files"]])
        steps = self._walk([path], task.get("bucket"))
        return _unless_gone(folder_key(path), steps) if path and "before" in task else steps

    def fetch(self, keys: Sequence[str]) -> Iterator[Step]:
        for path in map(path_of, keys):
            entry = Entry(path.rpartition("/")[2], "file")
            yield from _unless_gone(key_of(path), self._looked([(path, entry)]))

    def rest(self, key: str, finding: Mapping[str, Any]) -> Task | None:
        if not key.endswith("/"):
            return None
        folder = {"dir": "" if key == "./" else key.removesuffix("/")}
        return {**folder, **({"bucket": finding["data"]["bucket"]} if finding.get("data") else {})}

    def close(self) -> None:
        pass

    def _walk(self, folders: list[str], bucket: Sequence[int] | None) -> Iterator[Step]:
        """Directories and what is below them, as far as that is little: the rest is left to others. With `bucket`, a
        part of one directory.

        The first is always looked at, so no directory is ever the first of two items, which are named by it."""
        folders.reverse()
        left, until = self.place.budget, time.monotonic() + SECONDS
        walked = 0
        while folders and (left > 0 or time.monotonic() < until):
            path = folders.pop()
            part = None if walked else bucket
            walked += 1
            try:
                found = self._listed(path, part)
            except OSError as error:
                yield self._trouble(folder_key(path), error, None if part is None else {"bucket": part})
                continue
            if isinstance(found, int):
                yield from bucket_works(path, found)
                continue
            files = [entry for entry in found if entry.kind != "dir"]
            folders += [join(path, entry.name) for entry in reversed(found) if entry.kind == "dir"]
            left -= 1 + len(files)
            looked = 0
            while looked < len(files) and (left >= 0 or len(files) - looked <= BATCH or time.monotonic() < until):
                yield from self._files(path, files[looked : looked + BATCH])
                looked += BATCH
            yield from _batches(path, files[looked:], part, before=looked)
        yield from _folder_works(folders[::-1], walked)

    def _listed(self, path: str, bucket: Sequence[int] | None) -> list[Entry] | int:
        """The entries of a directory, or only how many they are."""
        if bucket is not None:
            return list(in_bucket(self.place.list(path), bucket))
        entries = self.place.list(path)
        found = list(islice(entries, MANY))
        more = sum(1 for _ in entries)
        return len(found) + more if more else found

    def _files(self, path: str, entries: Iterable[Entry]) -> Iterator[Step]:
        return self._looked((f"{path}/{entry.name}" if path else entry.name, entry) for entry in entries)

    def _looked(self, entries: Iterable[tuple[str, Entry]]) -> Iterator[Step]:
        """Records of what there is to be looked at, some at a time: not long before that is done."""
        place, look = self.place, self.place.look
        records: list[FileRecord] = []
        for path, entry in entries:
            try:
                _, kind, size, mtime, etag = look(path, entry)
            except OSError as error:
                yield self._trouble(key_of(path), error)
                continue
            if kind == "file" or kind == "link":
                records.append(FileRecord(key_of(path), path, place, kind, size or 0, mtime, etag))
                if len(records) == AT_ONCE:
                    yield records
                    records = []
            elif kind == "broken":
                yield Trouble(key_of(path), Finding("broken-link", "leads nowhere, or round in a circle"))
            else:
                yield Counted(skipped=1)
        if records:
            yield records

    def _trouble(self, key: str, error: OSError, data: Any = None) -> Trouble:
        finding = Finding(final_code(error, remote=self.place.remote), said(error), data)
        return Trouble(key, finding, records=0 if key.endswith("/") else 1)


def _unless_gone(key: str, steps: Iterable[Step]) -> Iterator[Step]:
    """What is looked at because of a finding on a key, which has nothing wrong any more once it is gone."""
    for step in steps:
        if not (isinstance(step, Trouble) and step.key == key and step.finding.code == "vanished"):
            yield step


def final_code(error: OSError, *, remote: bool) -> str:
    """The code of a finding. Elsewhere, most errors are the network's: those are raised again, and the item is tried
    again later."""
    if remote and not isinstance(error, FileNotFoundError | PermissionError):
        raise error
    return trouble_code(error)


def folder_key(path: str) -> str:
    return f"{key_of(path)}/" if path else "./"


def join(path: str, name: str) -> str:
    return f"{path}/{name}" if path else name


def folder_work(path: str) -> Item:
    return work(folder_key(path), {"dir": key_of(path)})


def bucket_works(path: str, count: int) -> Iterator[Item]:
    """A directory of very many entries is cut by the hash of their names: each part lists it again and takes its own.
    So memory stays bounded, and a name belongs to one part whatever happens to the others."""
    number = -(-count // MANY)
    for one in range(number):
        yield work(f"{folder_key(path)} part {one + 1} of {number}", {"dir": key_of(path), "bucket": [one, number]})


def in_bucket(entries: Iterable[Entry], bucket: Sequence[int]) -> Iterator[Entry]:
    one, number = bucket
    for entry in entries:
        if crc32(entry.name.encode(errors="surrogateescape")) % number == one:
            yield entry


def _folder_works(paths: Sequence[str], at_once: int) -> Iterator[Item]:
    """Directories that are left to others: as many in one item as one has just got through."""
    for _, batch in _cut([[key_of(path)] for path in paths], most=min(FOLDERS, at_once)):
        keys = [key for (key,) in batch]
        if len(keys) == 1:
            yield folder_work(path_of(keys[0]))
        else:
            yield work(f"{folder_key(path_of(keys[0]))} and {len(keys) - 1} more", {"dirs": keys})


def _batches(path: str, files: Sequence[Entry], bucket: Sequence[int] | None, *, before: int) -> Iterator[Item]:
    """Files of a directory that are left to others, after so many before them."""
    part = f" of part {bucket[0] + 1}" if bucket is not None else ""
    for start, batch in _cut([packed(entry) for entry in files], most=BATCH):
        first = before + start + 1
        key = f"{folder_key(path)} files {first} to {first + len(batch) - 1}{part}"
        yield work(key, {"dir": key_of(path), "files": batch})


def _cut(names: Sequence[Sequence[Any]], *, most: int) -> Iterator[tuple[int, list[Sequence[Any]]]]:
    """Batches that an item's payload has room for, with the number of what is before each. A name comes first."""
    batch: list[Sequence[Any]] = []
    room = BATCH_SIZE
    for number, name in enumerate(names):
        size = 6 * len(name[0]) + 100  # as JSON, at most
        if len(batch) == most or size > room:
            yield number - len(batch), batch
            batch, room = [], BATCH_SIZE
        batch.append(name)
        room -= size
    if batch:
        yield len(names) - len(batch), batch


def packed(entry: Entry) -> list[Any]:
    """An entry as the payload of an item holds it."""
    fields = [key_of(entry.name), *entry[1:]]
    while fields[-1] is None:
        fields.pop()
    return fields


def unpacked(fields: Sequence[Any]) -> Entry:
    return Entry(path_of(fields[0]), *fields[1:])
