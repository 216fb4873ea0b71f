"""Values as people write them: lengths of time, moments, JSON, limits. Each parser says what it would have taken."""

import json
import re
from datetime import UTC, datetime
from math import inf
from typing import Any

import typer

from swath.core.clock import is_moment
from swath.core.codec import MAX_SECONDS
from swath.frontier import FRONTIER_DEFAULT

_UNITS = {"": 1, "ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400}
_DURATION = re.compile(r"(\d+(?:\.\d*)?|\.\d+) ?([a-z]*)")


def duration(text: str | float) -> float:
    """`70s`, `10m`, `2h`, `1.5` as seconds."""
    match = _DURATION.fullmatch(str(text).strip().lower())
    if match is None or match[2] not in _UNITS:
        raise typer.BadParameter(f"{text!r} is not a length of time: write 1.5, 70s, 10m, 2h or 1d")
    seconds = float(match[1]) * _UNITS[match[2]]
    if seconds > MAX_SECONDS:
        raise typer.BadParameter(f"{text!r} is more than 100 years")
    return seconds


_SIZES = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
          "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}  # fmt: skip


def size(text: str | int) -> int:
    """`10MB`, `1GB`, `512KiB` as bytes."""
    match = _DURATION.fullmatch(str(text).strip().lower())
    count = float(match[1]) * _SIZES[match[2]] if match is not None and match[2] in _SIZES else inf
    if count == inf:  # also of more digits than a float takes
        raise typer.BadParameter(f"{text!r} is not a size: write 10MB, 1GB or a number of bytes")
    return int(count)


def interval(text: str | float) -> float | str:
    """A length of time, or "default" for what the frontier says."""
    return FRONTIER_DEFAULT if text == FRONTIER_DEFAULT else duration(text)


def at_once(text: str | int) -> int | str:
    """A whole number, or "default" for what the frontier says."""
    if text == FRONTIER_DEFAULT:
        return FRONTIER_DEFAULT
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(
            f'{text!r} is not a whole number: write 1, 0 for no limit, or "{FRONTIER_DEFAULT}"'
        ) from None


def moment(text: str | datetime) -> datetime:
    """A moment in ISO 8601, with its time zone."""
    try:
        found = text if isinstance(text, datetime) else datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a moment: write it like 2030-01-31T12:00:00Z") from None
    if found.tzinfo is None:
        raise typer.BadParameter(f"{text!r} has no time zone: add Z for UTC, or an offset like +02:00")
    if not is_moment(found):
        raise typer.BadParameter(f"{text!r} is no moment before the year 10000 in UTC")
    return found.astimezone(UTC)


def moment_or_duration(text: str | datetime | float) -> datetime | float:
    """A moment, or how long from now."""
    if isinstance(text, datetime):
        return moment(text)
    if re.match(r"\d{4}-", str(text)):
        return moment(str(text))
    if not _DURATION.match(str(text).strip()):
        raise typer.BadParameter(f"{text!r}: write a moment like 2030-01-31T12:00:00Z, or how long from now, like 10m")
    return duration(text)


class JSONValue:
    """A JSON text, decoded: in a box, so that null is told from nothing."""

    def __init__(self, value: Any) -> None:
        self.value = value


def json_value(text: str) -> JSONValue:
    try:
        return JSONValue(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise typer.BadParameter(f"{text!r} is not JSON ({error}): texts want quotes, as in '\"text\"'") from None
