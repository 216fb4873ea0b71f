"""The counters of what is in flight, from the claim to the settlement: INV-9 depends on them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from swath.core.errors import LeaseLost
from swath.core.item import Item
from swath.runner.in_flight import ClaimState, InFlight
from swath.runner.lease_keeper import LeaseKeeper
from swath.runner.poison import LIMITS


@dataclass(eq=False)
class Leased:
    """What InFlight looks at of a claim."""

    items: Sequence[Item]
    remaining: int = 0
    counts: dict[str, int] = field(default_factory=lambda: {"done": 1})


@dataclass(eq=False)
class Execution:
    item: Item


def claim(in_flight: InFlight, *losses: int) -> ClaimState:
    """Claim an item for each of these numbers of losses."""
    items = [Item(f"k{n}", losses=lost) for n, lost in enumerate(losses)]
    leased: Any = Leased(items, remaining=len(items))
    in_flight.add_claim(leased, 0.0)
    return in_flight.claims[leased]


def check_empty(in_flight: InFlight, state: ClaimState) -> None:
    """Nothing is left of a claim."""
    in_flight.retire(state)
    assert not in_flight.claims
    assert not in_flight.expired
    assert (in_flight.items, in_flight.unsettled, in_flight.pending_bytes) == (0, 0, 0)
    assert in_flight.limit(5) is None
    assert in_flight.counts() == {"done": 1}


def test_a_claim_whose_items_were_never_started_is_forgotten() -> None:
    in_flight = InFlight()
    state, other = claim(in_flight, 0, 4), claim(in_flight, 0)
    assert in_flight.items == 3
    assert in_flight.limit(5) == LIMITS[0]
    assert [item.key for item in in_flight.pop_queued(state)] == ["k0", "k1"]
    assert in_flight.pop_queued(state) == []
    assert in_flight.limit(5) is None
    assert [owner for owner, _ in in_flight.queue] == [other]
    in_flight.pop_next()
    in_flight.retire(other)
    in_flight._counts.clear()
    check_empty(in_flight, state)


def test_a_claim_is_kept_while_anything_of_it_is_in_flight() -> None:
    in_flight = InFlight()
    state = claim(in_flight, 0, 1)
    in_flight.retire(state)
    assert in_flight.claims
    executions: list[Any] = []
    for _ in range(2):
        executions.append(Execution(in_flight.pop_next()[1]))
        in_flight.start(state, executions[-1])
        in_flight.retire(state)
        assert in_flight.claims
    assert in_flight.items == 2
    for execution in executions:
        assert in_flight.finish(execution) is state
        assert in_flight.finish(execution) is None
        in_flight.add_outcome(state, cast(Any, execution.item), 100)
    assert (in_flight.items, in_flight.pending_bytes) == (2, 200)
    in_flight.retire(state)
    assert in_flight.claims
    assert len(in_flight.take_outcomes(state)) == 2
    state.commit_queued = True
    in_flight.mark_settled(state, 1)
    assert in_flight.items == 1
    in_flight.retire(state)
    assert in_flight.claims
    in_flight.end_sending(state, 200)
    state.commit_queued = False
    check_empty(in_flight, state)


@pytest.mark.parametrize("sending", [False, True])
def test_a_claim_that_was_lost_leaves_nothing_but_its_number_of_items(sending: bool) -> None:
    in_flight = InFlight()
    state = claim(in_flight, 0, 2, 0)
    execution: Any = Execution(in_flight.pop_next()[1])
    in_flight.start(state, execution)
    in_flight.finish(execution)
    in_flight.add_outcome(state, cast(Any, execution.item), 50)
    if sending:
        in_flight.take_outcomes(state)
        state.commit_queued = True
    in_flight.expire(state)
    in_flight.lose(state)
    assert (in_flight.lost, in_flight.items) == (3, 0)
    if sending:
        assert in_flight.pending_bytes == 50, "the store still gets them"
        in_flight.end_sending(state, 50)
        state.commit_queued = False
    check_empty(in_flight, state)


def test_of_queued_items_suspects_stay() -> None:
    """Others are released, so that a suspect runs with few others."""
    in_flight = InFlight()
    state = claim(in_flight, 0, 3, 0, 1)
    assert [item.losses for _, item in in_flight.pop_beyond(2)] == [0, 0]
    assert [item.losses for _, item in in_flight.queue] == [3, 1]
    assert state.queued == 2
    assert [item.losses for _, item in in_flight.pop_beyond(0)] == [3, 1]
    check_empty(in_flight, state)


def test_a_lost_claim_that_was_not_started_is_forgotten_at_once() -> None:
    """INV-2, INV-9: no outcome of it will come that could end it."""
    in_flight = InFlight()
    state = claim(in_flight, 0, 0)
    leased: Any = state.leased
    reports: list[object] = []
    leased.report_lost = reports.append
    told: list[bool] = []
    retry: Any = None
    keeper = LeaseKeeper(in_flight, retry, lease=60.0, on_lost=lambda: told.append(True))
    lost = LeaseLost("another worker has it")
    keeper.lose(state, lost)
    assert not in_flight.claims
    keeper.lose(state, lost)
    assert (reports, told) == ([lost], [True])
    assert in_flight.lost == 2
    assert not in_flight.queue
    check_empty(in_flight, state)


def test_a_lost_claim_with_a_running_handler_is_kept_until_it_ends() -> None:
    in_flight = InFlight()
    state = claim(in_flight, 0)
    state.executions.add(cast(Any, Execution(Item("k0"))))
    in_flight.lose(state)
    in_flight.retire(state)
    assert state.leased in in_flight.claims
    state.executions.clear()
    in_flight.retire(state)
    assert not in_flight.claims
