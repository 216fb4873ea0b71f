"""Records: the arguments of `check`. A row, a line or a file, with its key in the source."""

import errno
from typing import IO, Any, Literal, Protocol

from swath import UsageError

Kind = Literal["file", "link"]

_CODES = {errno.ENOENT: "vanished", errno.ENOTDIR: "vanished", errno.ESTALE: "vanished"}


class Unreadable(OSError):
    """A file cannot be read. This becomes a finding unless `check` catches it."""

    def __init__(self, error: OSError) -> None:
        super().__init__(*error.args)
        self.code = get_finding_code(error)
        self.message = get_error_text(error)


def get_finding_code(error: OSError) -> str:
    """Return the code of the finding for an error of the file system."""
    if isinstance(error, FileNotFoundError):
        return "vanished"
    return _CODES.get(error.errno or 0, "unreadable")


def get_error_text(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__


class AnyRecord(Protocol):
    """What all records have in common."""

    @property
    def key(self) -> str: ...


class Record:
    """A row or the value of a line. `record["name"]` is short for `record.value["name"]`."""

    __slots__ = ("_key", "value")

    def __init__(self, key: str | int, value: Any) -> None:
        self._key: str | int | None = key
        self.value = value

    @property
    def key(self) -> str:
        """The key in the source. Formatted on demand, because most records have no findings."""
        return str(self._key)

    def __getitem__(self, name: Any) -> Any:
        return self.value[name]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.key}: {self.value!r:.200}>"


class Opener(Protocol):
    """Reads and replaces files of a tree."""

    def open(self, path: str) -> IO[bytes]: ...

    def replace(self, path: str, content: bytes) -> None: ...


class FileRecord:
    """A file of a tree. `path` is relative to the source; `key` is the path with unprintable characters escaped.

    The kind `link` is a symbolic link to a file, with the size and content of that file.
    """

    __slots__ = ("_opener", "etag", "key", "kind", "mtime", "path", "size")

    def __init__(
        self,
        key: str,
        path: str,
        opener: Opener,
        kind: Kind = "file",
        size: int = 0,
        mtime: float | None = None,
        etag: str | None = None,
    ) -> None:
        self.key = key
        self.path = path
        self.kind = kind
        self.size = size
        self.mtime = mtime
        self.etag = etag
        self._opener = opener

    def open(self, mode: Literal["rb"] = "rb") -> IO[bytes]:
        """Open the file for reading. The caller closes it. Raises `Unreadable`, an OSError."""
        if mode != "rb":
            raise UsageError(f"open({mode!r}): files are opened for reading only. Pass the new content to write()")
        try:
            return self._opener.open(self.path)
        except OSError as error:
            raise Unreadable(error) from error

    def read(self) -> bytes:
        """Return the content."""
        with self.open() as file:
            try:
                return file.read()
            except OSError as error:
                raise Unreadable(error) from error

    def write(self, content: bytes) -> None:
        """Replace the content at once, for use in `fix`. Raises an OSError; the file is then as before."""
        try:
            self._opener.replace(self.path, content)
        except FileNotFoundError as error:
            raise Unreadable(error) from error

    def __repr__(self) -> str:
        return f"<FileRecord {self.key}: {self.size} bytes>"
