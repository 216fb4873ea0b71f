"""Canonical forms as expressions of SQLite."""

import sqlite3

from swath.tables.canonical.values import format_float


def build_form(column: str) -> str:
    """Return the form of a column by the storage class of each value."""
    return (
        f"CASE typeof({column}) WHEN 'integer' THEN 'number:' || {column} WHEN 'text' THEN 'text:' || {column} "
        f"WHEN 'real' THEN swath_real({column}) WHEN 'blob' THEN 'bytes:' || lower(hex({column})) END"
    )


def register_functions(connection: sqlite3.Connection) -> None:
    """Make `swath_real` available. SQLite prints at most 17 digits of a float, and not always the nearest decimal."""
    connection.create_function("swath_real", 1, lambda value: f"number:{format_float(value)}", deterministic=True)


def decode_text(text: bytes) -> str:
    """Decode any bytes: SQLite does not check that text is UTF-8."""
    return text.decode(errors="surrogateescape")
