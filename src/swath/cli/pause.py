"""`swath pause`: start nothing more, of one lane or at all."""

from typing import Annotated, Any

import typer

from swath.cli.command import check_lane, open_frontier, run_command
from swath.cli.formatting import escape, pluralize
from swath.cli.options import JSONOption, StoreOption
from swath.cli.terminal import print_json
from swath.frontier import Frontier

LaneArgument = Annotated[
    str | None,
    typer.Argument(metavar="LANE", show_default=False, help="One lane; the whole frontier, if not given"),
]


def pause(lane: LaneArgument = None, store: StoreOption = None, json: JSONOption = False) -> None:
    """Start nothing more, of one lane or at all.

    It holds until `swath resume`. Every process hears of it within two seconds and gives back what it has not started;
    what is being worked on goes on.
    """
    run_command(store, _pause(store, lane, json))


async def _pause(store: str | None, lane: str | None, json: bool) -> None:
    async with open_frontier(store) as frontier:
        new = lane is not None and await frontier.lane(check_lane(lane)) is None
        await frontier.pause(lane)
        data, text = await in_force(frontier, lane)
    if new:
        text += " No item was ever added to this lane."
    if json:
        print_json(data)
    else:
        print(escape(text))


async def in_force(frontier: Frontier, lane: str | None) -> tuple[dict[str, Any], str]:
    """Whether a lane or the frontier is paused, as data and as a sentence."""
    status = await frontier.status()
    if lane is None:
        going_on = f"; {pluralize(status.claimed, 'item')} being worked on" if status.claimed else ""
        text = (
            f"The frontier is paused{going_on}. swath resume lets it go on."
            if status.paused
            else "The frontier is running. Lanes paused by themselves stay so: swath lanes --paused."
        )
        return {"lane": None, "paused": status.paused, "frontier_paused": status.paused}, text
    found = await frontier.lane(lane)
    paused = found is not None and found.limits.paused
    text = f"Lane {lane} is {'paused' if paused else 'not paused'}"
    text += f", with {found.waiting:,} waiting and {found.in_flight:,} being worked on." if found else "."
    if status.paused:
        text += " The whole frontier is paused: swath resume lets it go on."
    return {"lane": lane, "paused": paused, "frontier_paused": status.paused}, text
