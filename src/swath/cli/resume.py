"""`swath resume`: end the pause of a lane or of the frontier."""

from swath.cli.command import check_lane, open_frontier, run_command
from swath.cli.exit_codes import ExitCode
from swath.cli.options import JSONOption, StoreOption
from swath.cli.pause import LaneArgument, describe_pause
from swath.cli.terminal import print_error, print_json, print_line


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
        if lane is not None and await frontier.lane(check_lane(lane)) is None:
            print_error(f"lane {lane!r} does not exist: run swath lanes to list the lanes")
            return ExitCode.NEGATIVE
        await frontier.resume(lane)
        data, text = await describe_pause(frontier, lane)
    if json:
        print_json(data)
    else:
        print_line(text)
    return ExitCode.OK
