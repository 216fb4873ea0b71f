"""The priority of a page (--priority-by): which of the queued pages of a host come first.

A frontier has eight priority levels, so this is not an order by depth: all pages with seven or more links from a seed
are in the same level, and one item in ten of a claim is from the lowest levels, so that nothing starves.
"""

from typing import Final

from swath import DEFAULT_PRIORITY

TOP_LEVEL: Final = 7  # of seeds


def choose_priority(priority_by: str, depth: int) -> int:
    """Return the priority of a page with this many links from a seed."""
    return max(0, TOP_LEVEL - depth) if priority_by == "depth" else DEFAULT_PRIORITY
