"""A lane as a row of a table and as JSON."""

from datetime import datetime
from typing import Any

from swath import LaneInfo
from swath.cli.formatting import format_concurrency, format_duration, format_time


def lane_to_json(lane: LaneInfo, now: datetime) -> dict[str, Any]:
    """Return a lane for --json. `overrides` lists the limits that the lane sets itself; a concurrency of null is
    unlimited."""
    return {**lane.as_dict(), "state": get_state(lane, now)}


def lane_to_row(lane: LaneInfo, now: datetime) -> tuple[str, ...]:
    return (
        lane.lane,
        f"{lane.waiting}",
        f"{lane.in_flight}",
        describe_state(lane, now),
        f"{lane.min_interval:g}{'' if 'min_interval' in lane.overrides else ' (default)'}",
        f"{format_concurrency(lane.concurrency)}{'' if 'concurrency' in lane.overrides else ' (default)'}",
    )


def get_state(lane: LaneInfo, now: datetime) -> str:
    """Return why a lane starts no item: paused, blocked, empty, busy (at its concurrency) or resting (waits for its
    interval); or ready."""
    if lane.paused:
        return "paused"
    if is_blocked(lane, now):
        return "blocked"
    if not lane.waiting:
        return "empty"
    if lane.ready_at is None:
        return "busy"
    return "resting" if lane.ready_at > now else "ready"


def is_blocked(lane: LaneInfo, now: datetime) -> bool:
    return lane.blocked_until is not None and lane.blocked_until > now


def describe_state(lane: LaneInfo, now: datetime) -> str:
    """Return the state, with a time if it ends at one."""
    match name := get_state(lane, now):
        case "blocked" if lane.blocked_until is not None:
            return f"blocked until {format_time(lane.blocked_until)}"
        case "resting" if lane.ready_at is not None:
            return f"ready in {format_duration((lane.ready_at - now).total_seconds())}"
        case _:
            return name
