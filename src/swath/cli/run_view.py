"""What `crawl`, `backfill` and `scan` show of a run: its states, and the errors of its handler."""

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich.text import Text

from swath import HandlerError, RunState, mask_password
from swath.cli.formatting import escape, format_duration
from swath.cli.interrupts import AGAIN

LINE_SECONDS = 10.0  # between progress lines
MAX_KINDS = 3  # of errors
ORDINARY = {"pacing", "delayed", "throttled"}  # states that begin and end often, or are printed elsewhere
LASTING = {"store away", "disk full", "paused", "throttled", "leased"}  # states whose duration is of interest
MIN_SHOWN_SECONDS = 2.0

_COMMAND = re.compile("`swath (?:resume|lanes)")  # in the text of a state, which does not know its store
_QUOTED, _ON_ITS_LINE = re.compile(" ?`(swath [^`]+)`[ ]?"), r"\n  \1\n"


class LineTimer:
    """Decides when to print a progress line: every LINE_SECONDS, and at once when something important changes."""

    def __init__(self, now: float) -> None:
        self._next = now + LINE_SECONDS
        self._seen: tuple[frozenset[str], int] = (frozenset(), 0)

    def is_due(self, now: float, states: Sequence[RunState], errors: Sequence[HandlerError]) -> bool:
        current = (frozenset(state.name for state in states if state.name not in ORDINARY), len(errors))
        changed, self._seen = current != self._seen, current
        if now >= self._next or changed:
            self._next = now + LINE_SECONDS
            return True
        return False


def list_state_rows(states: Sequence[RunState], store: str) -> Iterator[tuple[str, str]]:
    """Yield a row for each state. `store` is the URL for commands to copy."""
    for state in states:
        yield state.name, _describe(state, store)


def format_states(states: Sequence[RunState], store: str) -> list[Text]:
    """Return the states for a panel. Each command is on a line of its own, so that it can be copied from the panel."""
    return [
        Text(f"\n{name}: {_QUOTED.sub(_ON_ITS_LINE, escape(value))}".rstrip("\n"), style="yellow")
        for name, value in list_state_rows(states, store)
    ]


def _describe(state: RunState, store: str) -> str:
    text = state.detail
    if state.name == "stopping":
        return f"{text}; {AGAIN}"
    named = f" --store {shlex.quote(mask_password(store))}"
    text = _COMMAND.sub(lambda command: command[0] + named, text)
    if state.name in LASTING and state.seconds >= MIN_SHOWN_SECONDS:
        text += f" (for {format_duration(round(state.seconds))})"
    return text


def list_error_rows(errors: Sequence[HandlerError], *, name: str = "errors") -> Iterator[tuple[str, str]]:
    """Yield a row for the errors of the handler, if there were any."""
    if not errors:
        return
    parts = [
        f"{error}, {error.count:,} times, last at {error.key}" if error.count > 1 else f"{error}, at {error.key}"
        for error in errors[:MAX_KINDS]
    ]
    others = len(errors) - MAX_KINDS
    yield name, "; ".join(parts) + (f"; and {others} more kinds" if others > 0 else "")


def format_rows(rows: Iterable[tuple[str, str]]) -> list[str]:
    """Return rows as parts of a progress line."""
    return [f"{name}: {value}" for name, value in rows]


def to_json(states: Sequence[RunState], errors: Sequence[HandlerError]) -> dict[str, Any]:
    """Return the fields of --json about a run."""
    return {
        "states": [
            {"name": state.name, "detail": state.detail, "seconds": round(state.seconds, 1)} for state in states
        ],
        "handler_errors": [
            {"reason": error.reason, "place": error.place, "count": error.count, "last": error.key} for error in errors
        ],
    }
