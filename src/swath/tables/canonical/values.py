"""Canonical texts that need Python: SQLite cannot print floats exactly, and neither database can try to parse text.

Every `parse_…` function returns the canonical text, or None if the text is not such a value.
"""

import json
import math
import re
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from swath.tables.canonical.form import Change

MAX_ZEROS = 1_000  # that plain notation adds to a number: 1e999999999 would take a gigabyte

_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,6})?")
_SPECIAL = {"nan": "NaN", "inf": "Infinity", "infinity": "Infinity", "-inf": "-Infinity", "-infinity": "-Infinity"}
_TIME = re.compile(
    r"(?:([0-9]{4})-([0-9]{2})-([0-9]{2}))?([T ])?(?:([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,18}))?)?)?"
    r" ?(Z|([+-])([0-9]{2})(?::?([0-9]{2}))?)?"
)
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|[0-9a-f]{32}", re.IGNORECASE)
_SURROGATE = re.compile("[\ud800-\udfff]")


def format_float(value: float) -> str:
    """Return a whole number exactly, and any other as the shortest decimal that reads back as the same float."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return str(int(value)) if value.is_integer() else _format_decimal(Decimal(repr(value)))


def _format_decimal(value: Decimal) -> str:
    text = f"{value:f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def _format_literal(text: str) -> str | None:
    """Return a number's literal in plain notation, or None if its exponent is too large."""
    value = Decimal(text)
    exponent = value.as_tuple().exponent
    if not value:
        return "0"
    if not isinstance(exponent, int) or max(value.adjusted(), -exponent) > len(text) + MAX_ZEROS:
        return None
    return _format_decimal(value)


def parse_number(text: str) -> str | None:
    if _NUMBER.fullmatch(text):
        number = _format_literal(text)
        return None if number is None else f"number:{number}"
    special = _SPECIAL.get(text.lower())
    return None if special is None else f"number:{special}"


def parse_boolean(text: str) -> str | None:
    match text.lower():
        case "true" | "t":
            return "boolean:true"
        case "false" | "f":
            return "boolean:false"
        case _:
            return None


def parse_uuid(text: str) -> str | None:
    if not _UUID.fullmatch(text):
        return None
    digits = text.replace("-", "").lower()
    return f"uuid:{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def parse_time(text: str) -> str | None:
    """Parse an ISO 8601 date, time of day, or both, with or without an offset from UTC."""
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    year, month, day, separator, hour, minute, second, fraction, zone, sign, hours, minutes = match.groups()
    if (separator is not None) != (year is not None and hour is not None) or (zone and not separator):
        return None
    if year is None and hour is None:
        return None
    rest = "." + fraction.rstrip("0") if fraction and fraction.strip("0") else ""
    if year is None and (hour, minute, second or "00", rest) == ("24", "00", "00", ""):  # PostgreSQL has it
        return "time:24:00:00"
    try:
        calendar_day = date(int(year or 1), int(month or 1), int(day or 1))
        moment = datetime.combine(calendar_day, time(int(hour or 0), int(minute or 0), int(second or 0)), UTC)
        if sign is not None:
            if int(hours) > 15 or int(minutes or 0) > 59:
                return None
            offset = timedelta(hours=int(hours), minutes=int(minutes or 0))
            moment = moment - offset if sign == "+" else moment + offset
    except (ValueError, OverflowError):
        return None
    written, clock = moment.date().isoformat(), moment.time().isoformat() + rest
    if hour is None:
        return f"date:{written}"
    if year is None:
        return f"time:{clock}"
    return f"timestamptz:{written} {clock}+00" if zone else f"timestamp:{written} {clock}"


class _Number(str):
    """A number of a JSON text, in plain notation."""


def _parse_json_number(text: str) -> _Number:
    number = _format_literal(text)
    if number is None:
        raise ValueError("too many digits")
    return _Number(number)


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


_decode_json = json.JSONDecoder(
    parse_int=_parse_json_number, parse_float=_parse_json_number, parse_constant=_refuse_constant
).decode
_encode_string = json.JSONEncoder(ensure_ascii=False).encode


def parse_json(text: str) -> str | None:
    """Write JSON as PostgreSQL writes jsonb, but without zeros at the end of fractions."""
    if _SURROGATE.search(text):  # not UTF-8
        return None
    try:
        return "json:" + _encode_json(_decode_json(text))
    except (ValueError, RecursionError):
        return None


def _encode_json(value: Any) -> str:
    match value:
        case _Number():
            return str(value)
        case dict():
            ordered = sorted(value.items(), key=_get_key_order)
            return "{" + ", ".join(f"{_encode_string(name)}: {_encode_json(item)}" for name, item in ordered) + "}"
        case list():
            return "[" + ", ".join(map(_encode_json, value)) + "]"
        case _:
            return _encode_string(value)


def _get_key_order(item: tuple[str, Any]) -> tuple[int, bytes]:
    name = item[0].encode(errors="surrogatepass")
    return len(name), name


# Changes of a canonical text


def make_text_parser(parse: Callable[[str], str | None]) -> Change:
    """Return a change that turns text into the value that it stands for, if it stands for one."""

    def change(canonical: str) -> str:
        if not canonical.startswith("text:"):
            return canonical
        return parse(canonical[5:]) or canonical

    return change


def make_infinity_parser(tag: str) -> Change:
    """Return a change that turns the texts `infinity` and `-infinity` into values of a class."""
    known = {f"text:{text}": f"{tag}:{text}" for text in ("infinity", "-infinity")}
    return lambda canonical: known.get(canonical, canonical)


def number_to_boolean(canonical: str) -> str:
    return {"number:1": "boolean:true", "number:0": "boolean:false"}.get(canonical, canonical)


def number_to_json(canonical: str) -> str:
    """Turn a number of a column declared JSON into JSON: SQLite stores the text 1 there as a number."""
    return canonical.replace("number:", "json:", 1) if canonical.startswith("number:") else canonical


def add_zone(canonical: str) -> str:
    """Read a timestamp without a zone as UTC."""
    if not canonical.startswith("timestamp:"):
        return canonical
    return f"timestamptz:{canonical[10:]}{'' if canonical.endswith('infinity') else '+00'}"


def number_to_double(canonical: str) -> str:
    return _round_number(canonical, float)


def number_to_single(canonical: str) -> str:
    return _round_number(canonical, _round_to_single)


def _round_number(canonical: str, convert: Callable[[str], float]) -> str:
    if not canonical.startswith("number:"):
        return canonical
    number = convert(canonical[7:])
    if not math.isfinite(number):  # or too large for a float
        return canonical
    if convert is float:
        return f"number:{format_float(number)}"
    if number.is_integer():
        return f"number:{int(number)}"
    shortest = next(text for digits in range(6, 10) if _round_to_single(text := f"{number:.{digits}g}") == number)
    return f"number:{_format_decimal(Decimal(shortest))}"


def _round_to_single(text: str) -> float:
    try:
        (number,) = struct.unpack("f", struct.pack("f", float(text)))
    except OverflowError:
        return math.inf
    return float(number)


def finish_json(canonical: str) -> str:
    """Parse JSON that PostgreSQL could not convert to jsonb. A space before it marks it."""
    if not canonical.startswith("json: "):
        return canonical
    return parse_json(canonical[6:]) or canonical
