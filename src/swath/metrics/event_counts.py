"""EventCounts: an observer that counts events. One counts for a process, and `add_counts` adds up those of several."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from swath import Event, Observer, events
from swath.metrics.histogram import Histogram, HistogramCounts

MAX_REASONS = 50  # of dead items; further ones are counted together (INV-9)
MAX_REASON_CHARS = 80
OTHER_REASONS = "other"
OPERATIONS: Final = ("add", "claim", "renew", "settle")

_GAVE_UP = re.compile(r"gave up after \d+ attempts?: ")


@dataclass(frozen=True, slots=True)
class Counts:
    """What was counted so far. The names of `totals` end in the unit that they count."""

    totals: Mapping[str, int]
    dead_reasons: Mapping[str, int]
    seconds: Mapping[str, HistogramCounts]  # by operation of the store


class EventCounts:
    """Counts what an observer is told. Pass it to `swath.open(observer=…)`, alone or with `join_observers`."""

    def __init__(self) -> None:
        self._totals: Counter[str] = Counter()
        self._reasons: Counter[str] = Counter()
        self._seconds = {operation: Histogram() for operation in OPERATIONS}
        self._handlers: Mapping[type[Event], Callable[..., None]] = {
            events.Added: self._count_added,
            events.Claimed: self._count_claimed,
            events.Recovered: self._count_recovered,
            events.Renewed: self._count_renewed,
            events.Settled: self._count_settled,
            events.Repaired: self._count_repaired,
            events.Died: self._count_died,
            events.Lost: self._count_lost,
            events.HandlerFailed: self._count_handler_failed,
            events.Waiting: self._count_outage,
        }

    def __call__(self, event: Event, /) -> None:
        if (count := self._handlers.get(type(event))) is not None:
            count(event)

    def read(self) -> Counts:
        """Return the counts so far."""
        seconds = {operation: histogram.read() for operation, histogram in self._seconds.items()}
        return Counts(dict(self._totals), dict(self._reasons), seconds)

    def _count_added(self, event: events.Added) -> None:
        self._totals["added_items"] += event.added
        self._totals["known_items"] += event.offered - event.added
        self._seconds["add"].record(event.seconds)

    def _count_claimed(self, event: events.Claimed) -> None:
        self._totals["claims"] += 1
        self._totals["claimed_items"] += event.items
        self._seconds["claim"].record(event.seconds)

    def _count_recovered(self, event: events.Recovered) -> None:
        self._totals["taken_over_items"] += event.items
        self._totals["lost_worker_dead_items"] += event.died

    def _count_renewed(self, event: events.Renewed) -> None:
        self._totals["renewals"] += 1
        self._seconds["renew"].record(event.seconds)

    def _count_settled(self, event: events.Settled) -> None:
        totals = self._totals
        totals["settlements"] += 1
        totals["done_items"] += event.done
        totals["retried_items"] += event.retried
        totals["dead_items"] += event.died
        totals["released_items"] += event.released
        totals["split_items"] += event.split
        totals["discovered_items"] += event.discovered
        self._seconds["settle"].record(event.seconds)

    def _count_repaired(self, event: events.Repaired) -> None:
        self._totals["repaired_items"] += event.done
        self._totals["discovered_items"] += event.discovered

    def _count_died(self, event: events.Died) -> None:
        reason = classify_reason(event.reason)
        if reason not in self._reasons and len(self._reasons) >= MAX_REASONS:
            reason = OTHER_REASONS
        self._reasons[reason] += 1

    def _count_lost(self, event: events.Lost) -> None:
        self._totals["lost_leases"] += 1
        self._totals["lost_lease_items"] += event.items

    def _count_handler_failed(self, event: events.HandlerFailed) -> None:
        self._totals["handler_failures"] += 1

    def _count_outage(self, event: events.Waiting) -> None:
        self._totals["outages"] += 1


def classify_reason(reason: str) -> str:
    """Return the kind of a reason for which items died: what is before its first colon, without numbers of attempts.

    Keys and addresses follow the colon, so a million dead pages have a handful of kinds.
    """
    return _GAVE_UP.sub("", reason, count=1).partition(":")[0][:MAX_REASON_CHARS]


def add_counts(several: Iterable[Counts]) -> Counts:
    """Return the sum of what several processes have counted."""
    totals: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    seconds = {operation: Histogram().read() for operation in OPERATIONS}
    for one in several:
        totals.update(one.totals)
        for reason, count in one.dead_reasons.items():
            reasons[reason if reason in reasons or len(reasons) < MAX_REASONS else OTHER_REASONS] += count
        seconds = {operation: seconds[operation].add(counts) for operation, counts in one.seconds.items()}
    return Counts(dict(totals), dict(reasons), seconds)


def join_observers(*observers: Observer | None) -> Observer | None:
    """Return an observer that passes each event to all of these, or None if there is none."""
    listening = [observer for observer in observers if observer is not None]
    if len(listening) <= 1:
        return listening[0] if listening else None

    def observe(event: Event, /) -> None:
        for observer in listening:
            observer(event)

    return observe
