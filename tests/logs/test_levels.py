"""The level of each entry, and how much of a value a line shows."""

import json
import logging
from typing import Any

import pytest

from swath import events
from swath.crawl import events as crawl_events
from swath.logs import entries
from swath.logs.lines import MAX_ENTRIES, MAX_WORKER_CHARS, Origin, format_entry, format_time

ORIGIN = Origin(7, "worker")


@pytest.mark.parametrize(
    ("level", "found"),
    [
        (logging.ERROR, {entries.Failed, entries.ProcessFailed}),
        (
            logging.WARNING,
            {entries.LinesMissing, events.Recovered, events.Lost, events.ClockStepped, events.Waiting},
        ),
        (
            logging.INFO,
            {
                entries.Started, entries.Resumed, entries.Finished, entries.Throttled, events.Died, events.Repaired,
                events.LaneChanged, events.SettingsChanged, events.Reopened, events.Dropped, events.Reached,
                events.StateBegan, events.StateEnded, events.Stopping,
            },
        ),
    ],
)  # fmt: skip
def test_levels(level: int, found: set[type[events.Event]]) -> None:
    assert {event for event in entries.LEVELS if entries.get_level(event) == level} == found
    assert entries.get_level(crawl_events.Fetched) == logging.DEBUG


def read(entry: events.Event, *, level: int = logging.INFO, origin: Origin = ORIGIN) -> dict[str, Any]:
    data = format_entry(entry, level=level, time=0.0, origin=origin, as_json=True)
    found: dict[str, Any] = json.loads(data)
    return found


def shown(value: Any) -> Any:
    return read(entries.Finished("done", 1.0, {"x": value}))["summary"]["x"]


def test_values_of_every_type() -> None:
    assert [shown(value) for value in (None, True, 5, 0.123_456_78, [1, (2,)], {"a": {"b": 0.5}})] == [
        None, True, 5, 0.123457, [1, [2]], {"a": {"b": 0.5}},
    ]  # fmt: skip


@pytest.mark.parametrize(("size", "kept"), [(2_000, 2_000), (2_001, 2_000), (3_900, 2_000)])
def test_a_long_text_is_cut(size: int, kept: int) -> None:
    assert shown("a" * size) == "a" * kept + "…" * (size > kept)


def test_a_line_that_is_too_long_has_shorter_values() -> None:
    found = read(entries.Message("l" * 1_900, "m" * 1_900, "e" * 1_900 + "!"))
    assert (found["logger"], found["message"]) == ("l" * 500 + "…", "m" * 500 + "…")
    assert found["error"] == "…" + "e" * 499 + "!"


def test_long_lists_and_mappings_are_cut() -> None:
    assert shown([1] * (MAX_ENTRIES + 5)) == [1] * MAX_ENTRIES
    assert len(shown({f"{number}": number for number in range(MAX_ENTRIES + 5)})) == MAX_ENTRIES


def test_a_line_that_cannot_be_shortened_has_no_values() -> None:
    deep = {f"{name}{number:018}": "v" * 30 for name in "ab" for number in range(60)}
    found = read(entries.Finished("done", 1.0, {"x": {f"{number:020}": deep for number in range(20)}}))
    assert found == {"time": "1970-01-01T00:00:00.000Z", "level": "info", "process": 7, "event": "finished"}


def test_the_name_of_a_worker_is_cut() -> None:
    assert read(events.Reopened(1), origin=Origin(1, "w" * 201))["worker"] == "w" * MAX_WORKER_CHARS + "…"
    assert read(events.Reopened(1), origin=Origin(1, None))["worker"] is None


@pytest.mark.parametrize(
    ("level", "name"),
    [(10, "debug"), (20, "info"), (30, "warning"), (40, "error"), (50, "error"), (25, "info")],
)
def test_names_of_levels(level: int, name: str) -> None:
    assert read(events.Reopened(1), level=level)["level"] == name


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "1970-01-01T00:00:00.000Z"), (86_399.0625, "1970-01-01T23:59:59.062Z"), (1.5, "1970-01-01T00:00:01.500Z")],
)
def test_times(seconds: float, text: str) -> None:
    assert format_time(seconds) == text


def test_a_text_line_quotes_what_would_be_read_otherwise() -> None:
    entry = entries.Finished("a b", 1.0, {"x": "y"})
    data = format_entry(entry, level=30, time=0.0, origin=Origin(7, None), as_json=False)
    assert data == (
        b'1970-01-01T00:00:00.000Z warning finished process=7 stopped_by="a b" seconds=1.0 summary={"x":"y"}\n'
    )
