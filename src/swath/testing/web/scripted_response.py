"""Requests to demo hosts, and their responses as scripts: bytes, pauses, and how the connection ends."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from http import HTTPStatus

Headers = Iterable[tuple[str, str]]

FOREVER_SECONDS = 3600.0  # longer than any client waits; the server stops when the client disconnects


@dataclass(frozen=True, slots=True)
class Request:
    """One request, with everything that a response may depend on."""

    host: str
    target: str  # path and query, as sent
    host_requests: int = 0  # earlier requests to this host
    target_requests: int = 0  # earlier requests for this target, if the site has `counts_targets`
    accept_encoding: str = ""
    now: float = 0.0  # seconds since 1970, for dates in responses
    method: str = "GET"
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Wait:
    """Send nothing for some time."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Repeat:
    """Send the same bytes many times, for bodies that are too large for memory."""

    chunk: bytes
    times: int


class End(Enum):
    """What the server does with the connection after the last step."""

    KEEP = "keep"
    CLOSE = "close"
    RESET = "reset"


Step = bytes | Wait | Repeat


@dataclass(frozen=True, slots=True)
class ScriptedResponse:
    """A response as steps on the wire. Status 0 means that it is not a valid HTTP response."""

    status: int
    steps: tuple[Step, ...]
    end: End = End.KEEP
    retry_after: float | None = None  # seconds of its Retry-After header


def format_head(status: int, headers: Headers, *, reason: str | None = None) -> bytes:
    """Return the status line and headers with the blank line. Values are encoded as UTF-8."""
    if reason is None:
        reason = _REASONS.get(status, "Unknown")
    lines = "".join([f"{name}: {value}\r\n" for name, value in headers])
    return f"HTTP/1.1 {status} {reason}\r\n{lines}\r\n".encode()


def reply(
    status: int,
    body: bytes = b"",
    *,
    content_type: str | None = "text/html; charset=utf-8",
    headers: Headers = (),
    retry_after: float | None = None,
) -> ScriptedResponse:
    """Return a valid response with a Content-Length that keeps the connection open."""
    if status in BODILESS:
        return ScriptedResponse(status, (format_head(status, headers),), retry_after=retry_after)
    fields = [("Content-Length", str(len(body))), *headers]
    if content_type is not None:
        fields.insert(0, ("Content-Type", content_type))
    return ScriptedResponse(status, (format_head(status, fields) + body,), retry_after=retry_after)


def redirect(status: int, location: str) -> ScriptedResponse:
    return reply(status, b"<p>Moved.</p>", headers=[("Location", location)])


def close_after(*steps: Step) -> ScriptedResponse:
    """Send the steps and close the connection, without a valid response."""
    return ScriptedResponse(0, steps, end=End.CLOSE)


BODILESS = frozenset({204, 304})
_REASONS = {status.value: status.phrase for status in HTTPStatus}
NOT_FOUND = reply(404, b"<!doctype html><title>Not found</title><p>Page not found.</p>")
