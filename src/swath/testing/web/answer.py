"""What a host is asked and what it answers, down to the pauses and the way the connection ends."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from http import HTTPStatus

Headers = Iterable[tuple[str, str]]

FOREVER_SECONDS = 3600.0  # longer than any client waits; the server stops waiting when the client has gone


@dataclass(frozen=True, slots=True)
class Ask:
    """One request, with all that an answer may depend on."""

    host: str
    target: str  # path and query, as sent
    nth: int = 0  # how many requests this host has had before
    again: int = 0  # how many requests this target has had before; counted on hosts that answer by it
    accept_encoding: str = ""
    now: float = 0.0  # seconds since 1970, for dates in answers


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing is sent for some time."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Repeat:
    """The same bytes many times over, for bodies that nobody should hold in memory."""

    chunk: bytes
    times: int


class End(Enum):
    """What happens to the connection after the last step."""

    KEEP = "keep"
    CLOSE = "close"
    RESET = "reset"


Step = bytes | Wait | Repeat


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer as steps on the wire. Status 0: none that could be called one."""

    status: int
    steps: tuple[Step, ...]
    end: End = End.KEEP
    retry_after: float | None = None  # seconds that it asks the client to stay away


def head(status: int, headers: Headers, *, reason: str | None = None) -> bytes:
    """Status line and headers, with the empty line. Values are sent as UTF-8."""
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
) -> Answer:
    """A well-formed answer with a length, after which the connection stays open."""
    if status in BODILESS:
        return Answer(status, (head(status, headers),), retry_after=retry_after)
    fields = [("Content-Length", str(len(body))), *headers]
    if content_type is not None:
        fields.insert(0, ("Content-Type", content_type))
    return Answer(status, (head(status, fields) + body,), retry_after=retry_after)


def redirect(status: int, location: str) -> Answer:
    return reply(status, b"<p>It is elsewhere.</p>", headers=[("Location", location)])


def closed(*steps: Step) -> Answer:
    """What was sent before the connection closed, which is no answer."""
    return Answer(0, steps, end=End.CLOSE)


BODILESS = frozenset({204, 304})
_REASONS = {status.value: status.phrase for status in HTTPStatus}
NOT_FOUND = reply(404, b"<!doctype html><title>Not here</title><p>There is no such page.</p>")
