"""The priority of a page by its depth."""

from swath import DEFAULT_PRIORITY
from swath.crawl.priority import choose_priority


def test_there_are_eight_levels_from_seeds_to_deep_pages() -> None:
    assert [choose_priority("depth", depth) for depth in (0, 1, 6, 7, 8, 1000)] == [7, 6, 1, 0, 0, 0]
    assert {choose_priority("none", depth) for depth in range(9)} == {DEFAULT_PRIORITY}
