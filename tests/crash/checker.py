"""What must hold after every crash test, whatever happened: asked of the logs of all processes and of the store.

Logs of different processes are ordered by fences, not by wall time. Times that are compared are the store's, and only
where the comparison proves something: a hand-out is logged with a time that is never too early, a settlement with the
very time that the store gave it. `exact_times=False` says that replies were lost, so that a settlement may have been
logged with the time at which it was looked up; then only the times in the store's rows count.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import pairwise
from typing import NamedTuple

import swath
from swath.core.store import MoveKind, PartitionStatus
from swath.frontier import Frontier
from tests.crash.journal import FINAL, HandOut, Log, Settled
from tests.crash.places import Place, Row
from tests.crash.workload import Limits, Workload, limits_of

SECOND = 1_000_000
CLOCK_TOLERANCE = 0.001  # seconds by which two of this machine's clocks may run apart over a moment


async def check(
    place: Place,
    log: Log,
    workload: Workload,
    *,
    exact_times: bool = True,
    calm: bool = False,
    also_dead: Mapping[str, str] | None = None,
) -> None:
    """Everything. `calm` says that no lease ended and no process died: then handlers, too, kept to the limits."""
    rows = place.rows()
    check_nothing_lost(rows, done=workload.expected_done, dead={**workload.expected_dead, **(also_dead or {})})
    check_drops(log, rows)
    check_single_holder(log, rows, exact_times=exact_times)
    check_lanes(log, rows, exact_times=exact_times)
    if calm:
        check_calm(log)
        check_handlers(log)
    check_summaries(log)
    async with swath.open(place.url, create=False) as frontier:
        await check_counters(frontier)


# INV-4, INV-7


def check_nothing_lost(rows: Sequence[Row], *, done: Set[str], dead: Mapping[str, str]) -> None:
    """Every key is there once: done, or dead with the reason it was meant to have."""
    twice = [key for key, count in Counter(row.key for row in rows).items() if count > 1]
    assert not twice, f"settled twice: {twice[:10]}"
    is_done = {row.key for row in rows if row.reason is None}
    is_dead = {row.key: row.reason for row in rows if row.reason is not None}
    odd = [f"{key} ({reason})" for key, reason in is_dead.items() if dead.get(key) != reason]
    assert not odd, f"{len(odd)} are dead that should not be, or for another reason: {_some(odd)}"
    lost = (done | dead.keys()) - is_done - is_dead.keys()
    assert not lost, f"{len(lost)} lost: {_some(lost)}"
    assert is_done <= done, f"not to be done: {_some(is_done - done)}"


# INV-1, INV-2


def check_single_holder(log: Log, rows: Sequence[Row], *, exact_times: bool) -> None:
    """Per item: fences rise, each hand-out is settled at most once, and the last one's result is what stands."""
    holders: dict[int, str] = {}
    by_key: dict[str, list[HandOut]] = defaultdict(list)
    for hand_out in log.hand_outs:
        assert holders.setdefault(hand_out.fence, hand_out.process) == hand_out.process, "two claims under one fence"
        by_key[hand_out.key].append(hand_out)
    settled = _settled_once(log)
    stored = {row.key: row for row in rows}
    for key, hand_outs in by_key.items():
        hand_outs.sort(key=lambda hand_out: hand_out.fence)
        for before, after in pairwise(hand_outs):
            _check_succession(log, before, after, settled.get((before.fence, before.place)), exact_times=exact_times)
        _check_last(hand_outs[-1], stored[key], settled.get((hand_outs[-1].fence, hand_outs[-1].place)))
    given = {(hand_out.process, hand_out.fence, hand_out.place) for hand_out in log.hand_outs}
    for entry in settled.values():
        assert (entry.process, entry.fence, entry.place) in given, f"settled and never handed out: {entry}"


def _settled_once(log: Log) -> dict[tuple[int, tuple[int, int]], Settled]:
    settled: dict[tuple[int, tuple[int, int]], Settled] = {}
    for entry in log.settled:
        assert settled.setdefault((entry.fence, entry.place), entry) is entry, f"settled twice: {entry}"
    return settled


def check_drops(log: Log, rows: Sequence[Row]) -> None:
    """INV-1, INV-4: what was dropped was in nobody's hands, and nobody finished it before."""
    dropped = {row.key for row in rows if row.dropped is not None}
    keys = {(hand_out.fence, hand_out.place): hand_out.key for hand_out in log.hand_outs}
    for entry in log.settled:
        assert entry.kind not in FINAL or keys[entry.fence, entry.place] not in dropped, f"dropped after {entry}"


def _check_succession(log: Log, before: HandOut, after: HandOut, settled: Settled | None, *, exact_times: bool) -> None:
    """The earlier claim on an item was over when the later one began."""
    both = f"{before} then {after}"
    assert before.fence < after.fence, f"handed out twice in one claim: {both}"
    assert before.attempts <= after.attempts, f"attempts were forgotten: {both}"
    if settled is not None:
        assert settled.kind not in FINAL, f"handed out after it was {settled.kind.name}: {both}"
        if exact_times:
            assert settled.now < after.now, f"handed out before it was given back: {both}"
            assert after.attempts >= before.attempts + (settled.kind is MoveKind.RETRY)
    elif (before.fence, before.place) not in log.sent:
        # Nobody can have settled it, so only the end of its lease can have freed it.
        assert log.leases[before.fence] <= after.now, f"in two live claims: {both}, lease {log.leases[before.fence]}"
        assert before.attempts < after.attempts, f"a lost worker is not counted: {both}"


def _check_last(last: HandOut, row: Row, settled: Settled | None) -> None:
    if row.dropped is not None:
        return
    if row.fence is not None:
        assert row.fence == last.fence, f"a result of fence {row.fence} stands, but it was handed out later: {last}"
    if settled is not None:
        expected = MoveKind.DONE if row.reason is None else MoveKind.DEAD
        assert settled.kind is expected, f"confirmed as {settled.kind.name}, but not in the store: {row}"


# INV-3


class _Flight(NamedTuple):
    """A stretch of store time in which an item was in flight for certain."""

    start: int
    end: int


def check_lanes(log: Log, rows: Sequence[Row], *, exact_times: bool) -> None:
    """No lane was above its concurrency, and none started an item too soon, as far as the store's times prove it."""
    settled = _settled_once(log)
    stored = {row.key: row for row in rows}
    lanes: dict[str, list[HandOut]] = defaultdict(list)
    for hand_out in log.hand_outs:
        lanes[hand_out.lane].append(hand_out)
    for lane, hand_outs in lanes.items():
        limits = limits_of(lane)
        ends = {hand_out: _end(log, hand_out, settled, stored, exact_times=exact_times) for hand_out in hand_outs}
        flights = [_Flight(hand_out.now, end) for hand_out, end in ends.items() if end is not None]
        check_concurrency(lane, flights, limits)
        if limits.min_interval and limits.concurrency == 1:
            _check_pauses(lane, hand_outs, [_stamp(hand_out, settled, ends[hand_out]) for hand_out in hand_outs])
        elif limits.min_interval:
            _check_starts(lane, hand_outs, limits)


def _end(
    log: Log,
    hand_out: HandOut,
    settled: dict[tuple[int, tuple[int, int]], Settled],
    stored: dict[str, Row],
    *,
    exact_times: bool,
) -> int | None:
    """Until when an item was in flight at the least; None when that is not known."""
    row = stored[hand_out.key]
    entry = settled.get((hand_out.fence, hand_out.place))
    if row.fence == hand_out.fence or (entry is not None and entry.kind is MoveKind.DEAD):
        return row.settled_at
    if entry is not None:
        return entry.now if exact_times else None
    if (hand_out.fence, hand_out.place) in log.sent:
        return None  # its process died before it heard whether it was settled
    return log.leases[hand_out.fence]


def _stamp(hand_out: HandOut, settled: dict[tuple[int, tuple[int, int]], Settled], end: int | None) -> int | None:
    """When the end of an item set its lane's clock: not when it was given back without having been started."""
    entry = settled.get((hand_out.fence, hand_out.place))
    if entry is None or (entry.kind is MoveKind.RELEASE and not entry.started):
        return None
    return end


def check_concurrency(lane: str, flights: Iterable[_Flight], limits: Limits) -> None:
    if not limits.concurrency:
        return
    # At the same moment, what ends goes before what starts.
    edges = sorted([(flight.start, 1) for flight in flights] + [(flight.end, -1) for flight in flights])
    in_flight = 0
    for moment, change in edges:
        in_flight += change
        assert in_flight <= limits.concurrency, f"{in_flight} items of lane {lane} were in flight at {moment}: {limits}"


def _check_pauses(lane: str, hand_outs: Sequence[HandOut], stamps: Sequence[int | None]) -> None:
    """One at a time: nothing starts sooner than the interval after the last settlement.

    A hand-out that is logged after a settlement also happened after it: otherwise both would have been in flight.
    """
    interval = round(limits_of(lane).min_interval * SECOND)
    edges = sorted(
        [(hand_out.now, 1) for hand_out in hand_outs] + [(stamp, 0) for stamp in stamps if stamp is not None]
    )
    last: int | None = None
    for moment, starts in edges:
        if not starts:
            last = moment
        elif last is not None:
            assert moment - last >= interval, f"lane {lane} started {moment - last} µs after a settlement"


def _check_starts(lane: str, hand_outs: Iterable[HandOut], limits: Limits) -> None:
    """Several at a time: nothing starts sooner than the interval after the last start, but for what a claim takes."""
    interval = round(limits.min_interval * SECOND)
    for before, after in pairwise(sorted(hand_outs, key=lambda hand_out: hand_out.now)):
        slack = max(before.took, after.took)
        assert after.now - before.now >= interval - slack, f"lane {lane} started too soon: {before} then {after}"


# where nothing was lost


def check_calm(log: Log) -> None:
    assert not log.lost, f"leases were lost though nobody died: {log.lost[:5]}"
    assert not log.recovered
    settled = _settled_once(log)
    open_ended = [out for out in log.hand_outs if (out.fence, out.place) not in settled]
    assert not open_ended, f"handed out and never settled: {open_ended[:5]}"


def check_handlers(log: Log) -> None:
    """What the handlers themselves saw, on this machine's clock: they overlap no more than their lane allows, and
    where one at a time is allowed, they are apart by the interval."""
    lanes: dict[str, list[tuple[float, float]]] = defaultdict(list)
    seen: set[tuple[int, tuple[int, int]]] = set()
    for handled in log.handled:
        assert handled.end is not None
        assert (handled.fence, handled.place) not in seen, f"started twice in one claim: {handled}"
        seen.add((handled.fence, handled.place))
        lanes[handled.lane].append((handled.start, handled.end))
    for lane, runs in lanes.items():
        limits = limits_of(lane)
        check_concurrency(lane, [_Flight(round(a * SECOND), round(b * SECOND)) for a, b in runs], limits)
        if limits.concurrency == 1:
            for (_, end), (start, _) in pairwise(sorted(runs)):
                assert start - end >= limits.min_interval - CLOCK_TOLERANCE, f"lane {lane}: {start - end:.4f} s apart"


# what was reported


def check_summaries(log: Log) -> None:
    """A runner's summary adds up to the settlements that it logged."""
    counted: dict[str, Counter[MoveKind]] = defaultdict(Counter)
    for entry in log.settled:
        counted[entry.process][entry.kind] += 1
    lost = Counter(process for process, _ in log.lost)
    names = {
        MoveKind.DONE: "done",
        MoveKind.RETRY: "retried",
        MoveKind.DEAD: "died",
        MoveKind.RELEASE: "released",
        MoveKind.SPLIT: "split",
    }
    for process, summary in log.summaries.items():
        said = {name: summary[name] for name in names.values()}
        assert said == {name: counted[process][kind] for kind, name in names.items()}, f"{process}: {summary}"
        assert summary["stopped_by"] == "done"
        assert bool(summary["lost"]) <= bool(lost[process]), f"{process} lost {summary['lost']} without being told"


# INV-6, and the counters


async def check_counters(frontier: Frontier) -> None:
    """Counters equal recounted rows, nothing waits, and the checkpoint of every partition stands at its end."""
    counted = [_comparable(part) for part in await frontier._store.recount()]
    kept = [_comparable(part) for part in (await frontier._store.status()).partitions]
    assert kept == counted
    for part in kept:
        assert (part.ready, part.delayed, part.claimed, part.inbox) == (0, 0, 0, 0), part
        assert part.checkpoint == part.end, f"the checkpoint has not reached the end: {part}"
        assert part.checkpoint_dead == part.dead, part
    async for lane in frontier.lanes():
        assert (lane.waiting, lane.in_flight, lane.ready_at) == (0, 0, None), lane


def _comparable(part: PartitionStatus) -> PartitionStatus:
    return part._replace(next_ready_at=None, time=0)


def _some(keys: Iterable[str]) -> list[str]:
    return sorted(keys)[:10]
