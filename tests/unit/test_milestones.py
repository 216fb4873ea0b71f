"""Which milestones a partition keeps."""

import pytest

from swath.core.milestones import DAY, HOUR, MINUTE, WEEK, thin_milestones

NOW = 100 * WEEK


def thin(*ages: int, checkpoint: int = 0) -> list[int]:
    """Return the positions that are kept of milestones with these ages, the oldest first."""
    milestones = {position: NOW - age for position, age in enumerate(ages, 1)}
    kept = thin_milestones(milestones, now=NOW, checkpoint=checkpoint)
    assert kept == {position: milestones[position] for position in kept}
    return sorted(kept)


@pytest.mark.parametrize(
    ("ages", "kept"),
    [
        ([3 * MINUTE, 2 * MINUTE, MINUTE, 0], [1, 2, 3, 4]),
        ([HOUR, HOUR - MINUTE], [1, 2]),  # an hour is not over
        ([HOUR + 1, HOUR, 30 * MINUTE], [1, 2, 3]),  # the later one is in another hour
        ([HOUR + 3 * MINUTE, HOUR + 2 * MINUTE, HOUR + MINUTE, 0], [3, 4]),  # the last one of an hour
        ([3 * HOUR, 3 * HOUR - 1, 2 * HOUR, 0], [2, 3, 4]),
        ([WEEK, WEEK - 2 * HOUR], [1, 2]),  # a week is not over
        ([WEEK + 3 * HOUR, WEEK + 2 * HOUR, WEEK + HOUR, WEEK], [3, 4]),
        ([WEEK + 3 * DAY, WEEK + 2 * DAY + HOUR, WEEK + 2 * DAY, 0], [2, 3, 4]),
        ([WEEK + 2 * DAY - HOUR, WEEK + DAY + 2 * HOUR, WEEK + DAY + HOUR, 0], [3, 4]),
    ],
)
def test_older_milestones_are_kept_more_rarely(ages: list[int], kept: list[int]) -> None:
    assert thin(*ages) == kept


def test_those_below_the_checkpoint_are_forgotten() -> None:
    assert thin(3, 2, 1, checkpoint=2) == [3]
    assert thin(3, 2, 1, checkpoint=3) == []


def test_a_milestone_below_the_checkpoint_does_not_hide_one_above_it() -> None:
    assert thin(WEEK + HOUR, WEEK + 2, WEEK + 1, checkpoint=1) == [3]
