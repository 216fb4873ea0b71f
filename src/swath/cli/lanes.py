"""`swath lanes`: list lanes, and change their limits."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

import typer

from swath import UNCHANGED, Frontier, LaneInfo, UsageError
from swath.cli.command import GroupWithDefault, check_lane, open_frontier, run_command
from swath.cli.exit_codes import ExitCode
from swath.cli.formatting import format_concurrency, format_duration, format_time
from swath.cli.options import (
    ConcurrencyOption,
    JSONOption,
    MaxAttemptsOption,
    MinIntervalOption,
    StoreOption,
    get_concurrency,
)
from swath.cli.parsers import parse_concurrency, parse_duration, parse_interval, parse_time
from swath.cli.terminal import (
    make_console,
    print_error,
    print_facts,
    print_json,
    print_json_lines,
    print_note,
    print_rows,
)

LIMIT = 100
COLUMNS = ("lane", "waiting", "in flight", "state", "min interval", "concurrency")


class LanesGroup(GroupWithDefault):
    takes_argument = True


app = typer.Typer(
    cls=LanesGroup,
    help="""List lanes, and change what they are allowed.

    `swath lanes` is short for `swath lanes list`, and `swath lanes NAME` for `swath lanes list NAME`.""",
)

LaneArgument = Annotated[str, typer.Argument(metavar="LANE", help="The lane; it need not exist yet")]


@app.command("list")
def list_lanes(
    lane: Annotated[str | None, typer.Argument(metavar="LANE", show_default=False, help="Only this one")] = None,
    store: StoreOption = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", "-n", min=0, metavar="N", show_default=str(LIMIT), help="How many; 0 for all"),
    ] = None,
    waiting: Annotated[bool, typer.Option("--waiting", help="Only lanes with items that wait")] = False,
    paused: Annotated[bool, typer.Option("--paused", help="Only lanes that are paused")] = False,
    blocked: Annotated[bool, typer.Option("--blocked", help="Only lanes that are blocked until a time")] = False,
    json: JSONOption = False,
) -> None:
    """List lanes with what waits in them, their state and their limits.

    Away from a terminal the columns are tab-separated: lane, waiting, in flight, state, min interval, concurrency.
    With --json each lane is a line. Filters look at every lane.
    """
    if lane is not None:
        options = {"--limit": limit is not None, "--waiting": waiting, "--paused": paused, "--blocked": blocked}
        run_command(store, _one(store, lane, [name for name, given in options.items() if given], json))
        return

    def wanted(found: LaneInfo, now: datetime) -> bool:
        return (
            (not waiting or found.waiting > 0)
            and (not paused or found.paused)
            and (not blocked or is_blocked(found, now))
        )

    run_command(store, _list(store, LIMIT if limit is None else limit, wanted, json))


@app.command("set")
def set_limits(
    lane: LaneArgument,
    store: StoreOption = None,
    min_interval: Annotated[
        Any,
        typer.Option(
            "--min-interval",
            parser=parse_interval,
            metavar="TIME",
            show_default=False,
            help='The least time between items, such as 1.5, 70s, 10m; "default" for the frontier\'s',
        ),
    ] = None,
    concurrency: Annotated[
        Any,
        typer.Option(
            "--concurrency",
            parser=parse_concurrency,
            metavar="N",
            show_default=False,
            help='Items in flight at once, 0 for any number; "default" for the frontier\'s',
        ),
    ] = None,
    json: JSONOption = False,
) -> None:
    """Give a lane limits of its own.

    They hold for every process, from its next claim on.
    """

    async def change(frontier: Frontier) -> None:
        if min_interval is None and concurrency is None:
            raise UsageError("nothing to set: give --min-interval, --concurrency or both")
        interval = UNCHANGED if min_interval is None else min_interval
        await frontier.limit(lane, min_interval=interval, concurrency=get_concurrency(concurrency))

    run_command(store, _change(store, lane, change, json))


@app.command("block")
def block(
    lane: LaneArgument,
    store: StoreOption = None,
    seconds: Annotated[
        float | None,
        typer.Option("--for", parser=parse_duration, metavar="TIME", show_default=False, help="How long: 70s, 10m, 2h"),
    ] = None,
    until: Annotated[
        datetime | None,
        typer.Option(
            "--until",
            parser=parse_time,
            metavar="MOMENT",
            show_default=False,
            help="Until when: 2030-01-31T12:00:00Z",
        ),
    ] = None,
    json: JSONOption = False,
) -> None:
    """Start nothing of a lane until a time.

    What is being worked on goes on.
    """

    async def change(frontier: Frontier) -> None:
        if (seconds is None) == (until is None):
            raise UsageError("a block ends: give --for TIME or --until MOMENT, one of them")
        await frontier.block(lane, until=until, seconds=seconds)

    run_command(store, _change(store, lane, change, json))


@app.command("unblock")
def unblock(
    lane: Annotated[str, typer.Argument(metavar="LANE", help="The lane")],
    store: StoreOption = None,
    json: JSONOption = False,
) -> None:
    """Lift the block of a lane."""

    async def change(frontier: Frontier) -> None:
        await frontier.block(lane, seconds=0)

    run_command(store, _change(store, lane, change, json, must_exist=True))


@app.command("defaults")
def defaults(
    store: StoreOption = None,
    min_interval: MinIntervalOption = None,
    concurrency: ConcurrencyOption = None,
    max_attempts: MaxAttemptsOption = None,
    json: JSONOption = False,
) -> None:
    """Show or change what holds for lanes without limits of their own."""
    changes = {
        "min_interval": min_interval,
        "concurrency": get_concurrency(concurrency),
        "max_attempts": max_attempts,
    }
    run_command(store, _defaults(store, json, changes))


async def _defaults(store: str | None, json: bool, changes: Mapping[str, Any]) -> None:
    async with open_frontier(store) as frontier:
        if any(value not in (None, UNCHANGED) for value in changes.values()) or changes["concurrency"] is None:
            with make_console(stderr=True).status("changing the defaults"):  # lanes are told one by one
                await frontier.configure(**changes)
        status = await frontier.status()
    data = {name: getattr(status, name) for name in ("min_interval", "concurrency", "max_attempts")}
    if json:
        print_json(data)
    else:
        shown = {name: f"{value:g}" for name, value in data.items() if value is not None}
        shown["concurrency"] = format_concurrency(status.concurrency)
        print_facts("lane defaults", [(name, shown[name]) for name in data])


async def _list(store: str | None, limit: int, wanted: Callable[[LaneInfo, datetime], bool], json: bool) -> None:
    async with open_frontier(store) as frontier:
        now = await _now(frontier)
        found = _wanted(frontier, limit, lambda lane: wanted(lane, now))
        if json:
            count = await print_json_lines(as_json(lane, now) async for lane in found)
        else:
            rows = (row(lane, now) async for lane in found)
            count = await print_rows(COLUMNS, rows, right=COLUMNS[1:3] + COLUMNS[4:])
        if count == 0:
            print_note("no lanes")
        elif count == limit:
            print_note(f"the first {limit:,}; --limit 0 lists all", always=True)


async def _wanted(frontier: Frontier, limit: int, wanted: Callable[[LaneInfo], bool]) -> AsyncIterator[LaneInfo]:
    count = 0
    async for lane in frontier.lanes():
        if wanted(lane):
            yield lane
            count += 1
            if count == limit:
                return


async def _one(store: str | None, lane: str, unfit: Sequence[str], json: bool) -> int:
    if unfit:
        raise UsageError(f"{lane!r} is one lane, from which {', '.join(unfit)} cannot choose: give one of the two")
    async with open_frontier(store) as frontier:
        found = await frontier.lane(check_lane(lane))
        if found is None:
            print_error(f"there is no lane {lane!r}: swath lanes lists them, swath lanes --help the commands")
            return ExitCode.NEGATIVE
        _print(found, await _now(frontier), json)
    return ExitCode.OK


async def _change(
    store: str | None, lane: str, change: Callable[[Frontier], Any], json: bool, *, must_exist: bool = False
) -> int:
    async with open_frontier(store) as frontier:
        before = await frontier.lane(check_lane(lane))
        if before is None and must_exist:
            print_error(f"there is no lane {lane!r}: swath lanes lists them")
            return ExitCode.NEGATIVE
        await change(frontier)
        found = await frontier.lane(lane)
        assert found is not None
        _print(found, await _now(frontier), json)
    if before is None:
        print_note(f"lane {lane} is new: no item was ever added to it")
    return ExitCode.OK


async def _now(frontier: Frontier) -> datetime:
    return (await frontier.status()).now


def _print(lane: LaneInfo, now: datetime, json: bool) -> None:
    if json:
        print_json(as_json(lane, now))
    else:
        names = ("lane", "waiting", "in_flight", "state", "min_interval", "concurrency")
        print_facts(f"lane {lane.lane}", zip(names, row(lane, now), strict=True))


def as_json(lane: LaneInfo, now: datetime) -> dict[str, Any]:
    own_concurrency = "concurrency" in lane.overrides
    return {
        "lane": lane.lane,
        "partition": lane.partition,
        "waiting": lane.waiting,
        "in_flight": lane.in_flight,
        "ready_at": None if lane.ready_at is None else lane.ready_at.isoformat(),
        "min_interval": lane.min_interval if "min_interval" in lane.overrides else None,
        "concurrency": (lane.concurrency or 0) if own_concurrency else None,
        "paused": lane.paused,
        "blocked_until": None if lane.blocked_until is None else lane.blocked_until.isoformat(),
        "state": state(lane, now),
    }


def row(lane: LaneInfo, now: datetime) -> tuple[str, ...]:
    return (
        lane.lane,
        f"{lane.waiting}",
        f"{lane.in_flight}",
        in_words(lane, now),
        f"{lane.min_interval:g}{'' if 'min_interval' in lane.overrides else ' (default)'}",
        f"{lane.concurrency or 'any'}{'' if 'concurrency' in lane.overrides else ' (default)'}",
    )


def state(lane: LaneInfo, now: datetime) -> str:
    """What keeps a lane from starting an item: paused, blocked, empty, busy (at its concurrency), resting (its
    interval), or nothing: ready."""
    if lane.paused:
        return "paused"
    if is_blocked(lane, now):
        return "blocked"
    if not lane.waiting:
        return "empty"
    if lane.ready_at is None:
        return "busy"
    return "resting" if lane.ready_at > now else "ready"


def is_blocked(lane: LaneInfo, now: datetime) -> bool:
    return lane.blocked_until is not None and lane.blocked_until > now


def in_words(lane: LaneInfo, now: datetime) -> str:
    match name := state(lane, now):
        case "blocked" if lane.blocked_until is not None:
            return f"blocked until {format_time(lane.blocked_until)}"
        case "resting" if lane.ready_at is not None:
            return f"ready in {format_duration((lane.ready_at - now).total_seconds())}"
        case _:
            return name
