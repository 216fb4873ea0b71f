"""`swath resume`: let a lane, or the frontier, go on."""

from swath.cli.command import check_lane, open_frontier, run_command
from swath.cli.exit_codes import ExitCode
from swath.cli.formatting import escape
from swath.cli.options import JSONOption, StoreOption
from swath.cli.pause import LaneArgument, in_force
from swath.cli.terminal import print_error, print_json


def resume(lane: LaneArgument = None, store: StoreOption = None, json: JSONOption = False) -> None:
    """End what `swath pause` began.

    A lane paused by itself stays paused when the frontier goes on, and the other way round.
    """
    run_command(store, _resume(store, lane, json))


async def _resume(store: str | None, lane: str | None, json: bool) -> int:
    async with open_frontier(store) as frontier:
        if lane is not None and await frontier.lane(check_lane(lane)) is None:
            print_error(f"there is no lane {lane!r}: swath lanes lists them")
            return ExitCode.NEGATIVE
        await frontier.resume(lane)
        data, text = await in_force(frontier, lane)
    if json:
        print_json(data)
    else:
        print(escape(text))
    return ExitCode.OK
