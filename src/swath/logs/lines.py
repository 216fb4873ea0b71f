"""Format entries as lines: bounded, on one line each, without secrets and without characters that do not print."""

import json
import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from swath import Event, redact
from swath.logs.entries import get_name

MAX_LINE_BYTES = 4_096  # with its line break: the kernel writes so many to a pipe in one piece
MAX_READ_CHARS = 65_536  # of a value; the rest is neither searched for secrets nor logged
VALUE_CHARS: Final = (2_000, 500, 100, 20)  # limits for a value, until the line fits
MAX_ENTRIES = 100  # of a mapping
MAX_WORKER_CHARS = 200
KEPT_ENDS: Final = {"error"}  # fields whose end says more than their beginning: tracebacks

_BARE = re.compile(r"[^\s\"=\\{}\[\]]+")  # a value that a text line shows without quotes
_LEVEL_NAMES: Final = {
    logging.DEBUG: "debug",
    logging.INFO: "info",
    logging.WARNING: "warning",
    logging.ERROR: "error",
    logging.CRITICAL: "error",
}


class Origin(NamedTuple):
    """Who writes a line."""

    process: int
    worker: str | None  # None before the frontier is open


def format_entry(
    entry: Event, *, level: int, time: float, origin: Origin, as_json: bool, secrets: Iterable[str] = ()
) -> bytes:
    """Return one line of at most MAX_LINE_BYTES. `time` is in seconds since 1970."""
    head = {
        "time": format_time(time),
        "level": _LEVEL_NAMES.get(level, "info"),
        "process": origin.process,
        "worker": None if origin.worker is None else _cut(origin.worker, MAX_WORKER_CHARS, keep_end=False),
        "event": get_name(type(entry)),
    }
    given = {field.name: getattr(entry, field.name) for field in fields(entry)}
    format_line = _format_json if as_json else _format_text
    values: Mapping[str, Any] = {}
    for limit in VALUE_CHARS:
        values = head | {name: _shorten(name, value, limit, secrets) for name, value in given.items()}
        line = format_line(values).encode()
        if len(line) < MAX_LINE_BYTES:
            return line + b"\n"
    bare = {name: value for name, value in values.items() if name in head and name != "worker"}
    return format_line(bare).encode() + b"\n"


def format_time(seconds: float) -> str:
    """Return a time in UTC with milliseconds, in ISO 8601."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{int(seconds * 1000) % 1000:03}Z"


def _shorten(name: str, value: Any, limit: int, secrets: Iterable[str]) -> Any:
    match value:
        case None | bool() | int():
            return value
        case float():
            return round(value, 6)
        case Mapping():
            shown = list(value.items())[: min(MAX_ENTRIES, limit)]
            return {str(key)[:limit]: _shorten(str(key), one, limit, secrets) for key, one in shown}
        case list() | tuple():
            return [_shorten(name, one, limit, secrets) for one in value[: min(MAX_ENTRIES, limit)]]
        case _:
            return _cut(redact(str(value)[:MAX_READ_CHARS], secrets=secrets), limit, keep_end=name in KEPT_ENDS)


def _cut(text: str, limit: int, *, keep_end: bool) -> str:
    if len(text) <= limit:
        return text
    return f"…{text[-limit:]}" if keep_end else f"{text[:limit]}…"


def _format_json(values: Mapping[str, Any]) -> str:
    return _escape(json.dumps(values, ensure_ascii=False, separators=(",", ":")))


def _format_text(values: Mapping[str, Any]) -> str:
    head = f"{values['time']} {values['level']:<7} {values['event']}"
    return " ".join([head, *_list_pairs(values)])


def _list_pairs(values: Mapping[str, Any]) -> Iterator[str]:
    for name, value in values.items():
        if value is not None and name not in ("time", "level", "event"):
            yield f"{name}={_quote(value)}"


def _quote(value: Any) -> str:
    if isinstance(value, str) and _BARE.fullmatch(value) and value.isprintable():
        return value
    return _escape(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def _escape(text: str) -> str:
    """Escape characters that do not print in JSON, where they can only be inside of strings."""
    return text if text.isprintable() else "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)
