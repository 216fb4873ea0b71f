"""The result of a request: a response with everything that the archive stores, or the kind of failure."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from swath import UsageError

BLANK: Final = (b"\r\n", b"\n")
FOLDED: Final = re.compile(r"\r?\n[ \t]+")

Truncation = Literal["length", "time", "disconnect"]
FailureKind = Literal[
    "url",  # not a URL that can be fetched
    "dns",
    "dns-negative",  # DNS answers that the name does not exist or has no addresses
    "private",  # an address outside the public ranges
    "refused",
    "unreachable",
    "descriptors",  # this machine has no free file descriptors or ports: slow down and retry
    "timeout-connect",
    "timeout-first-byte",
    "timeout",
    "reset",  # the host closed the connection before the headers were complete
    "closed",  # the same on a reused connection: the host may not have read this request
    "tls",
    "proxy",
    "protocol",  # not HTTP
    "too-large-headers",
    "other",
]
USER_KINDS: Final[dict[FailureKind, str]] = {  # how users see kinds that have another name here
    "dns-negative": "dns",
    "timeout-connect": "timeout",
    "timeout-first-byte": "timeout",
    "too-large-headers": "protocol",
    "descriptors": "open-files",
}


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on time (in seconds) and size. Times start with the transfer, after the name was resolved."""

    connect: float = 10.0  # includes TLS
    first_byte: float = 20.0
    total: float = 30.0
    size: int = 10 * 1024 * 1024  # bytes of a body before content decoding
    header_bytes: int = 64 * 1024  # libcurl itself accepts at most 300 KB
    header_lines: int = 500

    def __post_init__(self) -> None:
        for name in ("connect", "first_byte", "total", "size", "header_bytes", "header_lines"):
            if getattr(self, name) <= 0:
                raise UsageError(f"limit {name}={getattr(self, name)} must be above 0")


class Headers:
    """The headers of a response by lowercase name. They are parsed on first access."""

    __slots__ = ("_head", "_values")

    def __init__(self, head: bytes = b"") -> None:
        """Take a head as received, with the status line and the blank line."""
        self._head: bytes | None = head
        self._values: dict[str, str | list[str]] = {}

    def get(self, name: str, /) -> str | None:
        """Return the first value of a header."""
        value = self._read().get(name)
        return value[0] if isinstance(value, list) else value

    def get_list(self, name: str, /) -> str | None:
        """Return all values of a list header, joined with commas."""
        value = self._read().get(name)
        return ", ".join(value) if isinstance(value, list) else value

    def get_all(self, name: str, /) -> Sequence[str]:
        """Return every value of a header, in order."""
        value = self._read().get(name)
        if value is None:
            return ()
        return value if isinstance(value, list) else (value,)

    def __contains__(self, name: str) -> bool:
        return name in self._read()

    def __len__(self) -> int:
        return len(self._read())

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def _read(self) -> dict[str, str | list[str]]:
        if self._head is not None:
            self._values = _parse_fields(self._head.decode("latin-1"))
            self._head = None
        return self._values


def _parse_fields(head: str) -> dict[str, str | list[str]]:
    if "\n " in head or "\n\t" in head:  # a folded value, which the standard has deprecated
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
    """The result of one request. If the request failed, `error` is the kind of failure and `status` is 0. Otherwise
    `truncated` says why the body is incomplete, or is None. Times are seconds since the epoch. `ended` is later than
    `started` by what the response took while this process ran, at most the timeout."""

    url: str
    status: int
    protocol: str  # "http/1.0", "http/1.1", "h2": the values of WARC-Protocol
    request: bytes  # as sent; for HTTP/2 in the text form of HTTP/1.1
    head: bytes  # status line and headers as received, with the blank line
    headers: Headers
    body: bytes  # with content codings, without transfer coding
    address: str | None  # the peer; with a proxy, the address of the proxy
    started: float
    first_byte: float | None
    ended: float
    truncated: Truncation | None = None
    error: FailureKind | None = None
    detail: str = ""

    @property
    def failure(self) -> str:
        """The kind of failure as users see it."""
        assert self.error is not None
        return USER_KINDS.get(self.error, self.error)

    @property
    def reason(self) -> str:
        """The kind of failure and its detail, such as `dns: no such host`."""
        return f"{self.failure}: {self.detail}"


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
    """Return the response for an exchange that failed."""
    return Response(url, 0, "", request, b"", NO_HEADERS, b"", address, started, None, ended, None, error, detail)


def find_final_head(lines: Sequence[bytes], *, tunnelled: bool = False) -> Sequence[bytes] | None:
    """Return the lines of the final head with the blank line; None if it is incomplete.

    Interim responses (1xx) may come before it, and the proxy's reply to CONNECT if `tunnelled`; trailers may follow.
    """
    start = 0
    for position, line in enumerate(lines):
        if line in BLANK:
            block = lines[start : position + 1]
            start = position + 1
            if _parse_status_class(block[0]) == b"1":
                continue
            if tunnelled:
                tunnelled = False
                continue
            return block
    return None


def _parse_status_class(line: bytes) -> bytes:
    """Return the first digit of the status code."""
    return line.partition(b" ")[2].lstrip()[:1]
