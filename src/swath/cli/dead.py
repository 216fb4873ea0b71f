"""`swath dead`: list dead items, and make them ready again."""

from collections.abc import AsyncIterator
from textwrap import indent
from typing import Annotated

import typer
from rich.text import Text

from swath import DeadItem, Frontier, UsageError
from swath.cli.command import GroupWithDefault, check_lane, open_frontier, run_command
from swath.cli.exit_codes import ExitCode
from swath.cli.explain import CRAWL_SETTINGS, explain_key
from swath.cli.formatting import escape, format_time, pluralize
from swath.cli.items import item_to_json
from swath.cli.options import JSONOption, ListLimitOption, OnlyLaneOption, StoreArgument, StoreOption
from swath.cli.terminal import (
    is_terminal,
    make_console,
    print_error,
    print_json,
    print_json_lines,
    print_line,
    print_note,
    print_rows,
)
from swath.crawl.failed_pages import forget_host_failures

LIMIT = 100
COLUMNS = ("key", "lane", "attempts", "since", "reason")

app = typer.Typer(
    cls=GroupWithDefault,
    help="""List dead items, and make them ready again.

    `swath dead` is short for `swath dead list`.

    Examples:
        swath dead crawl/
        swath dead --reason timeout --errors
        swath dead retry --all
    """,
)

ReasonOption = Annotated[
    str | None,
    typer.Option("--reason", metavar="TEXT", show_default=False, help="Only items whose reason contains this text"),
]


@app.command("list")
def list_dead(
    argument: StoreArgument = None,
    store: StoreOption = None,
    limit: ListLimitOption = LIMIT,
    reason: ReasonOption = None,
    lane: OnlyLaneOption = None,
    errors: Annotated[bool, typer.Option("--errors", "-e", help="Show the last error of each item")] = False,
    json: JSONOption = False,
) -> None:
    """List dead items with their attempts and the reason.

    Without a terminal the output is tab-separated columns: key, lane, attempts, since, reason, and error with --errors.
    With --json each item is one line.

    Examples:
        swath dead list crawl/
        swath dead list --lane example.com --errors
        swath dead list --limit 0 --json
    """
    store = argument or store
    run_command(store, _list(store, limit, reason, lane, errors, json))


@app.command("retry")
def retry(
    keys: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY...]", show_default=False, help="Keys of dead items")
    ] = None,
    store: StoreOption = None,
    everything: Annotated[bool, typer.Option("--all", help="Every dead item")] = False,
    reason: ReasonOption = None,
    lane: OnlyLaneOption = None,
    json: JSONOption = False,
) -> None:
    """Make dead items ready again and reset their attempts. A crawl also forgets which hosts could not be reached.

    Select items by key, --reason or --lane, or take --all. Exits with 1 if no item was dead.

    Examples:
        swath dead retry https://example.com/page --store crawl/
        swath dead retry --lane example.com
        swath dead retry --reason timeout
    """
    run_command(store, _retry(store, keys or [], everything, reason, lane, json))


async def _list(store: str | None, limit: int, reason: str | None, lane: str | None, errors: bool, json: bool) -> None:
    async with open_frontier(store) as frontier:
        items = _select(frontier, limit, reason, lane)
        if json:
            count = await print_json_lines(item_to_json(item) async for item in items)
        elif errors and is_terminal():
            count = await _print_with_errors(items)
        else:
            columns = (*COLUMNS, "error") if errors else COLUMNS
            count = await print_rows(columns, (item_to_row(item, errors) async for item in items), right=["attempts"])
        if count == 0:
            print_note(_describe_none(reason, lane))
        elif count == limit:
            print_note(f"the first {limit:,}; --limit 0 lists all", always=True)


def _describe_none(reason: str | None, lane: str | None) -> str:
    where = "" if lane is None else f" in lane {lane}"
    return f"no dead items{where}" + ("" if reason is None else f" whose reason contains {reason!r}")


async def _select(frontier: Frontier, limit: int, reason: str | None, lane: str | None) -> AsyncIterator[DeadItem]:
    count = 0
    async for item in frontier.dead(lane=lane):
        if reason is None or reason in item.reason:
            yield item
            count += 1
            if count == limit:
                return


async def _retry(
    store: str | None, keys: list[str], everything: bool, reason: str | None, lane: str | None, json: bool
) -> int:
    if keys and (everything or reason is not None):
        raise UsageError("--all and --reason cannot be combined with keys: leave them out")
    if everything and (reason is not None or lane is not None):
        raise UsageError("--all selects every dead item: leave out --reason and --lane, or leave out --all")
    if not keys and not everything and reason is None and lane is None:
        raise UsageError("no items selected: give keys, --reason TEXT, --lane NAME, or --all for every dead item")
    if lane is not None:
        check_lane(lane)
    async with open_frontier(store) as frontier:
        if CRAWL_SETTINGS in await frontier.facts([CRAWL_SETTINGS]):
            await forget_host_failures(frontier)
        if keys:
            reopened = 0
            for key in keys:
                reopened += await _retry_key(frontier, key, lane)
        else:
            reopened = await frontier.reopen_dead(lane=lane, reason=reason)
            if not reopened:
                print_error(_describe_none(reason, lane))
    if json:
        print_json({"reopened": reopened})
    else:
        print_line(f"{pluralize(reopened, 'dead item')} made ready again")
    return ExitCode.OK if reopened else ExitCode.NEGATIVE


async def _retry_key(frontier: Frontier, key: str, lane: str | None) -> int:
    reopened = await frontier.reopen_dead([key], lane=lane)
    if not reopened:
        print_error(f"not dead: {(await explain_key(frontier, key, lane=lane)).sentence}")
    return reopened


async def _print_with_errors(items: AsyncIterator[DeadItem]) -> int:
    """Print items one below the other, so that tracebacks have the full width."""
    console = make_console()
    count = 0
    async for item in items:
        count += 1
        key, lane, _, since, reason = (escape(cell) for cell in item_to_row(item, errors=False))
        console.print(Text(key, style="bold"))
        console.print(Text(f"lane {lane}, {pluralize(item.attempts, 'attempt')}, {since}", style="dim"))
        console.print(Text(reason, style="red"))
        if item.error:
            console.print(Text(indent(escape(item.error, keep="\n"), "  ")))
        console.print()
    return count


def item_to_row(item: DeadItem, errors: bool) -> tuple[str, ...]:
    cells = (item.key, item.lane, f"{item.attempts}", format_time(item.settled_at), item.reason)
    return (*cells, item.error or "") if errors else cells
