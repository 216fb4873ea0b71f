"""How long a retry waits."""

from datetime import datetime, timedelta

import pytest

from swath.core.clock import as_datetime
from swath.core.retry_policy import BACKOFF_BASE_SECONDS, BACKOFF_CAP_SECONDS, compute_backoff
from tests.bench import bench

DRAWS = 100


@pytest.mark.parametrize("attempts", range(7))
def test_a_pause_doubles_with_the_attempts(attempts: int) -> None:
    """Half of it is left to chance, so that the longest is no longer than the shortest of the next."""
    pause = BACKOFF_BASE_SECONDS * 2**attempts
    assert pause < BACKOFF_CAP_SECONDS
    assert all(pause / 2 <= compute_backoff(attempts) <= pause for _ in range(DRAWS))


@pytest.mark.parametrize("attempts", [7, 30, 31, 1_100, 10**18])
def test_a_pause_is_never_above_the_cap(attempts: int) -> None:
    assert all(BACKOFF_CAP_SECONDS / 2 <= compute_backoff(attempts) <= BACKOFF_CAP_SECONDS for _ in range(DRAWS))


@pytest.mark.parametrize("attempts", [0, 3, 10**18])
def test_pauses_are_spread(attempts: int) -> None:
    """What failed together is not tried again together."""
    pauses = [compute_backoff(attempts) for _ in range(DRAWS)]
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
            pause, waits = BACKOFF_BASE_SECONDS * 2**attempt, due_at - as_datetime(b.clock.now())
            assert timedelta(seconds=pause / 2) <= waits <= timedelta(seconds=pause, milliseconds=1)
            b.clock.advance(pause + 1)
