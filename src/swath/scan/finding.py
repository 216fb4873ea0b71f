"""Finding: something that is wrong with a record; and the line of output for it."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from swath import UsageError

State = Literal["open", "fixed", "resolved"]

MAX_CODE_BYTES = 100  # in UTF-8; a code is part of the name of a counter

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=str).encode


@dataclass(frozen=True, slots=True)
class Finding:
    """What `check` reports about a record: a short code to count by, a message for people, and data for programs."""

    code: str
    message: str = ""
    data: Any = None

    def __post_init__(self) -> None:
        given: Any = self.code
        if not isinstance(given, str) or not given.isprintable() or not 1 <= len(given.encode()) <= MAX_CODE_BYTES:
            raise UsageError(
                f"code {given!r:.200} of a finding is not valid. Use printable text of 1 to {MAX_CODE_BYTES} bytes"
            )
        given = self.message
        if not isinstance(given, str):
            raise UsageError(f"message {given!r:.200} of a finding is a {type(given).__name__}, not a str")


class FindingEvent(NamedTuple):
    """A finding that was opened, fixed or resolved: one line of output."""

    finding: Finding
    state: State


class LineContext(NamedTuple):
    """What all lines of an item have in common."""

    mark: str  # of the output, under "scan"
    source: str
    round: int
    time: str


def make_open_events(findings: Iterable[Finding]) -> list[FindingEvent]:
    return [FindingEvent(finding, "open") for finding in findings]


def compare_after_fix(before: Sequence[Finding], now: Sequence[Finding]) -> list[FindingEvent]:
    """Return the events after `fix`: missing findings are fixed, present ones are open."""
    left = Counter(finding.code for finding in now)
    return [*(FindingEvent(finding, "fixed") for finding in _find_missing(before, left)), *make_open_events(now)]


def compare_after_recheck(before: Mapping[str, int], events: Sequence[FindingEvent]) -> list[FindingEvent]:
    """Return the final events of a key: those of the recheck, and "resolved" for each missing finding.

    Not empty if anything was open before.
    """
    left = Counter(event.finding.code for event in events)  # a fixed finding has its own line already
    known = [Finding(code, "no longer found") for code, number in before.items() for _ in range(number)]
    return [*events, *(FindingEvent(finding, "resolved") for finding in _find_missing(known, left))]


def _find_missing(before: Iterable[Finding], left: Counter[str]) -> Iterable[Finding]:
    for finding in before:
        if left[finding.code] > 0:
            left[finding.code] -= 1
        else:
            yield finding


def make_line_prefix(mark: str) -> bytes:
    """Return the bytes that every line of an output starts with."""
    return _encode({"scan": mark}).removesuffix("}").encode()


def encode_line(key: str, event: FindingEvent, context: LineContext) -> bytes:
    """Return one line of JSON. Text that is not Unicode is written as JSON escapes."""
    finding, state = event
    fields = {
        "scan": context.mark,
        "key": key,
        "code": finding.code,
        "message": finding.message,
        "data": finding.data,
        "state": state,
        "round": context.round,
        "time": context.time,
        "source": context.source,
    }
    try:
        text = _encode(fields)
    except (TypeError, ValueError, RecursionError):  # NaN, keys that are not strings, circular references
        text = _encode({**fields, "data": f"{finding.data!r:.10000}"})
    return text.encode(errors="backslashreplace") + b"\n"
