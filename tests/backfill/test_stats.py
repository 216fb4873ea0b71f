"""What a process has done, in bounded memory."""

import time

import pytest

from swath.backfill import stats as module
from swath.backfill.stats import BackfillStats


def test_slices_of_long_ago_are_forgotten_though_nobody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    stats = BackfillStats()
    for _ in range(1_000):
        now += 1.0
        stats.record_slice(10, 5, 0.1)
    assert len(stats._recent) <= module.RATE_SECONDS + 1
    assert (stats.slices, stats.rows, stats.changed) == (1_000, 10_000, 5_000)
    assert stats.rate == pytest.approx(10.0, rel=0.1)
