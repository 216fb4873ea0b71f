"""What a process says it did, line by line, in a file of its own that outlives it."""

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from swath.core.store import MoveKind

Place = tuple[int, int]  # partition, position

FINAL = (MoveKind.DONE, MoveKind.DEAD)


class Journal:
    """Appends one line with one write, so that a line is there as soon as `write` returns, whatever happens next."""

    def __init__(self, path: str | Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, event: str, **values: Any) -> None:
        os.write(self._file, json.dumps({"event": event, **values}, separators=(",", ":")).encode() + b"\n")


class HandOut(NamedTuple):
    """One item in one claim, as the process that was given it logged it before doing anything about it."""

    process: str
    fence: int
    place: Place
    key: str
    lane: str
    attempts: int
    now: int  # the store's time: not before the item was moved
    took: int  # microseconds that the claim took: it was moved no sooner than `now` - `took`


class Settled(NamedTuple):
    """One item in one settlement, logged after the store had confirmed it."""

    process: str
    fence: int
    place: Place
    kind: MoveKind
    started: bool
    now: int


class Handled(NamedTuple):
    """One run of a handler, on this machine's clock. `end` is None when it never came to its end."""

    process: str
    fence: int
    place: Place
    lane: str
    start: float
    end: float | None


@dataclass(slots=True)
class Log:
    """Everything that all processes of a test logged."""

    hand_outs: list[HandOut] = field(default_factory=list)
    settled: list[Settled] = field(default_factory=list)
    handled: list[Handled] = field(default_factory=list)
    sent: set[tuple[int, Place]] = field(default_factory=set)  # (fence, place) of settlements that were tried
    leases: dict[int, int] = field(default_factory=dict)  # fence -> the last end of its lease that was confirmed
    lost: list[tuple[str, int]] = field(default_factory=list)  # (process, fence) that was told LeaseLost
    recovered: int = 0
    summaries: dict[str, dict[str, Any]] = field(default_factory=dict)  # by process


def read_lines(path: Path) -> list[dict[str, Any]]:
    """All whole lines. The last may be torn: its process was killed while it wrote, so it has not begun that item."""
    *whole, _ = path.read_bytes().split(b"\n")
    return [json.loads(line) for line in whole]


def read_log(paths: Iterable[Path]) -> Log:
    log = Log()
    for path in paths:
        process = path.stem
        running: dict[tuple[int, Place], tuple[str, float]] = {}
        for line in read_lines(path):
            _take(log, process, line, running)
        for (fence, place), (lane, start) in running.items():
            log.handled.append(Handled(process, fence, place, lane, start, None))
    return log


def _take(log: Log, process: str, line: dict[str, Any], running: dict[tuple[int, Place], tuple[str, float]]) -> None:
    fence: int = line.get("fence", 0)
    match line["event"]:
        case "claim":
            log.leases[fence] = line["until"]
            log.hand_outs += [
                HandOut(process, fence, (partition, position), key, lane, attempts, line["now"], line["took"])
                for partition, position, key, lane, attempts in line["items"]
            ]
        case "renew":
            log.leases[fence] = max(log.leases[fence], line["until"])
        case "start":
            running[fence, _place(line["place"])] = (line["lane"], line["at"])
        case "end":
            lane, start = running.pop((fence, _place(line["place"])))
            log.handled.append(Handled(process, fence, _place(line["place"]), lane, start, line["at"]))
        case "settling":
            log.sent.update((fence, (line["partition"], position)) for position, *_ in line["moves"])
        case "settle":
            log.settled += [
                Settled(process, fence, (line["partition"], position), MoveKind(kind), started, line["now"])
                for position, kind, started in line["moves"]
            ]
        case "lost":
            log.lost.append((process, fence))
        case "recovered":
            log.recovered += line["items"]
        case "summary":
            log.summaries[process] = line
        case _:
            pass


def _place(pair: Sequence[int]) -> Place:
    partition, position = pair
    return partition, position
