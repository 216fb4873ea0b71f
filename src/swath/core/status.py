"""Status of a frontier, and explanations of where an item is and why it is not being worked on."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any

from swath.core.checkpoint import Checkpoint
from swath.core.clock import SECOND, as_datetime
from swath.core.encoding import DROPPED
from swath.core.inspection import build_lane_info
from swath.core.milestones import MINUTE
from swath.core.store import AHEAD_LIMIT, Found, LaneRow, PartitionStatus, Settings, StoreStatus


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """Exact counters of one partition."""

    partition: int
    ready: int
    delayed: int
    claimed: int
    done: int
    visits: int
    dead: int
    lanes: int
    inbox: int
    checkpoint: Checkpoint
    lag_seconds: float | None = None  # the age of the oldest unsettled item; None if all are settled


@dataclass(frozen=True, slots=True)
class Status:
    """Exact counters of the whole frontier at one moment."""

    ready: int
    delayed: int
    claimed: int
    done: int
    visits: int
    dead: int
    lanes: int
    inbox: int
    paused: bool
    min_interval: float
    concurrency: int | None  # None: unlimited
    max_attempts: int
    checkpoints: Sequence[Checkpoint]
    next_ready_at: datetime | None
    now: datetime
    partitions: Sequence[PartitionInfo] = ()

    @property
    def lag_seconds(self) -> float | None:
        """The age of the oldest unsettled item, in seconds; None if all items are settled.

        It is exact to a minute, after an hour to an hour and after a week to a day, and never too high.
        """
        return max((part.lag_seconds for part in self.partitions if part.lag_seconds is not None), default=None)

    @property
    def waiting(self) -> int:
        """The number of items that are not finished, including those that wait for a revisit."""
        return self.ready + self.delayed + self.claimed + self.inbox

    @property
    def begun(self) -> bool:
        """Whether any item was ever added."""
        return any(checkpoint.end for checkpoint in self.checkpoints) or self.inbox > 0

    @property
    def lag(self) -> int:
        """The number of positions between the checkpoints and the ends."""
        return sum(checkpoint.lag for checkpoint in self.checkpoints)


def list_oldest(store: StoreStatus) -> list[tuple[int, int]]:
    """Return the place of the oldest unsettled item of each partition that has one: just above the checkpoint."""
    return [(part.partition, part.checkpoint + 1) for part in store.partitions if part.checkpoint < part.end]


def summarize_status(store: StoreStatus, times: Mapping[int, int] = MappingProxyType({})) -> Status:
    """Return the status. `times` says by partition when the oldest unsettled item was discovered."""
    parts = store.partitions

    def total(name: str) -> int:
        return sum(getattr(part, name) for part in parts)

    moments = [part.next_ready_at for part in parts if part.next_ready_at is not None]
    return Status(
        ready=total("ready"),
        delayed=total("delayed"),
        claimed=total("claimed"),
        done=total("done"),
        visits=total("visits"),
        dead=total("dead"),
        lanes=total("lanes"),
        inbox=total("inbox"),
        paused=store.signal.paused,
        min_interval=store.settings.min_interval / SECOND,
        concurrency=store.settings.concurrency or None,
        max_attempts=store.settings.max_attempts,
        checkpoints=[_build_checkpoint(part) for part in parts],
        next_ready_at=as_datetime(min(moments)) if moments else None,
        now=as_datetime(store.now),
        partitions=[_build_partition_info(part, times.get(part.partition), store.now) for part in parts],
    )


def _build_checkpoint(part: PartitionStatus) -> Checkpoint:
    return Checkpoint(part.partition, part.checkpoint, part.checkpoint_dead, part.end)


def _build_partition_info(part: PartitionStatus, oldest: int | None, now: int) -> PartitionInfo:
    return PartitionInfo(
        partition=part.partition,
        ready=part.ready,
        delayed=part.delayed,
        claimed=part.claimed,
        done=part.done,
        visits=part.visits,
        dead=part.dead,
        lanes=part.lanes,
        inbox=part.inbox,
        checkpoint=_build_checkpoint(part),
        lag_seconds=None if oldest is None else max(0, now - oldest) / SECOND,
    )


@dataclass(frozen=True, slots=True)
class StoreTime:
    """What the clocks of a store show. They differ if its machine's clock was set since the boot."""

    now: datetime  # the store's own clock, by which durations run
    wall: datetime  # the wall clock, by which `not_before` and `block(until=)` are meant


@dataclass(frozen=True, slots=True)
class StoreInfo:
    """A store's backend, the number of its format and its size in bytes."""

    backend: str
    format: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Explanation:
    """The state of a key in one sentence, and the values behind it."""

    key: str
    state: str  # unknown, inbox, ready, delayed, claimed, done, dead
    sentence: str
    data: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.sentence


def explain_unknown(key: str, lane: str | None, elsewhere: Sequence[Found]) -> Explanation:
    """Explain a key that was never added to a lane, or to any lane. `elsewhere` lists other lanes that have it."""
    sentence = f"{key} was never added." if lane is None else f"{key} was never added to lane {lane}."
    if others := [other.lane.lane for other in elsewhere if other.lane]:
        sentence += f" It is in lane {', '.join(others)}."
    return Explanation(key, "unknown", sentence)


def is_waiting(found: Found) -> bool:
    """Return whether an item holds the checkpoint back."""
    return found.state in ("ready", "claimed") or (found.state == "delayed" and found.settled_at is None)


def explain(key: str, found: Sequence[Found], status: StoreStatus, since: int | None) -> Explanation:
    """Explain a key in one sentence. If several lanes have it, describe the first and name the others.

    `since` is when the item was discovered, if it is waiting.
    """
    first = found[0]
    sentence = f"{key} {_describe_item(first, status.now)}"
    if first.state == "ready" and since is not None and status.now - since >= MINUTE:
        waited = _format_duration((status.now - since) / SECOND)
        sentence += f" It has waited for {waited}, since {_format_time(since)}."
    if first.state == "delayed" and first.lane is not None and first.lane.limits.paused:
        sentence += f" Lane {first.lane.lane} is paused."
    if first.state in ("inbox", "ready", "delayed") and status.signal.paused:
        sentence += " The frontier is paused."
    if others := [other.lane.lane for other in found[1:] if other.lane]:
        sentence += f" The same key is also in lane {', '.join(others)}."
    data = _collect_data(first, status.settings)
    if since is not None:
        data["waiting_since"] = as_datetime(since).isoformat()
    return Explanation(key, first.state, sentence, data)


def _describe_item(found: Found, now: int) -> str:
    due = _format_until(found.due_at, now)
    match found.state:
        case "inbox":
            return "was discovered and will be taken in by the next claim on its partition."
        case "ready":
            return _describe_waiting_item(found, now)
        case "delayed" if found.settled_at is not None:
            return f"was done {_format_since(found.settled_at, now)} and is visited again {due}."
        case "delayed" if found.reason is not None:
            return f"failed {_format_attempts(found.attempts)} ({found.reason}) and is tried again {due}."
        case "delayed":
            return f"is not to be started before {_format_time(found.due_at)}, {due}."
        case "claimed" if found.expires_at is not None and found.expires_at <= now:
            ended = _format_since(found.expires_at, now)
            return f"was being worked on by {found.worker}, whose lease ended {ended}: the next claim takes it back."
        case "claimed":
            return f"is being worked on by {found.worker}, whose lease ends {_format_until(found.expires_at, now)}."
        case "done" if (reason := _read_drop(found)) is not None:
            return f"was dropped {_format_since(found.settled_at, now)}: {reason}."
        case "done":
            result = f" with {found.result}" if found.result is not None else ""
            return f"was done {_format_since(found.settled_at, now)}{result}."
        case _:
            return f"is dead since {_format_time(found.settled_at)}: {found.reason}."


def _read_drop(found: Found) -> str | None:
    """Return why an item was dropped, or None if it was not."""
    result = None if found.result is None else json.loads(found.result)
    return str(result[DROPPED]) if isinstance(result, dict) and DROPPED in result else None


def _describe_waiting_item(found: Found, now: int) -> str:
    ahead = found.ahead or 0
    others = "behind no other" if ahead == 0 else f"behind {ahead:,}{' or more' * (ahead >= AHEAD_LIMIT)}"
    return f"is waiting {others} in lane {found.lane.lane if found.lane else '?'}, {_describe_lane(found.lane, now)}."


def _describe_lane(lane: LaneRow | None, now: int) -> str:
    if lane is None:
        return "which is not known"
    if lane.limits.paused:
        return "which is paused"
    if lane.ready_at is None:
        return f"which has {lane.in_flight} in flight, its limit"
    if lane.ready_at > now:
        what = "blocked until" if lane.limits.blocked_until >= lane.ready_at else "ready at"
        return f"which is {what} {_format_time(lane.ready_at)}, {_format_until(lane.ready_at, now)}"
    return "which is ready"


def _collect_data(found: Found, settings: Settings) -> dict[str, Any]:
    """Return the values that apply to the item's state. Times are in ISO 8601, JSON is decoded."""
    data: dict[str, Any] = {"partition": found.partition, "position": found.position, "priority": found.priority}
    data["attempts"] = found.attempts
    data["payload"] = None if found.payload is None else json.loads(found.payload)
    for name in ("ahead", "fence", "worker", "reason", "error"):
        if (value := getattr(found, name)) is not None:
            data[name] = value
    for name in ("due_at", "expires_at", "settled_at"):
        if (moment := getattr(found, name)) is not None:
            data[name] = as_datetime(moment).isoformat()
    if found.result is not None:
        data["result"] = json.loads(found.result)
    if found.lane is not None:
        data["lane"] = build_lane_info(found.lane, settings).as_dict()
    return data


def _format_time(moment: int | None) -> str:
    return "some time" if moment is None else f"{as_datetime(moment):%Y-%m-%d %H:%M:%S} UTC"


def _format_until(moment: int | None, now: int) -> str:
    if moment is None or moment <= now:
        return "with the next claim"
    return f"in {_format_duration((moment - now) / SECOND)}"


def _format_since(moment: int | None, now: int) -> str:
    return "some time ago" if moment is None else f"{_format_duration(max(0, now - moment) / SECOND)} ago"


def _format_duration(seconds: float) -> str:
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.1f} s"


def _format_attempts(count: int) -> str:
    return "1 attempt" if count == 1 else f"{count} attempts"
