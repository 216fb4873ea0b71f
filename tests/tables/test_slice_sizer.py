"""Slices take as long as was asked for."""

import pytest

from swath.backfill.load_signals import MAX_SLOWDOWN
from swath.tables.slice_sizer import LARGEST, SliceSizer


def converged(sizer: SliceSizer, *, per_row: float, fixed: float = 0.0, slices: int = 60) -> int:
    for _ in range(slices):
        sizer.record(sizer.size, fixed + per_row * sizer.size)
    return sizer.size


@pytest.mark.parametrize("start", [1, 1_000, 100_000])
def test_it_finds_the_size_that_takes_the_target_time(start: int) -> None:
    assert 450 <= converged(SliceSizer(start, target=0.5), per_row=0.001) <= 550


def test_what_a_slice_costs_whatever_its_size_does_not_hold_it_down() -> None:
    assert 400 <= converged(SliceSizer(1, target=0.5), per_row=0.001, fixed=0.05) <= 500


def test_it_stays_within_bounds() -> None:
    assert converged(SliceSizer(1_000, target=0.5), per_row=1e-9) == LARGEST
    assert converged(SliceSizer(1_000, target=0.5), per_row=10.0) == 1
    assert SliceSizer(10**9, target=1).size == LARGEST
    assert SliceSizer(0, target=1).size == 1


def test_it_grows_step_by_step_and_shrinks_at_once() -> None:
    sizer = SliceSizer(100, target=0.5)
    sizer.record(100, 1e-6)
    assert sizer.size == 200
    sizer.record(200, 2.0)
    assert sizer.size <= 50


def test_an_overrun_is_tried_with_fewer_until_there_is_one_row() -> None:
    sizer = SliceSizer(1_000, target=0.5)
    tried = [1_000]
    while tried[-1] > 1:
        tried.append(sizer.record_overrun(tried[-1]))
        assert tried[-1] < tried[-2]
    assert len(tried) <= 7
    assert sizer.size <= 10


def test_an_empty_slice_says_nothing() -> None:
    sizer = SliceSizer(100, target=0.5)
    sizer.record(0, 3.0)
    assert (sizer.size, sizer.slowdown) == (100, 1.0)


def test_a_slowdown_is_seen_and_forgotten_when_it_lasts() -> None:
    sizer = SliceSizer(500, target=0.5)
    converged(sizer, per_row=0.001)
    assert sizer.slowdown == pytest.approx(1.0, abs=0.2)
    converged(sizer, per_row=0.01, slices=20)
    assert sizer.slowdown > MAX_SLOWDOWN
    converged(sizer, per_row=0.01, slices=2_000)
    assert sizer.slowdown < MAX_SLOWDOWN


def test_a_remnant_of_a_few_rows_is_no_slowdown() -> None:
    """What a statement costs at all is divided by few rows there."""
    sizer = SliceSizer(10_000, target=0.5)
    converged(sizer, per_row=0.00005, fixed=0.002)
    size = sizer.size
    for _ in range(10):
        sizer.record(3, 0.002)
    assert sizer.slowdown < MAX_SLOWDOWN
    assert sizer.size > size / 2
