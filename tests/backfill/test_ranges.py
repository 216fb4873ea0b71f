"""What the items of a backfill are called, and what comes back of them."""

import pytest

from swath import check_key
from swath.backfill.ranges import MAX_SHOWN, Slice, Step, work_of
from swath.tables.table import Key


@pytest.mark.parametrize(
    ("lo", "hi", "key"),
    [
        (None, ("7",), "slice 3: the beginning to 7"),
        ((7,), (12,), "slice 3: 7 to 12"),
        (("a", "1"), ("ü", "2"), 'slice 3: ["a", "1"] to ["ü", "2"]'),
        (("x" * 500,), ("y\0\udcff",), f"slice 3: {'x' * MAX_SHOWN}… to y\\udcff"),
    ],
    ids=["first", "numbers", "composite", "odd"],
)
def test_a_slice_is_called_by_its_range(lo: Key | None, hi: Key, key: str) -> None:
    item = Slice(3, lo, lo, hi, 10, 20).item()
    assert item.key == key
    check_key(item.key)


def test_an_item_is_what_it_was_made_of() -> None:
    part = Slice(3, ("1", 2), ("1", 3), ("4", 5), 10, 20)
    assert work_of(part.item().payload) == part
    step = Step(4, ("4", 5), None, 1_000, 30, {"look": 2})
    assert work_of(step.item().payload) == step
    assert step.item().key != step._replace(safe={"look": 3}).item().key
