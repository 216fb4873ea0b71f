"""Comparing the counters that a partition keeps with its rows."""

import pytest

from swath.core.check import LaneTotals, compare
from swath.core.store import PartitionStatus

SOUND = PartitionStatus(
    0, ready=2, delayed=1, claimed=1, done=3, visits=3, dead=1, lanes=2, inbox=0, checkpoint=2, checkpoint_dead=1,
    end=8, next_ready_at=None, time=0,
)  # fmt: skip
LANES = LaneTotals(waiting=2, in_flight=1)


def texts(kept: PartitionStatus, counted: PartitionStatus = SOUND, lanes: LaneTotals = LANES) -> list[str]:
    return [found.text for found in compare(kept, counted, lanes)]


def test_check_reports_each_contradiction() -> None:
    assert texts(SOUND) == []
    assert texts(SOUND._replace(done=4)) == ["done is 4, but the rows add up to 3"]
    assert texts(SOUND._replace(visits=4)) == ["visits is 4, but the rows add up to 3"]
    assert "items wait" in texts(SOUND, lanes=LaneTotals(1, 1))[0]
    assert "in flight" in texts(SOUND, lanes=LaneTotals(2, 0))[0]
    too_far = SOUND._replace(checkpoint=9)
    assert texts(too_far, too_far) == ["INV-6: the checkpoint 9 is not between 0 and the end, 8"]
    died = SOUND._replace(checkpoint_dead=2)
    assert texts(died, died) == ["INV-6: 2 items are dead up to the checkpoint, but only 1 in total"]
    settled = SOUND._replace(ready=0, delayed=0, claimed=0)
    assert "INV-6: every item is settled" in texts(settled, settled, LaneTotals())[0]
    full = SOUND._replace(done=3, end=8)
    assert texts(full, full) == []
    crowded = SOUND._replace(done=4)
    assert texts(crowded, crowded) == ["INV-4: 9 items share 8 positions"]


@pytest.mark.parametrize("state", ["ready", "delayed", "claimed", "done", "dead"])
def test_an_item_of_any_state_has_a_position_of_its_own(state: str) -> None:
    crowded = SOUND._replace(**{state: getattr(SOUND, state) + 1})
    lanes = LaneTotals(crowded.ready, crowded.claimed)
    assert texts(crowded, crowded, lanes) == ["INV-4: 9 items share 8 positions"]
