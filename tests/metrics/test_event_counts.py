"""EventCounts: what it counts adds up to what the store counts, in bounded memory."""

import pytest

import swath
from swath import Event, Item, Outcome, events
from swath.metrics.event_counts import (
    MAX_REASONS,
    OTHER_REASONS,
    EventCounts,
    add_counts,
    classify_reason,
    join_observers,
)
from swath.metrics.histogram import BOUNDS, Histogram
from tests.bench import bench


async def handle(item: Item) -> Outcome:
    number = int(item.key.rpartition(" ")[2])
    if item.key.startswith("page") and number % 10 == 0:
        return item.dead(reason=f"status 404: http://a.example/{number}")
    if item.key.startswith("page") and number % 10 == 1:
        raise ValueError(f"number {number}")
    if item.key.startswith("page") and number % 10 == 2 and not item.attempts:
        return item.retry(after=0)
    return item.done(discovered=[f"link {number}"] if item.key.startswith("page") else ())


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
async def test_the_counts_of_two_processes_add_up_to_those_of_the_store(
    kind: str, request: pytest.FixtureRequest, tmp_path: object
) -> None:
    url = {"memory": "memory:", "sqlite": f"sqlite:///{tmp_path}/work.db"}.get(kind) or str(
        request.getfixturevalue("database")
    )
    counts = [EventCounts(), EventCounts()]
    async with swath.open(url, observer=counts[0], max_attempts=1) as frontier:
        await frontier.add([f"page {number}" for number in range(200)])
        if kind == "memory":
            await frontier.run(handle)
        else:
            claim = await frontier.claim(50)
            assert claim is not None
            async with swath.open(url, observer=counts[1]) as other:
                await other.run(handle, until="idle")
            await claim.settle([item.release() for item in claim.items])
            await frontier.run(handle)
        status = await frontier.status()
    total = add_counts(one.read() for one in counts)
    assert total.totals["added_items"] + total.totals["discovered_items"] == status.done + status.dead
    assert (total.totals["done_items"], total.totals["dead_items"]) == (status.done, status.dead)
    assert total.totals["claimed_items"] == sum(
        total.totals.get(name, 0) for name in ("done_items", "dead_items", "released_items", "retried_items")
    )
    assert sum(total.dead_reasons.values()) == status.dead
    assert total.dead_reasons["status 404"] == 20
    assert total.dead_reasons["ValueError"] == 20
    assert total.seconds["claim"].total == total.totals["claims"]
    assert total.seconds["settle"].total == total.totals["settlements"]


async def test_a_lost_lease_and_a_take_over_are_counted() -> None:
    counts = EventCounts()
    async with bench(max_attempts=1) as b:
        await b.frontier.add(["a", "b"])
        claim = await b.frontier.claim(2, lease=1)
        assert claim is not None
        await claim.renew()
        b.clock.advance(2)
        assert await b.frontier.claim(1) is None
        with pytest.raises(swath.LeaseLost):
            await claim.settle([claim.items[0].done()])
        for event in b.seen.events:
            counts(event)
    found = counts.read().totals
    assert (found["taken_over_items"], found["lost_worker_dead_items"]) == (2, 2)
    assert (found["lost_leases"], found["lost_lease_items"], found["renewals"]) == (1, 2, 1)


def test_kinds_of_reasons_are_bounded() -> None:
    counts = EventCounts()
    for number in range(10_000):
        counts(events.Died(1, "a", "a", 1, f"error {number}: at http://a.example/{number}"))
    first = counts.read()
    for one in (first, add_counts([first, first])):
        assert len(one.dead_reasons) == MAX_REASONS + 1
        assert one.dead_reasons[OTHER_REASONS] >= 10_000 - MAX_REASONS
    assert sum(add_counts([first, first]).dead_reasons.values()) == 20_000


def test_the_kind_of_a_reason_has_no_key_and_no_number_of_attempts() -> None:
    assert classify_reason("gave up after 4 attempts: status 503") == "status 503"
    assert classify_reason("gave up after 1 attempt: KeyError: 'x'") == "KeyError"
    assert classify_reason("timeout: no connection within 10 s") == "timeout"
    assert len(classify_reason("x" * 10_000)) < 100


def test_a_histogram_counts_by_upper_bounds() -> None:
    histogram = Histogram()
    for seconds in (0.0, BOUNDS[0], BOUNDS[0] + 1e-9, BOUNDS[-1], BOUNDS[-1] + 1):
        histogram.record(seconds)
    found = histogram.read()
    assert (found.counts[0], found.counts[1], found.counts[-2], found.counts[-1]) == (2, 1, 1, 1)
    assert (found.total, len(found.counts)) == (5, len(BOUNDS) + 1)
    assert found.add(found).total == 10
    assert found.add(found).seconds == pytest.approx(2 * found.seconds)


def test_observers_are_joined_only_if_there_are_several() -> None:
    seen: list[tuple[str, Event]] = []
    first, second = (lambda event: seen.append(("first", event))), (lambda event: seen.append(("second", event)))
    assert join_observers(None, None) is None
    assert join_observers(None, first) is first
    both = join_observers(first, None, second)
    assert both is not None
    both(event := events.Reopened(1))
    assert seen == [("first", event), ("second", event)]
