"""Ledger: records every call and reply of a store, and checks that the store keeps INV-1 to INV-7.

It shares no code with any store. If a store has a choice (such as taking back an expired claim now or with the next
claim), the ledger calls `find` to see what the store did, and checks that this was allowed.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from swath.core.store import (
    DEFAULT,
    ClaimReply,
    EncodedItem,
    Found,
    LaneChange,
    LaneRow,
    Move,
    MoveKind,
    PartitionStatus,
    Settings,
    Settlement,
    SettleReply,
)

Name = tuple[str, str]  # lane and key


@dataclass(slots=True)
class Entry:
    """One item. `waiting` means inbox, ready or delayed; `revisit` means done and waiting for the next visit."""

    item: EncodedItem
    state: str = "waiting"
    due_at: int = 0
    attempts: int = 0
    losses: int = 0
    fence: int = 0
    span: int = 1
    payload: str | None = None
    in_inbox: bool = False  # whether `find` last saw it in an inbox


@dataclass(slots=True)
class Held:
    """A claim and its unsettled items, by (partition, position)."""

    expires_at: int
    names: dict[tuple[int, int], Name]
    lost: bool = False


@dataclass(slots=True)
class Lane:
    min_interval: int | None = None
    concurrency: int | None = None
    paused: bool = False
    blocked_until: int = 0
    last_at: int = 0
    started_at: int = 0
    visits: int = 0
    counters: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class Ledger:
    settings: Settings
    entries: dict[Name, Entry] = field(default_factory=dict)
    claims: dict[int, Held] = field(default_factory=dict)
    lanes: dict[str, Lane] = field(default_factory=dict)
    outputs: dict[str, int] = field(default_factory=dict)
    counters: Counter[str] = field(default_factory=Counter)
    facts: dict[str, str] = field(default_factory=dict)
    checkpoints: dict[int, int] = field(default_factory=dict)
    times: dict[int, int] = field(default_factory=dict)
    paused: bool = False

    # what happened

    def added(self, items: Sequence[EncodedItem], count: int) -> None:
        """INV-7: a known item is not new. An item in an inbox may still be new to its partition."""
        names = {(item.lane, item.key) for item in items}
        known = names & self.entries.keys()
        fresh = len(names - known)
        on_its_way = sum(self.entries[name].in_inbox for name in known)
        assert fresh <= count <= fresh + on_its_way, f"INV-7: {count} of {names} were new; known before: {known}"
        self._enter(items)

    def _enter(self, items: Sequence[EncodedItem]) -> None:
        for item in items:
            self._lane(item.lane)
            entry = Entry(item, due_at=item.not_before or 0, span=item.span, payload=item.payload)
            self.entries.setdefault((item.lane, item.key), entry)

    def claimed(
        self,
        reply: ClaimReply,
        *,
        limit: int,
        found: Mapping[Name, Found],
        times: Mapping[int, int],
    ) -> None:
        """Record a claim. `times` are the times of the partitions after it."""
        recovered, died = self._see_taken_back(found, times)
        assert (reply.recovered, reply.died) == (recovered, died), "INV-4: the reply counts the taken back items"
        assert len(reply.items) <= limit
        assert not (self.paused and reply.items), "the frontier is paused"
        starts: Counter[str] = Counter()
        names = {}
        for held in reply.items:
            name = (held.lane, held.key)
            entry, now = self.entries[name], times[held.partition]
            assert entry.state in ("waiting", "revisit"), f"INV-1, INV-7: {name} was {entry} and is handed out"
            assert entry.due_at <= now, f"{name} is handed out {entry.due_at - now} µs before it is due"
            assert (held.attempts, held.losses, held.span, held.payload, held.priority) == (
                entry.attempts,
                entry.losses,
                entry.span,
                entry.payload,
                entry.item.priority,
            )
            assert held.position > self.checkpoints.get(held.partition, 0), f"INV-6: the checkpoint passed {name}"
            in_flight = self._check_start(held.lane, starts[held.lane], now)
            assert (held.lane_visits, held.lane_in_flight) == (self.lanes[held.lane].visits, in_flight)
            assert held.lane_counters == self.lanes[held.lane].counters, "INV-5: a counter of the lane"
            starts[held.lane] += 1
            names[held.partition, held.position] = name
        for held in reply.items:
            entry = self.entries[held.lane, held.key]
            entry.state, entry.fence, entry.due_at = "held", reply.fence, 0
            self.lanes[held.lane].started_at = times[held.partition]
            if self._pacing(held.lane)[1] != 1:
                self.lanes[held.lane].last_at = times[held.partition]
        pacings = [self._pacing(held.lane) for held in reply.items]
        assert reply.starts_count == any(interval and concurrency != 1 for interval, concurrency in pacings), "INV-3"
        if reply.items:
            assert reply.fence > 0
            assert reply.fence not in self.claims, "INV-2: a fence is used twice"
            self.claims[reply.fence] = Held(reply.expires_at, names)

    def _see_taken_back(self, found: Mapping[Name, Found], times: Mapping[int, int]) -> tuple[int, int]:
        """Another worker may hold items only if the lease of their earlier claim has ended (INV-1)."""
        back: list[tuple[int, tuple[int, int], Name]] = []
        for fence, claim in self.claims.items():
            for place, name in claim.names.items():
                now = found[name]
                if not (now.state == "claimed" and now.fence == fence):
                    ended = claim.expires_at <= times[place[0]]
                    assert ended, f"INV-1: {name} was taken from claim {fence} while its lease held"
                    back.append((fence, place, name))
        died = 0
        for fence, place, name in back:
            self.claims[fence].lost = True
            del self.claims[fence].names[place]
            entry = self.entries[name]
            entry.attempts, entry.losses, entry.fence, entry.state = entry.attempts + 1, entry.losses + 1, 0, "waiting"
            self.lanes[name[0]].last_at = times[place[0]]
            if entry.losses >= self.settings.max_attempts:
                died += 1
                entry.state = "dead"
        return len(back), died

    def _check_start(self, lane: str, started: int, now: int) -> int:
        """INV-3, for one more item of a lane that `started` in this claim already; how many are in flight."""
        min_interval, concurrency = self._pacing(lane)
        known = self.lanes[lane]
        in_flight = sum(1 for (name, _), entry in self.entries.items() if name == lane and entry.state == "held")
        assert not known.paused, f"INV-3: lane {lane} is paused"
        assert known.blocked_until <= now, f"INV-3: lane {lane} is blocked for another {known.blocked_until - now} µs"
        if concurrency:
            assert in_flight + started < concurrency, f"INV-3: {in_flight} and {started} more in flight in lane {lane}"
        if min_interval:
            assert started == 0, f"INV-3: lane {lane} starts two at once"
            last_at = known.last_at if concurrency == 1 else max(known.last_at, known.started_at)
            if last_at:
                early = last_at + min_interval - now
                assert early <= 0, f"INV-3: lane {lane} starts {early} µs too soon"
        return in_flight + started

    def renewed(self, fence: int, expires_at: int) -> None:
        claim = self.claims[fence]
        assert not claim.lost, f"INV-2: claim {fence} was lost and is renewed"
        claim.expires_at = expires_at

    def settled(self, fence: int, settlement: Settlement, reply: SettleReply) -> None:
        claim = self.claims[fence]
        assert not claim.lost, f"INV-2: claim {fence} was lost and settles"
        assert reply.checkpoint >= self.checkpoints.get(settlement.partition, 0), "INV-6: back"
        for move in settlement.moves:
            name = claim.names.pop((settlement.partition, move.position))
            self._settle(name, move, reply.now)
        self._commit_rest(settlement, reply)

    def repaired(self, names: Mapping[int, Name], settlement: Settlement, reply: SettleReply) -> None:
        """Dead items are settled without a start. `names` has the dead items of the partition, by position."""
        assert reply.checkpoint == self.checkpoints.get(settlement.partition, 0), "INV-6"
        for move in settlement.moves:
            entry = self.entries[names[move.position]]
            assert entry.state == "dead", f"{names[move.position]} was {entry} and is repaired"
            if move.kind is MoveKind.DONE:
                entry.state, entry.attempts, entry.losses = "done", 0, 0
            else:
                entry.attempts += 1
        self._commit_rest(settlement, reply)

    def _commit_rest(self, settlement: Settlement, reply: SettleReply) -> None:
        near = [item for item in settlement.discovered if item.partition == settlement.partition]
        fresh = len({(item.lane, item.key) for item in settlement.discovered} - self.entries.keys())
        assert reply.discovered <= fresh + sum(entry.in_inbox for entry in self.entries.values())
        if len(near) == len(settlement.discovered):
            assert reply.discovered >= fresh
        self._enter(settlement.discovered)
        for output in settlement.outputs:
            assert self.outputs.get(output.name, 0) == output.old, "INV-5: an output was written over"
            self.outputs[output.name] = output.new
        self.facts |= dict(settlement.facts)
        self.counters.update(settlement.counters)
        for lane, counters in settlement.lane_counters.items():
            self.lanes[lane].counters.update(counters)

    def _settle(self, name: Name, move: Move, now: int) -> None:
        entry = self.entries[name]
        entry.fence, entry.due_at = 0, 0
        if self._pacing(name[0])[1] == 1 and move.started:
            self.lanes[name[0]].last_at = now
        if move.kind is MoveKind.DONE:
            self.lanes[name[0]].visits += move.started
            entry.attempts = entry.losses = 0
            entry.state = "done" if move.delay is None else "revisit"
            entry.due_at = 0 if move.delay is None else now + move.delay
            entry.payload = entry.payload if move.payload is None else move.payload
        elif move.kind is MoveKind.RETRY:
            entry.state, entry.attempts, entry.due_at = "waiting", entry.attempts + 1, now + (move.delay or 0)
        elif move.kind is MoveKind.DEAD:
            entry.state, entry.attempts = "dead", entry.attempts + 1
        elif move.kind is MoveKind.RELEASE:
            entry.state, entry.due_at = "waiting", 0 if move.delay is None else now + move.delay
        elif entry.span == 1:
            assert move.rest is not None
            entry.state, entry.payload = "waiting", move.rest.payload
        else:
            assert move.rest is not None
            keeps = entry.span // 2
            self._enter([move.rest._replace(span=entry.span - keeps)])
            entry.state, entry.attempts, entry.losses = "done", 0, 0
            entry.span, entry.payload = keeps, move.payload

    def changed_lane(self, name: str, change: LaneChange, times: Mapping[int, int]) -> None:
        lane, before = self._lane(name), self._pacing(name)
        if change.min_interval is not None:
            lane.min_interval = None if change.min_interval == DEFAULT else change.min_interval
        if change.concurrency is not None:
            lane.concurrency = None if change.concurrency == DEFAULT else change.concurrency
        if change.paused is not None:
            lane.paused = change.paused
        if change.blocked_until is not None:
            lane.blocked_until = change.blocked_until
        self._count_starts(name, before, times)

    def changed_settings(self, times: Mapping[int, int], **values: int | None) -> None:
        before = {name: self._pacing(name) for name in self.lanes}
        self.settings = self.settings._replace(**{name: value for name, value in values.items() if value is not None})
        for name, pacing in before.items():
            self._count_starts(name, pacing, times)

    def _count_starts(self, name: str, before: tuple[int, int], times: Mapping[int, int]) -> None:
        """INV-3: if a change makes the interval run from the start, items in flight count as started now."""
        held = [entry for (lane, _), entry in self.entries.items() if lane == name and entry.state == "held"]
        if held and before[1] == 1 and self._pacing(name)[1] != 1:
            self.lanes[name].last_at = times[held[0].item.partition]

    def reopened(self, names: Sequence[Name], count: int) -> None:
        expected = [self.entries[name] for name in set(names) if self.entries[name].state in ("done", "dead")]
        assert count == len(expected)
        for entry in expected:
            entry.state, entry.attempts, entry.losses, entry.due_at = "waiting", 0, 0, 0

    def dropped(self, names: Sequence[Name], count: int) -> None:
        """INV-4: what waited is done, and nothing else has changed."""
        assert count == len(names)
        for name in names:
            entry = self.entries[name]
            assert entry.state in ("waiting", "revisit"), f"{name} was {entry} and is dropped"
            entry.state, entry.attempts, entry.losses, entry.due_at = "done", 0, 0, 0

    # what must hold

    def check(
        self,
        found: Mapping[Name, Found],
        status: Sequence[PartitionStatus],
        lanes: Sequence[tuple[int, LaneRow]],
        outputs: Mapping[str, int],
        counters: Mapping[str, int],
        facts: Mapping[str, str],
    ) -> None:
        for partition in status:
            self._check_partition(partition, [f for f in found.values() if f.partition == partition.partition])
        for name, entry in self.entries.items():
            self._check_place(name, entry, found[name])
        self._check_lanes(found, lanes)
        assert outputs == self.outputs, "INV-5"
        assert counters == self.counters, "INV-5"
        assert facts == self.facts, "INV-5"
        in_flight = {name for claim in self.claims.values() for name in claim.names.values()}
        assert in_flight == {name for name, entry in self.entries.items() if entry.state == "held"}, "INV-1"

    def _check_place(self, name: Name, entry: Entry, found: Found) -> None:
        """INV-4: each item is in exactly one state, and in the right one."""
        entry.in_inbox = found.state == "inbox"
        allowed = {
            "waiting": {"inbox", "ready"} if entry.due_at == 0 else {"inbox", "ready", "delayed"},
            "revisit": {"delayed", "ready"},
            "held": {"claimed"},
            "done": {"done"},
            "dead": {"dead"},
        }[entry.state]
        assert found.state in allowed, f"INV-4: {name} is {entry.state}, and found as {found}"
        if found.state == "ready":
            assert entry.due_at <= self.times.get(found.partition, 0), f"{name} is ready before it is due"
        if found.state == "delayed":
            assert found.due_at == entry.due_at
        if found.state == "claimed":
            assert found.fence == entry.fence, f"INV-1: {name} is held by {entry.fence}, and found as {found}"
            assert found.expires_at == self.claims[entry.fence].expires_at
        assert (found.attempts, found.payload, found.priority) == (entry.attempts, entry.payload, entry.item.priority)
        assert found.partition == entry.item.partition

    def _check_partition(self, status: PartitionStatus, found: Sequence[Found]) -> None:
        """Check exact counters, a correct checkpoint (INV-6), and time that never moves back."""
        number = status.partition
        counted = Counter(item.state for item in found)
        for state in ("ready", "delayed", "claimed", "done", "dead"):
            assert getattr(status, state) == counted[state], f"INV-4: {counted} in {status}"
        assert status.inbox >= counted["inbox"]
        lanes = {item.lane.lane for item in found if item.lane}
        assert status.visits == sum(self.lanes[lane].visits for lane in lanes)
        assert status.time >= self.times.get(number, 0), "partition time ran back"
        self.times[number] = status.time
        before, self.checkpoints[number] = self.checkpoints.get(number, 0), status.checkpoint
        assert before <= status.checkpoint <= status.end, f"INV-6: from {before} to {status.checkpoint}"
        positions = [item.position for item in found if item.position is not None]
        assert len(set(positions)) == len(positions), "two items at one position"
        unsettled = [
            item.position or 0
            for item in found
            if item.state in ("ready", "claimed") or (item.state == "delayed" and item.settled_at is None)
        ]
        assert status.checkpoint < min(unsettled, default=status.end + 1), f"INV-6: {unsettled} are unsettled: {status}"
        if not unsettled:
            assert status.checkpoint == status.end, f"INV-6: all is settled: {status}"
        dead = sum(item.state == "dead" and (item.position or 0) <= status.checkpoint for item in found)
        assert status.checkpoint_dead == dead, f"INV-6: {dead} dead below the checkpoint: {status}"

    def _check_lanes(self, found: Mapping[Name, Found], lanes: Sequence[tuple[int, LaneRow]]) -> None:
        """Check that a lane agrees with its items, and that a lane that can start an item says when."""
        arrived = {lane for lane, known in self.lanes.items() if known != Lane()}
        arrived |= {lane for (lane, _), item in found.items() if item.state != "inbox"}
        seen = {status.lane: status for _, status in lanes}
        assert arrived <= seen.keys() <= self.lanes.keys()
        for name, status in seen.items():
            known = self.lanes[name]
            states = Counter(item.state for (lane, _), item in found.items() if lane == name)
            assert (status.waiting, status.in_flight) == (states["ready"], states["claimed"]), f"{status}: {states}"
            assert (status.last_at, status.visits) == (known.last_at, known.visits), f"{status}: {known}"
            assert status.counters == known.counters, f"INV-5: {status}: {known}"
            assert tuple(status.limits) == (known.min_interval, known.concurrency, known.paused, known.blocked_until)
            if known.paused or not status.waiting:
                assert status.ready_at is None, f"{status}: {known}"
            elif not status.in_flight:
                assert status.ready_at is not None, f"lost wake-up: nothing will wake {status}"

    def unsettled(self) -> list[Name]:
        return [name for name, entry in self.entries.items() if entry.state not in ("done", "dead")]

    def _lane(self, name: str) -> Lane:
        return self.lanes.setdefault(name, Lane())

    def _pacing(self, name: str) -> tuple[int, int]:
        lane = self._lane(name)
        return (
            self.settings.min_interval if lane.min_interval is None else lane.min_interval,
            self.settings.concurrency if lane.concurrency is None else lane.concurrency,
        )
