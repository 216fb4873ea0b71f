"""Lanes and items as the methods of Frontier return them: seconds, datetimes and decoded payloads."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from swath.core.clock import SECOND, as_datetime
from swath.core.counters import NO_COUNTERS
from swath.core.errors import InvalidSetting
from swath.core.item import Item
from swath.core.lane import Pacing
from swath.core.store import AuditRow, ClaimRow, Cursor, Found, ItemRow, LaneRow, Settings
from swath.core.validation import show


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
    state: Literal["dead"] = "dead"

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
    state: Literal["done"] = "done"


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
    due_at: datetime | None = None  # delayed
    claim: int | None = None  # claimed: the number of the claim
    reason: str | None = None  # why the last attempt failed
    error: str | None = None


ListedItem = PendingItem | DoneItem | DeadItem


@dataclass(frozen=True, slots=True)
class ItemPage:
    """Some items of a listing. A page may be empty before the listing ends."""

    items: Sequence[ListedItem]
    after: str | None  # pass it to `Frontier.items` for the next page; None: there are no more


@dataclass(frozen=True, slots=True)
class ClaimInfo:
    """A claim that holds items."""

    claim: int  # the number of the claim
    worker: str
    since: datetime | None  # None: an earlier version of swath made the claim, and did not store it
    expires_at: datetime
    lease_left: float  # seconds; negative if the lease has expired and no other worker took the items over yet
    items: int  # that it still holds


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """A change that somebody made to the frontier."""

    time: datetime
    actor: str  # user@host
    action: str  # the name of the method of Frontier
    lane: str | None
    items: int | None  # how many it changed
    detail: Mapping[str, Any]  # the arguments that matter


@dataclass(frozen=True, slots=True)
class LaneRanking:
    """The first lanes in an order, out of those that were examined."""

    lanes: Sequence[LaneInfo]
    examined: int
    complete: bool  # whether every lane was examined


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


def build_item(row: ItemRow) -> ListedItem:
    match row.state:
        case "done":
            return build_done_item(row)
        case "dead":
            return build_dead_item(row)
        case _:
            return build_pending_item(row)


def build_dead_item(row: ItemRow) -> DeadItem:
    return DeadItem(
        key=row.key,
        lane=row.lane,
        priority=row.priority,
        payload=decode_payload(row.payload),
        attempts=row.attempts,
        reason=row.reason or "",
        error=row.error,
        settled_at=as_datetime(row.settled_at or 0),
        partition=row.partition,
        position=row.position,
    )


def build_found_row(found: Found) -> ItemRow:
    """Return a done or dead item that was found by its key as a listing has it."""
    assert found.lane is not None
    assert found.position is not None
    return ItemRow(
        partition=found.partition,
        position=found.position,
        state=found.state,
        lane=found.lane.lane,
        priority=found.priority,
        key=found.key,
        payload=found.payload,
        attempts=found.attempts,
        settled_at=found.settled_at,
        result=found.result,
        reason=found.reason,
        error=found.error,
    )


def build_done_item(row: ItemRow) -> DoneItem:
    return DoneItem(
        key=row.key,
        lane=row.lane,
        priority=row.priority,
        payload=decode_payload(row.payload),
        result=decode_payload(row.result),
        settled_at=as_datetime(row.settled_at or 0),
        partition=row.partition,
        position=row.position,
    )


def build_pending_item(row: ItemRow) -> PendingItem:
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
        due_at=None if row.due_at is None else as_datetime(row.due_at),
        claim=row.fence,
        reason=row.reason,
        error=row.error,
    )


def build_audit_entry(row: AuditRow) -> AuditEntry:
    detail = {} if row.detail is None else json.loads(row.detail)
    return AuditEntry(as_datetime(row.time), row.actor, row.action, row.lane, row.items, detail)


def build_claim_info(row: ClaimRow, now: int) -> ClaimInfo:
    return ClaimInfo(
        claim=row.fence,
        worker=row.worker,
        since=as_datetime(row.claimed_at) if row.claimed_at else None,
        expires_at=as_datetime(row.expires_at),
        lease_left=(row.expires_at - now) / SECOND,
        items=row.items,
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
        due_at=None if found.due_at is None else as_datetime(found.due_at),
        reason=found.reason,
        error=found.error,
    )


def decode_payload(payload: str | None) -> Any:
    return None if payload is None else json.loads(payload)


_CURSOR = re.compile(r"(-?[0-9]{1,19})/(-?[0-9]{1,19})/(-?[0-9]{1,19})", re.ASCII)


def format_cursor(cursor: Cursor) -> str:
    """Return a place in a listing as text."""
    return "/".join(map(str, cursor))


def parse_cursor(text: Any) -> Cursor:
    """Return the place that a page of the listing has named."""
    match = _CURSOR.fullmatch(text) if isinstance(text, str) else None
    if match is None or not all(-(2**63) <= int(number) < 2**63 for number in match.groups()):
        raise InvalidSetting(f"after={show(text)} is not from a page of this listing: pass its `after`")
    partition, first, second = map(int, match.groups())
    return partition, first, second
