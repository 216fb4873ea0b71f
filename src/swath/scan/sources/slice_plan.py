"""Plan the slices of a table, a few at a time, as items of the scan.

Slices are half-open and cover all possible keys, from before the first to after the last: a row belongs to the slice
that its key is in, even if it is inserted later.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from swath import Item
from swath.scan.sources.source import Task, make_item
from swath.scan.sources.sync_table import KeyRange
from swath.tables.table import Key

MAX_SLICES = 16  # per step of the plan; fewer in the first steps, whose slice size is a guess


def plan_slices(task: Task, find_end: Callable[[Key | None], Key | None]) -> Iterator[Item]:
    """Yield some slices and the next step of the plan.

    The step comes in the middle, so that it is planned while workers scan the second half. `find_end` returns where
    the slice after a key ends, or None for the last slice.
    """
    number, after = task["plan"], to_key(task["after"])
    limit = min(MAX_SLICES, 2 << number)
    slices: list[Item] = []
    while len(slices) < limit:
        upto = find_end(after)
        slices.append(make_item(f"slice {number}.{len(slices) + 1}", {"after": after, "upto": upto}))
        if upto is None:
            yield from slices
            return
        after = upto
    yield from slices[: limit // 2]
    yield make_plan_item(number + 1, after)
    yield from slices[limit // 2 :]


def make_plan_item(number: int, after: Key | None) -> Item:
    return make_item(f"plan {number}", {"plan": number, "after": after})


def parse_slice(task: Task) -> KeyRange:
    return KeyRange(to_key(task["after"]), to_key(task["upto"]))


def to_key(value: Sequence[Any] | None) -> Key | None:
    """Convert a key from its JSON form."""
    return None if value is None else tuple(value)
