"""Keys of rows as texts that people can read, and back."""

import json

from swath.tables.table import Key


def text_of(key: Key, kind: str) -> str:
    """A key of one column is its value, as long as that is clear; any other is a JSON list."""
    if len(key) == 1:
        (value,) = key
        if kind == "postgresql":  # whose values are all texts
            return str(value)
        if isinstance(value, str) and _is_plain(value):
            return value
        if not isinstance(value, str):
            return json.dumps(value)
    return json.dumps(list(key), ensure_ascii=False)


def key_of(text: str, kind: str, *, columns: int = 1) -> Key:
    """The key that a text was made of."""
    if kind == "postgresql" and columns == 1:
        return (text,)
    try:
        value = json.loads(text)
    except ValueError:
        return (text,)
    return tuple(value) if isinstance(value, list) else (value,)


def _is_plain(value: str) -> bool:
    """Whether it cannot be taken for anything else."""
    try:
        json.loads(value)
    except ValueError:
        return True
    return False
