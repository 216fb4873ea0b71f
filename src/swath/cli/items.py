"""`swath items`: list items by state and lane."""

from collections.abc import AsyncIterator
from typing import Annotated, Any, assert_never

import typer

from swath import DeadItem, DoneItem, Frontier, ListedItem, PendingItem
from swath.cli.command import check_lane, open_frontier, run_command
from swath.cli.formatting import format_json, format_time
from swath.cli.options import JSONOption, ListLimitOption, OnlyLaneOption, StoreArgument, StoreOption
from swath.cli.terminal import print_json_lines, print_note, print_rows

LIMIT = 100
PAGE = 1_000
STATES = ("ready", "delayed", "claimed", "done", "dead")
COLUMNS = {
    "ready": ("key", "lane", "priority", "attempts"),
    "delayed": ("key", "lane", "attempts", "due", "last failure"),
    "claimed": ("key", "lane", "attempts", "claim"),
    "done": ("key", "lane", "since", "result"),
    "dead": ("key", "lane", "attempts", "since", "reason"),
}


def items(
    argument: StoreArgument = None,
    store: StoreOption = None,
    state: Annotated[
        str,
        typer.Option("--state", "-s", metavar="STATE", help=f"State of the items: {', '.join(STATES)}"),
    ] = "ready",
    lane: OnlyLaneOption = None,
    limit: ListLimitOption = LIMIT,
    json: JSONOption = False,
) -> None:
    """List items by state, and what became of them.

    Items are in the order of their position; ready items of a lane in the order in which they start. The store has an
    index of lanes only for ready items: in another state, --lane reads the items of other lanes, too. Without a
    terminal the output is tab-separated columns: those that the table has. With --json each item is one line.

    Examples:
        swath items crawl/ --state done --json
        swath items crawl/ --state ready --lane example.com
        swath items --state delayed --limit 0
    """
    if state not in STATES:
        raise typer.BadParameter(f"{state!r} is not a state: give one of {', '.join(STATES)}", param_hint="--state")
    store = argument or store
    run_command(store, _list(store, state, lane, limit, json))


async def _list(store: str | None, state: str, lane: str | None, limit: int, json: bool) -> None:
    if lane is not None:
        check_lane(lane)
    async with open_frontier(store) as frontier:
        found = iterate_items(frontier, state, lane, limit)
        if json:
            count = await print_json_lines(item_to_json(item) async for item in found)
        else:
            rows = (item_to_row(item) async for item in found)
            count = await print_rows(COLUMNS[state], rows, right=["priority", "attempts", "claim"])
    if count == 0:
        print_note(f"no {state} items" + ("" if lane is None else f" in lane {lane}"))
    elif count == limit:
        print_note(f"the first {limit:,}; --limit 0 lists all", always=True)


async def iterate_items(frontier: Frontier, state: str, lane: str | None, limit: int) -> AsyncIterator[ListedItem]:
    """Iterate over the first `limit` items, or all if it is 0."""
    count = 0
    after: str | None = None
    while True:
        page = await frontier.items(state=state, lane=lane, after=after, limit=min(PAGE, limit - count or PAGE))
        for item in page.items:
            yield item
        count += len(page.items)
        after = page.after
        if after is None or count == limit:
            return


def item_to_json(item: ListedItem) -> dict[str, Any]:
    """Return an item for --json, with times in ISO 8601. Values that do not apply to its state are left out."""
    data = {
        "key": item.key,
        "lane": item.lane,
        "state": item.state,
        "priority": item.priority,
        "payload": item.payload,
        "partition": item.partition,
        "position": item.position,
    }
    match item:
        case DoneItem():
            return data | {"since": item.settled_at.isoformat(), "result": item.result}
        case DeadItem():
            data |= {"attempts": item.attempts, "since": item.settled_at.isoformat()}
            return data | {"reason": item.reason, "error": item.error}
        case PendingItem():
            data |= {"attempts": item.attempts, "reason": item.reason, "error": item.error}
            if item.due_at is not None:
                data |= {"due": item.due_at.isoformat(), "revisit": item.revisit}
            return data if item.claim is None else data | {"claim": item.claim}
        case _:
            assert_never(item)


def item_to_row(item: ListedItem) -> tuple[str, ...]:
    match item:
        case DoneItem():
            return item.key, item.lane, format_time(item.settled_at), format_json(item.result)
        case DeadItem():
            return item.key, item.lane, f"{item.attempts}", format_time(item.settled_at), item.reason
        case PendingItem():
            if item.claim is not None:
                return item.key, item.lane, f"{item.attempts}", f"{item.claim}"
            if item.due_at is None:
                return item.key, item.lane, f"{item.priority}", f"{item.attempts}"
            failure = "done, to be visited again" if item.revisit else item.reason or ""
            return item.key, item.lane, f"{item.attempts}", format_time(item.due_at), failure
        case _:
            assert_never(item)
