"""Lanes and items as the methods of Frontier return them: seconds, datetimes and decoded payloads."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from swath.core.clock import SECOND, as_datetime
from swath.core.counters import NO_COUNTERS
from swath.core.item import Item
from swath.core.lane import Pacing
from swath.core.store import DeadRow, DoneRow, Found, LaneRow, PendingRow, Settings


@dataclass(frozen=True, slots=True)
class LaneInfo:
    """A lane: its limits, its state and its counters."""

    lane: str
    partition: int
    min_interval: float  # seconds; this and `concurrency` are the limits in force, set by the lane or by the frontier
    concurrency: int | None  # None: unlimited
    overrides: frozenset[str]  # the limits that the lane sets itself: "min_interval", "concurrency"
    paused: bool
    blocked_until: datetime | None  # may be in the past
    waiting: int
    in_flight: int
    visits: int  # how often an item was started and done
    ready_at: datetime | None  # when the next item may start; None if the lane is empty, busy or paused
    last_at: datetime | None  # the last settlement if concurrency is 1, else the last start; None if there was none
    counters: Mapping[str, int] = NO_COUNTERS

    def as_dict(self) -> dict[str, Any]:
        """Return the lane ready to be written as JSON, with times in ISO 8601."""
        return {
            "lane": self.lane,
            "partition": self.partition,
            "waiting": self.waiting,
            "in_flight": self.in_flight,
            "visits": self.visits,
            "ready_at": None if self.ready_at is None else self.ready_at.isoformat(),
            "min_interval": self.min_interval,
            "concurrency": self.concurrency,
            "overrides": sorted(self.overrides),
            "paused": self.paused,
            "blocked_until": None if self.blocked_until is None else self.blocked_until.isoformat(),
            "counters": dict(self.counters),
        }


@dataclass(frozen=True, slots=True)
class DeadItem:
    """An item that will not be tried again, with the reason."""

    key: str
    lane: str
    priority: int
    payload: Any
    attempts: int
    reason: str
    error: str | None
    settled_at: datetime
    partition: int
    position: int

    @property
    def item(self) -> Item:
        """The item itself, whose outcomes `frontier.repair` takes."""
        return Item(
            self.key,
            self.lane,
            self.priority,
            self.payload,
            attempts=self.attempts,
            partition=self.partition,
            position=self.position,
        )


@dataclass(frozen=True, slots=True)
class DoneItem:
    """An item that is done, with its result."""

    key: str
    lane: str
    priority: int
    payload: Any
    result: Any
    settled_at: datetime
    partition: int
    position: int


@dataclass(frozen=True, slots=True)
class PendingItem:
    """An item that is ready, delayed or claimed. It holds the checkpoint back, unless it waits for a revisit."""

    key: str
    lane: str
    priority: int
    payload: Any
    attempts: int
    state: str  # ready, delayed, claimed
    partition: int
    position: int
    revisit: bool = False  # delayed: it is done, and waits for its next visit


def build_lane_info(row: LaneRow, settings: Settings) -> LaneInfo:
    limits = row.limits
    pacing = limits.pacing(Pacing(settings.min_interval, settings.concurrency))
    own = {"min_interval": limits.min_interval, "concurrency": limits.concurrency}
    return LaneInfo(
        lane=row.lane,
        partition=row.partition,
        min_interval=pacing.min_interval / SECOND,
        concurrency=pacing.concurrency or None,
        overrides=frozenset(name for name, value in own.items() if value is not None),
        paused=limits.paused,
        blocked_until=as_datetime(limits.blocked_until) if limits.blocked_until else None,
        waiting=row.waiting,
        in_flight=row.in_flight,
        visits=row.visits,
        ready_at=None if row.ready_at is None else as_datetime(row.ready_at),
        last_at=as_datetime(row.last_at) if row.last_at else None,
        counters=row.counters,
    )


def build_dead_item(row: DeadRow) -> DeadItem:
    return DeadItem(
        key=row.key,
        lane=row.lane,
        priority=row.priority,
        payload=decode_payload(row.payload),
        attempts=row.attempts,
        reason=row.reason,
        error=row.error,
        settled_at=as_datetime(row.settled_at),
        partition=row.partition,
        position=row.position,
    )


def build_dead_row(found: Found) -> DeadRow:
    """Return a dead item that was found by its key as a listing has it."""
    assert found.state == "dead"
    assert found.lane is not None
    assert found.position is not None
    return DeadRow(
        partition=found.partition,
        position=found.position,
        lane=found.lane.lane,
        priority=found.priority,
        key=found.key,
        payload=found.payload,
        attempts=found.attempts,
        settled_at=found.settled_at or 0,
        reason=found.reason or "",
        error=found.error,
    )


def build_done_row(found: Found) -> DoneRow:
    """Return a done item that was found by its key as a listing has it."""
    assert found.state == "done"
    assert found.lane is not None
    assert found.position is not None
    settled_at = found.settled_at or 0
    place = (found.partition, found.position)
    return DoneRow(*place, found.lane.lane, found.priority, found.key, found.payload, settled_at, found.result)


def build_done_item(row: DoneRow) -> DoneItem:
    return DoneItem(
        key=row.key,
        lane=row.lane,
        priority=row.priority,
        payload=decode_payload(row.payload),
        result=decode_payload(row.result),
        settled_at=as_datetime(row.settled_at),
        partition=row.partition,
        position=row.position,
    )


def build_pending_item(row: PendingRow) -> PendingItem:
    return PendingItem(
        key=row.key,
        lane=row.lane,
        priority=row.priority,
        payload=decode_payload(row.payload),
        attempts=row.attempts,
        state=row.state,
        partition=row.partition,
        position=row.position,
        revisit=row.revisit,
    )


def build_found_item(found: Found) -> PendingItem:
    """Return a ready or delayed item that was found by its key as a listing has it."""
    assert found.lane is not None
    assert found.position is not None
    return PendingItem(
        key=found.key,
        lane=found.lane.lane,
        priority=found.priority,
        payload=decode_payload(found.payload),
        attempts=found.attempts,
        state=found.state,
        partition=found.partition,
        position=found.position,
        revisit=found.state == "delayed" and found.settled_at is not None,
    )


def decode_payload(payload: str | None) -> Any:
    return None if payload is None else json.loads(payload)
