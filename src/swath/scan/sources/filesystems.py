"""Places: how a directory is listed and a file opened, on this machine's file systems and through fsspec."""

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import IO, Any, Literal, NamedTuple, Protocol
from urllib.parse import unquote, urlsplit

from swath import MissingExtra, SwathError, UsageError
from swath.scan.record import said

Kind = Literal["dir", "file", "link", "broken", "other"]

LOCAL_BUDGET = 500  # entries that an item looks at itself before it leaves the rest to others
REMOTE_BUDGET = 100  # each of which may be a request

_PACKAGES = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "abfs": "adlfs", "az": "adlfs"}


class Entry(NamedTuple):
    """What is known of a name in a directory. `size` is None where that has not been asked for."""

    name: str
    kind: Kind
    size: int | None = None
    mtime: float | None = None
    etag: str | None = None


class Place(Protocol):
    """A tree. Paths are relative to its root, which is the empty one. Everything may raise OSError."""

    budget: int
    remote: bool

    def list(self, path: str) -> Iterator[Entry]: ...

    def look(self, path: str, entry: Entry) -> Entry:
        """The entry with all that can be known; a link is taken for what it leads to."""
        ...

    def open(self, path: str, mode: str) -> IO[bytes]: ...


class LocalPlace:
    """A directory of this machine. Files that are `spared` are none of its own: those of the scan's frontier, on which
    this process would lose SQLite's locks if it opened and closed them by hand."""

    budget = LOCAL_BUDGET
    remote = False

    def __init__(self, root: str, *, spared: Sequence[str] = ()) -> None:
        self._root = root
        self._prefix = root if root.endswith("/") else f"{root}/"
        self._spared = spared
        self._spared_names = set(map(os.path.basename, spared))

    def list(self, path: str) -> Iterator[Entry]:
        with os.scandir(self._prefix + path if path else self._root) as entries:
            for entry in entries:
                if entry.is_file(follow_symlinks=False):
                    yield tuple.__new__(Entry, (entry.name, "file", None, None, None))
                elif entry.is_dir(follow_symlinks=False):
                    yield Entry(entry.name, "dir")
                else:
                    yield Entry(entry.name, "link" if entry.is_symlink() else "other")

    def look(self, path: str, entry: Entry) -> Entry:
        full = self._prefix + path
        found = os.lstat(full)
        mode = found.st_mode
        if stat.S_ISREG(mode):
            if entry[0] in self._spared_names and self._is_spared(found):
                return Entry(entry.name, "other")
            return tuple.__new__(Entry, (entry[0], "file", found.st_size, found.st_mtime, None))  # a third of the cost
        if not stat.S_ISLNK(mode):
            return Entry(entry.name, "dir" if stat.S_ISDIR(mode) else "other")
        try:
            found = os.stat(full)
        except OSError:
            return Entry(entry.name, "broken")
        if stat.S_ISREG(found.st_mode) and not self._is_spared(found):
            return Entry(entry.name, "link", found.st_size, found.st_mtime)
        return Entry(entry.name, "other")

    def _is_spared(self, found: os.stat_result) -> bool:
        for path in self._spared:
            try:
                if os.path.samestat(os.stat(path), found):
                    return True
            except OSError:
                continue  # not there, or not yet
        return False

    def open(self, path: str, mode: str) -> IO[bytes]:
        file: IO[bytes] = open(self._prefix + path, mode)  # noqa: SIM115  whoever asked for it closes it
        return file


class RemotePlace:
    """A directory or a prefix of whatever fsspec reaches."""

    budget = REMOTE_BUDGET
    remote = True

    def __init__(self, filesystem: Any, root: str) -> None:
        self._filesystem = filesystem
        self._root = root.rstrip("/")

    def list(self, path: str) -> Iterator[Entry]:
        folder = self._full(path)
        for found in self._filesystem.ls(folder, detail=True):
            name = found["name"].rstrip("/")
            if name != folder.rstrip("/") and name.rpartition("/")[2]:
                yield _entry(name.rpartition("/")[2], found)
            elif found.get("size") or (found.get("type") == "directory" and found["name"] != folder):
                yield Entry("", "other")  # below a name that is empty, as in a//b, which fsspec does not list
            # else an object that stands for the prefix itself

    def look(self, path: str, entry: Entry) -> Entry:
        if entry.size is not None or entry.kind != "file":
            return entry  # the listing has said it all
        return _entry(entry.name, self._filesystem.info(self._full(path)))

    def open(self, path: str, mode: str) -> IO[bytes]:
        file: IO[bytes] = self._filesystem.open(self._full(path), mode)
        return file

    def _full(self, path: str) -> str:
        return f"{self._root}/{path}" if path else self._root


def _entry(name: str, found: Mapping[str, Any]) -> Entry:
    kinds: dict[str, Kind] = {"directory": "dir", "file": "file", "link": "link"}
    modified = found.get("LastModified") or found.get("mtime") or found.get("created")
    if isinstance(modified, datetime):
        modified = modified.timestamp()
    etag = found.get("ETag") or found.get("etag")
    return Entry(
        name,
        kinds.get(found.get("type", ""), "other"),
        found.get("size"),
        float(modified) if isinstance(modified, int | float) else None,
        etag.strip('"') if isinstance(etag, str) else None,
    )


def local_path(source: str) -> str | None:
    """The path of a source on this machine; None for what fsspec has to reach."""
    if "://" not in source:
        return source
    parts = urlsplit(source)
    return unquote(parts.path) if parts.scheme == "file" and parts.netloc in ("", "localhost") else None


def filesystem_of(source: str) -> tuple[Any, str]:
    """The fsspec file system that reaches a source, and the path of the source in it."""
    try:
        import fsspec
    except ImportError as error:
        raise MissingExtra(f"{source} is reached through fsspec: pip install 'swath[scan]'") from error
    scheme = source.partition("://")[0]
    try:
        # Listings are not kept: a tree may have more of them than there is memory for, and change meanwhile.
        filesystem, path = fsspec.core.url_to_fs(source, use_listings_cache=False)
    except ImportError as error:
        package = _PACKAGES.get(scheme, f"the one that fsspec has for {scheme}")
        raise MissingExtra(f"{source} needs another package: pip install {package}") from error
    except ValueError as error:
        raise UsageError(f"--source {source}: {error}") from error
    return filesystem, path


@contextmanager
def reading(source: str) -> Iterator[None]:
    """What keeps a source from being read at all is said in a sentence."""
    try:
        yield
    except SwathError:
        raise
    except OSError as error:
        raise UsageError(f"{source} cannot be read: {said(error)}") from error
    except Exception as error:
        raise UsageError(f"{source} cannot be reached: {type(error).__name__}: {error}") from error


def place_of(source: str, *, spared: Sequence[str] = ()) -> Place:
    """Where a tree is; UsageError when there is none."""
    path = local_path(source)
    if path is not None:
        if not os.path.isdir(path):
            what = "is a file, and none of JSON Lines or Parquet" if os.path.exists(path) else "is not there"
            raise UsageError(f"{source} {what}: name a directory, a .jsonl or a .parquet file")
        return LocalPlace(path, spared=spared)
    filesystem, root = filesystem_of(source)
    with reading(source):
        there = filesystem.exists(root)
    if not there:
        raise UsageError(f"{source} is not there")
    return RemotePlace(filesystem, root)
