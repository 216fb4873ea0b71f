"""HandlerErrors: logs the first error of each kind with its traceback, and counts the others.

A kind is the type of the exception and the place where it was raised. A handler with a bug fails for every item with a
different text, such as another key that is missing, and that is one kind.
"""

import logging
import re
import threading
import traceback
from dataclasses import dataclass, replace
from pathlib import Path

log = logging.getLogger("swath.runner")

MAX_KINDS = 50  # further kinds are counted together (INV-9)
MAX_REASON_CHARS = 300
MAX_TRACE_CHARS = 8_000  # of the end, which names the exception
OTHERS = "other errors"

_FRAME = re.compile(r'^[ |+-]*File "(?P<file>[^"\n]+)", line (?P<line>\d+)', re.MULTILINE)
_SWATH = Path(__file__).parents[1]
# Frames between the handler and swath's own code that found the mistake, such as an invalid outcome.
_PASSED_THROUGH = (f"{_SWATH}/runner/", f"{_SWATH}/core/", f"{_SWATH}/frontier.py", f"{_SWATH}/claim.py")


@dataclass(frozen=True, slots=True)
class HandlerError:
    """A kind of error, described by the first of them. `key` is the item of the latest one."""

    reason: str
    place: str | None  # file:line; None if it was not raised, such as a timeout
    count: int
    key: str

    def __str__(self) -> str:
        return self.reason if self.place is None else f"{self.reason} ({self.place})"


class HandlerErrors:
    """The errors of one run by kind. Any thread may record one."""

    def __init__(self, *, handler: str) -> None:
        self._handler = handler
        self._kinds: dict[tuple[str, str | None], HandlerError] = {}
        self._logged: dict[tuple[str, str | None], int] = {}
        self._lock = threading.Lock()

    def record(self, key: str, reason: str, cause: BaseException | str | None) -> None:
        """Count an error. Log the first of its kind with its traceback, then the 10th, the 100th and so on.

        `cause` is the exception or its traceback as text.
        """
        places, reason = list_places(cause), reason[:MAX_REASON_CHARS]
        path = next((place for place in reversed(places) if not place.startswith(_PASSED_THROUGH)), None)
        kind = (reason.partition(":")[0], path or next(reversed(places), None))
        key = _make_printable(key)[:MAX_REASON_CHARS]
        with self._lock:
            if kind not in self._kinds and len(self._kinds) >= MAX_KINDS:
                kind, reason, path = (OTHERS, None), OTHERS, None
            known = self._kinds.get(kind)
            if known is None:
                place = None if path is None else _make_printable(Path(path).name)
                known = HandlerError(_make_printable(reason)[:MAX_REASON_CHARS], place, 0, key)
            error = self._kinds[kind] = replace(known, count=known.count + 1, key=key)
            due = is_power_of_ten(error.count)
            if due:
                self._logged[kind] = error.count
        if error.count == 1:
            self._log_first(error, format_trace(cause))
        elif due:
            log.warning("the %s failed %s times: %s; last for '%s'", self._handler, f"{error.count:,}", error, key)

    def _log_first(self, error: HandlerError, trace: str | None) -> None:
        end = "" if trace is None else "\n" + _make_printable(trace[-MAX_TRACE_CHARS:].rstrip(), keep="\n")
        log.warning(
            "the %s failed for '%s': %s; more errors of this kind are only counted%s",
            self._handler, error.key, error, end,
        )  # fmt: skip

    def log_totals(self) -> None:
        """Log the count of each kind that has grown since its last line."""
        for kind, error in list(self._kinds.items()):
            if error.count > self._logged.get(kind, 0):
                self._logged[kind] = error.count
                log.warning("the %s failed %s times in all: %s", self._handler, f"{error.count:,}", error)

    def list(self) -> tuple[HandlerError, ...]:
        """Return all kinds, the most frequent first."""
        return tuple(sorted(self._kinds.copy().values(), key=lambda error: -error.count))


def count_errors(errors: "tuple[HandlerError, ...]") -> dict[str, int]:
    counts: dict[str, int] = {}
    for error in errors:
        counts[str(error)] = counts.get(str(error), 0) + error.count
    return counts


def list_places(cause: BaseException | str | None) -> list[str]:
    """Return file:line of each frame of a traceback, the innermost last."""
    match cause:
        case None:
            return []
        case str():
            return [f"{match['file']}:{match['line']}" for match in _FRAME.finditer(cause)]
        case _:
            return [f"{frame.f_code.co_filename}:{line}" for frame, line in traceback.walk_tb(cause.__traceback__)]


def format_trace(cause: BaseException | str | None) -> str | None:
    if cause is None or isinstance(cause, str):
        return cause
    try:
        return "".join(traceback.format_exception(cause))
    except Exception as error:  # noqa: BLE001  formatting calls methods of the user's exception class
        return f"(its traceback cannot be shown: {type(error).__name__})"


def is_power_of_ten(number: int) -> bool:
    return number > 0 and 10 ** (len(str(number)) - 1) == number


def _make_printable(text: str, *, keep: str = "") -> str:
    """Escape control characters: texts of errors come from outside, and a log may go to a terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text)
