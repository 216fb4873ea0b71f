"""What doctor says of lanes, dead items and clocks."""

import pytest

import swath
from swath import Item
from swath.cli.doctor import queue
from swath.cli.doctor.queue import LaneTotals, check_largest_lane, check_skew, check_workers, count_lost, read_lanes
from swath.core.store import LOST_WORKER
from tests.bench import bench


async def read(lanes: dict[str, int], *, min_interval: float = 10.0, concurrency: int | None = 1) -> LaneTotals:
    items = [Item(f"{lane} {number}", lane=lane) for lane, count in lanes.items() for number in range(count)]
    async with swath.open("memory:", min_interval=min_interval, concurrency=concurrency) as frontier:
        await frontier.add(items)
        return await read_lanes(frontier)


FEW = {f"small{number}": 10 for number in range(12)}


async def test_a_paced_lane_that_holds_most_of_the_queue_is_a_problem() -> None:
    (problem,) = check_largest_lane(await read({**FEW, "large": 1_500}))
    assert "the lane large holds 1,500 of 1,620 ready items, and at its pace they take at least 4 h" in problem.text


@pytest.mark.parametrize(
    ("lanes", "min_interval"),
    [
        ({**FEW, "large": 1_500}, 1.0),  # it is done soon
        ({"large": 1_500, "other": 1}, 10.0),  # there are few lanes
        ({**FEW, "large": 1_500, "second": 1_600}, 10.0),  # less than half
        ({**FEW, "large": 500}, 10.0),
    ],
)
async def test_other_queues_are_no_problem(lanes: dict[str, int], min_interval: float) -> None:
    assert not list(check_largest_lane(await read(lanes, min_interval=min_interval)))


async def test_workers_that_the_lanes_keep_idle_are_a_problem() -> None:
    totals = await read(FEW)
    assert not list(check_workers(totals, 12))
    (problem,) = check_workers(totals, 13)
    assert "12 lanes with ready items, whose limits allow 12 in flight" in problem.text
    assert not list(check_workers(await read(FEW, concurrency=None), 120))
    assert not list(check_workers(await read({}), 100))


async def test_a_look_at_many_lanes_ends_in_time_and_claims_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "MAX_SECONDS", 0.0)
    totals = await read(FEW)
    assert not totals.complete
    assert not list(check_workers(totals, 100))


async def test_items_that_lost_their_workers_are_counted() -> None:
    assert LOST_WORKER.startswith(queue.LOST)
    async with bench(max_attempts=1) as b:
        await b.frontier.add(["a", "b"])
        assert await b.frontier.claim(1, lease=1) is not None
        b.clock.advance(2)
        claim = await b.frontier.claim(1)
        assert claim is not None
        await claim.settle([claim.items[0].dead(reason="not wanted")])
        assert (await b.frontier.status()).dead == 2
        assert await count_lost(b.frontier) == 1


@pytest.mark.parametrize(("seconds", "said"), [(6.0, "6 s ahead of"), (-7_200.0, "2 h behind"), (4.0, None)])
def test_clocks_that_differ_are_a_problem(seconds: float, said: str | None) -> None:
    found = list(check_skew(seconds))
    assert [str(said) in problem.text for problem in found] == ([] if said is None else [True])
