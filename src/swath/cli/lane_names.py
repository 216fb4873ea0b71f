"""Lanes that the user names: find them, and suggest similar names if they do not exist."""

from difflib import get_close_matches

from swath import Frontier, LaneInfo
from swath.cli.command import check_lane
from swath.cli.terminal import print_error

COMPARED_LANES = 10_000  # of a frontier with more lanes, only these are compared with a name that does not exist
SUGGESTIONS = 3
SIMILARITY = 0.8


async def find_lane(frontier: Frontier, lane: str) -> LaneInfo | None:
    """Return a lane, also if all of its items were only discovered so far; None if it does not exist."""
    check_lane(lane)
    found = await frontier.lane(lane)
    if found is None:
        await frontier.empty_inbox(lane)
        found = await frontier.lane(lane)
    return found


async def print_unknown_lane(frontier: Frontier, lane: str, *, can_create: bool = False) -> None:
    """Print that a lane does not exist, and what to type instead."""
    if similar := await _find_similar_names(frontier, lane):
        advice = f"did you mean {' or '.join(map(repr, similar))}?" + " Or add --create to create it" * can_create
    else:
        advice = "run swath lanes to list the lanes" + ", or add --create to create it" * can_create
    print_error(f"lane {lane!r} does not exist: {advice}")


async def _find_similar_names(frontier: Frontier, lane: str) -> list[str]:
    names: dict[str, str] = {}  # by the name in lowercase
    async for other in frontier.lanes():
        names.setdefault(other.lane.lower(), other.lane)
        if len(names) == COMPARED_LANES:
            break
    return [names[name] for name in get_close_matches(lane.lower(), names, SUGGESTIONS, SIMILARITY)]
