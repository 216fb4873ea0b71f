"""Two trees compared: a directory item lists both sides."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from swath import Item, UsageError
from swath.scan.finding import Finding
from swath.scan.path_keys import key_of, path_of
from swath.scan.record import said
from swath.scan.sources import tree
from swath.scan.sources.compared_rows import DIFFERENT, MISSING_HERE, MISSING_THERE
from swath.scan.sources.filesystems import Entry, Place, place_of
from swath.scan.sources.source import Counted, Step, Task, Trouble, work
from swath.scan.sources.tree import bucket_works, final_code, folder_key, folder_work, in_bucket, join

COLUMNS = ("size", "mtime", "hash")
DEFAULT = ("size", "hash")
CHUNK = 1 << 20  # bytes that are read at once
SIDES = ("the source", "the other side")


class _Side(Exception):
    """Which side of a comparison could not be read."""

    def __init__(self, number: int, error: OSError) -> None:
        self.number = number
        self.error = error


class ComparedTrees:
    """A tree, and another that should hold the same files."""

    def __init__(self, source: str, against: str, *, columns: Sequence[str], spared: Sequence[str] = ()) -> None:
        if unknown := [name for name in columns if name not in COLUMNS]:
            raise UsageError(f"--columns: files have {', '.join(COLUMNS)}, not {', '.join(unknown)}")
        self._columns = tuple(columns) or DEFAULT
        self._places: tuple[Place, Place] = place_of(source, spared=spared), place_of(against, spared=spared)

    @property
    def ahead(self) -> int:
        return 0

    def state(self) -> Mapping[str, Any]:
        return {"columns": list(self._columns)}

    def changed(self, before: Mapping[str, Any]) -> str | None:
        return None

    def first(self, state: Mapping[str, Any]) -> Iterable[Item]:
        return [folder_work("")]

    def read(self, task: Task) -> Iterator[Step]:
        path = path_of(task["dir"])
        if "names" in task:
            return self._names(path, [path_of(name) for name in task["names"]])
        return self._walk(path, task.get("bucket"))

    def fetch(self, keys: Sequence[str]) -> Iterator[Step]:
        for key in keys:
            yield from self._compare(path_of(key))

    def close(self) -> None:
        pass

    def rest(self, key: str, finding: Mapping[str, Any]) -> Task | None:
        if not key.endswith("/"):
            return None
        folder = {"dir": "" if key == "./" else key.removesuffix("/")}
        return {**folder, **({"bucket": finding["data"]["bucket"]} if finding.get("data") else {})}

    def _walk(self, top: str, bucket: Sequence[int] | None) -> Iterator[Step]:
        """A directory and what is below it, as far as that is little: the rest is left to others."""
        left = min(place.budget for place in self._places)
        folders = [top]
        while folders and left > 0:
            path = folders.pop()
            part = bucket if path == top else None
            try:
                found = [self._listed(number, path, part) for number in (0, 1)]
            except _Side as side:
                data = None if part is None else {"bucket": part}
                yield self._trouble(folder_key(path), side, data)
                continue
            if any(entries is None for entries in found):
                yield from bucket_works(path, max(self._count(number, path) for number in (0, 1)))
                continue
            entries = [entry for side in found for entry in side or ()]
            names = sorted({entry.name for entry in entries if entry.kind != "dir"})
            left -= 1 + len(names)
            if left < 0 and len(names) > tree.BATCH:
                yield from _batches(path, names, part)
            else:
                yield from self._names(path, names)
            folders += sorted({join(path, entry.name) for entry in entries if entry.kind == "dir"})
        yield from map(folder_work, folders)

    def _listed(self, number: int, path: str, bucket: Sequence[int] | None) -> list[Entry] | None:
        """The entries of a directory on one side, none where it is not there; None if they are too many."""
        found: list[Entry] = []
        try:
            entries = self._places[number].list(path)
            for entry in in_bucket(entries, bucket) if bucket is not None else entries:
                found.append(entry)
                if bucket is None and len(found) > tree.MANY:
                    return None
        except (FileNotFoundError, NotADirectoryError):
            if not path:
                raise
            return []
        except OSError as error:
            raise _Side(number, error) from error
        return found

    def _count(self, number: int, path: str) -> int:
        try:
            return sum(1 for _ in self._places[number].list(path))
        except (FileNotFoundError, NotADirectoryError):
            return 0

    def _names(self, path: str, names: Iterable[str]) -> Iterator[Step]:
        for name in names:
            yield from self._compare(join(path, name))

    def _compare(self, path: str) -> Iterator[Step]:
        key = key_of(path)
        try:
            here, there = self._look(0, path), self._look(1, path)
            if here is None and there is None:
                return  # gone from both, or no files
            if here is None:
                yield Trouble(key, Finding(MISSING_HERE, "not in the source"))
            elif there is None:
                yield Trouble(key, Finding(MISSING_THERE, "only in the source"))
            elif changed := self._changed(path, here, there):
                message = f"{', '.join(changed)} differ{'s' if len(changed) == 1 else ''}"
                yield Trouble(key, Finding(DIFFERENT, message, {"columns": changed}))
            else:
                yield Counted(records=1, bytes=here.size or 0)
        except _Side as side:
            yield self._trouble(key, side)

    def _look(self, number: int, path: str) -> Entry | None:
        """The file at a path; None if there is no file."""
        try:
            found = self._places[number].look(path, Entry(path.rpartition("/")[2], "file"))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise _Side(number, error) from error
        return found if found.kind in ("file", "link", "broken") else None

    def _changed(self, path: str, here: Entry, there: Entry) -> dict[str, list[Any]]:
        if "broken" in (here.kind, there.kind):
            return {} if here.kind == there.kind else {"kind": [here.kind, there.kind]}
        changed: dict[str, list[Any]] = {
            name: [getattr(here, name), getattr(there, name)]
            for name in ("size", "mtime")
            if name in self._columns and getattr(here, name) != getattr(there, name)
        }
        if "hash" in self._columns and "size" not in changed and not _same_etag(here, there):
            hashes = [self._hash(number, path) for number in (0, 1)]
            if hashes[0] != hashes[1]:
                changed["hash"] = hashes
        return changed

    def _hash(self, number: int, path: str) -> str:
        hashed = blake2b(digest_size=16)
        try:
            with self._places[number].open(path, "rb") as file:
                while chunk := file.read(CHUNK):
                    hashed.update(chunk)
        except OSError as error:
            raise _Side(number, error) from error
        return hashed.hexdigest()

    def _trouble(self, key: str, side: _Side, data: Any = None) -> Trouble:
        code = final_code(side.error, remote=self._places[side.number].remote)
        finding = Finding(code, f"{SIDES[side.number]}: {said(side.error)}", data)
        return Trouble(key, finding, records=0 if key.endswith("/") else 1)


def _same_etag(here: Entry, there: Entry) -> bool:
    """Whether two object stores say that the content is the same. An ETag of several parts says nothing."""
    return here.etag is not None and here.etag == there.etag and "-" not in here.etag


def _batches(path: str, names: Sequence[str], bucket: Sequence[int] | None) -> Iterator[Item]:
    part = f" of part {bucket[0] + 1}" if bucket is not None else ""
    for start in range(0, len(names), tree.BATCH // 4):
        batch = [key_of(name) for name in names[start : start + tree.BATCH // 4]]
        key = f"{folder_key(path)} files {start + 1} to {start + len(batch)}{part}"
        yield work(key, {"dir": key_of(path), "names": batch})
