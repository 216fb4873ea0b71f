"""What `swath status` says of a frontier: each sentence, for a status that is made up."""

import dataclasses
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from swath import Checkpoint, PartitionInfo, Status
from swath.cli.status_job import JobView, Kind
from swath.cli.status_view import Rates, StatusView, list_facts, make_line, make_live_panel, to_json
from swath.cli.status_waits import Waits

NOW = datetime(2030, 1, 31, 12, tzinfo=UTC)
EMPTY = Status(
    ready=0, delayed=0, claimed=0, done=0, visits=0, dead=0, lanes=0, inbox=0, paused=False, min_interval=0.0,
    concurrency=1, max_attempts=5, checkpoints=[Checkpoint(0, 0, 0, 0)], next_ready_at=None, now=NOW,
)  # fmt: skip


def view(**changes: Any) -> StatusView:
    beside = {name: changes.pop(name) for name in ("job", "waits", "rates") if name in changes}
    return StatusView("memory:", dataclasses.replace(EMPTY, **changes), **beside)


def list_lines(shown: StatusView, *, partitions: bool = False) -> list[str]:
    """The lines of the panel, without its box."""
    console = Console(width=160, file=StringIO(), record=True)
    console.print(make_live_panel(shown, partitions))
    return [line.strip("│ ") for line in console.export_text().splitlines()]


def show(shown: StatusView, *, partitions: bool = False) -> str:
    return " ".join(" ".join(list_lines(shown, partitions=partitions)).split())


def test_an_empty_line_ends_the_counters() -> None:
    lines = list_lines(view())
    (checkpoint,) = [number for number, line in enumerate(lines) if line.startswith("checkpoint")]
    assert lines[checkpoint - 1] == ""


@pytest.mark.parametrize(
    ("checkpoints", "expected"),
    [
        ([(0, 0, 0)], "checkpoint no item was ever added lane defaults"),
        ([(0, 0, 2)], "checkpoint at position 0 of 2 lane defaults"),
        ([(1, 0, 2)], "checkpoint at position 1 of 2: everything up to there is settled lane defaults"),
        ([(3, 1, 4)], "at position 3 of 4: everything up to there is settled, 1 of them dead lane"),
        ([(4, 0, 4)], "checkpoint at the end: everything was settled lane defaults"),
        ([(4, 2, 4)], "checkpoint at the end: everything was settled, 2 of them dead lane defaults"),
        ([(4, 0, 4), (2, 0, 2)], "checkpoint at the end: everything was settled partitions 2 lane defaults"),
        (
            [(4, 0, 4), (2, 1, 3), (1, 0, 6)],
            "checkpoint at the end in 1 of 3 partitions, 1 of them dead behind most partition 2, by 5 positions lane",
        ),
        ([(4, 0, 5), (2, 0, 2)], "behind most partition 0, by 1 position lane"),
    ],
)
def test_the_checkpoint_in_words(checkpoints: list[tuple[int, int, int]], expected: str) -> None:
    parts = [Checkpoint(number, position, dead, end) for number, (position, dead, end) in enumerate(checkpoints)]
    assert expected in show(view(checkpoints=parts))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "next ready no item is waiting"),
        ({"paused": True, "ready": 1}, "next ready paused"),
        ({"ready": 1}, "next ready only after a pause ends"),
        ({"ready": 1, "next_ready_at": NOW}, "next ready now"),
        ({"ready": 1, "next_ready_at": NOW - timedelta(seconds=1)}, "next ready now"),
        ({"ready": 1, "next_ready_at": NOW + timedelta(seconds=1)}, "next ready in 1 s, 2030-01-31 12:00:01 UTC"),
        ({"claimed": 1, "next_ready_at": NOW}, "next ready no item is waiting except those in flight"),
        ({"job": JobView(Kind.CRAWL, "pages")}, "next ready no page is waiting"),
    ],
)
def test_when_the_next_item_is_ready(changes: dict[str, Any], expected: str) -> None:
    assert expected in show(view(**changes))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"claimed": 3}, "claimed 3 in flight"),
        ({"inbox": 1}, "inbox 1 discovered; the next claim takes them in"),
        ({"dead": 1_234}, "dead 1,234 given up"),
        ({"lanes": 2, "waits": Waits({}, 1, {})}, "lanes 2 1 of them paused"),
        ({"done": 4, "rates": Rates(done=1_000.25, dead=0.0, added=0.0)}, "done 4 1,000.2 a second"),
        ({"delayed": 2}, "delayed 2 items waiting for a time"),
        ({"delayed": 2, "waits": Waits(None, None, {"retry": 2})}, "delayed 2 to be tried again"),
        (
            {"delayed": 3, "waits": Waits(None, None, {"revisit": 2, "start": 1})},
            "delayed 3 2 done, to be visited again, 1 not to be started yet",
        ),
        ({"ready": 2, "paused": True}, "ready 2 waiting for the end of the pause"),
        ({"ready": 2}, "ready 2 waiting for a worker, or for their lane if it is paused or resting"),
        ({"ready": 2, "waits": Waits({"ready": 1, "empty": 1}, 0, {})}, "ready 2 waiting for a worker claimed"),
        ({"ready": 2, "waits": Waits({"resting": 2}, 0, {})}, "ready 2 waiting for the interval of their lane"),
        (
            {"ready": 4_000, "waits": Waits({"busy": 3_998, "paused": 1, "blocked": 1}, 0, {})},
            "ready 4,000 waiting: 3,998 for others in their lane, 1 in a paused lane, 1 in a blocked lane",
        ),
        ({"ready": 1, "job": JobView(Kind.CRAWL, "pages"), "paused": True}, "ready 1 pages waiting for the end"),
    ],
)
def test_what_items_of_a_state_wait_for(changes: dict[str, Any], expected: str) -> None:
    assert expected in show(view(**changes))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"ready": 3, "done": 1, "checkpoints": [Checkpoint(0, 1, 0, 4)]}, "25.0% of 4 items settled"),
        ({"ready": 1, "dead": 1, "done": 2, "checkpoints": [Checkpoint(0, 1, 0, 4)]}, "75.0% of 4 items settled"),
        ({"ready": 1, "done": 9_999, "checkpoints": [Checkpoint(0, 1, 0, 10_000)]}, "99.9% of 10,000 items settled"),
        ({"delayed": 3, "done": 1, "checkpoints": [Checkpoint(0, 4, 0, 4)]}, "100.0% of 4 items settled"),
        ({"inbox": 1, "done": 1, "checkpoints": [Checkpoint(0, 1, 0, 1)]}, "50.0% of 2 items settled"),
        ({"job": JobView(Kind.SCAN, share=0.125, share_of="of the rows are read")}, "12.5% of the rows are read"),
    ],
)
def test_the_share_of_the_job_that_is_done(changes: dict[str, Any], expected: str) -> None:
    assert expected in show(view(**changes))


def test_nothing_is_a_share_of_no_items() -> None:
    assert "%" not in show(view())


def test_partitions_are_listed_one_by_one() -> None:
    part = PartitionInfo(
        3, ready=2, delayed=0, claimed=0, done=1_000, visits=1_000, dead=0, lanes=1, inbox=0,
        checkpoint=Checkpoint(3, 999, 0, 1_002),
    )  # fmt: skip
    shown = view(partitions=[part], ready=2, done=1_000, lanes=1)
    said = show(shown, partitions=True)
    assert "partition 3 ready 2 done 1,000 lanes 1 checkpoint 999 end 1,002 lag 3" in said
    assert "partition 3" not in show(shown)
    facts = dict(list_facts(shown, partitions=True))
    assert facts["partition 3"] == (
        "ready=2 delayed=0 claimed=0 inbox=0 done=1000 dead=0 lanes=1 checkpoint=999 end=1002"
    )
    assert "partition 3" not in dict(list_facts(shown, partitions=False))


def test_a_line_has_the_share_and_the_rate_if_they_are_known() -> None:
    line = "2030-01-31T12:00:00Z ready=0 delayed=0 claimed=0 inbox=0 done=4 dead=0 lanes=0 lag=0 paused=no"
    assert make_line(view(done=4)) == line
    shown = view(done=4, job=JobView(Kind.SCAN, share=0.5), rates=Rates(done=2.0, dead=0.0, added=0.0))
    assert make_line(shown) == f"{line} share=0.500 done_per_second=2.0"
    assert make_line(view(paused=True)).endswith(" paused=yes")


def test_json_has_the_waits_and_null_for_those_that_are_unknown() -> None:
    assert to_json(view())["waits"] == {"ready": None, "paused_lanes": None, "delayed": None}
    assert to_json(view(waits=Waits({"busy": 1}, 2, {})))["waits"] == {
        "ready": {"busy": 1}, "paused_lanes": 2, "delayed": {},
    }  # fmt: skip
