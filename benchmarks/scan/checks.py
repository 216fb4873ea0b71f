"""What every contestant does with a record. The plain loops call the same functions."""

from typing import Any

from swath.scan import Finding


def row(record: Any) -> Finding | None:
    return Finding("upper-case") if record["email"] != record["email"].lower() else None


def file(record: Any) -> Finding | None:
    return Finding("empty") if not record.read() else None
