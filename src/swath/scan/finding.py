"""Finding: something that is not as it should be; and the line that is written about it."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from swath import UsageError

State = Literal["open", "fixed", "resolved"]

MAX_CODE = 100  # characters

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=str).encode


@dataclass(frozen=True, slots=True)
class Finding:
    """What `check` says about a record: a short code to count by, a message for people, and data for programs."""

    code: str
    message: str = ""
    data: Any = None

    def __post_init__(self) -> None:
        given: Any = self.code
        if not isinstance(given, str) or not 1 <= len(given) <= MAX_CODE or not given.isprintable():
            raise UsageError(f"code {given!r:.200} of a finding: a printable text of 1 to {MAX_CODE} characters")
        given = self.message
        if not isinstance(given, str):
            raise UsageError(f"message {given!r:.200} of a finding is a {type(given).__name__}, not a str")


class Word(NamedTuple):
    """A finding and how it stands."""

    finding: Finding
    state: State


class Context(NamedTuple):
    """What all lines of one settlement share."""

    scan: str
    source: str
    round: int
    time: str


def opened(findings: Iterable[Finding]) -> list[Word]:
    return [Word(finding, "open") for finding in findings]


def after_fix(before: Sequence[Finding], now: Sequence[Finding]) -> list[Word]:
    """What was there and is gone is fixed; what is there now is open."""
    left = Counter(finding.code for finding in now)
    return [*(Word(finding, "fixed") for finding in _gone(before, left)), *opened(now)]


def after_recheck(before: Mapping[str, int], words: Sequence[Word]) -> list[Word]:
    """The last word on a key: what is open now, and for what was open before and is not any more, that it is resolved.
    Never empty, as long as anything was open."""
    left = Counter(word.finding.code for word in words)  # a fixed one is accounted for by its own line
    gone = [Finding(code, "no longer found") for code, number in before.items() for _ in range(number)]
    return [*words, *(Word(finding, "resolved") for finding in _gone(gone, left))]


def _gone(before: Iterable[Finding], left: Counter[str]) -> Iterable[Finding]:
    for finding in before:
        if left[finding.code] > 0:
            left[finding.code] -= 1
        else:
            yield finding


def start(scan: str) -> bytes:
    """What the lines of an output begin with: its mark."""
    return _encode({"scan": scan}).removesuffix("}").encode()


def line(key: str, word: Word, context: Context) -> bytes:
    """One line of JSON, which begins with `start`. Text that is not Unicode is written as the escapes that JSON has."""
    finding, state = word
    said = {
        "scan": context.scan,
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
        text = _encode(said)
    except (TypeError, ValueError, RecursionError):  # NaN, keys that are no texts, what contains itself
        text = _encode({**said, "data": f"{finding.data!r:.10000}"})
    return text.encode(errors="backslashreplace") + b"\n"
