"""How outcomes are put into groups that are settled together."""

import pytest

from swath.core.encoding import encode_item
from swath.core.item import Item
from swath.core.leased_items import EncodedOutcome
from swath.core.store import Move, MoveKind
from swath.runner import committer


def make_outcome(number: int, *, partition: int = 0, discovered: int = 0, rows: int = 0) -> EncodedOutcome:
    item = Item(f"k{number}", partition=partition, position=number)
    found = [encode_item(f"{number}.{n}", 1) for n in range(discovered)]
    return EncodedOutcome(item, Move(number, MoveKind.DONE), found, [], None, rows=[()] * rows)


def group(weights: list[tuple[int, int]]) -> list[list[int]]:
    """The positions in each group of outcomes with so many discovered items and rows."""
    outcomes = [make_outcome(n, discovered=found, rows=rows) for n, (found, rows) in enumerate(weights)]
    return [[one.item.position for one in part] for _, part in committer._group_outcomes(outcomes)]


def test_a_group_has_a_limited_number_of_outcomes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committer, "MAX_GROUP", 3)
    assert group([(0, 0)] * 8) == [[0, 1, 2], [3, 4, 5], [6, 7]]
    assert group([]) == []


def test_a_group_has_a_limited_number_of_discovered_items_and_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committer, "MAX_GROUP", 3)
    monkeypatch.setattr(committer, "MAX_DISCOVERED", 10)
    assert group([(4, 0), (3, 3), (1, 0), (0, 10), (11, 0), (1, 0), (0, 1)]) == [[0, 1], [2], [3], [4], [5, 6]]
    assert group([(11, 0), (0, 0), (0, 0), (0, 0), (0, 0)]) == [[0], [1, 2, 3], [4]]


def test_outcomes_are_grouped_by_partition_in_their_order() -> None:
    outcomes = [make_outcome(n, partition=(2, 0)[n % 2]) for n in range(6)]
    found = [
        (partition, [one.item.position for one in part]) for partition, part in committer._group_outcomes(outcomes)
    ]
    assert found == [(0, [1, 3, 5]), (2, [0, 2, 4])]
