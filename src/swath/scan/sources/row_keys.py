"""Convert keys of rows to readable text and back."""

import json

from swath.tables.table import Key


def format_row_key(key: Key, kind: str) -> str:
    """Return a one-column key as its value if that is unambiguous, and any other key as a JSON list."""
    if len(key) == 1:
        (value,) = key
        if kind == "postgresql":  # all values are text
            return str(value)
        if isinstance(value, str) and _is_plain(value):
            return value
        if not isinstance(value, str):
            return json.dumps(value)
    return json.dumps(list(key), ensure_ascii=False)


def parse_row_key(text: str, kind: str, *, columns: int = 1) -> Key:
    """Reverse `format_row_key`."""
    if kind == "postgresql" and columns == 1:
        return (text,)
    try:
        value = json.loads(text)
    except ValueError:
        return (text,)
    return tuple(value) if isinstance(value, list) else (value,)


def _is_plain(value: str) -> bool:
    """Return whether text is not JSON, so that it cannot be confused with another key."""
    try:
        json.loads(value)
    except ValueError:
        return True
    return False
