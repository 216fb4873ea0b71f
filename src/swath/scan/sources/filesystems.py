"""FileTree: list directories and open files, on local file systems and through fsspec."""

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import IO, Any, Literal, NamedTuple, Protocol
from urllib.parse import unquote, urlsplit

from swath import MissingExtra, SwathError, UsageError
from swath.scan.record import get_error_text
from swath.scan.sources.replace_in_tree import is_temporary, replace_in_tree

Kind = Literal["dir", "file", "link", "broken", "other"]

LOCAL_BUDGET = 500  # entries that an item reads before it turns the rest into new items
REMOTE_BUDGET = 100  # the same; each entry may cost a request

_PACKAGES = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "abfs": "adlfs", "az": "adlfs"}


class DirectoryEntry(NamedTuple):
    """An entry of a directory. `size` is None before `stat`."""

    name: str
    kind: Kind
    size: int | None = None
    mtime: float | None = None
    etag: str | None = None


class FileTree(Protocol):
    """A tree of files. Paths are relative to its root; the root is the empty path. All methods may raise OSError."""

    budget: int
    remote: bool

    def list(self, path: str) -> Iterator[DirectoryEntry]: ...

    def stat(self, path: str, entry: DirectoryEntry) -> DirectoryEntry:
        """Return the entry with size and time. A link gets those of its target."""
        ...

    def open(self, path: str) -> IO[bytes]: ...

    def replace(self, path: str, content: bytes) -> None:
        """Replace the content of an existing file."""
        ...


class LocalTree:
    """A local directory, without the files in `excluded`.

    Those belong to the scan's frontier: if this process opened and closed them, it would lose SQLite's locks.
    """

    budget = LOCAL_BUDGET
    remote = False

    def __init__(self, root: str, *, excluded: Sequence[str] = ()) -> None:
        self._root = root
        self._prefix = root if root.endswith("/") else f"{root}/"
        self._excluded = excluded
        self._excluded_names = set(map(os.path.basename, excluded))

    def list(self, path: str) -> Iterator[DirectoryEntry]:
        with os.scandir(self._prefix + path if path else self._root) as entries:
            for entry in entries:
                if entry.is_file(follow_symlinks=False):
                    if is_temporary(entry.name):
                        continue
                    yield tuple.__new__(DirectoryEntry, (entry.name, "file", None, None, None))
                elif entry.is_dir(follow_symlinks=False):
                    yield DirectoryEntry(entry.name, "dir")
                else:
                    yield DirectoryEntry(entry.name, "link" if entry.is_symlink() else "other")

    def stat(self, path: str, entry: DirectoryEntry) -> DirectoryEntry:
        full = self._prefix + path
        found = os.lstat(full)
        mode = found.st_mode
        if stat.S_ISREG(mode):
            if entry[0] in self._excluded_names and self._is_excluded(found):
                return DirectoryEntry(entry.name, "other")
            # tuple.__new__ takes a third of the time of DirectoryEntry(…).
            return tuple.__new__(DirectoryEntry, (entry[0], "file", found.st_size, found.st_mtime, None))
        if not stat.S_ISLNK(mode):
            return DirectoryEntry(entry.name, "dir" if stat.S_ISDIR(mode) else "other")
        try:
            found = os.stat(full)
        except OSError:
            return DirectoryEntry(entry.name, "broken")
        if stat.S_ISREG(found.st_mode) and not self._is_excluded(found):
            return DirectoryEntry(entry.name, "link", found.st_size, found.st_mtime)
        return DirectoryEntry(entry.name, "other")

    def _is_excluded(self, found: os.stat_result) -> bool:
        for path in self._excluded:
            try:
                if os.path.samestat(os.stat(path), found):
                    return True
            except OSError:
                continue  # does not exist
        return False

    def open(self, path: str) -> IO[bytes]:
        file: IO[bytes] = open(self._prefix + path, "rb")  # noqa: SIM115  the caller closes it
        return file

    def replace(self, path: str, content: bytes) -> None:
        replace_in_tree(self._root, path, content)


class RemoteTree:
    """A directory or prefix that fsspec can reach."""

    budget = REMOTE_BUDGET
    remote = True

    def __init__(self, filesystem: Any, root: str) -> None:
        self._filesystem = filesystem
        self._root = root.rstrip("/")

    def list(self, path: str) -> Iterator[DirectoryEntry]:
        folder = self._full(path)
        for found in self._filesystem.ls(folder, detail=True):
            name = found["name"].rstrip("/")
            if name != folder.rstrip("/") and name.rpartition("/")[2]:
                yield _make_entry(name.rpartition("/")[2], found)
            elif found.get("size") or (found.get("type") == "directory" and found["name"] != folder):
                yield DirectoryEntry("", "other")  # an empty name, as in a//b, which fsspec cannot list
            # otherwise, an object that stands for the prefix itself

    def stat(self, path: str, entry: DirectoryEntry) -> DirectoryEntry:
        if entry.size is not None or entry.kind != "file":
            return entry  # the listing was complete
        return _make_entry(entry.name, self._filesystem.info(self._full(path)))

    def open(self, path: str) -> IO[bytes]:
        file: IO[bytes] = self._filesystem.open(self._full(path), "rb")
        return file

    def replace(self, path: str, content: bytes) -> None:
        """Object stores replace an object at once. Unlike a file object, this call never uploads a part of it."""
        full = self._full(path)
        self._filesystem.info(full)  # raises FileNotFoundError if it was deleted
        self._filesystem.pipe_file(full, content)

    def _full(self, path: str) -> str:
        return f"{self._root}/{path}" if path else self._root


def _make_entry(name: str, found: Mapping[str, Any]) -> DirectoryEntry:
    kinds: dict[str, Kind] = {"directory": "dir", "file": "file", "link": "link"}
    modified = found.get("LastModified") or found.get("mtime") or found.get("created")
    if isinstance(modified, datetime):
        modified = modified.timestamp()
    etag = found.get("ETag") or found.get("etag")
    return DirectoryEntry(
        name,
        kinds.get(found.get("type", ""), "other"),
        found.get("size"),
        float(modified) if isinstance(modified, int | float) else None,
        etag.strip('"') if isinstance(etag, str) else None,
    )


def find_local_path(source: str) -> str | None:
    """Return the local path of a source; None if fsspec has to reach it."""
    if "://" not in source:
        return source
    parts = urlsplit(source)
    return unquote(parts.path) if parts.scheme == "file" and parts.netloc in ("", "localhost") else None


def open_filesystem(source: str) -> tuple[Any, str]:
    """Return the fsspec file system of a source, and the source's path in it."""
    try:
        import fsspec
    except ImportError as error:
        raise MissingExtra(f"{source} needs fsspec: pip install 'swath[scan]'") from error
    scheme = source.partition("://")[0]
    try:
        # Do not cache listings: they may exceed the memory, and the tree may change.
        filesystem, path = fsspec.core.url_to_fs(source, use_listings_cache=False)
    except ImportError as error:
        package = _PACKAGES.get(scheme, f"the fsspec package for {scheme}")
        raise MissingExtra(f"{source} needs another package: pip install {package}") from error
    except ValueError as error:
        raise UsageError(f"--source {source}: {error}") from error
    return filesystem, path


@contextmanager
def explain_read_errors(source: str) -> Iterator[None]:
    """Turn errors of a source that cannot be read at all into UsageError."""
    try:
        yield
    except SwathError:
        raise
    except OSError as error:
        raise UsageError(f"{source} cannot be read: {get_error_text(error)}") from error
    except Exception as error:
        raise UsageError(f"{source} cannot be reached: {type(error).__name__}: {error}") from error


def open_tree(source: str, *, excluded: Sequence[str] = ()) -> FileTree:
    """Open a tree. Raise UsageError if it does not exist."""
    path = find_local_path(source)
    if path is not None:
        if not os.path.isdir(path):
            what = "is not a directory" if os.path.exists(path) else "does not exist"
            raise UsageError(f"{source} {what}. Name a table, a directory or a file of records")
        return LocalTree(path, excluded=excluded)
    filesystem, root = open_filesystem(source)
    with explain_read_errors(source):
        exists = filesystem.exists(root)
    if not exists:
        raise UsageError(f"{source} does not exist")
    return RemoteTree(filesystem, root)
