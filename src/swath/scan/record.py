"""Record: what `check` is given; a row, a line or a file, with the key that names it in its source."""

import errno
from typing import IO, Any, Literal, Protocol

Kind = Literal["file", "link"]

_CODES = {errno.ENOENT: "vanished", errno.ENOTDIR: "vanished", errno.ESTALE: "vanished"}


class Unreadable(OSError):
    """A file that cannot be read: a finding of its own, unless `check` handles it."""

    def __init__(self, error: OSError) -> None:
        super().__init__(*error.args)
        self.code = trouble_code(error)
        self.said = said(error)


def trouble_code(error: OSError) -> str:
    """What kind of trouble it is."""
    if isinstance(error, FileNotFoundError):
        return "vanished"
    return _CODES.get(error.errno or 0, "unreadable")


def said(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__


class AnyRecord(Protocol):
    """What every record has."""

    @property
    def key(self) -> str: ...


class Record:
    """A row, or what a line holds. `record["name"]` is short for `record.value["name"]`."""

    __slots__ = ("_key", "value")

    def __init__(self, key: str | int, value: Any) -> None:
        self._key: str | int | None = key
        self.value = value

    @property
    def key(self) -> str:
        """What names it in its source. It is written out when somebody asks: most records are as they should be."""
        return str(self._key)

    def __getitem__(self, name: Any) -> Any:
        return self.value[name]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.key}: {self.value!r:.200}>"


class Opener(Protocol):
    """What a file is opened by."""

    def open(self, path: str, mode: str) -> IO[bytes]: ...


class FileRecord:
    """A file of a tree. `path` names it below the source, `key` is the same with what does not print escaped.

    `link` is a symbolic link that leads to a file, whose size and content it then has.
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

    def open(self, mode: Literal["rb", "wb"] = "rb") -> IO[bytes]:
        """The file's content, to be closed by the caller. Raises `Unreadable`, an OSError."""
        try:
            return self._opener.open(self.path, mode)
        except OSError as error:
            raise Unreadable(error) from error

    def read(self) -> bytes:
        """All of the content."""
        with self.open() as file:
            try:
                return file.read()
            except OSError as error:
                raise Unreadable(error) from error

    def write(self, content: bytes) -> None:
        """Put other content in its place: for `fix`."""
        with self.open("wb") as file:
            file.write(content)

    def __repr__(self) -> str:
        return f"<FileRecord {self.key}: {self.size} bytes>"
