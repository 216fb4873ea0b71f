"""OutgoingRequest: a request as it is sent, and the rules for its headers."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from swath import UsageError

MAX_HEADERS: Final = 100
MAX_HEADER_BYTES: Final = 16_000  # of all headers of a request; many servers refuse more than 8,000
HEADER_PATTERN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+: [!-~](?:[ -~]*[!-~])?")

_CONNECTION: Final = "it belongs to the connection, which swath manages"
# Headers that a crawl does not take from its user, with what to do instead.
_RESERVED: Final = {
    "host": "it follows from the URL",
    "content-length": "it follows from the body",
    "user-agent": "robots.txt has rules for it, so it is the same for the whole crawl: use --user-agent",
    **dict.fromkeys(
        (
            "connection",
            "expect",
            "http2-settings",
            "keep-alive",
            "proxy-authorization",
            "proxy-connection",
            "te",
            "trailer",
            "transfer-encoding",
            "upgrade",
        ),
        _CONNECTION,
    ),
}


@dataclass(frozen=True, slots=True)
class OutgoingRequest:
    """A request just before it is sent. A request hook returns it, with other headers or another proxy."""

    url: str
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    """Those of the `Request`; swath adds User-Agent, Accept and Accept-Encoding."""
    body: bytes = b""
    proxy: str | None = None
    """A URL as for `--proxy`; None connects directly."""

    def __post_init__(self) -> None:
        if isinstance(self.headers, dict):
            object.__setattr__(self, "headers", MappingProxyType(self.headers))  # so that it cannot be changed in place


def format_header(name: str, value: str) -> str:
    """Return the line of a header. Raise UsageError if it is not valid, for example because of a line break."""
    line = f"{name}: {value}"
    if not HEADER_PATTERN.fullmatch(line):
        raise UsageError(
            f"{name}: {value!r} is not a valid header: it is empty, contains a line break, or is not ASCII"
        )
    return line


def find_header_mistake(headers: object) -> str | None:
    """Return what is wrong with the headers that a user wants to send; None if they can be sent."""
    if not isinstance(headers, Mapping):
        return f"the headers are of type {type(headers).__name__}: pass a dict of names and values"
    return next(_list_header_mistakes(headers), None)


def _list_header_mistakes(headers: Mapping[object, object]) -> Iterator[str]:
    if len(headers) > MAX_HEADERS:
        yield f"there are {len(headers):,} headers, the limit is {MAX_HEADERS}"
    names: set[str] = set()
    size = 0
    for name, value in headers.items():
        if not isinstance(name, str) or not isinstance(value, str):
            yield f"the header {name!r:.80} has the value {value!r:.80}: both must be a str"
            return
        if not HEADER_PATTERN.fullmatch(f"{name}: {value}"):
            yield (
                f"{name!r:.80}: {value!r:.80} is not a valid header: it is empty, contains a control character such "
                "as a line break, or is not ASCII"
            )
        lower = name.lower()
        if (why := _RESERVED.get(lower)) is not None:
            yield f"the header {name} cannot be set: {why}"
        if lower in names:
            yield f"the header {name} is there twice"
        names.add(lower)
        size += len(name) + len(value) + 4
    if size > MAX_HEADER_BYTES:
        yield f"the headers have {size:,} bytes, the limit is {MAX_HEADER_BYTES:,}"
