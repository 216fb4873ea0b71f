"""Progress lines: when they are printed, and what they say of a run's states and errors."""

import dataclasses
from typing import Any

import pytest

from swath import HandlerError, RunState
from swath.cli.run_view import LINE_SECONDS, LineTimer, list_error_rows, list_state_rows, to_json

STORE = "sqlite:///work.db"
AWAY = RunState("store away", "the store does not answer", 65.4)
PACING = RunState("pacing", "no lane is ready", 3.0)
ERROR = HandlerError("ValueError: no", "job.py:7", 1, "a")


def test_a_line_is_due_regularly_and_when_something_changes() -> None:
    timer = LineTimer(100.0)
    due = 100.0 + LINE_SECONDS
    assert not timer.is_due(due - 0.1, [], [])
    assert timer.is_due(due, [], [])
    assert not timer.is_due(due + 0.1, [], [])
    assert timer.is_due(due + 0.2, [AWAY], []), "a state began"
    assert not timer.is_due(due + 0.3, [AWAY], [])
    assert not timer.is_due(due + 0.2 + LINE_SECONDS - 0.01, [AWAY], [])
    assert timer.is_due(due + 0.2 + LINE_SECONDS, [AWAY], []), "since the last line"
    assert timer.is_due(due + 11, [], []), "it ended"
    assert not timer.is_due(due + 12, [PACING], []), "that happens often"
    assert timer.is_due(due + 13, [PACING], [ERROR]), "a new kind of error"
    assert not timer.is_due(due + 14, [], [ERROR])


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (AWAY, "the store does not answer (for 65 s)"),
        (AWAY._replace(seconds=1.9), "the store does not answer"),
        (AWAY._replace(seconds=2.0), "the store does not answer (for 2 s)"),
        (PACING, "no lane is ready"),
        (RunState("stopping", "1 page in flight", 9.0), "1 page in flight; Ctrl-C again leaves now"),
        (
            RunState("paused", "the frontier is paused until `swath resume`", 0.0),
            "the frontier is paused until `swath resume --store sqlite:///work.db`",
        ),
    ],
)
def test_a_state_in_words(state: RunState, expected: str) -> None:
    assert list(list_state_rows([state], STORE)) == [(state.name, expected)]


def test_a_password_is_not_part_of_a_command_to_copy() -> None:
    state = RunState("paused", "until `swath resume`", 0.0)
    ((_, text),) = list_state_rows([state], "postgresql://me:secret@host/db")
    assert text == "until `swath resume --store 'postgresql://me:***@host/db'`"


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ([], []),
        ([1], [("errors", f"{ERROR}, at a")]),
        ([1_500], [("errors", f"{ERROR}, 1,500 times, last at a")]),
        ([1, 2, 1], [("errors", f"{ERROR}, at a; {ERROR}, 2 times, last at a; {ERROR}, at a")]),
        ([1] * 5, [("errors", "; ".join([f"{ERROR}, at a"] * 3) + "; and 2 more kinds")]),
    ],
)
def test_errors_in_words(counts: list[int], expected: list[tuple[str, str]]) -> None:
    assert list(list_error_rows([dataclasses.replace(ERROR, count=count) for count in counts])) == expected


def test_states_and_errors_as_json() -> None:
    found: dict[str, Any] = to_json([AWAY], [ERROR])
    assert found["states"] == [{"name": "store away", "detail": "the store does not answer", "seconds": 65.4}]
    assert found["handler_errors"] == [{"reason": "ValueError: no", "place": "job.py:7", "count": 1, "last": "a"}]
