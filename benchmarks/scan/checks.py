"""What every contestant does with a record."""

from typing import Any, Protocol

from swath.scan import Finding, Record


class Readable(Protocol):
    def read(self) -> bytes: ...


def plain_row(row: dict[str, Any]) -> Finding | None:
    return Finding("upper-case") if row["email"] != row["email"].lower() else None


def row(record: Record) -> Finding | None:
    row = record.value
    return Finding("upper-case") if row["email"] != row["email"].lower() else None


def file(record: Readable) -> Finding | None:
    return Finding("empty") if not record.read() else None
