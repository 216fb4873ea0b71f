"""Milestones: when a partition had reached a position.

A milestone is written by the first change of a partition in a new minute, for the position and the time of the change
before. So writers compare two numbers that they have, and look nothing up. An item was discovered before the time of
the first milestone at or above its position.
"""

from collections.abc import Mapping

from swath.core.clock import SECOND

MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
WEEK = 7 * DAY


def thin_milestones(milestones: Mapping[int, int], *, now: int, checkpoint: int) -> dict[int, int]:
    """Return the milestones to keep, as times by position: one an hour after an hour, and one a day after a week.

    Below the checkpoint everything is settled, and nobody asks how long it waited.
    """
    kept: dict[int, int] = {}
    above = None  # the time of the next milestone
    for position, time in sorted(milestones.items(), reverse=True):
        span = DAY if time < now - WEEK else HOUR if time < now - HOUR else 1
        if position > checkpoint and (above is None or time // span != above // span):
            kept[position] = time
        above = time
    return kept
