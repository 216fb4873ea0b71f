"""EventCounts: which event counts what."""

from collections.abc import Mapping

import pytest

from swath import Event, events
from swath.metrics.event_counts import OPERATIONS, EventCounts, add_counts


@pytest.mark.parametrize(
    ("event", "totals", "operation"),
    [
        (events.Added(7, 5, 0.5), {"added_items": 5, "known_items": 2}, "add"),
        (events.Claimed(1, 3, 0.5), {"claims": 1, "claimed_items": 3}, "claim"),
        (events.Recovered(items=5, died=2), {"taken_over_items": 5, "lost_worker_dead_items": 2}, None),
        (events.Renewed(1, 0.5), {"renewals": 1}, "renew"),
        (
            events.Settled(1, 0, done=2, retried=3, died=4, released=5, split=6, discovered=7, seconds=0.5),
            {
                "settlements": 1, "done_items": 2, "retried_items": 3, "dead_items": 4, "released_items": 5,
                "split_items": 6, "discovered_items": 7,
            },
            "settle",
        ),
        (events.Repaired(0, 2, 3, 4, 0.5), {"repaired_items": 2, "discovered_items": 4}, None),
        (events.Lost(1, 4, "expired"), {"lost_leases": 1, "lost_lease_items": 4}, None),
        (events.HandlerFailed("a", "no", None, "lane", 1), {"handler_failures": 1}, None),
        (events.Waiting("away", 0.5), {"outages": 1}, None),
        (events.Reopened(3), {}, None),
    ],
)  # fmt: skip
def test_what_an_event_counts(event: Event, totals: Mapping[str, int], operation: str | None) -> None:
    counts = EventCounts()
    counts(event)
    once = counts.read()
    assert once.totals == totals
    assert {name: found.total for name, found in once.seconds.items()} == {
        name: int(name == operation) for name in OPERATIONS
    }
    assert {found.seconds for found in once.seconds.values()} == ({0.5, 0.0} if operation else {0.0})
    counts(event)
    assert counts.read().totals == {name: 2 * count for name, count in totals.items()}
    added = add_counts([once, once])
    assert (added.totals, added.dead_reasons) == (counts.read().totals, {})
    for name, found in counts.read().seconds.items():
        assert (tuple(added.seconds[name].counts), added.seconds[name].seconds) == found
