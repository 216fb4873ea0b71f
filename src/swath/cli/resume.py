"""`swath resume`: end the pause of a lane or of the frontier."""

from swath.cli.command import open_frontier, run_command
from swath.cli.exit_codes import ExitCode
from swath.cli.lane_names import find_lane, print_unknown_lane
from swath.cli.options import JSONOption, StoreOption
from swath.cli.pause import LaneArgument, describe_pause
from swath.cli.terminal import print_json, print_line


def resume(lane: LaneArgument = None, store: StoreOption = None, json: JSONOption = False) -> None:
    """End a pause that `swath pause` began.

    Pauses are independent: resuming the frontier leaves paused lanes paused, and resuming a lane leaves a paused
    frontier paused.

    Examples:
        swath resume --store crawl/
        swath resume example.com --store crawl/
    """
    run_command(store, _resume(store, lane, json))


async def _resume(store: str | None, lane: str | None, json: bool) -> int:
    async with open_frontier(store) as frontier:
        if lane is not None and await find_lane(frontier, lane) is None:
            await print_unknown_lane(frontier, lane)
            return ExitCode.NEGATIVE
        await frontier.resume(lane)
        data, text = await describe_pause(frontier, lane, store)
    if json:
        print_json(data)
    else:
        print_line(text)
    return ExitCode.OK
