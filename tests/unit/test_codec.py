"""What the codec decides by itself: how long a retry waits, and which settings are none."""

from datetime import datetime, timedelta
from typing import Any

import pytest

import swath
from swath.core.clock import as_datetime
from swath.core.codec import BACKOFF_BASE, BACKOFF_CAP, backoff
from tests.bench import bench

DRAWS = 100


@pytest.mark.parametrize("attempts", range(7))
def test_a_pause_doubles_with_the_attempts(attempts: int) -> None:
    """Half of it is left to chance, so that the longest is no longer than the shortest of the next."""
    pause = BACKOFF_BASE * 2**attempts
    assert pause < BACKOFF_CAP
    assert all(pause / 2 <= backoff(attempts) <= pause for _ in range(DRAWS))


@pytest.mark.parametrize("attempts", [7, 30, 31, 1_100, 10**18])
def test_a_pause_is_never_above_the_cap(attempts: int) -> None:
    assert all(BACKOFF_CAP / 2 <= backoff(attempts) <= BACKOFF_CAP for _ in range(DRAWS))


@pytest.mark.parametrize("attempts", [0, 3, 10**18])
def test_pauses_are_spread(attempts: int) -> None:
    """What failed together is not tried again together."""
    pauses = [backoff(attempts) for _ in range(DRAWS)]
    assert len(set(pauses)) > DRAWS / 2
    assert max(pauses) - min(pauses) > max(pauses) / 8


async def test_a_retry_waits_longer_each_time() -> None:
    async with bench(max_attempts=4) as b:
        await b.frontier.add("a")
        for attempt in range(3):
            claim = await b.frontier.claim()
            assert claim is not None
            await claim.settle([claim.items[0].retry()])
            due_at = datetime.fromisoformat((await b.data("a"))["due_at"])
            pause, waits = BACKOFF_BASE * 2**attempt, due_at - as_datetime(b.clock.now())
            assert timedelta(seconds=pause / 2) <= waits <= timedelta(seconds=pause, milliseconds=1)
            b.clock.advance(pause + 1)


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ({"partitions": value}, f"partitions={value!r}: a whole number from 1 to 1,024")
        for value in ("4", 2.5, True, 0, 1_025)
    ]
    + [
        ({"min_interval": value}, f"min_interval={value!r}: a number of seconds from 0 to 3,153,600,000")
        for value in ("1", -1, True, float("nan"), 1e12)
    ]
    + [
        (
            {"concurrency": value},
            f"concurrency={value!r}: a whole number of items at once, up to 1,000,000, or 0 for no limit",
        )
        for value in ("1", 1.5, -1, 1_000_001)
    ],
)
def test_a_setting_that_is_none_is_refused_with_what_would_be_one(setting: dict[str, Any], complaint: str) -> None:
    with pytest.raises(swath.InvalidSetting) as error:
        swath.open("memory:", **setting)
    assert str(error.value) == complaint
