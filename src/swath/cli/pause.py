"""`swath pause`: stop starting items, in one lane or in the whole frontier."""

from typing import Annotated, Any

import typer

from swath import Frontier
from swath.cli.command import open_frontier, run_command
from swath.cli.exit_codes import ExitCode
from swath.cli.formatting import pluralize
from swath.cli.lane_names import find_lane, print_unknown_lane
from swath.cli.options import CreateOption, JSONOption, StoreOption
from swath.cli.store_argument import format_store_option
from swath.cli.terminal import print_json, print_line

LaneArgument = Annotated[
    str | None,
    typer.Argument(metavar="LANE", show_default=False, help="Name of a lane; without it, the whole frontier"),
]


def pause(
    lane: LaneArgument = None, store: StoreOption = None, create: CreateOption = False, json: JSONOption = False
) -> None:
    """Pause a lane or the whole frontier: start no more items.

    The pause lasts until `swath resume`. Every process notices it within two seconds and releases the items that it
    has claimed but not started; items that are in progress are finished. Exits with 1 if the lane does not exist.

    Examples:
        swath pause --store crawl/
        swath pause example.com --store crawl/
    """
    run_command(store, _pause(store, lane, create, json))


async def _pause(store: str | None, lane: str | None, create: bool, json: bool) -> int:
    async with open_frontier(store) as frontier:
        new = lane is not None and await find_lane(frontier, lane) is None
        if lane is not None and new and not create:
            await print_unknown_lane(frontier, lane, can_create=True)
            return ExitCode.NEGATIVE
        await frontier.pause(lane)
        data, text = await describe_pause(frontier, lane, store)
    if new:
        text += " No item was ever added to this lane."
    if json:
        print_json(data)
    else:
        print_line(text)
    return ExitCode.OK


async def describe_pause(frontier: Frontier, lane: str | None, store: str | None) -> tuple[dict[str, Any], str]:
    """Return whether a lane or the frontier is paused, as data and as a sentence."""
    option = format_store_option(store)
    status = await frontier.status()
    if lane is None:
        in_flight = f"; {pluralize(status.claimed, 'item')} still in flight" if status.claimed else ""
        text = (
            f"The frontier is paused{in_flight}. Run `swath resume{option}` to continue."
            if status.paused
            else "The frontier is running. Lanes that were paused one by one stay paused: "
            f"`swath lanes --paused{option}`."
        )
        return {"lane": None, "paused": status.paused, "frontier_paused": status.paused}, text
    found = await frontier.lane(lane)
    paused = found is not None and found.paused
    text = f"Lane {lane} is {'paused' if paused else 'not paused'}"
    text += f", with {found.waiting:,} waiting and {found.in_flight:,} in flight." if found else "."
    if status.paused:
        text += f" The whole frontier is paused: run `swath resume{option}` to continue."
    return {"lane": lane, "paused": paused, "frontier_paused": status.paused}, text
