"""`swath dead`: list the items that were given up, and give them another try."""

import json as json_decoder
from collections.abc import AsyncIterator
from typing import Annotated, Any

import typer
from rich.padding import Padding
from rich.text import Text

from swath.cli.command import GroupWithDefault, check_lane, open_frontier, run_command
from swath.cli.exit_codes import ExitCode
from swath.cli.explain import explain_key
from swath.cli.formatting import escape, format_time, pluralize
from swath.cli.options import JSONOption, StoreOption
from swath.cli.terminal import (
    is_terminal,
    make_console,
    print_error,
    print_json,
    print_json_lines,
    print_note,
    print_rows,
)
from swath.core import codec
from swath.core.clock import as_datetime
from swath.core.errors import UsageError
from swath.core.lane import key_hash
from swath.core.store import DeadRow
from swath.frontier import Frontier

LIMIT = 100
COLUMNS = ("key", "lane", "attempts", "since", "reason")

app = typer.Typer(
    cls=GroupWithDefault,
    help="""List the items that were given up, and give them another try.

    `swath dead` is short for `swath dead list`.""",
)

ReasonOption = Annotated[
    str | None,
    typer.Option("--reason", metavar="TEXT", show_default=False, help="Only those whose reason contains this"),
]
LaneOption = Annotated[
    str | None, typer.Option("--lane", metavar="NAME", show_default=False, help="Only those of this lane")
]


@app.command("list")
def list_dead(
    store: StoreOption = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, metavar="N", help="How many; 0 for all")] = LIMIT,
    reason: ReasonOption = None,
    lane: LaneOption = None,
    errors: Annotated[bool, typer.Option("--errors", "-e", help="Show the last error of each, too")] = False,
    json: JSONOption = False,
) -> None:
    """List dead items with their attempts and the reason.

    Away from a terminal the columns are tab-separated: key, lane, attempts, since, reason, and error with --errors.
    With --json each item is a line.
    """
    run_command(store, _list(store, limit, reason, lane, errors, json))


@app.command("retry")
def retry(
    keys: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY...]", show_default=False, help="These items")
    ] = None,
    store: StoreOption = None,
    everything: Annotated[bool, typer.Option("--all", help="Every dead item")] = False,
    reason: ReasonOption = None,
    lane: LaneOption = None,
    json: JSONOption = False,
) -> None:
    """Make dead items ready again, with no attempts counted.

    Name them by key, by --reason, by --lane, or take --all. Exits with 1 when there was none.
    """
    run_command(store, _retry(store, keys or [], everything, reason, lane, json))


async def _list(store: str | None, limit: int, reason: str | None, lane: str | None, errors: bool, json: bool) -> None:
    async with open_frontier(store) as frontier:
        found = _wanted(frontier, limit, reason, lane)
        if json:
            count = await print_json_lines(as_json(item) async for item in found)
        elif errors and is_terminal():
            count = await _print_with_errors(found)
        else:
            columns = (*COLUMNS, "error") if errors else COLUMNS
            count = await print_rows(columns, (row(item, errors) async for item in found), right=["attempts"])
        if count == 0:
            print_note(_none(reason, lane))
        elif count == limit:
            print_note(f"the first {limit:,}; --limit 0 lists all", always=True)


def _none(reason: str | None, lane: str | None) -> str:
    of = "" if lane is None else f" of lane {lane}"
    return f"no dead items{of}" + ("" if reason is None else f" whose reason contains {reason!r}")


async def _wanted(frontier: Frontier, limit: int, reason: str | None, lane: str | None) -> AsyncIterator[DeadRow]:
    count = 0
    async for item in frontier.dead():
        if lane in (None, item.lane) and (reason is None or reason in item.reason):
            yield item
            count += 1
            if count == limit:
                return


async def _retry(
    store: str | None, keys: list[str], everything: bool, reason: str | None, lane: str | None, json: bool
) -> int:
    if keys and (everything or reason is not None):
        raise UsageError("keys name the items already: leave --all and --reason out")
    if everything and (reason is not None or lane is not None):
        raise UsageError("--all takes every dead item: leave --reason and --lane out, or leave out --all")
    if not keys and not everything and reason is None and lane is None:
        raise UsageError("which items? Give keys, --reason TEXT, --lane NAME, or --all for every dead item")
    if lane is not None:
        check_lane(lane)
    async with open_frontier(store) as frontier:
        if keys:
            reopened = 0
            for key in keys:
                reopened += await _retry_key(frontier, key, lane)
        else:
            reopened = await frontier.reopen_dead(lane=lane, reason=reason)
            if not reopened:
                print_error(_none(reason, lane))
    if json:
        print_json({"reopened": reopened})
    else:
        print(f"{pluralize(reopened, 'dead item')} made ready again")
    return ExitCode.OK if reopened else ExitCode.NEGATIVE


async def _retry_key(frontier: Frontier, key: str, lane: str | None) -> int:
    """Only what is dead, in whichever lanes: `reopen` by itself would also repeat what is done."""
    codec.check_key(key)
    found = await frontier._store.find(key_hash(key), None)
    lanes = [item.lane.lane for item in found if item.state == "dead" and item.lane is not None]
    dead = [name for name in lanes if lane in (None, name)]
    if not dead:
        print_error(f"not dead: {(await explain_key(frontier, key, lane=lane)).sentence}")
    return sum([await frontier.reopen([key], lane=name) for name in dead])


async def _print_with_errors(items: AsyncIterator[DeadRow]) -> int:
    """One below the other: tracebacks want the whole width."""
    console = make_console()
    count = 0
    async for item in items:
        count += 1
        key, lane, _, since, reason = (escape(cell) for cell in row(item, errors=False))
        console.print(Text(key, style="bold"))
        console.print(Text(f"lane {lane}, {pluralize(item.attempts, 'attempt')}, {since}", style="dim"))
        console.print(Text(reason, style="red"))
        if item.error:
            console.print(Padding(Text(escape(item.error, keep="\n")), (0, 0, 0, 2)))
        console.print()
    return count


def as_json(item: DeadRow) -> dict[str, Any]:
    return {
        "key": item.key,
        "lane": item.lane,
        "attempts": item.attempts,
        "since": as_datetime(item.settled_at).isoformat(),
        "reason": item.reason,
        "error": item.error,
        "priority": item.priority,
        "payload": None if item.payload is None else json_decoder.loads(item.payload),
        "partition": item.partition,
        "position": item.position,
    }


def row(item: DeadRow, errors: bool) -> tuple[str, ...]:
    cells = (item.key, item.lane, f"{item.attempts}", format_time(as_datetime(item.settled_at)), item.reason)
    return (*cells, item.error or "") if errors else cells
