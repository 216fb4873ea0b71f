"""`swath resume`: let a lane, or the frontier, go on."""

from swath.cli import show
from swath.cli.common import JSONOption, StoreOption, lane_name, opened, run
from swath.cli.exits import Exit
from swath.cli.pause import LaneArgument, in_force


def resume(lane: LaneArgument = None, store: StoreOption = None, json: JSONOption = False) -> None:
    """End what `swath pause` began.

    A lane paused by itself stays paused when the frontier goes on, and the other way round.
    """
    run(store, _resume(store, lane, json))


async def _resume(store: str | None, lane: str | None, json: bool) -> int:
    async with opened(store) as frontier:
        if lane is not None and await frontier.lane(lane_name(lane)) is None:
            show.complain(f"there is no lane {lane!r}: swath lanes lists them")
            return Exit.NO
        await frontier.resume(lane)
        data, text = await in_force(frontier, lane)
    if json:
        show.document(data)
    else:
        print(show.clean(text))
    return Exit.DONE
