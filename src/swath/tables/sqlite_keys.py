"""Values of SQLite keys: to and from JSON, and from text that a user wrote."""

import math
import re
from typing import Any

from swath import UsageError
from swath.tables.table import Column, Description


def encode_value(value: Any) -> Any:
    """Return a key value in a form that JSON can hold."""
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    return {"real": str(value)} if isinstance(value, float) and math.isinf(value) else value


def decode_value(value: Any) -> Any:
    """Reverse `encode_value`."""
    if not isinstance(value, dict):
        return value
    return bytes.fromhex(value["hex"]) if "hex" in value else float(value["real"])


_DECIMAL = re.compile(r"[+-]?\d+(?:\.\d+)?")


def parse_value(text: str, column: Column, description: Description) -> Any:
    """Parse text as a column of this type would store it, by SQLite's affinity rules."""
    kind = column.type
    try:
        if "INT" in kind:
            return _parse_number(text)
        if any(word in kind for word in ("CHAR", "CLOB", "TEXT")):
            return text
        if "BLOB" in kind:
            return {"hex": bytes.fromhex(text).hex()}
        numeric = any(word in kind for word in ("REAL", "FLOA", "DOUB", "NUM", "DEC"))
        return _parse_number(text) if numeric or _DECIMAL.fullmatch(text) else text  # DATE and the like, or no type
    except ValueError as error:
        raise UsageError(
            f"{text!r} is not a value for {column.name} of {description.name}, whose type is {kind}"
        ) from error


def _parse_number(text: str) -> Any:
    whole = text.strip().lstrip("+-").isdecimal()
    if whole and -(2**63) <= int(text) < 2**63:
        return int(text)
    number = float(text)
    if math.isnan(number):  # SQLite stores NaN as NULL, which has no order
        raise ValueError("not a number")
    return encode_value(number)
