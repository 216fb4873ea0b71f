"""What the items of a backfill are called, and what comes back of them."""

import pytest

from swath import check_key
from swath.backfill.ranges import MAX_KEY_TEXT, PlanStep, Slice, parse_work
from swath.tables.table import Key


@pytest.mark.parametrize(
    ("lo", "hi", "key"),
    [
        (None, ("7",), "slice 3: start to 7"),
        ((7,), (12,), "slice 3: 7 to 12"),
        (("a", "1"), ("ü", "2"), 'slice 3: ["a", "1"] to ["ü", "2"]'),
        (("x" * 500,), ("y\0\udcff",), f"slice 3: {'x' * MAX_KEY_TEXT}… to y\\udcff"),
    ],
    ids=["first", "numbers", "composite", "odd"],
)
def test_a_slice_is_called_by_its_range(lo: Key | None, hi: Key, key: str) -> None:
    item = Slice(3, lo, lo, hi, 10, 20).to_item()
    assert item.key == key
    check_key(item.key)


def test_an_item_is_what_it_was_made_of() -> None:
    part = Slice(3, ("1", 2), ("1", 3), ("4", 5), 10, 20)
    assert parse_work(part.to_item().payload) == part
    step = PlanStep(4, ("4", 5), None, 1_000, 30, {"poll": 2})
    assert parse_work(step.to_item().payload) == step
    assert step.to_item().key != step._replace(safe={"poll": 3}).to_item().key
