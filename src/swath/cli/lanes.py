"""`swath lanes`: list lanes, and change their limits."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

import typer

from swath import UNCHANGED, Frontier, LaneInfo, UsageError
from swath.cli.command import GroupWithDefault, check_lane, open_frontier, run_command
from swath.cli.exit_codes import ExitCode
from swath.cli.formatting import format_concurrency, pluralize
from swath.cli.lane_names import find_lane, print_unknown_lane
from swath.cli.lanes_view import is_blocked, lane_to_json, lane_to_row
from swath.cli.options import (
    ConcurrencyOption,
    CreateOption,
    JSONOption,
    MaxAttemptsOption,
    MinIntervalOption,
    StoreOption,
    get_concurrency,
)
from swath.cli.parsers import parse_concurrency, parse_duration, parse_interval, parse_time
from swath.cli.store_argument import is_store
from swath.cli.terminal import (
    make_console,
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
    help="""List lanes, and change their limits.

    `swath lanes` is short for `swath lanes list`, and `swath lanes NAME` for `swath lanes list NAME`.

    Examples:
        swath lanes crawl/
        swath lanes example.com --store crawl/
        swath lanes set example.com --min-interval 5s --store crawl/
    """,
)

LaneArgument = Annotated[str, typer.Argument(metavar="LANE", help="Name of the lane")]


@app.command("list")
def list_lanes(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[STORE] [LANE]", show_default=False, help="Frontier, like --store; show only this lane"
        ),
    ] = None,
    store: StoreOption = None,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit", "-n", min=0, metavar="N", show_default=str(LIMIT), help="Maximum number of lanes; 0 for all"
        ),
    ] = None,
    waiting: Annotated[bool, typer.Option("--waiting", help="Only lanes with waiting items")] = False,
    paused: Annotated[bool, typer.Option("--paused", help="Only paused lanes")] = False,
    blocked: Annotated[bool, typer.Option("--blocked", help="Only blocked lanes")] = False,
    sort: Annotated[
        str | None,
        typer.Option(
            "--sort",
            metavar="ORDER",
            show_default=False,
            help="waiting: the lanes with the most waiting items; ready: those that may start an item first",
        ),
    ] = None,
    json: JSONOption = False,
) -> None:
    """List lanes with their waiting items, state and limits.

    Without a terminal the output is tab-separated columns: lane, waiting, in flight, state, min interval, concurrency.
    With --json each lane is one line. The filters read every lane, so they take longer if there are many. --sort
    reads lanes for at most 2 seconds, and says how many. A single argument is the name of a lane if --store or
    SWATH_STORE names the frontier, unless it is a URL or contains a slash.

    Examples:
        swath lanes list crawl/ --sort waiting --limit 20
        swath lanes list crawl/ example.com
        swath lanes list postgresql://user@host/app --limit 0 --json
    """
    store, lane = split_words(words or [], store)
    if lane is not None:
        options = {"--limit": limit is not None, "--waiting": waiting, "--paused": paused, "--blocked": blocked}
        options["--sort"] = sort is not None
        run_command(store, _show(store, lane, [name for name, given in options.items() if given], json))
        return

    def is_wanted(found: LaneInfo, now: datetime) -> bool:
        return (
            (not waiting or found.waiting > 0)
            and (not paused or found.paused)
            and (not blocked or is_blocked(found, now))
        )

    if sort is None:
        run_command(store, _list(store, LIMIT if limit is None else limit, is_wanted, json))
    elif sort not in ("waiting", "ready"):
        raise typer.BadParameter(f"{sort!r} is not an order: give waiting or ready", param_hint="--sort")
    else:
        order: Literal["waiting", "ready"] = "waiting" if sort == "waiting" else "ready"
        run_command(store, _rank(store, order, LIMIT if limit is None else limit, is_wanted, json))


def split_words(words: Sequence[str], store: str | None) -> tuple[str | None, str | None]:
    """Return the store and the lane of a command that takes both as arguments, each optional."""
    match list(words):
        case []:
            return store, None
        case [word] if is_store(word) and (store is None or "/" in word):
            return word, None
        case [lane]:
            return store, lane
        case [given, lane]:
            return given, lane
        case _:
            raise typer.BadParameter("give at most a store and a lane")


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
            help='Minimum time between two items, such as 1.5, 70s or 10m; "default" for the default of the frontier',
        ),
    ] = None,
    concurrency: Annotated[
        Any,
        typer.Option(
            "--concurrency",
            parser=parse_concurrency,
            metavar="N",
            show_default=False,
            help='Maximum items in flight; 0 for no limit; "default" for the default of the frontier',
        ),
    ] = None,
    create: CreateOption = False,
    json: JSONOption = False,
) -> None:
    """Set the limits of one lane.

    They apply to every process from its next claim on. Exits with 1 if the lane does not exist.

    Examples:
        swath lanes set example.com --min-interval 5s --store crawl/
        swath lanes set tenant-3 --concurrency 4
        swath lanes set tenant-3 --min-interval default --concurrency default
    """

    async def change(frontier: Frontier) -> None:
        if min_interval is None and concurrency is None:
            raise UsageError("nothing to set: give --min-interval, --concurrency or both")
        interval = UNCHANGED if min_interval is None else min_interval
        await frontier.limit(lane, min_interval=interval, concurrency=get_concurrency(concurrency))

    run_command(store, _change(store, lane, change, json, create=create))


@app.command("block")
def block(
    lane: LaneArgument,
    store: StoreOption = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            "--for",
            parser=parse_duration,
            metavar="TIME",
            show_default=False,
            help="Duration of the block: 70s, 10m, 2h",
        ),
    ] = None,
    until: Annotated[
        datetime | None,
        typer.Option(
            "--until",
            parser=parse_time,
            metavar="TIME",
            show_default=False,
            help="End of the block: 2030-01-31T12:00:00Z",
        ),
    ] = None,
    create: CreateOption = False,
    json: JSONOption = False,
) -> None:
    """Start no items of a lane until a time.

    Items that are in flight are finished. Exits with 1 if the lane does not exist.

    Examples:
        swath lanes block example.com --for 30m --store crawl/
        swath lanes block tenant-3 --until 2030-01-31T12:00:00Z
    """

    async def change(frontier: Frontier) -> None:
        if (seconds is None) == (until is None):
            raise UsageError("a block needs an end: give either --for TIME or --until TIME")
        await frontier.block(lane, until=until, seconds=seconds)

    run_command(store, _change(store, lane, change, json, create=create))


@app.command("unblock")
def unblock(
    lane: LaneArgument,
    store: StoreOption = None,
    json: JSONOption = False,
) -> None:
    """End the block of a lane.

    Examples:
        swath lanes unblock example.com --store crawl/
        swath lanes unblock tenant-3 --json
    """

    async def change(frontier: Frontier) -> None:
        await frontier.block(lane, seconds=0)

    run_command(store, _change(store, lane, change, json))


@app.command("defaults")
def defaults(
    store: StoreOption = None,
    min_interval: MinIntervalOption = None,
    concurrency: ConcurrencyOption = None,
    max_attempts: MaxAttemptsOption = None,
    json: JSONOption = False,
) -> None:
    """Show or change the limits of lanes that have no limits of their own.

    Examples:
        swath lanes defaults --store crawl/
        swath lanes defaults --min-interval 2s --concurrency 1
    """
    changes = {
        "min_interval": min_interval,
        "concurrency": get_concurrency(concurrency),
        "max_attempts": max_attempts,
    }
    run_command(store, _defaults(store, json, changes))


async def _defaults(store: str | None, json: bool, changes: Mapping[str, Any]) -> None:
    async with open_frontier(store) as frontier:
        if any(value not in (None, UNCHANGED) for value in changes.values()) or changes["concurrency"] is None:
            with make_console(stderr=True).status("changing the defaults"):  # reschedules waiting lanes one by one
                await frontier.configure(**changes)
        status = await frontier.status()
    data = {name: getattr(status, name) for name in ("min_interval", "concurrency", "max_attempts")}
    if json:
        print_json(data)
    else:
        shown = {name: f"{value:g}" for name, value in data.items() if value is not None}
        shown["concurrency"] = format_concurrency(status.concurrency)
        print_facts("lane defaults", [(name, shown[name]) for name in data])


async def _rank(
    store: str | None,
    order: Literal["waiting", "ready"],
    limit: int,
    is_wanted: Callable[[LaneInfo, datetime], bool],
    json: bool,
) -> None:
    if limit == 0:
        raise UsageError("--limit 0 cannot be combined with --sort: give the number of lanes")
    async with open_frontier(store) as frontier:
        now = await _read_time(frontier)
        ranking = await frontier.rank_lanes(by=order, limit=limit, where=lambda lane: is_wanted(lane, now))
        await _print_lanes(_iterate(ranking.lanes), now, json)
    examined = f"examined {pluralize(ranking.examined, 'lane')}"
    if ranking.complete:
        print_note(f"{examined}, which are all")
    else:
        print_note(f"{examined} in 2 s; there are more, so this may not be the true order", always=True)


async def _iterate(lanes: Sequence[LaneInfo]) -> AsyncIterator[LaneInfo]:
    for lane in lanes:
        yield lane


async def _print_lanes(lanes: AsyncIterator[LaneInfo], now: datetime, json: bool) -> int:
    if json:
        return await print_json_lines(lane_to_json(lane, now) async for lane in lanes)
    rows = (lane_to_row(lane, now) async for lane in lanes)
    return await print_rows(COLUMNS, rows, right=COLUMNS[1:3] + COLUMNS[4:])


async def _list(store: str | None, limit: int, is_wanted: Callable[[LaneInfo, datetime], bool], json: bool) -> None:
    async with open_frontier(store) as frontier:
        now = await _read_time(frontier)
        count = await _print_lanes(_select(frontier, limit, lambda lane: is_wanted(lane, now)), now, json)
        if count == 0:
            print_note("no lanes")
        elif count == limit:
            print_note(f"the first {limit:,}; --limit 0 lists all", always=True)


async def _select(frontier: Frontier, limit: int, is_wanted: Callable[[LaneInfo], bool]) -> AsyncIterator[LaneInfo]:
    count = 0
    async for lane in frontier.lanes():
        if is_wanted(lane):
            yield lane
            count += 1
            if count == limit:
                return


async def _show(store: str | None, lane: str, filters: Sequence[str], json: bool) -> int:
    if filters:
        raise UsageError(
            f"{', '.join(filters)} cannot be combined with a lane: leave out either the lane or the option"
        )
    async with open_frontier(store) as frontier:
        found = await frontier.lane(check_lane(lane))
        if found is None:
            await print_unknown_lane(frontier, lane)
            return ExitCode.NEGATIVE
        _print(found, await _read_time(frontier), json)
    return ExitCode.OK


async def _change(
    store: str | None, lane: str, change: Callable[[Frontier], Any], json: bool, *, create: bool | None = None
) -> int:
    """Change a lane. `create` says whether the user asked to create it; None: the command cannot."""
    async with open_frontier(store) as frontier:
        before = await find_lane(frontier, lane)
        if before is None and not create:
            await print_unknown_lane(frontier, lane, can_create=create is not None)
            return ExitCode.NEGATIVE
        await change(frontier)
        found = await frontier.lane(lane)
        assert found is not None
        _print(found, await _read_time(frontier), json)
    if before is None:
        print_note(f"lane {lane} is new: no item was ever added to it")
    return ExitCode.OK


async def _read_time(frontier: Frontier) -> datetime:
    return (await frontier.status()).now


def _print(lane: LaneInfo, now: datetime, json: bool) -> None:
    if json:
        print_json(lane_to_json(lane, now))
    else:
        names = ("lane", "waiting", "in_flight", "state", "min_interval", "concurrency")
        print_facts(f"lane {lane.lane}", zip(names, lane_to_row(lane, now), strict=True))
