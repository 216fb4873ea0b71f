"""Parsers for option values: durations, sizes, times, limits and JSON. Their errors say what they accept."""

import json
import re
from datetime import UTC, datetime
from math import inf
from typing import Any

import typer

from swath import MAX_SECONDS

FRONTIER_DEFAULT = "default"

_UNITS = {"": 1, "ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400}
_SIZES = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
          "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}  # fmt: skip
_NUMBER_AND_UNIT = re.compile(r"(\d+(?:\.\d*)?|\.\d+) ?([a-z]*)")


def parse_duration(text: str | float) -> float:
    """Parse `70s`, `10m`, `2h` or `1.5` into seconds."""
    match = _NUMBER_AND_UNIT.fullmatch(str(text).strip().lower())
    if match is None or match[2] not in _UNITS:
        raise typer.BadParameter(f"{text!r} is not a duration: write 1.5, 70s, 10m, 2h or 1d")
    seconds = float(match[1]) * _UNITS[match[2]]
    if seconds > MAX_SECONDS:
        raise typer.BadParameter(f"{text!r} is more than 100 years")
    return seconds


parse_duration.__name__ = "duration"  # typer's help shows it as the type of an argument


def parse_size(text: str | int) -> int:
    """Parse `10MB`, `1GB` or `512KiB` into bytes."""
    match = _NUMBER_AND_UNIT.fullmatch(str(text).strip().lower())
    count = float(match[1]) * _SIZES[match[2]] if match is not None and match[2] in _SIZES else inf
    if count == inf:  # also if there are more digits than a float can hold
        raise typer.BadParameter(f"{text!r} is not a size: write 10MB, 1GB or a number of bytes")
    return int(count)


def parse_interval(text: str | float) -> float | str:
    """Parse a duration, or "default" for the frontier's default."""
    return FRONTIER_DEFAULT if text == FRONTIER_DEFAULT else parse_duration(text)


def parse_concurrency(text: str | int) -> int | str:
    """Parse a whole number, or "default" for the frontier's default."""
    if text == FRONTIER_DEFAULT:
        return FRONTIER_DEFAULT
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(
            f'{text!r} is not a whole number: write 1, 0 for no limit, or "{FRONTIER_DEFAULT}"'
        ) from None


def parse_time(text: str | datetime) -> datetime:
    """Parse a time in ISO 8601 that has a time zone."""
    try:
        time = text if isinstance(text, datetime) else datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a time: write it like 2030-01-31T12:00:00Z") from None
    if time.tzinfo is None:
        raise typer.BadParameter(f"{text!r} has no time zone: add Z for UTC, or an offset like +02:00")
    try:
        return time.astimezone(UTC)
    except OverflowError:
        raise typer.BadParameter(f"{text!r} is not before the year 10000 in UTC") from None


def parse_time_or_duration(text: str | datetime | float) -> datetime | float:
    """Parse a time, or a duration from now."""
    if isinstance(text, datetime):
        return parse_time(text)
    if re.match(r"\d{4}-", str(text)):
        return parse_time(str(text))
    if not _NUMBER_AND_UNIT.match(str(text).strip()):
        raise typer.BadParameter(f"{text!r}: write a time like 2030-01-31T12:00:00Z, or a duration from now, like 10m")
    return parse_duration(text)


class JSONValue:
    """A decoded JSON text, wrapped so that `null` differs from an option that was not given."""

    def __init__(self, value: Any) -> None:
        self.value = value


def parse_json(text: str) -> JSONValue:
    try:
        return JSONValue(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise typer.BadParameter(f"{text!r} is not JSON ({error}): put strings in quotes, as in '\"text\"'") from None
