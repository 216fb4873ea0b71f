"""Checks and fixes that the tests scan with."""

import asyncio
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from swath.scan import FileRecord, Finding, Record, RowRecord

EVENTS: list[str] = []  # what async checks did
FOREVER = threading.Event()
asked: list[str] = []  # keys that `remembering` was asked about


def nothing(record: Record) -> None:
    return None


def remembering(record: Record) -> None:
    asked.append(record.key)


def every(record: FileRecord) -> Finding:
    return Finding("seen", f"{record.size} bytes")


def slowly(record: FileRecord) -> Finding:
    """So that there is time to be killed in."""
    time.sleep(0.0002)
    return Finding("seen")


def waiting(record: Record) -> None:
    """Say that it runs, and wait until it may return."""
    Path(os.environ["RUNS"]).touch()
    while not Path(os.environ["RETURN"]).exists():
        time.sleep(0.01)


def empty(record: FileRecord) -> Finding | None:
    return Finding("empty") if not record.read() else None


def odd(record: Record) -> list[Finding]:
    return [Finding("odd", f"{record['n']} is odd", {"n": record["n"]})] if record["n"] % 2 else []


async def odd_async(record: Record) -> Finding | None:
    await asyncio.sleep(0)
    return Finding("odd") if record["n"] % 2 else None


def generating(record: Record) -> Iterator[Finding]:
    yield Finding("first")
    if record["n"] == 3:
        raise ValueError("no more of these")
    yield Finding("second")


def raising(record: Record) -> None:
    if record["n"] == 3:
        raise ValueError("three is too much")


def hanging(record: Record) -> Finding | None:
    if record["n"] in (3, 7):
        FOREVER.wait()
    return Finding("odd") if record["n"] % 2 else None


async def hanging_async(record: Record) -> None:
    EVENTS.append(f"checks {record['n']}")
    if record["n"] == 3:
        try:
            await asyncio.Event().wait()
        finally:
            EVENTS.append("cancelled")


def nonsense(record: Record) -> Any:
    return record["n"] == 3 or None


def bad_code(record: Record) -> Any:
    return Finding(17)  # type: ignore[arg-type]


def strange_data(record: Record) -> Any:
    loop: list[Any] = []
    loop.append(loop)
    return [Finding("loop", data=loop), Finding("nan", data=float("nan")), Finding("path", "\udcff", Path("a"))]


def fill(record: FileRecord) -> None:
    if record.path.endswith("stubborn"):
        return
    if record.path.endswith("locked"):
        raise PermissionError("it is locked")
    record.write(b"full")


async def fill_async(record: FileRecord) -> None:
    await asyncio.to_thread(fill, record)


def lower(record: Record) -> Finding | None:
    return Finding("upper-case", record["email"]) if record["email"] != record["email"].lower() else None


def lower_it(record: RowRecord) -> None:
    record.change(email=record["email"].lower())


def leaving(record: Record) -> None:
    sys.exit(3)


def dying(record: Record) -> None:
    os.kill(os.getpid(), 9)


not_a_function = 17
