"""An independent opinion on which values are equal: from what the database prints, in exact arithmetic."""

import json
import re
import struct
from collections.abc import Callable, Hashable
from datetime import UTC, date, datetime, time
from fractions import Fraction
from typing import Any
from uuid import UUID

Model = Hashable  # a value: a tuple of its class and whatever makes it equal to others

SPECIAL = {"nan": "NaN", "infinity": "+inf", "-infinity": "-inf", "inf": "+inf", "-inf": "-inf"}


def number(text: str) -> Model:
    special = SPECIAL.get(text.lower())
    return ("number", special or Fraction(text))


def double(text: str) -> Model:
    """A whole number is exact, any other is what is printed."""
    value = float(text)
    return ("number", Fraction(value)) if value.is_integer() else number(text)


def single(text: str) -> Model:
    if text.lower() in SPECIAL:
        return number(text)
    (value,) = struct.unpack("<f", struct.pack("<f", float(text)))
    return ("number", Fraction(value)) if value.is_integer() else number(text)


def moment(text: str, *, zone: bool) -> Model:
    class_ = "instant" if zone else "local"
    if "infinity" in text or text.endswith("BC"):
        return (class_, text)
    value = datetime.fromisoformat(text)
    return (class_, value.astimezone(UTC).replace(tzinfo=None) if zone else value)


def day(text: str) -> Model:
    return ("day", text if "infinity" in text or text.endswith("BC") else date.fromisoformat(text))


def document(text: str) -> Model:
    def tag(value: Any) -> Model:
        match value:
            case list():
                return ("list", tuple(map(tag, value)))
            case dict():
                return ("object", frozenset((name, tag(item)) for name, item in value.items()))
            case bool() | None:
                return ("constant", value)
            case str():
                return ("string", value)
            case _:
                return ("number", value)

    return ("json", tag(json.loads(text, parse_int=Fraction, parse_float=Fraction)))


def split_list(text: str) -> list[str | None]:
    """Return the elements of a one-dimensional array, without its braces."""
    found: list[str | None] = []
    for quoted, bare in re.findall(r'"((?:[^"\\]|\\.)*)"|([^,]+)', text):
        found.append(None if bare == "NULL" else bare or re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL))
    return found


def array(element: Callable[[str], Model]) -> Callable[[str], Model]:
    def parse(text: str) -> Model:
        bounds, _, rest = text.rpartition("={") if text.startswith("[") else ("[1]", "", text[1:])
        start = bounds.strip("[]").partition(":")[0]
        elements = tuple(None if part is None else element(part) for part in split_list(rest[:-1]))
        kind = element.__name__.replace("double", "number").replace("single", "number")
        return ("array", kind, start if elements else "", elements)

    return parse


def interval_of_numbers(text: str) -> Model:
    if text == "empty":
        return ("range", None)
    ends = [number(end) if end else None for end in text[1:-1].split(",")]
    return ("range", text[0], text[-1], *ends)


def text(value: str) -> Model:
    return ("text", value)


def written(name: str) -> Callable[[str], Model]:
    return lambda value: (name, value)


# How to read what PostgreSQL prints, with the settings of READING
POSTGRES: dict[str, Callable[[str], Model]] = {
    "smallint": number,
    "bigint": number,
    "numeric": number,
    "numeric(20,4)": number,
    "real": single,
    "double precision": double,
    "text": text,
    "varchar(60)": text,
    "char(12)": lambda value: text(value.rstrip(" ")),
    "boolean": lambda value: ("boolean", value == "t"),
    "bytea": lambda value: ("bytes", bytes.fromhex(value[2:])),
    "json": document,
    "jsonb": document,
    "date": day,
    "time": lambda value: ("clock", value if value.startswith("24") else time.fromisoformat(value)),
    "timestamp": lambda value: moment(value, zone=False),
    "timestamptz": lambda value: moment(value, zone=True),
    "timetz": written("timetz"),
    "interval": written("interval"),
    "uuid": lambda value: ("uuid", UUID(value)),
    "inet": written("inet"),
    "bigint[]": array(number),
    "numeric[]": array(number),
    "double precision[]": array(double),
    "text[]": array(text),
    "numrange": interval_of_numbers,
}
# Another zone and another style than those that swath reads with
READING = (
    "SET timezone = 'Asia/Kolkata'; SET intervalstyle = 'iso_8601'; SET datestyle = 'ISO'; SET extra_float_digits = 3"
)


def read_sqlite(stored: Any, declared: str, other: str | None) -> Model:
    """Return the model of a stored value. `other` is the type of PostgreSQL that it is compared with."""
    match stored:
        case bytes():
            return ("bytes", stored)
        case int():
            if declared == "BOOLEAN" and other == "boolean" and stored in (0, 1):
                return ("boolean", bool(stored))
            if declared == "JSON" and other in ("json", "jsonb"):
                return ("json", ("number", Fraction(stored)))
            return ("number", Fraction(stored))
        case float():
            if declared == "JSON" and other in ("json", "jsonb"):
                return ("json", ("number", Fraction(repr(stored))))
            return double(repr(stored))
        case str():
            return _read_sqlite_text(stored, declared, other)
        case _:
            raise TypeError(stored)


def _read_sqlite_text(stored: str, declared: str, other: str | None) -> Model:
    times = ("date", "time", "timestamp", "timestamptz")
    try:
        if declared == "JSON" and other in ("json", "jsonb"):
            return document(stored)
        if declared == "UUID" and other == "uuid":
            return ("uuid", UUID(stored))
        if declared in ("DATE", "TIME", "DATETIME") and other in times:
            if stored in ("infinity", "-infinity"):
                return ({"timestamp": "local", "timestamptz": "instant", "date": "day"}.get(other, "clock"), stored)
            if ":" in stored[:3]:
                return ("clock", time.fromisoformat(stored)) if "+" not in stored else text(stored)
            if len(stored) == 10:
                return day(stored)
            return moment(stored, zone=datetime.fromisoformat(stored).tzinfo is not None)
    except ValueError:
        pass
    return text(stored)
