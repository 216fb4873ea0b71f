"""Retry policy: when a failed item is tried again, and when it is dead."""

import random

BACKOFF_BASE_SECONDS = 30.0
BACKOFF_CAP_SECONDS = 3_600.0


def count_tries(attempts: int, losses: int) -> int:
    """Return the number of attempts including the present one.

    Attempts whose worker was lost do not count: most items of a lost worker are not the reason for its loss.
    """
    return attempts - losses + 1


def compute_backoff(failures: int) -> float:
    """Return the seconds to wait before a retry; `failures` is the number of earlier failures.

    The pause doubles with each failure. Half of it is random, so that items that failed together are retried apart.
    """
    pause = min(BACKOFF_CAP_SECONDS, BACKOFF_BASE_SECONDS * 2.0 ** min(failures, 30))
    return pause / 2 + random.uniform(0, pause / 2)
