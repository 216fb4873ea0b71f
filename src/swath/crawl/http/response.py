"""What came of a request: an answer with everything an archive keeps of it, or the kind of failure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from swath.core.errors import UsageError

BLANK: Final = (b"\r\n", b"\n")
FOLDED: Final = re.compile(r"\r?\n[ \t]+")

Truncation = Literal["length", "time", "disconnect"]
FailureKind = Literal[
    "url",  # cannot be fetched at all
    "dns",
    "private",  # an address outside the public ranges
    "refused",
    "unreachable",
    "descriptors",  # this machine is out of open files or ports: slow down, and try again
    "timeout-connect",
    "timeout-first-byte",
    "timeout",
    "reset",  # closed before the headers were complete
    "closed",  # the same, of a connection that was kept from a request before: this one may not have been read at all
    "tls",
    "proxy",
    "protocol",  # not HTTP
    "too-large-headers",
    "other",
]


@dataclass(frozen=True, slots=True)
class Limits:
    """How long and how much. Times run from the start of the transfer, after the name has been resolved."""

    connect: float = 10.0  # TLS included
    first_byte: float = 20.0
    total: float = 30.0
    size: int = 10 * 1024 * 1024  # of a body, before content codings are taken off
    header_bytes: int = 64 * 1024  # libcurl itself takes in no more than 300 KB
    header_lines: int = 500

    def __post_init__(self) -> None:
        for name in ("connect", "first_byte", "total", "size", "header_bytes", "header_lines"):
            if getattr(self, name) <= 0:
                raise UsageError(f"the limit {name}={getattr(self, name)} must be above 0")


class Headers:
    """The headers of an answer, looked up by lower-case name. They are read when first asked for."""

    __slots__ = ("_head", "_values")

    def __init__(self, head: bytes = b"") -> None:
        """From a head as received, status line and blank line included."""
        self._head: bytes | None = head
        self._values: dict[str, str | list[str]] = {}

    def get(self, name: str, /) -> str | None:
        """The first value of a header."""
        value = self._read().get(name)
        return value[0] if isinstance(value, list) else value

    def get_list(self, name: str, /) -> str | None:
        """All values of a header that is a list, as one."""
        value = self._read().get(name)
        return ", ".join(value) if isinstance(value, list) else value

    def get_all(self, name: str, /) -> Sequence[str]:
        """Every value of a header, in order."""
        value = self._read().get(name)
        if value is None:
            return ()
        return value if isinstance(value, list) else (value,)

    def __contains__(self, name: str) -> bool:
        return name in self._read()

    def __len__(self) -> int:
        return len(self._read())

    def _read(self) -> dict[str, str | list[str]]:
        if self._head is not None:
            self._values = _parse_fields(self._head.decode("latin-1"))
            self._head = None
        return self._values


def _parse_fields(head: str) -> dict[str, str | list[str]]:
    if "\n " in head or "\n\t" in head:  # a value that goes on in the next line, which the standard has withdrawn
        head = FOLDED.sub(" ", head)
    values: dict[str, str | list[str]] = {}
    for line in head.split("\n")[1:]:
        name, colon, value = line.partition(":")
        if not colon:
            continue
        name = name.strip().lower()
        value = value.strip()
        before = values.setdefault(name, value)
        if before is not value:
            values[name] = [*before, value] if isinstance(before, list) else [before, value]
    return values


NO_HEADERS: Final = Headers()


class Response(NamedTuple):
    """One exchange. With `error` there is no answer, and `status` is 0; otherwise `truncated` says whether the body is
    whole. Times are seconds since the epoch."""

    url: str
    status: int
    protocol: str  # "http/1.0", "http/1.1", "h2": as WARC-Protocol has it
    request: bytes  # as sent; for HTTP/2 its text form
    head: bytes  # status line and headers as received, with the blank line
    headers: Headers
    body: bytes  # content codings still on, transfer coding off
    address: str | None  # connected to; a proxy's, if there is one
    started: float
    first_byte: float | None
    ended: float
    truncated: Truncation | None = None
    error: FailureKind | None = None
    detail: str = ""


def make_failure(
    url: str,
    error: FailureKind,
    detail: str,
    *,
    started: float,
    ended: float,
    request: bytes = b"",
    address: str | None = None,
) -> Response:
    """An exchange that brought no answer."""
    return Response(url, 0, "", request, b"", NO_HEADERS, b"", address, started, None, ended, None, error, detail)


def find_final_head(lines: Sequence[bytes], *, tunnelled: bool = False) -> Sequence[bytes] | None:
    """The lines of the final answer's head, blank line included, out of all that came; None when it is not complete.

    Before it there may be interim answers (1xx), and the proxy's answer to CONNECT when `tunnelled`; after it trailers.
    """
    start = 0
    for position, line in enumerate(lines):
        if line in BLANK:
            block = lines[start : position + 1]
            start = position + 1
            if _status_class(block[0]) == b"1":
                continue
            if tunnelled:
                tunnelled = False
                continue
            return block
    return None


def _status_class(line: bytes) -> bytes:
    """The first digit of a status line's code."""
    return line.partition(b" ")[2].lstrip()[:1]
