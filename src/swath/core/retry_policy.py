"""Retry policy: when a failed item is tried again, and when it is dead."""

import random

BACKOFF_BASE_SECONDS = 30.0
BACKOFF_CAP_SECONDS = 3_600.0


def count_tries(attempts: int, losses: int) -> int:
    """Return how often an item was tried, with the present try. A lost worker does not count: most items that it held
    are not the reason why it died."""
    return attempts - losses + 1


def compute_backoff(failures: int) -> float:
    """Return the seconds to wait after the first failure (0), the second (1) …: the pause doubles, and half of it is
    random, so that items that failed together are not tried again together."""
    pause = min(BACKOFF_CAP_SECONDS, BACKOFF_BASE_SECONDS * 2.0 ** min(failures, 30))
    return pause / 2 + random.uniform(0, pause / 2)
